// SPDX-License-Identifier: Apache-2.0
// Compiled graphs at the worst moment: refusals, exceptions and failures, graphs dropped while they run, many threads
// at once.
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "graph/graph_operations.hpp"

namespace sluice::conformance::graph_mishap_tests {
namespace {

CONFORMANCE_SUITE(graph_mishaps);

TEST_P(graph_mishaps, memory_that_outlives_the_graph_is_refused) {
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

TEST_P(graph_mishaps, a_host_read_inside_is_refused) {
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

TEST_P(graph_mishaps, a_wait_for_a_stream_outside_is_refused) {
    NEEDS_A_GATE();
    const stream_lease outside(on);
    gate closed(*outside);
    const stream_point not_reached = outside->point(outside->issued());
    const auto waits = [&](tensor<unsigned> x) {
        return with_context([not_reached, x = std::move(x)](execution_context& context) mutable {
            context.stream().order_after(not_reached);
            return step(std::move(x), 1);
        });
    };
    try {
        const auto fast = compile(on, waits, device_input<unsigned>({16}));
        FAIL() << "compiled";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::graph_refused);
        EXPECT_NE(std::string_view(refused.what()).find("a graph cannot wait for a stream"), std::string_view::npos);
    }
    closed.open();
    single_stream pool(on);
    EXPECT_EQ(sluice::sync(upload(counting(16)).and_then(waits).and_then(download), pool)[1], 4u);  // eagerly it waits
}

TEST_P(graph_mishaps, an_input_of_another_shape_is_refused) {
    const auto fast =
        compile(on, [](tensor<unsigned> x) { return two_steps(std::move(x)); }, host_input<unsigned>({16}));
    EXPECT_THROW(fast(counting(15)), error);
}

TEST_P(graph_mishaps, a_failing_host_call_fails_its_launch_alone) {
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

// The order of the stream carries no failure.
TEST_P(graph_mishaps, what_comes_after_a_failed_host_call_and_shares_no_data_with_it_runs) {
    round_robin pool(on, 2);
    const auto x = std::make_shared<tensor<unsigned>>(sync(zeros<unsigned>({8}), pool));
    for (const bool compiled : {false, true}) {
        std::atomic<int> later = 0;
        const auto work = [x, &later, value = compiled ? 2 : 1] {
            return with_context([x, &later, value](execution_context& context) {
                const stream to = context.stream();
                to.host_call({"fails"}, {[] { throw std::runtime_error("mine"); }});
                to.host_call({"later"}, {[&later] { ++later; }});
                const std::array accesses{memory_access{x->memory(), access_mode::write}};
                to.fill({"fill", accesses}, {x->device_data(), static_cast<unsigned char>(value), x->size_bytes()});
            });
        };
        if (compiled) {
            EXPECT_THROW(sluice::sync(compile(on, work)(), pool), std::runtime_error);
        } else {
            EXPECT_THROW(sluice::sync(work(), pool), std::runtime_error);
        }
        EXPECT_EQ(later, 1) << compiled;
        on.synchronize();
        // A command that reads it would receive the failure of the launch.
        if (on.kind() == device_kind::cpu) {
            EXPECT_EQ(*x->device_data(), (compiled ? 2u : 1u) * 0x01010101u);
        }
    }
}

TEST_P(graph_mishaps, a_graph_may_be_dropped_while_it_runs) {
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
        held->wait(held->issued(), wait_mode::block);
    }
    on.synchronize();
    on.trim();
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(graph_mishaps, code_that_throws_while_it_is_recorded_leaves_nothing_behind) {
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

TEST_P(graph_mishaps, too_much_memory_is_refused_and_leaves_nothing_behind) {
    on.trim();
    const std::size_t before = bytes_in_use();
    const auto greedy = [](tensor<unsigned> x) {
        return zip(value(std::move(x)), zeros<unsigned>({std::size_t{1} << 50})).and_then([](auto small, auto large) {
            return zip(download(std::move(small)), step(std::move(large), 1).transform([](auto) { return 0; }));
        });
    };
    try {
        static_cast<void>(compile(on, {.name = "greedy"}, greedy, host_input<unsigned>({16})));
        FAIL() << "compiled";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::out_of_memory) << refused.what();
        EXPECT_EQ(refused.operation(), "greedy");
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(graph_mishaps, an_operation_that_differs_when_it_is_recorded_again_is_refused) {
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

TEST_P(graph_mishaps, an_input_of_another_device_is_refused) {
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

TEST_P(graph_mishaps, eight_threads_launch_one_graph) {
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

TEST_P(graph_mishaps, graphs_that_share_one_inside_are_launched_by_several_threads) {
    round_robin pool(on, 8);
    constexpr std::size_t size = 1'000;
    const auto steps = [](tensor<unsigned> x) {
        const auto then = [](unsigned addend) {
            return [=](tensor<unsigned> y) { return step(std::move(y), addend); };
        };
        return zip(step(std::move(x), 0), zeros<unsigned>({size}))
            .and_then([](auto first, auto fresh) {  // a temporary of the inner graph, written and read
                return add(shared_tensor<unsigned>(std::move(first)), std::move(fresh));
            })
            .and_then(then(1))
            .and_then(then(2));
    };
    const auto inner = compile(on, steps, device_input<unsigned>({size}));
    const auto around = [&] {
        return compile(
            on, [=](tensor<unsigned> x) { return inner(std::move(x)).and_then(download); },
            host_input<unsigned>({size}));
    };
    const std::array graphs{around(), around()};
    std::atomic<int> wrong{0};
    const auto expect = [&](const std::vector<unsigned>& y, unsigned x) {
        wrong += std::ranges::count(y, after_steps(x, 3)) != size;
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < graphs.size(); ++t) {
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < 60; ++i) expect(sync(graphs[t](std::vector<unsigned>(size, t)), pool), t);
        });
    }
    threads.emplace_back([&] {
        for (unsigned i = 0; i < 60; ++i) {
            const auto by_itself = [&](tensor<unsigned> x) { return inner(std::move(x)); };
            expect(sluice::sync(upload(std::vector<unsigned>(size, 7)).and_then(by_itself).and_then(download), pool),
                   7);
        }
    });
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(wrong, 0);
}

TEST_P(graph_mishaps, dropped_futures_leave_the_graph_usable) {
    round_robin pool(on, 3);
    const auto fast = compile(
        on, {.replicas = 2}, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download); },
        host_input<unsigned>({64}));
    EXPECT_EQ(sync(fast(counting(64)), pool), after_two(counting(64)));
    for (unsigned round = 0; round < 20; ++round) static_cast<void>(spawn(fast(counting(64, round)), pool));
    EXPECT_EQ(sync(fast(counting(64, 7)), pool), after_two(counting(64, 7)));
}

// On a CPU only: on a GPU such a call throws while it is captured.
TEST_P(graph_mishaps, a_failing_library_call_fails_its_launch_alone) {
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

TEST_P(graph_mishaps, a_graph_may_be_destroyed_after_its_runtime) {
    using function = std::function<any_operation<pending<std::vector<unsigned>>>(tensor<unsigned>)>;
    const auto body = [](tensor<unsigned> x) {
        return any_operation<pending<std::vector<unsigned>>>(two_steps(std::move(x)).and_then(download));
    };
    auto brief = std::make_unique<runtime>(options());
    device& there = brief->find(GetParam().device);
    std::optional<decltype(compile(there, function(body), host_input<unsigned>({4})))> fast;
    fast.emplace(compile(there, function(body), host_input<unsigned>({4})));
    stream of_it = round_robin(there, 1).next();
    EXPECT_EQ(sync_on((*fast)(counting(4)), of_it), after_two(counting(4)));
    brief.reset();
    EXPECT_THROW(sync_on((*fast)(counting(4)), of_it), error);
    fast.reset();
}

}  // namespace
}  // namespace sluice::conformance::graph_mishap_tests
