// SPDX-License-Identifier: Apache-2.0
// How operations compose, and where their outputs go.
#include <array>
#include <type_traits>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::operation_tests {
namespace {

// Otherwise the compiled backends would run everything eagerly without a sign of it.
static_assert(can_be_graph<decltype(upload(std::vector<float>()).and_then(download))>,
              "operations that can be copied run as graphs");

class operations : public conformance_test {
protected:
    round_robin pool{on, 3};
};
INSTANTIATE_TEST_SUITE_P(, operations, testing::ValuesIn(enrolled_backends()), backend_name);

using numbers = std::vector<unsigned>;

// A chain of steps whose length is known only at run time.
any_operation<tensor<unsigned>> steps(tensor<unsigned> x, unsigned from, unsigned upto) {
    if (from == upto) return value(std::move(x));
    return step(std::move(x), from).and_then([=](auto next) { return steps(std::move(next), from + 1, upto); });
}

}  // namespace

TEST_P(operations, a_value_is_available_at_once_and_submits_nothing) {
    single_stream one(on);
    const ticket before = one.next().issued();
    EXPECT_EQ(sluice::sync(value(42), one), 42);
    EXPECT_EQ(sluice::sync(value(std::string("text")), one), "text");
    EXPECT_EQ(sluice::sync(value(1, 2.5, std::string("three")), one), (std::tuple{1, 2.5, std::string("three")}));
    EXPECT_EQ(sluice::sync(value(), one), std::tuple<>());
    EXPECT_EQ(one.next().issued(), before);
}

TEST_P(operations, move_only_outputs_pass_through_all_combinators) {
    auto operation = value(std::make_unique<int>(5))
                         .and_then([](auto p) { return value(std::move(p), 1); })
                         .transform([](auto p, int plus) { return *p += plus, std::move(p); });
    EXPECT_EQ(*sync(std::move(operation), pool), 6);
}

TEST_P(operations, several_outputs_arrive_as_separate_arguments) {
    auto operation = value(1, 2).and_then([](int a, int b) { return value(a + b, a - b, a * b); });
    EXPECT_EQ(sync(std::move(operation).transform(
                       [](int sum, int difference, int product) { return std::array{sum, difference, product}; }),
                   pool),
              (std::array{3, -1, 2}));
}

TEST_P(operations, transform_may_return_nothing) {
    int seen = 0;
    auto operation = value(7).transform([&](int x) { seen = x; });
    static_assert(std::is_same_v<output_of<decltype(operation)>, std::tuple<>>);
    EXPECT_EQ(sync(std::move(operation).and_then([] { return value(8); }), pool), 8);
    EXPECT_EQ(seen, 7);
}

TEST_P(operations, transform_receives_handles_and_may_return_several) {
    auto operation = zeros<unsigned>({4, 2}).transform([](tensor<unsigned> x) {
        const auto columns = x.columns();
        return std::tuple(std::move(x), columns);
    });
    const auto [x, columns] = sync(std::move(operation), pool);
    EXPECT_EQ(columns, 2u);
    EXPECT_EQ(x.size(), 8u);
}

TEST_P(operations, zip_keeps_the_order_of_its_parts) {
    auto operation =
        zip(value(1), full<unsigned>({2}, 5), value(std::string("x")), upload(numbers{7}).and_then(download));
    const auto [one, fives, text, seven] = sync(std::move(operation), pool);
    EXPECT_EQ(one, 1);
    EXPECT_EQ(fives.size(), 2u);
    EXPECT_EQ(text, "x");
    EXPECT_EQ(seven, numbers{7});
}

TEST_P(operations, zip_submits_its_parts_from_left_to_right) {
    std::string order;
    const auto note = [&](char name) { return with_context([&order, name](execution_context&) { order += name; }); };
    sluice::sync(zip(note('a'), note('b'), zip(note('c'), note('d')), note('e')), pool);
    EXPECT_EQ(order, "abcde");
}

TEST_P(operations, an_operation_does_nothing_before_it_is_submitted) {
    single_stream one(on);
    const ticket before = one.next().issued();
    bool ran = false;
    auto operation = zeros<unsigned>({5}).and_then([&](auto x) { return ran = true, step(std::move(x), 1); });
    EXPECT_FALSE(ran);
    EXPECT_EQ(one.next().issued(), before);
    sync(std::move(operation), one);
    EXPECT_TRUE(ran);
}

TEST_P(operations, with_context_shows_the_stream_and_the_device) {
    single_stream one(on);
    auto operation = with_context([&](execution_context& context) {
        EXPECT_EQ(context.stream(), one.next());
        EXPECT_EQ(&context.device(), &on);
        EXPECT_EQ(&context.branch(), &context);  // this policy has only one stream
        return context.device().name();
    });
    EXPECT_EQ(sluice::sync(std::move(operation), one), GetParam().device);
}

TEST_P(operations, with_context_submits_the_operation_that_it_returns) {
    auto operation = with_context([](execution_context&) { return full<unsigned>({3}, 4); }).and_then(download);
    EXPECT_EQ(sync(std::move(operation), pool), numbers(3, 4));
}

