// Compiled graphs: what runs eagerly runs compiled, unchanged.

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"

namespace sluice::conformance {
namespace {

CONFORMANCE_SUITE(graph);

std::vector<unsigned> counting(std::size_t size, unsigned from = 0) {
    std::vector<unsigned> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = from + static_cast<unsigned>(i);
    return values;
}

// x through two steps, from device memory to device memory.
auto two_steps(tensor<unsigned> x) {
    return step(std::move(x), 0).and_then([](auto once) { return step(std::move(once), 1); });
}

std::vector<unsigned> after_two(std::vector<unsigned> x) {
    for (unsigned& each : x) each = after_steps(each, 2);
    return x;
}

TEST_P(graph, runs_what_the_operation_runs) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); }, host_input<unsigned>({100}));
    for (unsigned round = 0; round < 5; ++round) {
        const std::vector<unsigned> x = counting(100, round);
        EXPECT_EQ(sync(fast(x), pool), after_two(x));
    }
}

TEST_P(graph, a_device_tensor_is_bound_where_it_is) {
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

TEST_P(graph, an_argument_that_changes_sets_nodes) {
    round_robin pool(on, 1);
    const auto fast = compile(
        on, [](tensor<unsigned> x, unsigned addend) { return step(std::move(x), addend).and_then(download); },
        host_input<unsigned>({10}), argument<unsigned>(3));
    const std::vector<unsigned> x = counting(10);
    for (const unsigned addend : {3u, 3u, 4u, 5u, 5u, 3u}) {
        std::vector<unsigned> expected = x;
        for (unsigned& each : expected) each = 3 * each + addend;
        EXPECT_EQ(sync(fast(x, addend), pool), expected) << addend;
    }
}

TEST_P(graph, independent_arms_have_no_edge_between_them) {
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

TEST_P(graph, memory_that_outlives_the_graph_is_refused) {
    std::shared_ptr<tensor<unsigned>> kept;
    try {
        const auto fast = compile(
            on,
            [&](tensor<unsigned> x) {
                return step(std::move(x), 1).transform([&](tensor<unsigned> y) {
                    kept = std::make_shared<tensor<unsigned>>(std::move(y));
                    return 1;
                });
            },
            host_input<unsigned>({16}));
        FAIL() << "compiled";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::graph_refused);
    }
    single_stream pool(on);
    EXPECT_THROW(sync(download(std::move(*kept)), pool), error);
}

TEST_P(graph, a_host_read_inside_is_refused) {
    single_stream pool(on);
    try {
        const auto fast = compile(
            on,
            [&](tensor<unsigned> x) {
                const auto now = sync(download(std::move(x)), pool);
                return upload(now);
            },
            host_input<unsigned>({16}));
        FAIL() << "compiled";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::graph_refused);
    }
}

TEST_P(graph, an_input_of_another_shape_is_refused) {
    const auto fast =
        compile(on, [](tensor<unsigned> x) { return two_steps(std::move(x)); }, host_input<unsigned>({16}));
    EXPECT_THROW(fast(counting(15)), error);
}

TEST_P(graph, a_graph_in_a_graph) {
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

TEST_P(graph, a_failing_host_call_fails_its_launch_alone) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](tensor<unsigned> x) {
            return download(std::move(x)).and_then([](auto landed) {
                return host_call(
                    [](std::vector<unsigned> v) {
                        if (v[0] == 1) throw std::runtime_error("one");
                        return v[0];
                    },
                    std::move(landed));
            });
        },
        host_input<unsigned>({8}));
    EXPECT_EQ(sync(fast(counting(8, 0)), pool), 0u);
    EXPECT_THROW(sync(fast(counting(8, 1)), pool), std::runtime_error);
    EXPECT_EQ(sync(fast(counting(8, 2)), pool), 2u);
}

// A copy by a kernel, to memory that nothing else has written.
auto relayed(tensor<unsigned> x) {
    return with_context([from = std::move(x)](execution_context& context) {
        tensor<unsigned> to(context.stream(), from.shape());
        relay_on(context.stream(), from, to);
        return to;
    });
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

// Both arms could run at any time, so neither has the other's memory.
TEST_P(graph, arms_do_not_share_memory) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> x, tensor<unsigned> y) {
            return zip(relayed(std::move(x)).and_then(download), relayed(std::move(y)).and_then(download));
        },
        host_input<unsigned>({1024}), host_input<unsigned>({1024}));
    EXPECT_EQ(fast.memory_bytes(), 4 * 1024 * sizeof(unsigned));
}

