// Compiled graphs that change: arguments, nodes by name, another operation in their place.
#include <functional>
#include <stdexcept>

#include "conformance/graph_operations.hpp"

namespace sluice::conformance {
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

TEST_P(graph_updates, another_operation_in_its_place) {
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

// The first plan lets `c` have the bytes of `a`; the second operation needs both at once.
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

TEST_P(graph_updates, from_an_output_that_was_there_before_to_one_that_is_made) {
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

TEST_P(graph_updates, an_update_to_one_with_host_calls) {
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

TEST_P(graph_updates, a_copied_output_is_that_of_the_launch) {
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

}  // namespace
}  // namespace sluice::conformance
