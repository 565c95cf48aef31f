// SPDX-License-Identifier: Apache-2.0
// Compiled graphs: an operation that runs eagerly also runs compiled, unchanged.

#include "graph/graph_operations.hpp"

namespace sluice::conformance::graph_tests {
namespace {

CONFORMANCE_SUITE(graph);

TEST_P(graph, runs_what_the_operation_runs) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); }, host_input<unsigned>({100}));
    for (unsigned round = 0; round < 5; ++round) {
        const std::vector<unsigned> x = counting(100, round);
        EXPECT_EQ(sync(fast(x), pool), after_two(x));
    }
}

TEST_P(graph, a_shared_host_buffer_is_read_by_many_launches) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on, {.replicas = 3}, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); },
        host_input<unsigned>({100}));
    host_buffer<unsigned> filled(pool.next(), 100);
    std::ranges::copy(counting(100), filled.write().begin());
    const shared input(std::move(filled));
    std::vector<device_future<pending<std::vector<unsigned>>>> running;
    for (int i = 0; i < 5; ++i) running.push_back(spawn(fast(input), pool));
    for (auto& each : running) EXPECT_EQ(std::move(each).get(), after_two(counting(100)));
    EXPECT_TRUE(std::ranges::equal(input->read(), counting(100)));
}

TEST_P(graph, a_device_tensor_is_bound_without_a_copy) {
    round_robin pool(on, 2);
    const auto fast =
        compile(on, [](tensor<unsigned> x) { return two_steps(std::move(x)); }, device_input<unsigned>({100}));
    for (unsigned round = 0; round < 5; ++round) {
        const std::vector<unsigned> x = counting(100, round);
        tensor<unsigned> up = sync(upload(x), pool);
        const unsigned* const address = up.device_data();
        tensor<unsigned> out = sync(fast(std::move(up)), pool);
        EXPECT_EQ(out.device_data(), address);  // steps work in place
        EXPECT_EQ(sync(download(std::move(out)), pool), after_two(x));
    }
}

TEST_P(graph, outputs_of_launches_in_flight_are_different_memory) {
    round_robin pool(on, 3);
    const auto weight = shared_tensor<unsigned>(sync(upload(counting(64)), pool));
    const auto fast = compile(
        on,
        [weight](shared_tensor<unsigned> x) {
            return zeros<unsigned>({64})
                .and_then([weight](auto to) { return add(weight, std::move(to)); })
                .and_then([x](auto to) { return add(x, std::move(to)); });
        },
        shared_input<unsigned>({64}));
    std::vector<tensor<unsigned>> outputs;
    for (unsigned round = 0; round < 4; ++round)
        outputs.push_back(sync(upload(counting(64, round)).and_then([&](auto x) { return fast(std::move(x)); }), pool));
    for (unsigned round = 0; round < 4; ++round) {
        std::vector<unsigned> expected = counting(64);
        for (unsigned i = 0; i < 64; ++i) expected[i] += i + round;
        EXPECT_EQ(sync(download(std::move(outputs[round])), pool), expected);
    }
}

TEST_P(graph, independent_branches_have_no_edge_between_them) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> a, tensor<unsigned> b) {
            return zip(two_steps(std::move(a)), two_steps(std::move(b))).and_then([](auto x, auto y) {
                return add(shared(std::move(x)), std::move(y));
            });
        },
        device_input<unsigned>({16}), device_input<unsigned>({16}));
    const auto& nodes = fast.commands().nodes;
    ASSERT_EQ(nodes.size(), 5u);
    EXPECT_TRUE(nodes[0].after.empty());
    EXPECT_EQ(nodes[1].after.size(), 1u);
    EXPECT_TRUE(nodes[2].after.empty());
    EXPECT_EQ(nodes[4].after.size(), 2u);
}

TEST_P(graph, a_graph_can_contain_a_graph) {
    round_robin pool(on, 2);
    const auto inner =
        compile(on, [](tensor<unsigned> x) { return two_steps(std::move(x)); }, device_input<unsigned>({32}));
    const auto outer = compile(
        on,
        [inner](tensor<unsigned> x) {
            return inner(std::move(x)).and_then([inner](auto y) { return inner(std::move(y)); }).and_then(download);
        },
        host_input<unsigned>({32}));
    const std::vector<unsigned> x = counting(32);
    EXPECT_EQ(sync(outer(x), pool), after_two(after_two(x)));
    EXPECT_EQ(sync(outer(x), pool), after_two(after_two(x)));
    EXPECT_EQ(sync(upload(x).and_then([&](auto y) { return inner(std::move(y)); }).and_then(download), pool),
              after_two(x));
}

TEST_P(graph, host_calls_run_at_each_launch) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](tensor<unsigned> x) {
            return download(std::move(x)).and_then([](auto landed) {
                return host_call([](std::vector<unsigned> v) { return v.back(); }, std::move(landed));
            });
        },
        host_input<unsigned>({8}));
    for (unsigned round = 0; round < 3; ++round) EXPECT_EQ(sync(fast(counting(8, round)), pool), 7 + round);
}

