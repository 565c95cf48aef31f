// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/graph/launchable_graph.hpp"
#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "stress/program.hpp"
#include "stress/sessions.hpp"

namespace sluice::stress {

namespace {

struct add_one_kernel {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const e = x.at(at)) ++*e;
    }
};
struct launch_kernel {
    SLUICE_KERNEL void operator()(index_1d at, graph_launcher other, disjoint_view<int> said) const {
        if (int* const e = said.at(at)) *e = other.tail() ? 1 : 0;
    }
};

using launched = std::function<any_operation<pending<std::vector<int>>>()>;

}  // namespace

void run_launchable(device& on, const session_options& options, report& found) {
    generator numbers(options.seed);
    const std::size_t size = 1000 + below(numbers, 20'000);
    const std::size_t rounds = 20 + below(numbers, 60);
    round_robin pool(on, 4);
    const auto counter = launchable(
        on,
        [](tensor<int> x) {
            auto range = each_of(x);
            return launch(add_one_kernel{}, range, std::move(x));
        },
        device_input<int>({size}));
    sync(counter.set(sync(zeros<int>({size}), pool)), pool);
    // Launches the counter, so that some threads launch it through another graph.
    const auto middle = launchable(
        on,
        [counter](tensor<int> said) {
            auto range = each_of(said);
            return launch(launch_kernel{}, range, counter, std::move(said));
        },
        device_input<int>({1}));
    const auto from_kernel = [](const auto& graph) -> launched {
        return [graph]() -> any_operation<pending<std::vector<int>>> {
            return uninitialized<int>({1})
                .and_then([graph](tensor<int> said) {
                    auto range = each_of(said);
                    return launch(launch_kernel{}, range, graph, std::move(said));
                })
                .and_then(download);
        };
    };

    std::atomic<int> accepted{0};
    std::atomic<std::size_t> running{options.threads};
    const auto is_torn = [](const std::vector<int>& x) {
        for (const int each : x) {
            if (each != x.front()) return true;
        }
        return false;
    };
    const auto guarded = [&](auto work) {
        try {
            work();
        } catch (const std::exception& problem) {
            found.failed(options.seed, "launchable", problem.what());
        }
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < options.threads; ++i) {
            threads.emplace_back([&, i] {
                guarded([&] {
                    const auto graph = compile(on, i % 2 == 0 ? from_kernel(counter) : from_kernel(middle));
                    for (std::size_t round = 0; round < rounds; ++round) accepted += sync(graph(), pool)[0];
                });
                --running;
            });
        }
        guarded([&] {
            bool is_last = false;
            while (!is_last) {
                is_last = running == 0;
                if (is_torn(sync(counter.get().and_then(download), pool))) {
                    found.failed(options.seed, "launchable", "the state was read while it was partly written");
                    break;
                }
            }
        });
    }
    guarded([&] {
        const auto x = sync(counter.get().and_then(download), pool);
        if (is_torn(x) || x.front() != accepted) {
            found.failed(
                options.seed, "launchable",
                std::to_string(accepted) + " launches were accepted, the state says " + std::to_string(x.front()));
        }
    });
    found.count("launches by kernels", static_cast<std::uint64_t>(accepted));
}

}  // namespace sluice::stress