TEST_P(graph, nodes_are_disabled_by_name) {
    single_stream pool(on);
    const auto fast = compile(
        on,
        [](tensor<unsigned> x) {
            return named("first", step(std::move(x), 1))
                .and_then([](auto y) { return named("second", step(std::move(y), 2)); })
                .and_then(download);
        },
        host_input<unsigned>({1}));
    const std::vector<unsigned> x{10};
    EXPECT_EQ(sync(fast(x), pool)[0], 3 * 31 + 2u);
    fast.disable("second");
    EXPECT_EQ(sync(fast(x), pool)[0], 31u);
    fast.enable("second");
    EXPECT_EQ(sync(fast(x), pool)[0], 3 * 31 + 2u);
    EXPECT_THROW(fast.disable("third"), error);
}

TEST_P(graph, another_operation_in_its_place) {
    single_stream pool(on);
    using function = std::function<any_operation<pending<std::vector<unsigned>>>(tensor<unsigned>)>;
    const auto once = [](unsigned addend) {
        return function([addend](tensor<unsigned> x) {
            return any_operation<pending<std::vector<unsigned>>>(step(std::move(x), addend).and_then(download));
        });
    };
    const auto fast = compile(on, once(1), host_input<unsigned>({1}));
    const std::vector<unsigned> x{10};
    EXPECT_EQ(sync(fast(x), pool)[0], 31u);
    EXPECT_EQ(fast.update(once(5)), graph_change::parameters);
    EXPECT_EQ(sync(fast(x), pool)[0], 35u);
    EXPECT_EQ(sync(fast(x), pool)[0], 35u);
}

TEST_P(graph, replicas_run_side_by_side_and_one_alone_can_refuse) {
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
    if (GetParam().runs_side_by_side) {
        EXPECT_EQ(sync_on(wide(x), *other), after_two(x));
    }
    closed.open();
    on.synchronize();
}

