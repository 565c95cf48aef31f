// SPDX-License-Identifier: Apache-2.0
// Memory for what a file holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/file_error.hpp"

namespace sluice::io {

// Memory for `elements` elements of `field`, which the file holds at `offset`. Throws file_error (errc::out_of_memory)
// with the requested size when the host does not have that memory: a file can claim any size, and std::bad_alloc would
// not name the file. Costs one allocation and O(elements) for the zeros.
template <class T>
std::vector<T> vector_for(const std::filesystem::path& path, std::uint64_t offset, std::string_view field,
                          std::size_t elements) {
    const auto refuse = [&] {
        throw file_error(path, offset, field,
                         "needs " + std::to_string(elements) + " times " + std::to_string(sizeof(T)) +
                             " bytes of memory, which is more than there is",
                         errc::out_of_memory);
    };
    try {
        return std::vector<T>(elements);
    } catch (const std::bad_alloc&) {
        refuse();
    } catch (const std::length_error&) {
        refuse();
    }
    return {};
}

}  // namespace sluice::io
