// SPDX-License-Identifier: Apache-2.0
// What the fuzzers, and the replay of files that they found, do with one picture.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/io/image_conversion.hpp"

namespace sluice::io::fuzz {

// Reads the picture, checks what decode_image guarantees, and makes a small input of it. A refusal (file_error) is
// correct; any other exception escapes, and a broken guarantee aborts.
inline void read_image(std::span<const std::byte> file) {
    try {
        constexpr image_limits limits{.pixels = 1 << 16, .side = 4'000};
        const image picture = decode_image(file, "fuzz", limits);
        if (picture.width == 0 || picture.width > limits.side || picture.height > limits.pixels / picture.width)
            std::abort();
        if (picture.numbers.size() != picture.width * picture.height * channels_of(picture.format)) std::abort();
        for (const std::uint16_t each : picture.numbers) {
            if (each > picture.largest) std::abort();
        }
        const image small = resize(convert(picture, image_format::rgb), {5, 3});
        std::vector<float> floats(small.numbers.size());
        write_normalized(small, image_layout::nchw, {}, floats);
        for (const float each : floats) {
            if (!(each >= 0 && each <= 1)) std::abort();
        }
    } catch (const file_error&) {
    }
}

}  // namespace sluice::io::fuzz
