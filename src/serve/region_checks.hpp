// SPDX-License-Identifier: Apache-2.0
// What is checked of shared memory alike, whatever memory it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::serve {

[[noreturn]] void refuse_region(const std::string& why);  // bad_request

// "the shared memory region 'a'"
std::string region_words(std::string_view name);

// Whether `bytes` from `offset` on are in what has `length` bytes; sums that overflow are not.
constexpr bool is_inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t length) noexcept {
    return offset <= length && bytes <= length - offset;
}

}  // namespace sluice::serve