TEST_P(graph, dropped_while_it_runs) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    {
        stream_lease held(on);
        gate closed(*held);
        {
            const auto fast = compile(
                on, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); },
                host_input<unsigned>({4}));
            static_cast<void>(submit_to(*held, fast(counting(4))));
        }
        closed.open();
        held->await(held->issued(), wait_mode::block);
    }
    on.synchronize();
    on.trim();
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(graph, commands_written_down_one_by_one) {
    round_robin pool(on, 2);
    tensor<unsigned> x = sync(upload(counting(50)), pool);
    tensor<unsigned> y = sync(zeros<unsigned>({50}), pool);
    const auto steps = record(on, [&](stream& to) {
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

// Code that knows nothing of Sluice: on a GPU it copies by the driver, with a fork and a join inside.
constexpr auto foreign_copy = [](const native_stream& to, const unsigned* from, unsigned* into, std::size_t size) {
    copy_by_hand(to, from, into, size);
};

TEST_P(graph, foreign_code_is_captured_at_its_place) {
    round_robin pool(on, 2);
    const auto through = [](tensor<unsigned> x) {
        return zip(step(std::move(x), 1), uninitialized<unsigned>({64}))
            .and_then([](auto from, auto into) {
                return capture(foreign_copy, shared(std::move(from)), std::move(into), std::size_t{64});
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

// --- hostile use ---------------------------------------------------------------------------------------------

TEST_P(graph, code_that_throws_while_it_is_recorded_leaves_nothing_behind) {
    single_stream pool(on);
    on.trim();
    const std::size_t before = bytes_in_use();
    for (const int throws_in : {1, 2}) {
        int calls = 0;
        const auto moody = [&](tensor<unsigned> x) {
            if (++calls == throws_in) throw std::runtime_error("in a mood");
            return two_steps(std::move(x)).and_then(download);
        };
        EXPECT_THROW(compile(on, moody, host_input<unsigned>({16})), std::runtime_error) << throws_in;
        EXPECT_EQ(calls, throws_in);
        EXPECT_EQ(bytes_in_use(), before);
    }
    const auto later = [&](tensor<unsigned> x) {
        return two_steps(std::move(x)).and_then([](tensor<unsigned>) -> allocate_operation<unsigned> {
            throw std::runtime_error("in the middle");
        });
    };
    EXPECT_THROW(compile(on, later, host_input<unsigned>({16})), std::runtime_error);
    EXPECT_EQ(bytes_in_use(), before);
    EXPECT_EQ(sync(upload(counting(16)).and_then(two_steps).and_then(download), pool), after_two(counting(16)));
}

TEST_P(graph, too_much_memory_is_refused_and_leaves_nothing_behind) {
    on.trim();
    const std::size_t before = bytes_in_use();
    const auto greedy = [](tensor<unsigned> x) {
        return zip(value(std::move(x)), zeros<unsigned>({std::size_t{1} << 50})).and_then([](auto small, auto large) {
            return zip(download(std::move(small)), step(std::move(large), 1).transform([](auto) { return 0; }));
        });
    };
    try {
        static_cast<void>(compile(on, greedy, host_input<unsigned>({16})));
        FAIL() << "compiled";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::out_of_memory) << refused.what();
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(graph, an_operation_that_differs_when_it_is_recorded_again_is_refused) {
    int calls = 0;
    const auto fickle = [&](tensor<unsigned> x) {
        ++calls;
        auto chain = any_operation<tensor<unsigned>>(step(std::move(x), 0));
        if (calls != 1)
            chain = any_operation<tensor<unsigned>>(
                std::move(chain).and_then([](auto y) { return step(std::move(y), 1); }));
        return std::move(chain).and_then(download);
    };
    try {
        static_cast<void>(compile(on, fickle, host_input<unsigned>({16})));
        FAIL() << "compiled";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::graph_refused) << refused.what();
    }
}

TEST_P(graph, an_input_of_another_device_is_refused) {
    single_stream pool(on), other(other_device());
    const auto fast =
        compile(on, [](tensor<unsigned> x) { return two_steps(std::move(x)); }, device_input<unsigned>({16}));
    tensor<unsigned> elsewhere = sync(upload(counting(16)), other);
    EXPECT_THROW(sync(fast(std::move(elsewhere)), pool), error);
    tensor<unsigned> here = sync(upload(counting(16)), pool);
    EXPECT_THROW(sync(fast(std::move(here)), other), error);
    EXPECT_EQ(sync(upload(counting(16)).and_then([&](auto x) { return fast(std::move(x)); }).and_then(download), pool),
              after_two(counting(16)));
}

TEST_P(graph, eight_threads_launch_one_graph) {
    round_robin pool(on, 4);
    const auto fast = compile(
        on, {.replicas = 3}, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); },
        host_input<unsigned>({64}));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (unsigned t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (unsigned round = 0; round < 50; ++round) {
                const std::vector<unsigned> x = counting(64, 1000 * t + round);
                if (sync(fast(x), pool) != after_two(x)) ++wrong;
            }
        });
    }
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(wrong, 0);
}

TEST_P(graph, dropped_futures_take_nothing_along) {
    round_robin pool(on, 3);
    const auto fast = compile(
        on, {.replicas = 2}, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); },
        host_input<unsigned>({64}));
    EXPECT_EQ(sync(fast(counting(64)), pool), after_two(counting(64)));
    for (unsigned round = 0; round < 20; ++round) static_cast<void>(spawn(fast(counting(64, round)), pool));
    EXPECT_EQ(sync(fast(counting(64, 7)), pool), after_two(counting(64, 7)));
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

TEST_P(graph, tensors_without_elements) {
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

// The same tensor as an input, and as a weight that the graph has kept.
TEST_P(graph, an_input_that_is_a_weight_too) {
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

TEST_P(graph, an_inner_graph_with_an_argument) {
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

// Its block of temporaries is one for both, so the second comes after the first, whatever they work on.
TEST_P(graph, two_launches_of_one_graph_inside_another) {
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

// Where it runs: on a GPU such a call throws while it is captured.
TEST_P(graph, a_failing_library_call_fails_its_launch_alone) {
    if (on.kind() != device_kind::cpu) GTEST_SKIP() << "library calls are captured here, and do not run";
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](tensor<unsigned> x) {
            return with_context([x = std::move(x)](execution_context& context) mutable {
                       const std::array accesses{memory_access{x.memory(), access_mode::write}};
                       const unsigned* const first = x.device_data();
                       library_command command;
                       command.call = [](const native_stream&, const void* closure) {
                           const unsigned* data = nullptr;
                           std::memcpy(&data, closure, sizeof(data));
                           if (*data == 1) throw std::runtime_error("one");
                       };
                       command.closure = &first;
                       command.closure_bytes = sizeof(first);
                       context.stream().library_call({"picky", accesses}, command);
                       return std::move(x);
                   })
                .and_then(download);
        },
        host_input<unsigned>({8}));
    EXPECT_EQ(sync(fast(counting(8)), pool), counting(8));
    EXPECT_THROW(sync(fast(counting(8, 1)), pool), std::runtime_error);
    EXPECT_EQ(sync(fast(counting(8, 2)), pool), counting(8, 2));
}

TEST_P(graph, outlives_its_runtime) {
    using function = std::function<any_operation<pending<std::vector<unsigned>>>(tensor<unsigned>)>;
    const auto body = [](tensor<unsigned> x) {
        return any_operation<pending<std::vector<unsigned>>>(two_steps(std::move(x)).and_then(download));
    };
    auto brief = std::make_unique<runtime>(options());
    device& there = brief->find(GetParam().device);
    std::optional<decltype(compile(there, function(body), host_input<unsigned>({4})))> fast;
    fast.emplace(compile(there, function(body), host_input<unsigned>({4})));
    stream& of_it = round_robin(there, 1).next();
    EXPECT_EQ(sync_on((*fast)(counting(4)), of_it), after_two(counting(4)));
    brief.reset();
    EXPECT_THROW(sync_on((*fast)(counting(4)), of_it), error);
    fast.reset();
}

// --- what a review has found ------------------------------------------------------------------------------------

using any_function = std::function<any_operation<pending<std::vector<unsigned>>>(tensor<unsigned>)>;
template <typename Function>
any_function any(Function f) {
    return [f](tensor<unsigned> x) { return any_operation<pending<std::vector<unsigned>>>(f(std::move(x))); };
}

// The first plan lets `c` have the bytes of `a`; the second operation needs both at once.
TEST_P(graph, an_update_that_needs_another_plan_gets_one) {
    single_stream pool(on);
    const auto first = any([](tensor<unsigned> x) {
        return relayed(std::move(x))
            .and_then([](auto a) { return relayed(std::move(a)); })
            .and_then([](auto b) { return relayed(std::move(b)); })
            .and_then([](auto c) { return step(std::move(c), 0); })
            .and_then(download);
    });
    const auto second = any([](tensor<unsigned> x) {
        return relayed(std::move(x))
            .and_then([](auto made) {
                const shared_tensor<unsigned> a(std::move(made));
                return with_context([a](execution_context& context) {
                           tensor<unsigned> b(context.stream(), a->shape());
                           relay_on(context.stream(), *a, b);
                           tensor<unsigned> c(context.stream(), a->shape());
                           relay_on(context.stream(), b, c);
                           return c;
                       })
                    .and_then([a](auto c) { return add(a, std::move(c)); });
            })
            .and_then(download);
    });
    const auto fast = compile(on, first, host_input<unsigned>({16}));
    const std::vector<unsigned> x = counting(16, 5);
    EXPECT_EQ(sync(fast(x), pool), sync(upload(x).and_then(first), pool));
    EXPECT_EQ(fast.update(second), graph_change::instantiated);
    EXPECT_EQ(sync(fast(x), pool), sync(upload(x).and_then(second), pool));
    EXPECT_EQ(fast.update(first), graph_change::instantiated);
    EXPECT_EQ(sync(fast(x), pool), sync(upload(x).and_then(first), pool));
}

TEST_P(graph, an_update_to_one_with_host_calls) {
    single_stream pool(on);
    const auto plain = any([](tensor<unsigned> x) { return download(std::move(x)); });
    const auto calling = any([](tensor<unsigned> x) {
        return download(std::move(x)).and_then([](auto landed) {
            return host_call(
                [](std::vector<unsigned> v) {
                    for (unsigned& each : v) each += 100;
                    return v;
                },
                std::move(landed));
        });
    });
    const auto fast = compile(on, plain, host_input<unsigned>({4}));
    EXPECT_EQ(sync(fast(counting(4)), pool), counting(4));
    fast.update(calling);
    for (int round = 0; round < 3; ++round) EXPECT_EQ(sync(fast(counting(4)), pool), counting(4, 100));
    fast.update(plain);
    EXPECT_EQ(sync(fast(counting(4)), pool), counting(4));
}

TEST_P(graph, an_update_that_fails_leaves_all_replicas_as_they_were) {
    single_stream pool(on);
    const auto adding = [](unsigned addend) {
        return any([addend](tensor<unsigned> x) { return step(std::move(x), addend).and_then(download); });
    };
    const auto fast = compile(on, graph_options{.replicas = 2}, adding(1), host_input<unsigned>({1}));
    int calls = 0;
    const any_function failing = [&](tensor<unsigned> x) {
        if (++calls == 3) throw std::runtime_error("the third time");
        return adding(1000)(std::move(x));
    };
    EXPECT_THROW(fast.update(failing), std::runtime_error);
    for (int round = 0; round < 4; ++round) EXPECT_EQ(sync(fast(std::vector<unsigned>{0}), pool)[0], 1u);
}

TEST_P(graph, a_copied_output_is_that_of_the_launch) {
    single_stream pool(on);
    const auto fast = compile(
        on,
        [](tensor<unsigned> x, unsigned addend) {
            return zip(step(std::move(x), addend).and_then(download), value(addend));
        },
        host_input<unsigned>({1}), argument<unsigned>(1));
    for (const unsigned addend : {1u, 8u, 8u, 2u}) {
        const auto [values, told] = sync(fast(std::vector<unsigned>{0}, addend), pool);
        EXPECT_EQ(values[0], addend);
        EXPECT_EQ(told, addend);
    }
}

TEST_P(graph, results_that_are_dropped_give_their_memory_back) {
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
}  // namespace sluice::conformance
