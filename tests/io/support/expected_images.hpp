// SPDX-License-Identifier: Apache-2.0
// What Pillow and NumPy made of the pictures in tests/io/data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sluice/io/npz.hpp"

namespace sluice::io::testing {

inline const std::filesystem::path image_data = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/io/data";

inline std::vector<float> expected_floats(const std::string& name) {
    return npz_file(image_data / "expected.npz").read(name).view().values<float>();
}

// Of 8 or 16 bits.
inline std::vector<std::uint16_t> expected_numbers(const std::string& name) {
    const npz_file file(image_data / "expected.npz");
    const npz_array array = file.read(name);
    if (array.view().element_type() == dtype::u16) return array.view().values<std::uint16_t>();
    const std::vector<std::uint8_t> narrow = array.view().values<std::uint8_t>();
    return {narrow.begin(), narrow.end()};
}

}  // namespace sluice::io::testing
