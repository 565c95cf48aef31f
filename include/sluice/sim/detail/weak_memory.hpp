// SPDX-License-Identifier: Apache-2.0
// What sim::atomic and sim::plain ask of the explorer that runs the calling simulated thread: which value a thread
// reads, and whether an access races. Outside a simulated thread all of these do nothing, and reads give the last
// value.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::sim::detail {

// An object of the memory model. A schedule that meets one of an earlier schedule gives it a new number, so it begins
// again with the value that it has.
struct location {
    std::uint64_t schedule = 0;
    std::uint32_t number = 0;
};

// The bytes of the older value that the thread reads; null when it reads the last one, which is in `now`.
const void* read_atomic(location& from, const void* now, std::size_t bytes, std::memory_order order) noexcept;
// To be called before the value in `now` is replaced. The thread reads it, as the first half of a read-modify-write.
void read_last(location& from, const void* now, std::size_t bytes, std::memory_order order) noexcept;
// To be called with the new value in `now`. `is_update`: it is the second half of a read-modify-write.
void write_atomic(location& to, const void* now, std::size_t bytes, std::memory_order order, bool is_update) noexcept;

// Fail the schedule when an access that conflicts is not ordered before this one.
void read_plain(location& from) noexcept;
void write_plain(location& to) noexcept;

}  // namespace sluice::sim::detail
