// SPDX-License-Identifier: Apache-2.0
// All numbers of a .npy file, row by row.
#pragma once

#include <filesystem>
#include <vector>

#include "sluice/io/npy.hpp"

namespace sluice::serve::testing {

inline std::vector<float> npy_values(const std::filesystem::path& path) {
    const io::npy_file file(path);
    std::vector<float> values(file.view().rows() * file.view().row_elements());
    file.view().read_rows(0, values);
    return values;
}

}  // namespace sluice::serve::testing
