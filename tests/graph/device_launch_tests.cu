// SPDX-License-Identifier: Apache-2.0
// Graphs that kernels launch, on every backend.

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "support/at_each_change.hpp"

namespace sluice::conformance::device_launch_tests {
namespace {

CONFORMANCE_SUITE(device_launch);

struct add_one {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const element = x.at(at)) ++*element;
    }
};
struct add_one_below {
    int limit;
    SLUICE_KERNEL void operator()(index_1d at, self_launcher self, disjoint_view<int> x) const {
        int* const element = x.at(at);
        if (element != nullptr && ++*element < limit) static_cast<void>(self.tail());
    }
};
enum class how { fire_and_forget, tail, sibling };
SLUICE_KERNEL bool launch_by(const graph_launcher& graph, how way) {
    if (way == how::fire_and_forget) return graph.fire_and_forget();
    return way == how::tail ? graph.tail() : graph.sibling();
}
// said[0] and said[1]: the results of the first and the second launch of the same graph.
struct launch_twice {
    how way;
    SLUICE_KERNEL void operator()(index_1d at, graph_launcher graph, disjoint_view<int> said) const {
        int* const element = said.at(at);
        if (element == nullptr || at.value() != 0) return;
        element[0] = launch_by(graph, way) ? 1 : 0;
        element[1] = launch_by(graph, way) ? 1 : 0;
    }
};
struct launch_above {
    int limit;
    SLUICE_KERNEL void operator()(index_1d at, view<const int> x, graph_launcher graph, disjoint_view<int> said) const {
        if (int* const element = said.at(at)) *element = x[0] > limit && graph.fire_and_forget() ? 1 : 0;
    }
};

constexpr auto increment = [](tensor<int> x) {
    auto range = each_of(x);
    return launch(add_one{}, range, std::move(x));
};
auto counts_to(device& on, int limit) {
    return launchable(
        on,
        [=](self_launcher self, tensor<int> x) {
            auto range = each_of(x);
            return launch(add_one_below{limit}, range, self, std::move(x));
        },
        device_input<int>({1}));
}
auto counts(device& on) { return launchable(on, increment, device_input<int>({3})); }

template <typename Graph>
auto launches_twice(device& on, const Graph& graph, how way) {
    return compile(on, [=] {
        return zeros<int>({2})
            .and_then([=](auto said) {
                auto range = each_of(said);
                return launch(launch_twice{way}, range, graph, std::move(said));
            })
            .and_then(download);
    });
}

TEST_P(device_launch, a_graph_launches_itself_until_its_kernel_stops) {
    round_robin pool(on, 2);
    for (const int limit : {1, 2, 300}) {
        const auto graph = counts_to(on, limit);
        const auto from = [&](int begin) {
            return sluice::sync(upload(std::vector<int>{begin}).and_then(graph).and_then(download), pool);
        };
        EXPECT_EQ(from(0), std::vector<int>{limit});
        EXPECT_EQ(from(limit), std::vector<int>{limit + 1});  // at least once
        EXPECT_EQ(from(0), std::vector<int>{limit});
    }
}

TEST_P(device_launch, a_launched_graph_completes_with_the_launching_graph) {
    round_robin pool(on, 2);
    for (const how way : {how::fire_and_forget, how::tail, how::sibling}) {
        SCOPED_TRACE(static_cast<int>(way));
        const auto counter = counts(on);
        const auto tick = launches_twice(on, counter, way);
        sync(upload(std::vector<int>{0, 10, 20}).and_then([&](auto x) { return counter.set(std::move(x)); }), pool);
        for (int i = 1; i <= 20; ++i) {
            // The second launch is refused while the first one is pending or running; it may have completed.
            const std::vector<int> said = sync(tick(), pool);
            EXPECT_EQ(said[0], 1);
            if (way == how::tail) {
                EXPECT_EQ(said[1], 0);
            }
            const std::vector<int> now = sync(counter.get().and_then(download), pool);
            sync(
                upload(std::vector<int>{i, 10 + i, 20 + i}).and_then([&](auto x) { return counter.set(std::move(x)); }),
                pool);
            EXPECT_EQ(now[0], i - 1 + said[0] + said[1]);
            EXPECT_EQ(now[2], 20 + now[0]);
        }
    }
}

struct launch_once {
    SLUICE_KERNEL void operator()(index_1d at, graph_launcher graph, disjoint_view<int> said) const {
        if (int* const element = said.at(at)) *element = graph.tail() ? 1 : 0;
    }
};

