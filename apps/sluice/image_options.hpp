// SPDX-License-Identifier: Apache-2.0
// How pictures become an input: `--image "size=256 crop=224 mean=0.485,0.456,0.406 ..."`, and the same keys in the
// metadata of an ONNX file ("sluice.image.mean").
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/io/image_conversion.hpp"

namespace sluice::app {

// What is not said is not done. In this order: channels, size, crop, normalization, layout.
struct image_options {
    std::optional<io::image_format> channels;
    std::optional<io::image_size> size;
    std::optional<std::size_t> shorter_side;  // instead of the size
    std::optional<io::image_size> crop;
    io::image_normalization by;
    std::optional<io::image_layout> layout;
};

// "size, crop, ...", with what each may be; for help and messages.
extern const char* const image_keys;

// The words KEY=VALUE of --image, and the metadata of the network, of which those named sluice.image.KEY count; where
// both say a key, --image does. Throws error (errc::invalid_argument) for keys and values that are not known, and for a
// key that is there twice.
image_options parse_image_options(const std::string& words,
                                  const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace sluice::app
