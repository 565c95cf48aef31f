// SPDX-License-Identifier: Apache-2.0
// The programs of examples/, with small sizes, as pipelines for the simulator. Each runs completely, with its futures,
// coroutines and policies, starting with the upload of its weights, and returns what it would print.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "examples/async_mlp.hpp"
#include "examples/async_mlp_extended.hpp"
#include "examples/batch_sizes.hpp"
#include "examples/cnn_on_one_stream.hpp"
#include "examples/compiled_mlp.hpp"
#include "examples/data_parallel_mlp.hpp"
#include "examples/early_start.hpp"
#include "examples/iterative_solver.hpp"
#include "examples/own_policy.hpp"
#include "examples/three_outcomes.hpp"
#include "examples/two_halves.hpp"
#include "examples/watched_solver.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim {

inline task<std::vector<std::vector<float>>> small_async_mlp(scheduling_policy& pool) {
    constexpr std::size_t edge = 4;
    const auto describe = [&pool] {
        const auto [w0, w1] = async_mlp::upload_weights(edge, pool);
        return async_mlp::describe(4, w0, w1);  // after this only the batches own the weights
    };
    auto all = async_mlp::outputs_of(async_mlp::launch_all(describe(), pool));
    co_return co_await std::move(all);
}

inline task<std::vector<async_mlp_extended::outcome>> small_async_mlp_extended(scheduling_policy& pool) {
    auto [w0, w1] = async_mlp_extended::make_weights(4, 2, pool);
    auto all = async_mlp_extended::run_batches(4, std::move(w0), std::move(w1), pool);
    co_return co_await std::move(all);
}

inline std::pair<float, int> small_own_policy(scheduling_policy& pool) {
    own_policy::express_lane lanes(pool.next().owner(), 3);
    const float sum = own_policy::sum_of_squares(10, lanes);
    return {sum, lanes.express_count()};
}

inline std::vector<std::string> small_three_outcomes(scheduling_policy& pool) {
    return three_outcomes::describe_all(pool);
}

using lines = std::vector<std::string>;

inline lines small_batch_sizes(scheduling_policy& pool) { return batch_sizes::answer_all(pool); }
inline lines small_compiled_mlp(scheduling_policy& pool) { return compiled_mlp::run_all(4, 6, 2, pool); }
inline lines small_early_start(scheduling_policy& pool) { return early_start::run_both(pool); }
inline lines small_iterative_solver(scheduling_policy& pool) { return iterative_solver::solve_all(8, pool); }
inline lines small_two_halves(scheduling_policy& pool) { return two_halves::run(128, 5, pool); }
inline lines small_watched_solver(scheduling_policy& pool) { return watched_solver::follow_all(8, pool); }

// Two convolutions, with two and three filters of invented weights, over five images in batches of two.
inline std::vector<float> small_cnn_on_one_stream(scheduling_policy& pool) {
    const auto make = [](std::size_t size) {
        std::vector<float> values(size);
        for (std::size_t i = 0; i < size; ++i) values[i] = (float(i % 11) - 4) * 0.1f;
        return values;
    };
    const auto upload_one = [&](const shape& of) { return sync(share(upload(make(of.size()), of)), pool); };
    const cnn_on_one_stream::network small{upload_one({2, 1, 3, 3}),    upload_one({2}),
                                           upload_one({3, 2, 3, 3}),    upload_one({3}),
                                           upload_one({10, 3 * 2 * 2}), upload_one({10})};
    single_stream one(pool.next().owner());
    return cnn_on_one_stream::scores_of(make(5 * 8 * 8), 2, small, one);
}

// On two devices, or on one device used twice when the simulator has only one.
inline std::pair<std::vector<float>, std::vector<float>> small_data_parallel_mlp(simulator& machine) {
    const device_set all{machine.device(0), machine.device(machine.devices() - 1)};
    round_robin_devices pool(all, 2);
    auto outputs = machine.run(data_parallel_mlp::run_all(5, all, pool, data_parallel_mlp::three_kernels{}));
    return {std::move(outputs), machine.run(data_parallel_mlp::run_overlapped(5, 2, all, pool))};
}

struct example {
    const char* name;
    exploration (*explore)(const exploration_options& options);
};

template <auto Pipeline>
exploration explore_example(const exploration_options& options) {
    return explore(Pipeline, options);
}

inline constexpr std::array examples{
    example{"async_mlp", explore_example<small_async_mlp>},
    example{"async_mlp_extended", explore_example<small_async_mlp_extended>},
    example{"batch_sizes", explore_example<small_batch_sizes>},
    example{"cnn_on_one_stream", explore_example<small_cnn_on_one_stream>},
    example{"compiled_mlp", explore_example<small_compiled_mlp>},
    example{"data_parallel_mlp", explore_example<small_data_parallel_mlp>},
    example{"early_start", explore_example<small_early_start>},
    example{"iterative_solver", explore_example<small_iterative_solver>},
    example{"own_policy", explore_example<small_own_policy>},
    example{"three_outcomes", explore_example<small_three_outcomes>},
    example{"two_halves", explore_example<small_two_halves>},
    example{"watched_solver", explore_example<small_watched_solver>},
};

}  // namespace sluice::sim
