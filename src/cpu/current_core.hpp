// SPDX-License-Identifier: Apache-2.0
// On which core a thread runs, and how it leaves one.
//
// A thread that wakes up on a busy machine often gets the core of the thread that woke it, although each of them has
// something to compute; the system may leave both there for seconds.
#pragma once

#include <chrono>

namespace sluice::cpu {

// Of the calling thread; -1 where the system does not say.
int current_core() noexcept;

// Of one thread: how often it may leave a core. Each time costs tens of microseconds.
class core_change {
public:
    bool is_due() const noexcept;
    // The calling thread continues on another of the cores on which it may run, if there is one. It may come back
    // later: on which cores it may run is not changed.
    void leave(int core) noexcept;

private:
    std::chrono::steady_clock::time_point last_{};
};

}  // namespace sluice::cpu
