// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one .npy file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/io/npy.hpp"

namespace sluice::io::fuzz {

// Reads the file, checks what npy_view guarantees, and converts every element. A refusal (file_error) is correct; any
// other exception escapes, and a broken guarantee aborts.
inline void read_npy(std::span<const std::byte> file) {
    try {
        const npy_view view(file, "fuzz");
        if (view.data().data() + view.data().size() != file.data() + file.size()) std::abort();
        if (view.rows() * view.row_bytes() != view.data().size()) std::abort();
        std::vector<float> values(view.data().size() / size_of(view.element_type()));
        view.read_rows(0, values);
    } catch (const file_error&) {
    }
}

}  // namespace sluice::io::fuzz
