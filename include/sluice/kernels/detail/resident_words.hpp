// SPDX-License-Identifier: Apache-2.0
// The words by which a host and a kernel that stays exchange requests and answers: 8 bytes each, 4 of data, and above
// them a flag, which comes from the request's number. A word is written and read as a whole, so a reader that sees the
// flag has the data; no fence is needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice::detail {

// The flag of the request with this number (0, 1, ...). Never 0, which the words are at first.
SLUICE_KERNEL constexpr std::uint32_t resident_flag(std::uint64_t number) {
    return static_cast<std::uint32_t>(number % 0xffffffffU) + 1;
}
SLUICE_KERNEL constexpr std::uint32_t next_resident_flag(std::uint32_t flag) {
    return flag == 0xffffffffU ? 1 : flag + 1;
}

// Words of data that this many bytes take, and from an entry to the next one: each has lines of 128 bytes of its own.
SLUICE_KERNEL constexpr std::uint32_t resident_words(std::size_t bytes) {
    return static_cast<std::uint32_t>((bytes + 3) / 4);
}
SLUICE_KERNEL constexpr std::uint32_t resident_pitch(std::uint32_t words) { return (words + 15) / 16 * 16; }

}  // namespace sluice::detail
