// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one text of PTX.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string_view>

#include "check/inject/ptx_accesses.hpp"

namespace sluice::check::fuzz {

// Any text is read; each parameter has a name in it.
inline void read_ptx(std::span<const std::byte> file) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    std::size_t parameters = 0;
    for (const auto& each : accesses_in_ptx(text)) parameters += each.second.size();
    if (parameters > file.size()) std::abort();
}

}  // namespace sluice::check::fuzz
