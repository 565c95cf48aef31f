// SPDX-License-Identifier: Apache-2.0
// Difficult cases of recording a compiled graph again: inside another graph, with one tensor at two inputs, while a
// launch runs, when the recording fails half way, and when its result differs.
#include <functional>
#include <optional>
#include <thread>

#include "conformance/expect_refused.hpp"
#include "graph/graph_operations.hpp"

namespace sluice::conformance::graph_rerecording_tests {
namespace {

using numbers = std::vector<unsigned>;

class graph_rerecordings : public conformance_test {
protected:
    // The expected result of the graphs below: each element three times, plus the addend.
    static numbers stepped(numbers values, unsigned addend) {
        for (unsigned& each : values) each = 3 * each + addend;
        return values;
    }
    // With two temporaries.
    static auto relayed_step(tensor<unsigned> x, unsigned addend) {
        return relayed(std::move(x)).and_then(relayed).and_then([=](auto y) { return step(std::move(y), addend); });
    }

    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, graph_rerecordings, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(graph_rerecordings, of_an_inner_graph_compute_its_result_on_the_host) {
    const auto inner = compile(
        on, [](tensor<unsigned> x, unsigned addend) { return step(std::move(x), addend).and_then(download); },
        device_input<unsigned>({4}), argument<unsigned>(1));
    const auto outer =
        compile(on, [inner](tensor<unsigned> x) { return inner(std::move(x), 2u); }, host_input<unsigned>({4}));
    const auto both = compile(
        on,
        [inner](tensor<unsigned> x, tensor<unsigned> y) {
            return zip(inner(std::move(x), 2u), inner(std::move(y), 3u));
        },
        host_input<unsigned>({4}), host_input<unsigned>({4}));
    const auto passed_on = compile(
        on, [inner](tensor<unsigned> x, unsigned addend) { return inner(std::move(x), addend); },
        host_input<unsigned>({4}), argument<unsigned>(1));
    for (unsigned round = 0; round < 3; ++round) {
        const numbers x = counting(4, round), y = counting(4, 100 * round);
        EXPECT_EQ(sync(outer(x), pool), stepped(x, 2));
        EXPECT_EQ(sync(both(x, y), pool), (std::tuple{stepped(x, 2), stepped(y, 3)}));
        EXPECT_EQ(sync(passed_on(x, round), pool), stepped(x, round));
        EXPECT_EQ(sync(inner(sync(upload(y), pool), 7u), pool), stepped(y, 7));
    }
}

TEST_P(graph_rerecordings, of_an_inner_graph_leave_its_temporaries_to_the_outer_one) {
    const auto inner = compile(
        on, [](tensor<unsigned> x, unsigned addend) { return relayed_step(std::move(x), addend); },
        device_input<unsigned>({256}), argument<unsigned>(1));
    const auto outer = compile(
        on,
        [inner](tensor<unsigned> x) {
            return inner(std::move(x), 1u)
                .and_then([inner](auto y) { return inner(std::move(y), 2u); })
                .and_then(relayed)
                .and_then(relayed)
                .and_then(download);
        },
        host_input<unsigned>({256}));
    for (unsigned round = 0; round < 4; ++round) {
        const numbers x = counting(256, round);
        EXPECT_EQ(sync(outer(x), pool), stepped(stepped(x, 1), 2));
        auto up = sync(upload(x), pool);
        EXPECT_EQ(sync(inner(std::move(up), 3 + round).and_then(download), pool), stepped(x, 3 + round));
    }
}

TEST_P(graph_rerecordings, bind_one_tensor_to_two_inputs) {
    const shared_tensor<unsigned> captured(sync(upload(counting(16, 1000)), pool));
    const shared_tensor<unsigned> one(sync(upload(counting(16)), pool)), other(sync(upload(counting(16, 50)), pool));
    const auto sum = [captured](shared_tensor<unsigned> a, shared_tensor<unsigned> b, unsigned addend) {
        return zeros<unsigned>({16})
            .and_then([a](auto to) { return add(a, std::move(to)); })
            .and_then([b](auto to) { return add(b, std::move(to)); })
            .and_then([captured](auto to) { return add(captured, std::move(to)); })
            .and_then([addend](auto to) { return step(std::move(to), addend); });
    };
    const auto fast = compile(
        on,
        [sum](shared_tensor<unsigned> a, shared_tensor<unsigned> b, unsigned addend) {
            return sum(std::move(a), std::move(b), addend).and_then(download);
        },
        shared_input<unsigned>({16}), shared_input<unsigned>({16}), argument<unsigned>(1));
    // This graph is recorded for each launch.
    const auto called = compile(
        on,
        [sum](shared_tensor<unsigned> a, shared_tensor<unsigned> b) {
            return sum(std::move(a), std::move(b), 1).and_then(download).and_then([](auto landed) {
                return host_call([](numbers values) { return values; }, std::move(landed));
            });
        },
        shared_input<unsigned>({16}), shared_input<unsigned>({16}));
    unsigned addend = 1;
    for (const auto& a : {one, captured, other}) {
        for (const auto& b : {one, other, captured}) {
            numbers expected = sync(download(a), pool);
            const numbers more = sync(download(b), pool);
            for (std::size_t i = 0; i < 16; ++i) expected[i] += more[i] + 1000 + unsigned(i);
            for (int twice = 0; twice < 2; ++twice)
                EXPECT_EQ(sync(fast(a, b, addend), pool), stepped(expected, addend));
            ++addend;
            EXPECT_EQ(sync(fast(a, b, addend), pool), stepped(expected, addend));
            EXPECT_EQ(sync(called(a, b), pool), stepped(expected, 1));
        }
    }
}

TEST_P(graph_rerecordings, bind_one_host_buffer_to_two_inputs) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> a, tensor<unsigned> b, unsigned addend) {
            return add(shared_tensor<unsigned>(std::move(a)), std::move(b))
                .and_then([addend](auto to) { return step(std::move(to), addend); })
                .and_then(download);
        },
        host_input<unsigned>({8}), host_input<unsigned>({8}), argument<unsigned>(0));
    host_buffer<unsigned> filled(pool.next(), 8);
    std::ranges::copy(counting(8), filled.write().begin());
    const shared input(std::move(filled));
    for (unsigned addend = 0; addend < 4; ++addend) {
        numbers expected = counting(8);
        for (unsigned& each : expected) each *= 2;
        EXPECT_EQ(sync(fast(input, input, addend), pool), stepped(expected, addend));
    }
}

