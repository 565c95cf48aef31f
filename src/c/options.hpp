// SPDX-License-Identifier: Apache-2.0
// Structures of the C interface that begin with their size, so that callers of older and newer versions are understood.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "c/status.hpp"

namespace sluice::c {

// No version has a structure that is as long. A longer one is a size that was not set, and is not looked into.
constexpr std::size_t longest_structure = 4096;
inline void require_size(std::size_t size, std::size_t least, std::string_view function, std::string_view what) {
    if (size >= least && size <= longest_structure) return;
    refuse(function, std::string(what) + " size " + std::to_string(size) + ", and " + std::to_string(least) + " to " +
                         std::to_string(longest_structure) + " bytes are possible: set size to sizeof the structure");
}

// The structure as this version has it. What an older caller does not have is 0, the default. A newer caller may use
// nothing that this version does not have. `least` is the size that the structure had at first.
template <typename T>
T read_options(const T* given, std::size_t least, std::string_view function) {
    static_assert(std::is_trivially_copyable_v<T>);
    T options{};
    options.size = sizeof(T);
    if (given == nullptr) return options;
    const std::size_t size = given->size;
    require_size(size, least, function, "the options have");
    const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
    if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char each) { return each != 0; }))
        refuse(function, "the options have members of a newer version of the interface", errc::unsupported);
    std::memcpy(&options, given, std::min(size, sizeof(T)));
    options.size = sizeof(T);
    return options;
}

// Writes as much of `from` as the caller's structure has, and zeros to what it has beyond.
template <typename T>
void write_info(T& to, const T& from, std::size_t least, std::string_view function) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t size = to.size;
    require_size(size, least, function, "info has");
    auto* const bytes = reinterpret_cast<unsigned char*>(&to);
    std::memcpy(bytes, &from, std::min(size, sizeof(T)));
    if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
    to.size = size;
}

}  // namespace sluice::c
