// SPDX-License-Identifier: Apache-2.0
// System calls on file descriptors that are complete whatever interrupts them.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::io {

// EINTR only interrupts the wait, so the call is made again.
template <class Call>
auto retried(Call call) {
    auto result = call();
    while (result == -1 && errno == EINTR) result = call();
    return result;
}

// Where a write failed, and the error number; 0 when all is written.
struct write_outcome {
    int cause = 0;
    std::uint64_t offset = 0;
};

// Writes all the bytes at `offset`. Blocks.
write_outcome write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

}  // namespace sluice::io