TEST_P(operations, any_operation_hides_everything_but_the_output) {
    std::vector<any_operation<tensor<unsigned>>> several;
    several.push_back(full<unsigned>({2}, 1));
    several.push_back(upload(numbers{2, 2}));
    several.push_back(zeros<unsigned>({2}).and_then([](auto x) { return step(std::move(x), 3); }));
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(sync(std::move(several[i]).and_then(download), pool), numbers(2, i + 1));
}

TEST_P(operations, how_long_a_chain_is_may_be_decided_at_run_time) {
    for (const unsigned length : {0u, 1u, 100u}) {
        auto operation = full<unsigned>({10}, 1).and_then([=](auto x) { return steps(std::move(x), 0, length); });
        EXPECT_EQ(sync(std::move(operation).and_then(download), pool), numbers(10, after_steps(1, length)));
    }
}

TEST_P(operations, share_may_be_used_repeatedly_and_runs_once) {
    int ran = 0;
    const auto source = share(with_context([&](execution_context&) { return ++ran, full<unsigned>({2}, 9); }));
    for (int i = 0; i < 3; ++i) {
        auto copy_of_it = source;
        EXPECT_EQ(sluice::sync(std::move(copy_of_it).and_then(download), pool), numbers(2, 9));
    }
    EXPECT_EQ(ran, 1);
}

TEST_P(operations, sync_opens_pending_values_and_returns_the_rest) {
    auto x = sync(full<unsigned>({3}, 2), pool);
    static_assert(std::is_same_v<decltype(x), tensor<unsigned>>);
    auto downloaded = sync(download(std::move(x)), pool);
    static_assert(std::is_same_v<decltype(downloaded), numbers>);
    auto both = sync(zip(full<unsigned>({1}, 1).and_then(download), value(3)), pool);
    static_assert(std::is_same_v<decltype(both), std::tuple<numbers, int>>);
    EXPECT_EQ(both, (std::tuple{numbers{1}, 3}));
}

TEST_P(operations, sync_returns_in_every_wait_mode) {
    for (const wait_mode mode : {wait_mode::spin, wait_mode::yield, wait_mode::block}) {
        auto operation = full<unsigned>({100}, 1).and_then([&](auto x) { return step(std::move(x), 2, slow()); });
        EXPECT_EQ(sync(std::move(operation).and_then(download), pool, mode), numbers(100, 5)) << to_string(mode);
    }
}

TEST_P(operations, sync_on_runs_on_the_given_stream) {
    stream chosen = pool.next();
    auto operation = with_context(
        [&](execution_context& context) {
            EXPECT_EQ(context.stream(), chosen);
            EXPECT_EQ(context.branch().stream(), chosen);
        },
        branch_threshold);
    sync_on(zip(std::move(operation), full<unsigned>({5}, 1)), chosen);
    for (const wait_mode mode : {wait_mode::spin, wait_mode::yield, wait_mode::block}) {
        EXPECT_EQ(sync_on(full<unsigned>({5}, 1).and_then(download), chosen, mode), numbers(5, 1));
    }
}

TEST_P(operations, a_chain_stays_on_one_of_four_streams) {
    round_robin four(on, 4);
    std::vector<stream> all;
    for (int i = 0; i < 4; ++i) all.push_back(four.next());
    std::vector<ticket> before;
    for (const stream each : all) before.push_back(each.issued());
    std::vector<stream> seen;
    const auto noted = [&seen](auto x) {
        return with_context([&seen, x = std::move(x)](execution_context& context) mutable {
            seen.push_back(context.stream());
            return step(std::move(x), 1);
        });
    };
    sluice::sync(full<unsigned>({5}, 1).and_then(noted).and_then(noted).and_then(download), four);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0], seen[1]);
    std::size_t used = 0;
    for (std::size_t i = 0; i < all.size(); ++i) used += all[i].issued() != before[i] ? 1 : 0;
    EXPECT_EQ(used, 1u);
}

TEST_P(operations, round_robin_uses_its_streams_in_order) {
    std::array<command_queue*, 3> streams{};
    for (command_queue*& each : streams) each = &pool.next().queue();
    EXPECT_NE(streams[0], streams[1]);
    EXPECT_NE(streams[1], streams[2]);
    EXPECT_NE(streams[0], streams[2]);
    EXPECT_EQ(&pool.next().queue(), streams[0]);
    EXPECT_EQ(pool.size(), 3u);
}

TEST_P(operations, a_single_stream_is_always_the_same_and_exclusive) {
    single_stream one(on), two(on);
    EXPECT_EQ(one.next(), one.next());
    EXPECT_NE(one.next(), two.next());
}

TEST_P(operations, estimates_add_up_along_an_operation) {
    const auto uploaded = upload(counting<float>(1000));
    EXPECT_EQ(uploaded.estimate().bytes, 4000u);
    const auto both = zip(upload(counting<float>(1000)), zeros<float>({500}));
    EXPECT_EQ(both.estimate().bytes, 6000u);
    EXPECT_EQ(both.estimate().commands, 2u);
    EXPECT_EQ(any_operation<tensor<float>>(upload(counting<float>(10))).estimate().bytes, 40u);
    EXPECT_EQ(value(1).estimate().commands, 0u);
}

}  // namespace sluice::conformance::operation_tests