TEST_P(graph_rerecordings, nodes_are_disabled_while_a_launch_runs) {
    const auto fast = compile(
        on,
        [rounds = slow()](tensor<unsigned> x) {
            return named("first", step(std::move(x), 1, rounds))
                .and_then([](auto y) { return named("second", step(std::move(y), 2)); })
                .and_then(download);
        },
        host_input<unsigned>({1}));
    const numbers x{10};
    for (int round = 0; round < 100; ++round) {
        auto before = spawn(fast(x), pool);
        fast.disable("second");
        auto without = spawn(fast(x), pool);
        fast.enable("second");
        EXPECT_EQ(std::move(before).get()[0], 3 * 31 + 2u);
        EXPECT_EQ(std::move(without).get()[0], 31u);
    }
}

TEST_P(graph_rerecordings, an_update_that_fails_half_way_changes_nothing) {
    using function = std::function<any_operation<shared_tensor<unsigned>>(tensor<unsigned>)>;
    const shared_tensor<unsigned> weights(sync(upload(counting(4)), pool));
    const auto fast =
        compile(on, function([](tensor<unsigned> x) {
                    return any_operation<shared_tensor<unsigned>>(
                        step(std::move(x), 1).transform([](auto y) { return shared_tensor<unsigned>(std::move(y)); }));
                }),
                device_input<unsigned>({4}));
    // The memory is allocated only after the learning pass has shown what the function returns.
    const std::size_t too_much = on.memory().total_bytes;
    const function impossible([=](tensor<unsigned>) {
        return any_operation<shared_tensor<unsigned>>(
            zeros<unsigned>({too_much}).transform([weights](auto) { return weights; }));
    });
    expect_refused(errc::out_of_memory, {}, [&] { fast.update(impossible); });
    for (unsigned round = 0; round < 2; ++round) {
        auto y = sync(fast(sync(upload(counting(4, round)), pool)), pool);
        EXPECT_EQ(sync(download(std::move(y)), pool), stepped(counting(4, round), 1));
    }
}