TEST_P(device_launch, launches_of_one_graph_by_two_threads_are_neither_lost_nor_mixed) {
    round_robin pool(on, 8);
    constexpr std::size_t size = 2'000;
    const auto counter = launchable(on, increment, device_input<int>({size}));
    sync(zeros<int>({size}).and_then([&](auto x) { return counter.set(std::move(x)); }), pool);
    const auto launches = [&] {
        return compile(on, [=] {
            return uninitialized<int>({1})
                .and_then([=](auto said) {
                    auto range = each_of(said);
                    return launch(launch_once{}, range, counter, std::move(said));
                })
                .and_then(download);
        });
    };
    const auto one = launches(), other = launches();
    std::atomic<int> accepted{0}, torn{0};
    std::atomic<bool> is_over{false};
    std::thread reader([&] {
        test_support::at_each_change(accepted, is_over, [&] {
            const std::vector<int> now = sync(counter.get().and_then(download), pool);
            torn += std::count(now.begin(), now.end(), now[0]) != static_cast<std::ptrdiff_t>(size);
        });
    });
    const auto launch_many = [&](const auto& graph) {
        for (int i = 0; i < 150; ++i) accepted += sync(graph(), pool)[0];
    };
    std::thread second([&] { launch_many(other); });
    launch_many(one);
    second.join();
    is_over = true;
    reader.join();
    EXPECT_EQ(sync(counter.get().and_then(download), pool), std::vector<int>(size, accepted));
    EXPECT_EQ(torn, 0);
}

TEST_P(device_launch, a_kernel_decides_whether_to_launch) {
    round_robin pool(on, 2);
    const auto counter = counts(on);
    sync(zeros<int>({3}).and_then([&](auto x) { return counter.set(std::move(x)); }), pool);
    const auto tick = compile(
        on,
        [=](tensor<int> x) {
            return uninitialized<int>({1})
                .and_then([=, given = shared_tensor<int>(std::move(x))](auto said) {
                    auto range = each_of(said);
                    return launch(launch_above{5}, range, given, counter, std::move(said));
                })
                .and_then(download);
        },
        host_input<int>({1}));
    for (const int value : {1, 6, 5, 7, 100}) {
        EXPECT_EQ(sync(tick(std::vector<int>{value}), pool), std::vector<int>{value > 5 ? 1 : 0});
    }
    EXPECT_EQ(sync(counter.get().and_then(download), pool), (std::vector<int>{3, 3, 3}));
}

TEST_P(device_launch, a_launched_graph_launches_itself) {
    round_robin pool(on, 2);
    const auto counter = counts_to(on, 50);
    const auto tick = launches_twice(on, counter, how::tail);
    sync(zeros<int>({1}).and_then([&](auto x) { return counter.set(std::move(x)); }), pool);
    EXPECT_EQ(sync(tick(), pool)[0], 1);
    EXPECT_EQ(sync(counter.get().and_then(download), pool), std::vector<int>{50});
}

TEST_P(device_launch, a_graph_that_launches_keeps_what_it_launches) {
    round_robin pool(on, 2);
    const auto make = [&] {
        const auto weights = sync(share(upload(std::vector<int>{7})), pool);
        return launches_twice(on,
                              launchable(
                                  on, [weights](tensor<int>) { return copy(weights); }, device_input<int>({1})),
                              how::fire_and_forget);
    };
    const auto tick = make();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(sluice::sync(tick(), pool)[0], 1);
    auto last = spawn(make()(), pool);  // both graphs are dropped while this runs, or before
    EXPECT_EQ(std::move(last).get()[0], 1);
}

TEST_P(device_launch, a_graph_keeps_its_launches_when_it_becomes_a_part) {
    round_robin pool(on, 2);
    const auto kick = [](const auto& graph) {
        return [graph] {
            return zeros<int>({2})
                .and_then([graph](auto said) {
                    auto range = each_of(said);
                    return launch(launch_twice{how::tail}, range, graph, std::move(said));
                })
                .and_then(download);
        };
    };
    const auto second = counts(on);
    std::optional first = counts(on);
    sluice::sync(zeros<int>({3}).and_then([&](auto x) { return second.set(std::move(x)); }), pool);
    sluice::sync(zeros<int>({3}).and_then([&](auto x) { return first->set(std::move(x)); }), pool);
    const auto tick = compile(on, kick(*first));
    const auto around = compile(on, [=] { return tick(); });
    EXPECT_EQ(sluice::sync(around(), pool)[0], 1);
    EXPECT_EQ(sluice::sync(first->get<0>().and_then(download), pool)[0], 1);
    auto running = spawn(tick(), pool);
    static_cast<void>(tick.update(kick(second)));
    first.reset();
    EXPECT_EQ(std::move(running).get()[0], 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sluice::sync(around(), pool)[0], 1);
    EXPECT_EQ(sluice::sync(tick(), pool)[0], 1);
    EXPECT_EQ(sluice::sync(second.get().and_then(download), pool)[0], 1);
}

TEST_P(device_launch, one_tensor_of_the_state_is_set_and_read) {
    round_robin pool(on, 2);
    const auto both = launchable(
        on, [](tensor<int> x, tensor<float> y) { return zip(increment(std::move(x)), value(std::move(y))); },
        device_input<int>({1}), device_input<float>({2}));
    sluice::sync(both.set<1>(sync(share(upload(std::vector<float>{1, 2})), pool)), pool);
    sluice::sync(both.set<0>(sluice::sync(upload(std::vector<int>{41}), pool)), pool);
    EXPECT_EQ(sluice::sync(both.get<1>().and_then(download), pool), (std::vector<float>{1, 2}));
    const auto [x, y] = sluice::sync(both.get(), pool);
    EXPECT_EQ(x.size() + y.size(), 3u);
    const auto [after, same] = sluice::sync(
        zip(upload(std::vector<int>{1}), upload(std::vector<float>{3, 4}))
            .and_then(both)
            .and_then([](auto one, auto other) { return zip(download(std::move(one)), download(std::move(other))); }),
        pool);
    EXPECT_EQ(after[0], 2);
    EXPECT_EQ(same[1], 4);
    EXPECT_EQ(sluice::sync(both.get<0>().and_then(download), pool), std::vector<int>{2});
    EXPECT_EQ(sluice::sync(both.get<1>().and_then(download), pool), (std::vector<float>{3, 4}));
}

