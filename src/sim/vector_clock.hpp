// Vector clocks (Fidge 1988, Mattern 1989): what happens before what. The threads are the host, number 0, and the
// streams of all devices. A thread's moments are counted from the schedule's begin, from 1: a stream's are its
// commands, the host's are its accesses to host buffers.
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
    // What happens up to these moments happens before.
    std::array<moment, max_threads> upto{};

    bool covers(thread_index thread, moment when) const noexcept { return upto[thread] >= when; }
    void join(const vector_clock& other) noexcept {
        for (std::size_t i = 0; i < max_threads; ++i) upto[i] = std::max(upto[i], other.upto[i]);
    }
};

}  // namespace sluice::sim::detail
