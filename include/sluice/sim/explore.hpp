// explore: runs a pipeline on the simulator over and over, each time in another order, until one goes wrong.
//
//     sim::explore([&] { return forward(batch); }, {.schedules = 10'000}).require_clean();
//     sim::explore([&](scheduling_policy& pool) {
//         auto first = spawn(forward(batch), pool);
//         auto second = spawn(forward(batch), pool);
//         return std::tuple(std::move(first).get(), std::move(second).get());
//     });
//     sim::explore([&](scheduling_policy& pool) -> task<float> { ... co_await spawn(forward(batch), pool) ... });
//     sim::explore([&](sim::simulator& machine) { per_device pools(...machine.device(1)...); ... }, {.devices = 2});
//
// The pipeline is called once a schedule, with a pool of streams of the simulated device, with the simulator, or
// without; it must do the same each time. An operation that it returns is submitted and waited for; a task is run to
// its end. What comes of it in the end, if it can be compared, must be the same in all schedules; before the first one,
// the pipeline runs once in the order of submission. Afterwards all that is still on its way runs, futures and tasks
// abandoned or not.
//
// With device faults a device breaks down in each schedule, at a command that the seed picks; up to there it goes as it
// would without. From there on results are not compared, but the pipeline must come to an end, may fail only with that
// very fault, and memory that commands in flight may still use must be left alone.
#pragma once

#include <optional>
#include <type_traits>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/same.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::sim {

struct exploration_options {
    std::uint64_t schedules = 10'000;
    std::uint64_t seed = 1;            // the first schedule's; the next has the next number
    std::size_t streams = 4;           // of the pool
    std::size_t devices = 1;           // see simulator_options
    std::size_t memory_bytes = 0;      // the same
    bool results_may_differ = false;   // they are not compared
    bool exceptions_are_fine = false;  // a pipeline that throws has simply ended
    bool with_device_faults = false;   // only without a simulator of one's own: they do not survive it
    detail::saboteur* planted = nullptr;
};

struct exploration {
    std::uint64_t schedules = 0;  // run, with the one that went wrong
    std::uint64_t commands = 0;   // in all of them
    std::uint64_t faults = 0;     // schedules in which a device broke down
    std::optional<finding> found;
    trace what_ran;  // in the schedule that went wrong: see save_chrome_trace() and save_timeline()

    bool is_clean() const noexcept { return !found; }
    // Throws std::runtime_error with the finding, if there is one.
    void require_clean() const;
};

namespace detail {
// One schedule's pipeline, type forgotten.
using run_once = std::function<void(simulator& on, scheduling_policy& pool)>;
// `on`: null for simulators of its own.
exploration explore(simulator* on, const run_once& run, const exploration_options& options);

template <typename T>
inline constexpr bool is_task = false;
template <typename T>
inline constexpr bool is_task<task<T>> = true;

// Calls the pipeline, and carries out what it returns.
template <typename Pipeline>
auto carry_out(simulator& on, Pipeline& pipeline, scheduling_policy& pool) {
    const auto call = [&] {
        if constexpr (std::is_invocable_v<Pipeline&, scheduling_policy&>) {
            return pipeline(pool);
        } else if constexpr (std::is_invocable_v<Pipeline&, simulator&>) {
            return pipeline(on);
        } else {
            return pipeline();
        }
    };
    using made = decltype(call());
    if constexpr (operation<made>) {
        return sync(call(), pool);
    } else if constexpr (is_task<made>) {
        return on.run(call());
    } else {
        return call();
    }
}

template <typename Pipeline>
exploration explore_on(simulator* where, Pipeline& pipeline, const exploration_options& options) {
    using result = decltype(carry_out(*where, pipeline, where->pool()));
    if constexpr (std::is_void_v<result> || !comparable<result>) {
        const auto run = [&](simulator& on, scheduling_policy& pool) {
            static_cast<void>(carry_out(on, pipeline, pool));
        };
        return explore(where, run, options);
    } else {
        std::optional<result> expected;
        const auto run = [&](simulator& on, scheduling_policy& pool) {
            result got = carry_out(on, pipeline, pool);
            if (!expected) {
                expected.emplace(std::move(got));
            } else if (!options.results_may_differ && !on.breakdown() && !same(*expected, got)) {
                on.report(fault::different_result,
                          "the result differs from that of commands run in the order of their submission");
            }
        };
        return explore(where, run, options);
    }
}
}  // namespace detail

// On a simulator of one's own: for pipelines that use what was made on it before. `devices`, `memory_bytes` and
// `planted` are the simulator's then.
template <typename Pipeline>
exploration explore(simulator& on, Pipeline&& pipeline, const exploration_options& options = {}) {
    return detail::explore_on(&on, pipeline, options);
}

template <typename Pipeline>
exploration explore(Pipeline&& pipeline, const exploration_options& options = {}) {
    return detail::explore_on(nullptr, pipeline, options);
}

}  // namespace sluice::sim
