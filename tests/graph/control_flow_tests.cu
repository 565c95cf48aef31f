// SPDX-License-Identifier: Apache-2.0
// Conditions and loops on the device: submitted alone, compiled and nested, on every backend.

#include "conformance/backend.hpp"

namespace sluice::conformance::control_flow_tests {
namespace {

CONFORMANCE_SUITE(control_flow);

struct add_one {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const element = x.at(at)) ++*element;
    }
};
// to = x[0] < limit
struct is_below {
    SLUICE_KERNEL void operator()(index_1d at, view<const int> x, int limit, disjoint_view<int> to) const {
        if (int* const element = to.at(at)) *element = x[0] < limit ? 1 : 0;
    }
};
struct add_one_below {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x, int limit, loop_condition again) const {
        int* const element = x.at(at);
        if (element == nullptr) return;
        ++*element;
        if (at.value() == 0) again.set(*element < limit);
    }
};

// ++x, and to = x < limit
struct add_one_and_compare {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x, int limit, disjoint_view<int> to) const {
        int* const element = x.at(at);
        if (element == nullptr) return;
        ++*element;
        if (int* const answer = to.at(at)) *answer = *element < limit ? 1 : 0;
    }
};

auto below(int limit) {
    return [limit](shared_tensor<int> x) {
        return uninitialized<int>({1}).and_then([=](auto to) {
            auto range = each_of(to);
            return launch(is_below{}, range, x, limit, std::move(to));
        });
    };
}
constexpr auto increment = [](tensor<int> x) {
    auto range = each_of(x);
    return launch(add_one{}, range, std::move(x));
};

auto count_to(int limit, tensor<int> x) { return repeat_while(below(limit), increment, std::move(x)); }

TEST_P(control_flow, a_loop_runs_as_long_as_its_condition_holds) {
    round_robin pool(on, 2);
    const auto from = [&](int begin, int limit) {
        return sync(upload(std::vector<int>{begin, 100})
                        .and_then([=](auto x) { return count_to(limit, std::move(x)); })
                        .and_then(download),
                    pool);
    };
    EXPECT_EQ(from(0, 10), (std::vector<int>{10, 110}));
    EXPECT_EQ(from(7, 7), (std::vector<int>{7, 100}));  // no round
    EXPECT_EQ(from(6, 7), (std::vector<int>{7, 101}));
}

TEST_P(control_flow, a_loop_runs_in_a_compiled_graph) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](tensor<int> x) {
            return increment(std::move(x))
                .and_then([](auto y) { return count_to(20, std::move(y)); })
                .and_then(increment)
                .and_then(download);
        },
        host_input<int>({2}));
    EXPECT_EQ(sync(fast(std::vector<int>{0, 5}), pool), (std::vector<int>{21, 26}));
    EXPECT_EQ(sync(fast(std::vector<int>{100, 5}), pool), (std::vector<int>{102, 7}));
    EXPECT_EQ(sync(fast(std::vector<int>{10, 5}), pool), (std::vector<int>{21, 16}));
}

TEST_P(control_flow, a_kernel_decides_whether_the_body_runs_again) {
    round_robin pool(on, 2);
    const auto loop = [](tensor<int> x) {
        return do_while(
            [](loop_flag again, tensor<int> now) {
                auto range = each_of(now);
                return launch(add_one_below{}, range, std::move(now), 12, again);
            },
            std::move(x));
    };
    const auto fast =
        compile(on, [loop](tensor<int> x) { return loop(std::move(x)).and_then(download); }, host_input<int>({1}));
    for (const int begin : {0, 11, 50, 3}) {
        const std::vector<int> expected{begin < 12 ? 12 : begin + 1};  // at least once
        EXPECT_EQ(sync(fast(std::vector<int>{begin}), pool), expected);
        EXPECT_EQ(sync(upload(std::vector<int>{begin}).and_then(loop).and_then(download), pool), expected);
    }
}

