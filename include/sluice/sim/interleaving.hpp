// SPDX-License-Identifier: Apache-2.0
// An explorer of interleavings, for tests of lock-free code. It runs a few simulated threads many times, each time in
// another order, and reports the first order that fails, with the seed that reproduces it.
//
// All simulated threads run on the calling thread, one at a time. A thread runs until its next scheduling point (there
// is one before each operation of a sim::atomic); then a seeded schedule selects the thread that continues, and the
// value that a load gives, among those that the memory orders permit. So the explored executions show lost wake-ups,
// double completions, wrong protocols, and memory orders that are too weak, also on a processor that never reorders so;
// and data races, as far as the variables are sim::plain (sluice/sim/atomic.hpp). They do not show loads that read a
// value stored later.
//
// The seed selects one of three kinds of schedule: uniformly random steps; random steps with few switches; and strict
// priorities that change at a few random steps (Burckhardt et al., "A randomized scheduler with probabilistic
// guarantees of finding bugs", 2010).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::sim {

// What one schedule runs. The functions own the state that they share (for example through a shared_ptr).
struct scenario {
    std::vector<std::function<void()>> threads;  // at most 64
    std::function<void()> finally;               // called after all threads have ended, for final checks; may be null
};

// How interleave runs a scenario.
struct interleave_options {
    std::uint64_t schedules = 10'000;  // that are run, unless one fails
    std::uint64_t seed = 1;            // of the first schedule; each further schedule adds one
    std::uint64_t max_steps = 20'000;  // a longer schedule is reported as an endless loop
};

// A schedule that has failed.
struct interleave_failure {
    std::uint64_t seed = 0;  // interleave(make, {.schedules = 1, .seed = seed}) repeats it
    std::string message;     // what failed
    // The threads in the order in which they ran, each with its number of steps, and how many loads gave an older
    // value, if any did: "0x3 1x7 0x1; older values read: 1".
    std::string order;
};

// What interleave has done.
struct interleave_result {
    std::uint64_t schedules = 0;                // run, including the failed one
    std::uint64_t steps = 0;                    // in all schedules
    std::optional<interleave_failure> failure;  // of the first schedule that failed; none when none did
};

// Runs `schedules` schedules, or stops at the first that fails: a thread or `finally` throws, check() fails, all
// threads that have not ended are blocked in wait_until(), or max_steps are exceeded. `make` creates a new scenario for
// each schedule, always the same one, so that the same seed gives the same run.
//
// A failed schedule is abandoned where it is: the stacks of its threads are not unwound, and what only they own leaks.
// Throws std::invalid_argument for too many threads, std::system_error or std::bad_alloc when memory is short, and what
// `make` throws. Must not be called from a simulated thread. Costs one run of the scenario for each schedule.
interleave_result interleave(const std::function<scenario()>& make, interleave_options options = {});

// The functions below are for simulated threads. Elsewhere (in make, in finally, outside) scheduling_point() does
// nothing.

// At this point another thread may continue. Costs nothing outside interleave; inside, a choice among the threads.
void scheduling_point() noexcept;

namespace detail {
// Refers to a predicate without copying it, so that a thread that is abandoned while it waits leaks no allocation.
struct predicate_ref {
    const void* object;
    bool (*call)(const void*);
};
void wait_until(const predicate_ref& predicate);
}  // namespace detail

// Blocks the thread until the predicate is true, then continues before any thread can change that. The predicate is
// evaluated often and on any thread; it only reads and does not throw. Loops that wait for another thread must use this
// function: under a schedule of strict priorities they would spin for ever. Outside a simulated thread it throws
// std::logic_error unless the predicate is true. Costs a call of the predicate at each choice among the threads.
template <std::predicate Predicate>
void wait_until(const Predicate& predicate) {
    detail::wait_until(
        {&predicate, [](const void* object) { return bool((*static_cast<const Predicate*>(object))()); }});
}

// Fails the schedule when `holds` is false. May be called anywhere in a simulated thread, also in noexcept functions:
// there it does not throw, it does not return. In `finally` it throws. Costs O(1) when it holds.
void check(bool holds, std::string_view message);

}  // namespace sluice::sim
