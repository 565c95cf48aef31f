// An explorer of interleavings, for testing lock-free code: runs a few simulated threads over and over, each time
// in another order, and reports the order that broke something, with the seed that brings it back.
//
// The simulated threads take turns on the calling thread. One runs until its next scheduling point (each
// operation of a sim::atomic is one, before it happens), then a seeded schedule says who goes on. So what is
// explored are sequentially consistent executions: it finds lost wake-ups, double completions and wrong
// protocols, but neither memory orders that are too weak nor data races; a thread sanitizer is for those.
//
// Schedules are of three kinds, drawn by seed: uniformly random steps; random with few switches; and strict
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

// What one schedule runs. The functions own the state they share (a shared_ptr, say).
struct scenario {
    std::vector<std::function<void()>> threads;  // at most 64
    std::function<void()> finally;               // after all have ended: the last checks; may be null
};

struct interleave_options {
    std::uint64_t schedules = 10'000;
    std::uint64_t seed = 1;            // the first schedule's; the next has the next number
    std::uint64_t max_steps = 20'000;  // a schedule that takes more is reported: a loop without end
};

struct interleave_failure {
    std::uint64_t seed = 0;  // interleave(make, {.schedules = 1, .seed = seed}) runs it again
    std::string message;
    std::string order;  // who ran how many steps in turn: "0x3 1x7 0x1"
};

struct interleave_result {
    std::uint64_t schedules = 0;  // run, with the failed one
    std::uint64_t steps = 0;      // of all of them
    std::optional<interleave_failure> failure;
};

// Runs `schedules` schedules, or until one fails: a thread or `finally` throws, check() fails, all threads that
// have not ended are blocked in wait_until(), or there is no end after max_steps. `make` makes each its scenario,
// afresh and always alike: then the same seed gives the same run.
//
// A failed schedule is given up where it is: its threads' stacks are not unwound, and what only they own leaks.
// Throws std::invalid_argument for too many threads, std::system_error or std::bad_alloc without memory, and
// what `make` throws. Must not be called from a simulated thread.
interleave_result interleave(const std::function<scenario()>& make, interleave_options options = {});

// The rest is for simulated threads. Elsewhere (in make, in finally, outside) scheduling_point() does nothing.

// Here another thread may go on.
void scheduling_point() noexcept;

namespace detail {
// A predicate where it lies, so that a thread given up while it waits leaves no allocation behind.
struct predicate_ref {
    const void* object;
    bool (*call)(const void*);
};
void wait_until(const predicate_ref& predicate);
}  // namespace detail

// Blocks the thread until the predicate holds, then goes on before anything can change that. The predicate is
// evaluated often and by any thread; it only reads, and does not throw. Loops that wait for another thread must
// do it by this: under a schedule of strict priorities they would spin for ever. Outside a simulated thread it
// throws std::logic_error unless the predicate holds.
template <std::predicate Predicate>
void wait_until(const Predicate& predicate) {
    detail::wait_until(
        {&predicate, [](const void* object) { return bool((*static_cast<const Predicate*>(object))()); }});
}

// Fails the schedule when `holds` is false. May be called anywhere in a simulated thread, under noexcept too: it
// does not throw there, it does not return. In `finally` it throws.
void check(bool holds, std::string_view message);

}  // namespace sluice::sim
