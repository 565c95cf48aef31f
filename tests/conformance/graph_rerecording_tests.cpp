// Compiled graphs that are recorded anew, for a launch or for another graph, where that is not plain: inside another
// graph, with one tensor at two places, while a launch runs, and when it fails half way.
#include <functional>

#include "conformance/expect_refused.hpp"
#include "conformance/graph_operations.hpp"

namespace sluice::conformance {
namespace {

using numbers = std::vector<unsigned>;

class graph_rerecordings : public conformance_test {
protected:
    // As the graphs below: each element three times, and the addend.
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

TEST_P(graph_rerecordings, of_an_inner_graph_with_a_result_on_the_host) {
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

TEST_P(graph_rerecordings, with_one_tensor_at_two_inputs) {
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
    // Recorded for each launch.
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

TEST_P(graph_rerecordings, with_one_host_buffer_at_two_inputs) {
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

TEST_P(graph_rerecordings, nodes_are_switched_while_a_launch_runs) {
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
    // No memory is taken before it has been learned what it returns.
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

}  // namespace sluice::conformance