TEST_P(graph, temporaries_share_memory) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> x) {
            auto chain = any_operation<tensor<unsigned>>(value(std::move(x)));
            for (int i = 0; i < 6; ++i) {
                chain = any_operation<tensor<unsigned>>(
                    std::move(chain).and_then([](auto from) { return relayed(std::move(from)); }));
            }
            return std::move(chain).and_then(download);
        },
        host_input<unsigned>({1024}));
    EXPECT_EQ(fast.memory_bytes(), 2 * 1024 * sizeof(unsigned));
    round_robin pool(on, 2);
    EXPECT_EQ(sync(fast(counting(1024)), pool), counting(1024));
}

// Both branches could run at any time, so neither may use the other's memory.
TEST_P(graph, concurrent_branches_do_not_share_memory) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> x, tensor<unsigned> y) {
            return zip(relayed(std::move(x)).and_then(download), relayed(std::move(y)).and_then(download));
        },
        host_input<unsigned>({1024}), host_input<unsigned>({1024}));
    EXPECT_EQ(fast.memory_bytes(), 4 * 1024 * sizeof(unsigned));
}

TEST_P(graph, replicas_run_concurrently_and_a_single_replica_can_refuse) {
    NEEDS_A_GATE();
    round_robin pool(on, 3);
    const auto make = [&](graph_options options) {
        return compile(
            on, options, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); },
            host_input<unsigned>({4}));
    };
    const auto strict = make({.replicas = 1, .busy = when_busy::refuse});
    const auto wide = make({.replicas = 3, .busy = when_busy::refuse});
    const std::vector<unsigned> x = counting(4);
    EXPECT_EQ(sync(strict(x), pool), after_two(x));
    EXPECT_EQ(sync(wide(x), pool), after_two(x));
    stream_lease held(on);
    stream_lease other(on);
    gate closed(*held);
    auto first = submit_to(*held, strict(x));
    EXPECT_THROW(submit_to(*other, strict(x)), error);
    auto a = submit_to(*held, wide(x));
    if (GetParam().runs_concurrently) {
        EXPECT_EQ(sync_on(wide(x), *other), after_two(x));
    }
    closed.open();
    on.synchronize();
}

TEST_P(graph, commands_are_recorded_one_by_one) {
    round_robin pool(on, 2);
    tensor<unsigned> x = sync(upload(counting(50)), pool);
    tensor<unsigned> y = sync(zeros<unsigned>({50}), pool);
    const auto steps = record(on, [&](stream to) {
        step_on(to, x, 1);
        relay_on(to, x, y);
        step_on(to, y, 2);
    });
    EXPECT_EQ(steps.commands().nodes.size(), 3u);
    std::vector<unsigned> expected = counting(50);
    for (int round = 0; round < 3; ++round) {
        sync(steps(), pool);
        for (unsigned& each : expected) each = 3 * each + 1;
    }
    for (unsigned& each : expected) each = 3 * each + 2;
    EXPECT_EQ(sync(download(std::move(y)), pool), expected);
}

// Code that does not know Sluice: on a GPU it copies through the driver, with a fork and a join inside.
constexpr auto foreign_copy = [](const native_stream& to, const unsigned* from, unsigned* into, std::size_t size) {
    copy_by_hand(to, from, into, size);
};

TEST_P(graph, foreign_code_is_captured_in_place) {
    round_robin pool(on, 2);
    const auto through = [](tensor<unsigned> x) {
        return zip(step(std::move(x), 1), uninitialized<unsigned>({64}))
            .and_then([](auto from, auto into) {
                return native_call(foreign_copy, shared(std::move(from)), std::move(into), std::size_t{64});
            })
            .and_then([](auto copied) { return step(std::move(copied), 2); })
            .and_then(download);
    };
    const auto fast = compile(on, through, host_input<unsigned>({64}));
    for (unsigned round = 0; round < 3; ++round) {
        const std::vector<unsigned> x = counting(64, round);
        std::vector<unsigned> expected = x;
        for (unsigned& each : expected) each = 3 * (3 * each + 1) + 2;
        EXPECT_EQ(sync(fast(x), pool), expected);
        EXPECT_EQ(sync(upload(x).and_then(through), pool), expected);
    }
}

TEST_P(graph, outputs_in_flight_keep_their_values_over_many_launches) {
    round_robin pool(on, 3);
    const auto fast = compile(
        on, {.replicas = 2},
        [](tensor<unsigned> x) {
            return relayed(std::move(x)).and_then([](auto y) {
                const shared_tensor<unsigned> both(std::move(y));
                return zip(value(both),
                           zeros<unsigned>({32}).and_then([both](auto to) { return add(both, std::move(to)); }));
            });
        },
        host_input<unsigned>({32}));
    std::vector<device_future<decltype(fast)::output>> running;
    for (unsigned round = 0; round < 12; ++round) running.push_back(spawn(fast(counting(32, round)), pool));
    std::vector<decltype(fast)::output> held;
    for (auto& each : running) held.push_back(std::move(each).get());
    for (unsigned round = 0; round < 12; ++round) {
        auto& [first, second] = held[round];
        EXPECT_EQ(
            sync(zeros<unsigned>({32}).and_then([&](auto to) { return add(first, std::move(to)); }).and_then(download),
                 pool),
            counting(32, round));
        EXPECT_EQ(sync(download(std::move(second)), pool), counting(32, round));
    }
}

