// SPDX-License-Identifier: Apache-2.0
// Compiled graphs that change: arguments, nodes by name, another operation.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "graph/graph_operations.hpp"

namespace sluice::conformance::graph_update_tests {
namespace {

CONFORMANCE_SUITE(graph_updates);

TEST_P(graph_updates, an_argument_that_changes_sets_nodes) {
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

TEST_P(graph_updates, an_argument_is_the_value_of_a_fill) {
    single_stream pool(on);
    const auto check = [&]<typename T>(std::initializer_list<T> values) {
        const auto fast = compile(
            on, [](tensor<T> x, T to) { return fill(std::move(x), to).and_then(download); }, host_input<T>({33}),
            argument<T>(*values.begin()));
        for (const T value : values) {
            EXPECT_EQ(sync(fast(std::vector<T>(33), value), pool), std::vector<T>(33, value));
            EXPECT_NE(fast.last_change(), graph_change::instantiated);
        }
    };
    check(std::initializer_list<std::uint8_t>{7, 9, 9, 0, 7});
    check(std::initializer_list<std::uint16_t>{0x1234, 0x4321, 0x4321, 0, 0x1234});
    check(std::initializer_list<float>{1.5f, -2, -2, 0, 1.5f});
    check(std::initializer_list<double>{1.5, -2, -2, 0, 1.5});
}

TEST_P(graph_updates, an_argument_is_the_byte_of_a_fill_command) {
    single_stream pool(on);
    for (const std::size_t size :
         {std::size_t{100}, std::size_t{5} << 20}) {  // on a GPU a kernel, and a node of its own
        const auto fast = compile(
            on,
            [](tensor<unsigned char> x, unsigned char to) {
                return with_context([y = std::move(x), to](execution_context& context) mutable {
                           const std::array accesses{memory_access{y.memory(), access_mode::write}};
                           context.stream().fill({"fill", accesses}, {y.device_data(), to, y.size_bytes()});
                           return std::move(y);
                       })
                    .and_then(download);
            },
            device_input<unsigned char>({size}), argument<unsigned char>(1));
        for (const unsigned char to : std::initializer_list<unsigned char>{1, 9, 9, 0, 1}) {
            auto x = sluice::sync(zeros<unsigned char>({size}), pool);
            EXPECT_EQ(sluice::sync(fast(std::move(x), to), pool), std::vector<unsigned char>(size, to));
            EXPECT_NE(fast.last_change(), graph_change::instantiated);
        }
    }
}

TEST_P(graph_updates, nodes_are_disabled_by_name) {
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

// A GPU makes these fills with one kernel. Each launch has other tensors.
TEST_P(graph_updates, one_of_several_fills_is_disabled_and_each_fills_its_own_tensor) {
    single_stream pool(on);
    using shared = shared_tensor<float>;
    const auto clear = [](const char* name, tensor<float> x) { return named(name, fill(std::move(x), 0.f)); };
    const device_input<float> five({5});
    const auto fast = compile(
        on,
        [clear](tensor<float> a, tensor<float> b, tensor<float> c) {
            return zip(clear("a", std::move(a)), clear("b", std::move(b)), clear("c", std::move(c)))
                .and_then([](auto x, auto y, auto z) {
                    return add(std::move(x), shared(std::move(y))).and_then([w = shared(std::move(z))](auto sum) {
                        return add(std::move(sum), w);
                    });
                })
                .and_then(download);
        },
        five, five, five);
    const auto filled = [&](float value) { return sync(full<float>({5}, value), pool); };
    const auto expect = [&](float sum) {
        EXPECT_EQ(sync(fast(filled(40), filled(500), filled(6000)), pool), std::vector<float>(5, sum));
    };
    expect(0);
    fast.disable("b");
    expect(500);
    expect(500);
    fast.disable("c");
    expect(6500);
    fast.enable("b");
    expect(6000);
    fast.disable("a");
    fast.disable("b");
    expect(6540);
    for (const char* each : {"a", "b", "c"}) fast.enable(each);
    expect(0);
}

TEST_P(graph_updates, an_update_replaces_the_operation) {
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

// In the first plan `c` reuses the bytes of `a`; the second operation needs both at once.
TEST_P(graph_updates, an_update_that_needs_another_plan_gets_one) {
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

TEST_P(graph_updates, an_update_changes_an_existing_output_to_a_created_one) {
    single_stream pool(on);
    using function = std::function<any_operation<shared_tensor<unsigned>>(tensor<unsigned>)>;
    const shared_tensor<unsigned> weights(sync(upload(counting(4, 50)), pool));
    const function known(
        [weights](tensor<unsigned>) { return any_operation<shared_tensor<unsigned>>(value(weights)); });
    const function made([](tensor<unsigned> x) {
        return any_operation<shared_tensor<unsigned>>(
            relayed(std::move(x)).transform([](tensor<unsigned> y) { return shared_tensor<unsigned>(std::move(y)); }));
    });
    const auto fast = compile(on, known, host_input<unsigned>({4}));
    const auto run = [&](unsigned from) {
        return sync(fast(counting(4, from)).and_then([](auto out) { return download(std::move(out)); }), pool);
    };
    EXPECT_EQ(run(0), counting(4, 50));
    fast.update(made);
    for (const unsigned from : {0u, 7u}) {
        EXPECT_EQ(run(from), sync(upload(counting(4, from)).and_then(relayed).and_then(download), pool));
    }
    fast.update(known);
    EXPECT_EQ(run(0), counting(4, 50));
}

TEST_P(graph_updates, an_update_can_add_host_calls) {
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

TEST_P(graph_updates, an_update_that_fails_leaves_all_replicas_as_they_were) {
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

TEST_P(graph_updates, a_copied_output_is_that_of_its_launch) {
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

TEST_P(graph_updates, minus_zero_and_zero_are_different_arguments) {
    single_stream pool(on);
    const auto inverse = compile(on, [](double x) { return value(1 / x); }, argument<double>(1));
    const auto inverses =
        compile(on, [](std::vector<float> x) { return value(1 / x.at(0)); }, argument<std::vector<float>>({1.f}));
    for (const double x : {0., -0., 0., 2., -0.}) {
        EXPECT_EQ(sluice::sync(inverse(x), pool), 1 / x);
        EXPECT_EQ(sluice::sync(inverses(std::vector<float>{static_cast<float>(x)}), pool), 1 / static_cast<float>(x));
    }
}

TEST_P(graph_updates, a_nan_equals_itself_as_an_argument) {
    single_stream pool(on);
    int calls = 0;
    const auto fast = compile(on, [&calls](float) { return value(++calls); }, argument<float>(1.f));
    const float none = std::numeric_limits<float>::quiet_NaN();
    const int first = sluice::sync(fast(none), pool);
    EXPECT_EQ(sluice::sync(fast(none), pool), first);
    EXPECT_EQ(calls, first);
}

namespace {
struct cannot_always_be_copied {
    explicit cannot_always_be_copied(bool can_be) : can_be_copied(can_be) {}
    cannot_always_be_copied(const cannot_always_be_copied& other) : can_be_copied(other.can_be_copied) { check(); }
    cannot_always_be_copied(cannot_always_be_copied&&) noexcept = default;
    cannot_always_be_copied& operator=(cannot_always_be_copied&&) noexcept = default;
    cannot_always_be_copied& operator=(const cannot_always_be_copied& other) {
        other.check();
        can_be_copied = other.can_be_copied;
        return *this;
    }
    void check() const {
        if (!can_be_copied && is_strict) throw std::runtime_error("not now");
    }
    bool operator==(const cannot_always_be_copied&) const = default;
    bool can_be_copied;
    static inline bool is_strict = false;
};
}  // namespace

TEST_P(graph_updates, an_argument_that_cannot_be_copied_loses_no_other_change) {
    single_stream pool(on);
    const auto fast = compile(
        on, [](int x, const cannot_always_be_copied&) { return value(10 * x); }, argument<int>(1),
        argument<cannot_always_be_copied>(cannot_always_be_copied(true)));
    const cannot_always_be_copied good(true);
    auto failing = fast(5, cannot_always_be_copied(false));
    cannot_always_be_copied::is_strict = true;
    EXPECT_THROW(sluice::sync(std::move(failing), pool), std::runtime_error);
    cannot_always_be_copied::is_strict = false;
    EXPECT_EQ(sluice::sync(fast(5, good), pool), 50);
}

namespace {
// A function of the host whose copies are counted down by `copies_left`, and fail at 0.
struct fails_to_be_copied {
    fails_to_be_copied(unsigned& place, unsigned what) : to(&place), number(what) {}
    fails_to_be_copied(const fails_to_be_copied& other) : to(other.to), number(other.number) {
        if (copies_left >= 0 && copies_left-- == 0) throw std::runtime_error("not now");
    }
    fails_to_be_copied(fails_to_be_copied&&) noexcept = default;
    fails_to_be_copied& operator=(const fails_to_be_copied&) = delete;
    ~fails_to_be_copied() = default;
    void operator()() const { *to = number; }

    unsigned* to;
    unsigned number;
    static inline int copies_left = -1;
};
}  // namespace

// A launch that sets the host calls of its nodes may fail between two of them.
TEST_P(graph_updates, host_calls_that_cannot_be_copied_are_set_by_the_next_launch) {
    single_stream pool(on);
    std::vector<unsigned> noted_last(3);
    const auto fast = compile(
        on,
        [&](unsigned number) {
            return with_context([&noted_last, number](execution_context& context) {
                for (unsigned i = 0; i < 3; ++i)
                    context.stream().host_call({"note"}, {fails_to_be_copied(noted_last[i], 10 * number + i)});
                return std::tuple<>();
            });
        },
        argument<unsigned>(0));
    const auto run = [&](unsigned number) {
        noted_last.assign(3, 0);
        sluice::sync(fast(number), pool);
        return noted_last;
    };
    const auto noted = [](unsigned number) { return counting(3, 10 * number); };
    unsigned number = 1;
    for (int fails_at = 0;; ++fails_at, ++number) {
        EXPECT_EQ(run(number), noted(number));
        fails_to_be_copied::copies_left = fails_at;
        bool failed = true;
        try {
            EXPECT_EQ(run(number + 1), noted(number + 1));
            failed = false;
        } catch (const std::runtime_error& planned) {
            EXPECT_STREQ(planned.what(), "not now");
        }
        const bool all_were_copied = std::exchange(fails_to_be_copied::copies_left, -1) >= 0;
        EXPECT_NE(failed, all_were_copied) << fails_at;
        EXPECT_EQ(run(number), noted(number)) << fails_at;          // what is known of the arguments was lost
        EXPECT_EQ(run(number + 1), noted(number + 1)) << fails_at;  // and the next one
        if (all_were_copied) {
            // A GPU's graph has a copy of each function; a CPU's launches call the recorded ones.
            if (on.kind() == device_kind::cuda) {
                EXPECT_GT(fails_at, 2);
            }
            return;
        }
    }
}

TEST_P(graph_updates, captures_live_until_the_last_launch_has_completed) {
    NEEDS_A_GATE();
    const auto made = [](std::shared_ptr<int> captured) {
        return [kept = std::move(captured)](tensor<unsigned> x) { return step(std::move(x), 1).and_then(download); };
    };
    for (const bool is_updated : {true, false}) {
        auto first = std::make_shared<int>(), second = std::make_shared<int>();
        const std::weak_ptr<int> known_first = first, known_second = second;
        stream_lease held(on);
        gate closed(*held);
        {
            const auto fast = compile(on, made(std::move(first)), host_input<unsigned>({4}));
            static_cast<void>(submit_to(*held, fast(counting(4))));
            if (is_updated) fast.update(made(std::move(second)));
            EXPECT_FALSE(known_first.expired());
        }
        EXPECT_FALSE(known_first.expired());
        closed.open();
        // The thread that carried out the launch may still be about to drop it.
        while (!known_first.expired() || (is_updated && !known_second.expired()))
            EXPECT_EQ(sync_on(upload(counting(1)).and_then(download), *held), counting(1));
    }
}

TEST_P(graph_updates, a_replica_that_is_never_idle_drops_the_replaced_operation) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    const auto fast =
        compile(on, any([](tensor<unsigned> x) { return download(std::move(x)); }), host_input<unsigned>({4}));
    const stream_lease streams[]{stream_lease(on), stream_lease(on)};
    std::vector<std::weak_ptr<int>> known;
    std::unique_ptr<gate> closed;
    for (unsigned round = 0; round < 20; ++round) {
        auto captured = std::make_shared<int>();
        known.push_back(captured);
        fast.update(
            any([captured, round](tensor<unsigned> x) { return step(std::move(x), round).and_then(download); }));
        captured.reset();
        stream here = *streams[round % 2], there = *streams[(round + 1) % 2];
        auto next = std::make_unique<gate>(here);
        static_cast<void>(submit_to(here, fast(counting(4))));
        closed = std::move(next);  // opens the previous gate; this launch still waits
        there.wait(there.issued(), wait_mode::block);
    }
    EXPECT_LT(std::ranges::count_if(known, [](const auto& each) { return !each.expired(); }), 6);
}

// A thread sanitizer reports what this test checks.
TEST_P(graph_updates, memory_bytes_may_be_read_by_any_thread) {
    const auto fast =
        compile(on, any([](tensor<unsigned> x) { return download(std::move(x)); }), host_input<unsigned>({4}));
    std::atomic<bool> is_over = false;
    std::size_t most = 0;
    std::thread other([&] {
        while (!is_over) most = std::max(most, fast.memory_bytes());
    });
    for (unsigned round = 0; round < 20; ++round) {
        fast.update(any([](tensor<unsigned> x) { return relayed(std::move(x)).and_then(download); }));
        fast.update(any([](tensor<unsigned> x) { return download(std::move(x)); }));
    }
    is_over = true;
    other.join();
    EXPECT_LE(most, 4096u);
}

}  // namespace
}  // namespace sluice::conformance::graph_update_tests