TEST_P(control_flow, loops_can_be_nested) {
    round_robin pool(on, 2);
    // For each step of the first number, the inner loop counts the second to 3, and starts over.
    const auto fast = compile(
        on,
        [](tensor<int> outer, tensor<int> inner) {
            return repeat_while([](shared_tensor<int> x, const shared_tensor<int>&) { return below(4)(x); },
                                [](tensor<int> x, tensor<int> y) {
                                    return zip(increment(std::move(x)), do_while(
                                                                            [](loop_flag again, tensor<int> now) {
                                                                                auto range = each_of(now);
                                                                                return launch(add_one_below{}, range,
                                                                                              std::move(now), 3, again);
                                                                            },
                                                                            std::move(y)));
                                },
                                std::move(outer), std::move(inner))
                .and_then([](auto x, auto y) { return zip(download(std::move(x)), download(std::move(y))); });
        },
        host_input<int>({1}), host_input<int>({1}));
    const auto [outer, inner] = sync(fast(std::vector<int>{0}, std::vector<int>{0}), pool);
    EXPECT_EQ(outer[0], 4);
    EXPECT_EQ(inner[0], 3 + 3);  // three in the first round, then one in each
}

// A GPU's driver cannot repeat a body of one kernel while other work runs: the device faulted within hundreds of
// launches.
TEST_P(control_flow, concurrent_conditions_and_loops_are_right_thousands_of_times) {
    round_robin pool(on, 2);
    const auto until = [](int limit, tensor<int> x) {
        return do_while(
            [limit](loop_flag again, tensor<int> now) {
                auto range = each_of(now);
                return launch(add_one_below{}, range, std::move(now), limit, again);
            },
            std::move(x));
    };
    const auto fast = compile(
        on, graph_options{.replicas = 2},
        [until](tensor<int> flag, tensor<int> a, tensor<int> b, tensor<int> c) {
            return zip(until(4, std::move(a)), if_(std::move(flag), increment, std::move(b)), until(5, std::move(c)))
                .and_then([](auto x, auto y, auto z) {
                    return zip(download(std::move(x)), download(std::move(y)), download(std::move(z)));
                });
        },
        host_input<int>({1}), host_input<int>({1024}), host_input<int>({1024}), host_input<int>({1024}));
    const std::vector<int> zeros(1024, 0);
    const auto begin = [&](int flag) {
        return spawn(
            fast(std::vector<int>{flag}, std::vector<int>(zeros), std::vector<int>(zeros), std::vector<int>(zeros)),
            pool);
    };
    const int rounds = on.kind() == device_kind::cuda ? 3000 : 20;
    for (int round = 0; round < rounds; ++round) {
        auto first = begin(1), second = begin(round % 2);
        const auto [a, b, c] = std::move(first).get();
        const auto [d, e, f] = std::move(second).get();
        ASSERT_EQ((std::array{a[0], b[0], c[0], d[0], e[0], f[0]}), (std::array{4, 1, 5, 4, round % 2, 5})) << round;
        ASSERT_EQ((std::array{a[1023], b[1023]}), (std::array{4, 1})) << round;
    }
}

TEST_P(control_flow, a_condition_runs_its_body_or_not) {
    round_robin pool(on, 2);
    const auto maybe = [](tensor<int> flag, tensor<int> x) {
        return if_(std::move(flag), increment, std::move(x)).and_then(download);
    };
    const auto fast = compile(on, maybe, host_input<int>({1}), host_input<int>({2}));
    for (const int flag : {0, 1, 7, 0}) {
        const std::vector<int> expected{flag != 0 ? 2 : 1, flag != 0 ? 6 : 5};
        EXPECT_EQ(sync(fast(std::vector<int>{flag}, std::vector<int>{1, 5}), pool), expected);
        EXPECT_EQ(sync(zip(upload(std::vector<int>{flag}), upload(std::vector<int>{1, 5})).and_then(maybe), pool),
                  expected);
    }
}