TEST_P(graph, tensors_without_elements_are_accepted) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](tensor<unsigned> a, tensor<unsigned> b) {
            return zip(two_steps(std::move(a)), two_steps(std::move(b)).and_then(download));
        },
        device_input<unsigned>({0}), host_input<unsigned>({0}));
    for (int round = 0; round < 3; ++round) {
        auto [a, b] = sync(zip(upload(std::vector<unsigned>()), value(0)).and_then([&](auto x, int) {
            return fast(std::move(x), std::vector<unsigned>());
        }),
                           pool);
        EXPECT_EQ(a.size(), 0u);
        EXPECT_TRUE(b.empty());
    }
}

// The same tensor is an input, and a weight that the graph keeps.
TEST_P(graph, an_input_can_also_be_a_weight) {
    round_robin pool(on, 2);
    const auto weight = shared_tensor<unsigned>(sync(upload(counting(16)), pool));
    const auto fast = compile(
        on,
        [weight](shared_tensor<unsigned> x) {
            return zeros<unsigned>({16})
                .and_then([weight](auto to) { return add(weight, std::move(to)); })
                .and_then([x](auto to) { return add(x, std::move(to)); })
                .and_then(download);
        },
        shared_input<unsigned>({16}));
    std::vector<unsigned> twice = counting(16);
    for (unsigned& each : twice) each *= 2;
    EXPECT_EQ(sync(fast(weight), pool), twice);
    EXPECT_EQ(sync(fast(shared_tensor<unsigned>(sync(upload(counting(16)), pool))), pool), twice);
    EXPECT_EQ(sync(fast(weight), pool), twice);
}

TEST_P(graph, an_inner_graph_can_have_an_argument) {
    single_stream pool(on);
    const auto inner = compile(
        on, [](tensor<unsigned> x, unsigned addend) { return step(std::move(x), addend); }, device_input<unsigned>({4}),
        argument<unsigned>(0));
    const auto outer = compile(
        on,
        [inner](tensor<unsigned> x, unsigned addend) {
            return inner(std::move(x), addend)
                .and_then([inner](auto y) { return inner(std::move(y), 1u); })
                .and_then(download);
        },
        host_input<unsigned>({4}), argument<unsigned>(2));
    for (const unsigned addend : {2u, 5u, 5u, 2u}) {
        std::vector<unsigned> expected = counting(4);
        for (unsigned& each : expected) each = 3 * (3 * each + addend) + 1;
        EXPECT_EQ(sync(outer(counting(4), addend), pool), expected) << addend;
    }
}

// Both launches use one block of temporaries, so the second comes after the first, whatever they work on.
TEST_P(graph, two_launches_of_one_inner_graph_run_in_order) {
    round_robin pool(on, 2);
    const auto inner = compile(
        on,
        [](tensor<unsigned> x) {
            return relayed(std::move(x))
                .and_then([](auto y) { return relayed(std::move(y)); })
                .and_then([](auto y) { return relayed(std::move(y)); })
                .and_then([](auto y) { return relayed(std::move(y)); });
        },
        device_input<unsigned>({256}));
    const auto outer = compile(
        on,
        [inner](tensor<unsigned> x, tensor<unsigned> y) {
            return zip(inner(std::move(x)).and_then(download), inner(std::move(y)).and_then(download));
        },
        host_input<unsigned>({256}), host_input<unsigned>({256}));
    for (unsigned round = 0; round < 20; ++round) {
        const auto [x, y] = sync(outer(counting(256, round), counting(256, 2 * round)), pool);
        EXPECT_EQ(x, counting(256, round));
        EXPECT_EQ(y, counting(256, 2 * round));
    }
}

TEST_P(graph, dropped_results_free_their_memory) {
    single_stream pool(on);
    on.trim();
    constexpr std::size_t size = 1 << 20;
    const std::size_t before = on.device_pool().usage().in_use_bytes;
    const auto fast =
        compile(on, [](tensor<unsigned> x) { return step(std::move(x), 1); }, device_input<unsigned>({size}));
    for (int round = 0; round < 3; ++round)
        static_cast<void>(sync(zeros<unsigned>({size}).and_then([&](auto x) { return fast(std::move(x)); }), pool));
    EXPECT_LT(on.device_pool().usage().in_use_bytes, before + size);
}

}  // namespace
}  // namespace sluice::conformance::graph_tests
