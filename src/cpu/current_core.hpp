// SPDX-License-Identifier: Apache-2.0
// On which core a thread runs, and how it leaves one.
//
// A thread that wakes up on a busy machine often gets the core of the thread that woke it, although each of them has
// something to compute; the system may leave both there for seconds.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__linux__)
#include <sched.h>
#endif

namespace sluice::cpu {

// Of the calling thread; -1 where the system does not say.
int current_core() noexcept;

// Counts half milliseconds to milliseconds, or steps of up to four milliseconds where the processor has no counter.
// Takes some 10 ns.
std::uint64_t current_tick() noexcept;

// Of one thread: how often it may leave a core. Each time costs tens of microseconds.
class core_change {
public:
    using clock = std::chrono::steady_clock;
    bool is_due(clock::time_point now = clock::now()) const noexcept;
    // The calling thread continues on another of the cores on which it may run, if there is one. It may come back
    // later: on which cores it may run is not changed.
    void leave(int core, clock::time_point now = clock::now()) noexcept;
    // Whether current_tick() has changed since it was asked last.
    bool has_ticked() noexcept;

private:
    clock::time_point last_{};
    std::uint64_t tick_ = 0;
};

// On which cores a thread that sleeps may wake up.
class woken_thread {
public:
    // It is the calling one.
    void set_thread() noexcept;
    // By the thread that is about to wake it: not on this core, if there is another on which it may run.
    void keep_off(int core) noexcept;
    // By the thread itself, once it is awake and before it is woken again: on all where it might run before.
    void allow_all() noexcept;

private:
#if defined(__linux__)
    int thread_ = 0;
    bool is_kept_off_ = false;
    cpu_set_t allowed_ = {}, others_ = {};
#endif
};

}  // namespace sluice::cpu
