// SPDX-License-Identifier: Apache-2.0
// explore: runs a pipeline on the simulator many times, each time in another order, until a run shows a fault.
//
//     sim::explore([&] { return forward(batch); }, {.schedules = 10'000}).require_clean();
//     sim::explore([&](scheduling_policy& pool) {
//         auto first = spawn(forward(batch), pool);
//         auto second = spawn(forward(batch), pool);
//         return std::tuple(std::move(first).get(), std::move(second).get());
//     });
//     sim::explore([&](scheduling_policy& pool) -> task<float> { ... co_await spawn(forward(batch), pool) ... });
//     sim::explore([&](sim::simulator& machine) { round_robin_devices pools(...machine.device(1)...); ... }, {.devices
//     = 2});
//
// The pipeline is called once per schedule. Its argument is a pool of streams of the simulated device, the simulator,
// or nothing. It must do the same each time. If it returns an operation, the operation is submitted and waited for; a
// task is run to its end. If the result can be compared, it must be the same in all schedules; the expected result
// comes from a first run in the order of submission. At the end of a schedule all commands still in flight run, also
// those of abandoned futures and tasks.
//
// With device faults a device breaks down in each schedule, at a command that the seed selects; up to that command the
// schedule is the same as without the fault. From then on results are not compared. The pipeline must still end, it may
// fail only with that fault, and it must not touch memory that commands in flight may still use.
#pragma once

#include <optional>
#include <type_traits>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/detail/same.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::sim {

// How explore runs a pipeline.
struct exploration_options {
    std::uint64_t schedules = 10'000;  // that are run, unless one shows a fault
    std::uint64_t seed = 1;            // of the first schedule; each further schedule adds one
    std::size_t streams = 4;           // of the pool
    std::size_t devices = 1;           // as in simulator_options
    std::size_t memory_bytes = 0;      // as in simulator_options
    bool results_may_differ = false;   // results are not compared
    bool exceptions_are_fine = false;  // a pipeline that throws is no finding
    bool with_device_faults = false;  // only without the caller's own simulator: a simulator is of no use after a fault
    detail::saboteur* planted = nullptr;  // for tests of the simulator: a fault that it has to find
};

// What explore has found.
struct exploration {
    std::uint64_t schedules = 0;   // run, including the one with the finding
    std::uint64_t commands = 0;    // in all schedules
    std::uint64_t faults = 0;      // schedules in which a device broke down
    std::optional<finding> found;  // the first fault; none when there was none
    trace executed_trace;          // in the schedule with the finding: see save_chrome_trace() and save_timeline()

    bool is_clean() const noexcept { return !found; }  // whether no fault was found; costs O(1)
    // Throws std::runtime_error with the finding if there is one. Costs O(1) when there is none.
    void require_clean() const;
};

namespace detail {
// One schedule's pipeline, with its type erased.
using run_once = std::function<void(simulator& on, scheduling_policy& pool)>;
// `on` is null when explore creates its own simulators.
exploration explore(simulator* on, const run_once& run, const exploration_options& options);

template <typename T>
inline constexpr bool is_task = false;
template <typename T>
inline constexpr bool is_task<task<T>> = true;

// Calls the pipeline and runs what it returns.
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
exploration explore_on(simulator* location, Pipeline& pipeline, const exploration_options& options) {
    using result = decltype(carry_out(*location, pipeline, location->pool()));
    if constexpr (std::is_void_v<result> || !comparable<result>) {
        const auto run = [&](simulator& on, scheduling_policy& pool) {
            static_cast<void>(carry_out(on, pipeline, pool));
        };
        return explore(location, run, options);
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
        return explore(location, run, options);
    }
}
}  // namespace detail

// Explores on the caller's simulator, for pipelines that use objects created on it before. `devices`, `memory_bytes`
// and `planted` of the options are then ignored: the simulator has its own. Costs a run of the pipeline for each
// schedule, and one before them.
template <typename Pipeline>
exploration explore(simulator& on, Pipeline&& pipeline, const exploration_options& options = {}) {
    return detail::explore_on(&on, pipeline, options);
}

template <typename Pipeline>
exploration explore(Pipeline&& pipeline, const exploration_options& options = {}) {
    return detail::explore_on(nullptr, pipeline, options);
}

}  // namespace sluice::sim
