// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one .npz file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/io/npz.hpp"

namespace sluice::io::fuzz {

// Opens the archive, checks what npz_view guarantees, and reads every array. A refusal (file_error) is correct; any
// other exception escapes, and a broken guarantee aborts.
inline void read_npz(std::span<const std::byte> file) {
    try {
        constexpr npz_limits limits{.inflated_bytes = 1 << 20};
        const npz_view view(file, "fuzz", limits);
        for (const npz_member& member : view.members()) {
            if (member.data_offset > file.size() || member.stored_bytes > file.size() - member.data_offset)
                std::abort();
            if (view.find(member.name) != &member) std::abort();
            try {
                const npz_array array = view.read(member);
                const std::size_t bytes = array.view().data().size();
                if (bytes > member.bytes || (member.is_deflated && bytes > limits.inflated_bytes)) std::abort();
                if (array.view().rows() * array.view().row_bytes() != bytes) std::abort();
            } catch (const file_error&) {
            }
        }
    } catch (const file_error&) {
    }
}

}  // namespace sluice::io::fuzz