TEST_P(graph_rerecordings, an_argument_that_takes_a_larger_block_of_the_host_is_refused) {
    const shared_tensor<unsigned> small(sluice::sync(upload(counting(4)), pool));
    const shared_tensor<unsigned> large(sluice::sync(upload(counting(100'000)), pool));
    const auto fast =
        compile(on, [=](bool is_large) { return download(is_large ? large : small); }, argument<bool>(false));
    EXPECT_EQ(sluice::sync(fast(false), pool), counting(4));
    for (int twice = 0; twice < 2; ++twice) {
        expect_refused(errc::graph_refused, {"download"}, [&] { sluice::sync(fast(true), pool); });
        EXPECT_EQ(sluice::sync(fast(false), pool), counting(4));
    }
}

TEST_P(graph_rerecordings, an_update_that_takes_a_larger_block_of_the_host_gets_one) {
    const shared_tensor<unsigned> small(sluice::sync(upload(counting(4)), pool));
    const shared_tensor<unsigned> large(sluice::sync(upload(counting(100'000)), pool));
    const auto of = [=](bool is_large) { return [=] { return download(is_large ? large : small); }; };
    const auto fast = compile(on, graph_options{.replicas = 2}, of(false));
    for (const bool is_large : {false, true, false, true}) {
        fast.update(of(is_large));
        for (int twice = 0; twice < 2; ++twice) EXPECT_EQ(sluice::sync(fast(), pool), counting(is_large ? 100'000 : 4));
    }
}

TEST_P(graph_rerecordings, with_another_kernel_are_used_for_one_launch) {
    int calls = 0;
    const auto fast = compile(
        on,
        [&calls](shared_tensor<unsigned> x) {
            const bool is_even = calls++ % 2 == 0;
            return zeros<unsigned>({4})
                .and_then([=](auto y) {
                    return is_even ? add(x, std::move(y))
                                   : with_context([=, to = std::move(y)](execution_context& context) mutable {
                                         relay_on(context.stream(), *x, to);
                                         return std::move(to);
                                     });
                })
                .and_then([=](auto y) { return step(std::move(y), is_even ? 7 : 8); })
                .and_then(download);
        },
        shared_input<unsigned>({4}));
    for (unsigned round = 0; round < 4; ++round) {
        const shared_tensor<unsigned> x(sluice::sync(upload(counting(4, round)), pool));
        const unsigned addend = calls % 2 == 0 ? 7 : 8;
        EXPECT_EQ(sluice::sync(fast(x), pool), stepped(counting(4, round), addend)) << round;
    }
}

TEST_P(graph_rerecordings, that_submit_other_commands_are_refused_with_the_commands_name) {
    const auto fast = compile(
        on,
        [](tensor<unsigned> x, bool is_twice) {
            return step(std::move(x), 1).and_then([=](tensor<unsigned> y) {
                return is_twice ? step(std::move(y), 1) : any_operation<tensor<unsigned>>(value(std::move(y)));
            });
        },
        device_input<unsigned>({4}), argument<bool>(false));
    const auto run = [&](bool is_twice) {
        auto x = sluice::sync(upload(counting(4)), pool);
        return sluice::sync(fast(std::move(x), is_twice).and_then(download), pool);
    };
    EXPECT_EQ(run(false), stepped(counting(4), 1));
    expect_refused(errc::graph_refused, {"step"}, [&] { run(true); });
    EXPECT_EQ(run(false), stepped(counting(4), 1));
}

TEST_P(graph_rerecordings, of_an_inner_graph_do_not_depend_on_other_launches) {
    const auto inner = compile(
        on, [](tensor<unsigned> x, unsigned addend) { return relayed_step(std::move(x), addend).and_then(download); },
        device_input<unsigned>({4}), argument<unsigned>(1));
    const auto outer = compile(
        on,
        [inner](tensor<unsigned> x, tensor<unsigned> y, unsigned addend) {
            return zip(inner(std::move(x), addend), inner(std::move(y), 2u));
        },
        host_input<unsigned>({4}), host_input<unsigned>({4}), argument<unsigned>(5));
    std::thread other([&] {
        round_robin own(on, 1);
        for (unsigned round = 0; round < 40; ++round) {
            auto up = sluice::sync(upload(counting(4)), own);
            EXPECT_EQ(sluice::sync(inner(std::move(up), round % 3), own), stepped(counting(4), round % 3));
        }
    });
    for (unsigned round = 0; round < 40; ++round) {
        const unsigned addend = round / 2 % 4;
        EXPECT_EQ(sluice::sync(outer(counting(4), counting(4, 9), addend), pool),
                  (std::tuple{stepped(counting(4), addend), stepped(counting(4, 9), 2)}));
    }
    other.join();
}

TEST_P(graph_rerecordings, of_an_inner_graph_use_places_of_the_outer_one) {
    const auto inner =
        compile(on, [](tensor<unsigned> x) { return relayed_step(std::move(x), 1); }, device_input<unsigned>({256}));
    const auto outer = compile(
        on, [inner](tensor<unsigned> x) { return inner(std::move(x)).and_then(download); },
        host_input<unsigned>({256}));
    EXPECT_GE(outer.memory_bytes(), inner.memory_bytes());
}

// After an argument has changed, the pool may return the previous launch's block to the recording for comparison.
TEST_P(graph_rerecordings, read_the_host_buffer_of_the_launch_after_the_previous_one_is_freed) {
    const auto fast = compile(
        on, [](tensor<unsigned> x, unsigned addend) { return step(std::move(x), addend).and_then(download); },
        host_input<unsigned>({64}), argument<unsigned>(0));
    std::vector<host_buffer<unsigned>> buffers;
    for (unsigned i = 0; i < 3; ++i) {
        buffers.emplace_back(pool.next(), 64);
        std::ranges::copy(counting(64, 100 * i), buffers.back().write().begin());
    }
    for (unsigned i = 0; i < 3; ++i)
        EXPECT_EQ(sluice::sync(fast(std::move(buffers[i]), 1u), pool), stepped(counting(64, 100 * i), 1)) << i;
}

TEST_P(graph_rerecordings, write_the_host_buffer_of_the_launch_while_the_previous_one_is_freed) {
    std::optional<host_buffer<unsigned>> before;
    bool drops = false;
    const auto fast = compile(
        on,
        [&](tensor<unsigned> x, unsigned addend) {
            if (drops) before.reset();
            return step(std::move(x), addend).and_then(download_buffer);
        },
        host_input<unsigned>({64}), argument<unsigned>(0));
    const auto launched = [&](unsigned from) { return sluice::sync(fast(counting(64, from), 1u), pool); };
    before = launched(0);
    drops = true;
    for (unsigned round = 1; round < 3; ++round) {
        const host_buffer<unsigned> now = launched(100 * round);
        EXPECT_EQ(numbers(now.read().begin(), now.read().end()), stepped(counting(64, 100 * round), 1)) << round;
    }
}

}  // namespace sluice::conformance::graph_rerecording_tests