TEST_P(device_launch, a_kernel_outside_a_graph_cannot_launch_graphs) {
    round_robin pool(on, 2);
    const auto counter = counts(on);
    expect_refused(errc::graph_refused, {"launch_twice", "inside a graph"}, [&] {
        sluice::sync(zeros<int>({2}).and_then([&](auto said) {
            auto range = each_of(said);
            return launch(launch_twice{how::fire_and_forget}, range, counter, std::move(said));
        }),
                     pool);
    });
}

TEST_P(device_launch, commands_after_the_launching_kernel_cannot_use_the_state) {
    const auto counter = counts(on);
    const auto then = [&](auto next) {
        return [=, this] {
            static_cast<void>(compile(on, [=] {
                return zeros<int>({2})
                    .and_then([=](auto said) {
                        auto range = each_of(said);
                        return launch(launch_twice{how::fire_and_forget}, range, counter, std::move(said));
                    })
                    .and_then([=](auto) { return next(); });
            }));
        };
    };
    expect_refused(errc::graph_refused, {"launch_twice", "copy"}, then([=] { return counter.get(); }));
    expect_refused(errc::graph_refused, {"launch_twice"}, then([=] {
                       return zeros<int>({2}).and_then([=](auto said) {
                           auto range = each_of(said);
                           return launch(launch_twice{how::fire_and_forget}, range, counter, std::move(said));
                       });
                   }));
}

TEST_P(device_launch, what_a_device_cannot_launch_is_refused) {
    round_robin pool(on, 2);
    const auto refused = [&](std::initializer_list<std::string> words, auto f) {
        expect_refused(errc::graph_refused, words,
                       [&] { static_cast<void>(launchable(on, f, device_input<int>({1}))); });
    };
    refused({"do_while", "loops"}, [](tensor<int> x) {
        return do_while([](loop_flag, tensor<int> now) { return increment(std::move(now)); }, std::move(x));
    });
    refused({"host call"}, [](tensor<int> x) {
        return host_call([] {}).and_then([y = std::move(x)]() mutable { return increment(std::move(y)); });
    });
    refused({"download", "pinned_tensor"},
            [](tensor<int> x) { return download(std::move(x)).and_then([](auto) { return zeros<int>({1}); }); });
    const auto outside = std::make_shared<tensor<int>>(sync(zeros<int>({1}), pool));
    refused({"captured"}, [=](tensor<int> x) {
        return with_context([=, y = std::move(x)](execution_context& context) mutable {
            launch_on(context.stream(), add_one{}, each_of(*outside), *outside);
            return std::move(y);
        });
    });
    expect_refused(errc::invalid_argument, {"replica"},
                   [&] { static_cast<void>(launchable(on, {.replicas = 2}, increment, device_input<int>({1}))); });
    expect_refused(errc::invalid_argument, {"cannot refuse"}, [&] {
        static_cast<void>(launchable(on, {.busy = when_busy::refuse}, increment, device_input<int>({1})));
    });
    expect_refused(errc::shape_mismatch, {"[1]", "[2]"},
                   [&] { return launchable(on, [](tensor<int>) { return zeros<int>({2}); }, device_input<int>({1})); });
}

TEST_P(device_launch, launches_are_refused_in_loops_and_as_parts) {
    const auto counter = counts(on);
    expect_refused(errc::graph_refused, {"launch_twice", "loop"}, [&] {
        static_cast<void>(compile(on, [=] {
            return zeros<int>({2}).and_then([=](auto said) {
                return do_while(
                    [=](loop_flag, tensor<int> now) {
                        auto range = each_of(now);
                        return launch(launch_twice{how::fire_and_forget}, range, counter, std::move(now));
                    },
                    std::move(said));
            });
        }));
    });
    expect_refused(errc::graph_refused, {"part of another"},
                   [&] { static_cast<void>(compile(on, [=] { return zeros<int>({3}).and_then(counter); })); });
}

TEST_P(device_launch, a_state_of_another_shape_is_refused) {
    round_robin pool(on, 2);
    const auto counter = counts(on);
    expect_refused(errc::shape_mismatch, {"[3]", "[4]"}, [&] { return counter.set(sync(zeros<int>({4}), pool)); });
    expect_refused(errc::shape_mismatch, {"[3]", "[4]"}, [&] { return counter(sync(zeros<int>({4}), pool)); });
}

}  // namespace
}  // namespace sluice::conformance::device_launch_tests