// Body outputs in other memory are copied back to the loop's tensors.
TEST_P(control_flow, a_kernel_decides_in_each_round_of_a_loop_whether_a_body_runs) {
    round_robin pool(on, 2);
    // The first number counts to 6; the second one counts the rounds after which the first is below 4.
    const auto round_of = [](tensor<int> x, tensor<int> y) {
        return zip(value(std::move(x)), value(std::move(y)), uninitialized<int>({1}))
            .and_then([](auto counter, auto counted, auto flag) {
                auto range = each_of(flag);
                return zip(launch(add_one_and_compare{}, range, std::move(counter), 4, std::move(flag)),
                           value(std::move(counted)));
            })
            .and_then([](auto written, auto counted) {
                auto& [counter, flag] = written;
                return zip(value(std::move(counter)), if_(std::move(flag), increment, std::move(counted)));
            });
    };
    const auto count = [=](tensor<int> x, tensor<int> y) {
        return repeat_while([](shared_tensor<int> now, const shared_tensor<int>&) { return below(6)(now); }, round_of,
                            std::move(x), std::move(y))
            .and_then([](auto a, auto b) { return zip(download(std::move(a)), download(std::move(b))); });
    };
    const auto fast = compile(on, count, host_input<int>({1}), host_input<int>({1}));
    for (const auto& [begin, end, counted] : {std::array{0, 6, 3}, {2, 6, 1}, {5, 6, 0}, {9, 9, 0}, {1, 6, 2}}) {
        const auto [x, y] = sync(fast(std::vector<int>{begin}, std::vector<int>{0}), pool);
        EXPECT_EQ((std::array{x[0], y[0]}), (std::array{end, counted})) << begin;
        const auto [v, w] =
            sync(zip(upload(std::vector<int>{begin}), upload(std::vector<int>{0})).and_then(count), pool);
        EXPECT_EQ((std::array{v[0], w[0]}), (std::array{end, counted})) << begin;
    }
}

TEST_P(control_flow, a_body_may_return_new_memory) {
    round_robin pool(on, 2);
    const auto body = [](tensor<int> x) {
        return uninitialized<int>({1})
            .and_then([from = shared(std::move(x))](auto to) {
                auto range = each_of(to);
                return launch(is_below{}, range, from, 0, std::move(to));
            })
            .and_then(increment);
    };
    const auto loop = [=](tensor<int> x) { return repeat_while(below(1), body, std::move(x)); };
    EXPECT_EQ(sync(upload(std::vector<int>{0}).and_then(loop).and_then(download), pool), std::vector<int>{1});
}

TEST_P(control_flow, wrong_shapes_and_host_calls_are_refused) {
    single_stream pool(on);
    EXPECT_THROW(sync(zip(upload(std::vector<int>{1, 2}), upload(std::vector<int>{1})).and_then([](auto flag, auto x) {
                     return if_(std::move(flag), increment, std::move(x));
                 }),
                      pool),
                 error);
    const auto grows = [](tensor<int>) { return zeros<int>({2}); };
    EXPECT_THROW(
        sync(upload(std::vector<int>{1}).and_then([&](auto x) { return repeat_while(below(5), grows, std::move(x)); }),
             pool),
        error);
    const auto calls = [](tensor<int> x) {
        return download(std::move(x))
            .and_then([](auto landed) { return host_call([](const std::vector<int>&) {}, std::move(landed)); })
            .and_then([] { return zeros<int>({1}); });
    };
    try {
        sync(upload(std::vector<int>{1}).and_then([&](auto x) { return repeat_while(below(5), calls, std::move(x)); }),
             pool);
        FAIL();
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::graph_refused);
    }
    // No memory is left in use.
    EXPECT_EQ(
        sync(upload(std::vector<int>{3}).and_then([](auto x) { return count_to(5, std::move(x)); }).and_then(download),
             pool),
        std::vector<int>{5});
}

}  // namespace
}  // namespace sluice::conformance::control_flow_tests
