// SPDX-License-Identifier: Apache-2.0
// run_guard: ends a run of this thread that takes too long, between two of its steps.
//
//     const run_guard guard([&] { if (client_has_gone()) throw error(errc::canceled, "the client has gone"); });
//     network(inputs, outputs);   // throws it, within some milliseconds
//
// While it exists, what this thread runs asks it between steps: between the nodes of a network that it submits or
// computes at once, and between the rounds of Loop and Scan. A step that has begun is not ended: one kernel runs to its
// end; nor are commands of a stream that this thread runs while it waits for them.
//
// Thread safety: it belongs to the thread that made it.
#pragma once

#include <chrono>
#include <functional>

namespace sluice {

namespace detail {
class guards_aside;
}

class run_guard {
public:
    using clock = std::chrono::steady_clock;  // of deadlines
    // Between two looks, where steps are shorter.
    static constexpr std::chrono::milliseconds look_time{5};

    // `look` is called on this thread, at most each look_time; what it throws ends the run. It must not run a network.
    // Guards inside guards are all asked. Costs O(1).
    explicit run_guard(std::function<void()> look);
    run_guard(const run_guard&) = delete;  // the thread knows its address
    run_guard& operator=(const run_guard&) = delete;
    ~run_guard();

    // Between two steps: throws what a look throws. Costs a comparison where this thread has no guard, else the time
    // of the clock.
    static void check() {
        if (innermost_ != nullptr) check_all();
    }

private:
    friend class detail::guards_aside;
    static void check_all();

    static thread_local run_guard* innermost_;

    const std::function<void()> look_;
    clock::time_point next_look_;
    run_guard* const outer_;
};

}  // namespace sluice
