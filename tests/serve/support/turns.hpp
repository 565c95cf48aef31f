// SPDX-License-Identifier: Apache-2.0
// How Linux schedules the threads of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace sluice::serve::testing {

inline constexpr std::uint64_t shortest_turn_ns = 100'000;

// struct sched_attr in its first version.
struct scheduling {
    std::uint32_t size = sizeof(scheduling), policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 0, deadline = 0, period = 0;  // runtime: nanoseconds of a turn; 0 before Linux 6.12
};

// 0: the calling thread. Nothing: there is no such thread.
inline std::optional<scheduling> scheduling_of(pid_t thread) {
    scheduling its;
    if (::syscall(SYS_sched_getattr, thread, &its, sizeof(its), 0) != 0) return std::nullopt;
    return its;
}

// Where it has none, there is nothing to look at.
inline bool system_has_turns() {
    const auto own = scheduling_of(0);
    return own && own->policy == SCHED_OTHER && own->runtime > shortest_turn_ns;
}

inline std::size_t threads_with_short_turns() {
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
        const auto its = scheduling_of(std::stoi(each.path().filename().string()));
        if (its && its->runtime == shortest_turn_ns) ++count;
    }
    return count;
}

}  // namespace sluice::serve::testing
