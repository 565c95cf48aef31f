// SPDX-License-Identifier: Apache-2.0
// Vector clocks (Fidge 1988, Mattern 1989) for happens-before. The threads are the host, number 0, and the streams of
// all devices. A thread's moments are counted from 1 within the schedule: for a stream they are its commands, for the
// host its accesses to host buffers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::sim::detail {

using thread_index = std::uint32_t;
using moment = std::uint32_t;

inline constexpr std::size_t max_threads = 16;
inline constexpr thread_index host_thread = 0;

struct vector_clock {
    // Everything up to these moments happens before.
    std::array<moment, max_threads> upto{};

    bool covers(thread_index thread, moment when) const noexcept { return upto[thread] >= when; }
    void join(const vector_clock& other) noexcept {
        for (std::size_t i = 0; i < max_threads; ++i) upto[i] = std::max(upto[i], other.upto[i]);
    }
};

}  // namespace sluice::sim::detail
