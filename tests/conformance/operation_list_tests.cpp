// SPDX-License-Identifier: Apache-2.0
// Lists of operations (zip of a vector), one of several outputs (first, last), and a look at them on their way (tap).
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "sluice/kernels/creation.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::operation_list_tests {
namespace {

CONFORMANCE_SUITE(operation_lists);

using floats = std::vector<float>;

auto filled(std::size_t count, float value) { return full<float>({count}, value).and_then(download); }

}  // namespace

TEST_P(operation_lists, give_a_vector_of_the_outputs_in_order) {
    round_robin pool(on, 3);
    std::vector<decltype(filled(1, 0))> parts;
    for (std::size_t i = 0; i < 20; ++i) parts.push_back(filled(i, float(i)));
    const std::vector<floats> got = sync(zip(std::move(parts)), pool);
    ASSERT_EQ(got.size(), 20u);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(got[i], floats(i, float(i)));
}

TEST_P(operation_lists, run_in_graphs_up_to_one_output) {
    round_robin pool(on, 3);
    std::vector<decltype(zeros<float>({1}))> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(zeros<float>({64}));
    auto operation = zip(std::move(parts)).and_then([](std::vector<tensor<float>> all) {
        tensor<float> kept = std::move(all[2]);
        return relu(std::move(kept)).and_then(download);
    });
    EXPECT_EQ(sync(std::move(operation), pool), floats(64, 0));
}

TEST_P(operation_lists, of_different_operations_are_lists_of_any_operation) {
    round_robin pool(on, 2);
    std::vector<any_operation<tensor<float>>> parts;
    parts.push_back(ones<float>({3}));
    parts.push_back(upload(floats{1, 2}).and_then(relu));
    parts.push_back(zip(ones<float>({1}), zeros<float>({4})).last());
    auto operation = zip(std::move(parts)).transform([](std::vector<tensor<float>> all) {
        std::vector<std::size_t> sizes;
        for (const auto& each : all) sizes.push_back(each.size());
        return sizes;
    });
    EXPECT_EQ(sync(std::move(operation), pool), (std::vector<std::size_t>{3, 2, 4}));
}

TEST_P(operation_lists, of_large_operations_wait_for_all_of_them) {
    round_robin pool(on, 4);
    const std::size_t count = std::size_t{2} << 20;  // 8 MiB: worth a stream of its own
    std::vector<decltype(full<float>({1}, 0))> parts;
    for (int i = 0; i < 6; ++i) parts.push_back(full<float>({count}, float(i)));
    const auto all = sluice::sync(zip(std::move(parts)).and_then(download), pool);
    ASSERT_EQ(all.size(), 6 * count);
    for (std::size_t i = 0; i < all.size(); i += 1001) ASSERT_EQ(all[i], float(i / count));
}

TEST_P(operation_lists, may_be_empty) {
    round_robin pool(on, 2);
    EXPECT_TRUE(sync(zip(std::vector<any_operation<int>>()), pool).empty());
}

TEST_P(operation_lists, may_recover_inside_them) {
    round_robin pool(on, 2);
    int attempts = 0;
    const auto part = [&attempts](int number) {
        return retry(3, [&attempts, number] {
            if (++attempts % 2 == 1) throw std::runtime_error("planned");
            return full<float>({2}, float(number)).and_then(download);
        });
    };
    std::vector<decltype(part(0))> parts;
    for (int i = 0; i < 3; ++i) parts.push_back(part(i));
    EXPECT_EQ(sync(zip(std::move(parts)), pool), (std::vector<floats>{{0, 0}, {1, 1}, {2, 2}}));
    EXPECT_EQ(attempts, 6);

    std::vector<decltype(part(0))> none;
    EXPECT_TRUE(sync(zip(std::move(none)), pool).empty());
}

TEST_P(operation_lists, release_the_earlier_outputs_when_one_fails) {
    round_robin pool(on, 2);
    std::vector<any_operation<tensor<float>>> parts;
    parts.push_back(ones<float>({1000}));
    parts.push_back(value(1).transform([](int) -> tensor<float> { throw std::runtime_error("planned"); }));
    parts.push_back(ones<float>({1000}));
    EXPECT_THROW(sluice::sync(zip(std::move(parts)), pool), std::runtime_error);
    on.synchronize();
    EXPECT_EQ(bytes_in_use(), 0u);
}

TEST_P(operation_lists, are_links_of_long_chains) {
    round_robin pool(on, 2);
    any_operation<int> chain = value(0);
    for (int i = 0; i < 20'000; ++i) {
        std::vector<any_operation<int>> both;
        both.push_back(value(1));
        both.push_back(std::move(chain));
        chain = zip(std::move(both)).transform([](std::vector<int> all) { return all[0] + all[1]; });
    }
    EXPECT_EQ(sync(std::move(chain), pool), 20'000);
}

TEST_P(operation_lists, are_used_once) {
    round_robin pool(on, 2);
    std::vector<decltype(value(1))> parts;
    parts.push_back(value(1));
    auto once = zip(std::move(parts));
    const stream home = pool.next();
    submit_to(home, std::move(once));
    expect_refused(errc::invalid_argument, {"zip"}, [&] { submit_to(home, std::move(once)); });
}

CONFORMANCE_SUITE(chosen_outputs);

TEST_P(chosen_outputs, are_the_first_and_the_last_and_the_others_are_released) {
    round_robin pool(on, 2);
    const auto three = [] { return zip(ones<float>({2}), zeros<int>({3}), arange<float>(0, 4)); };
    EXPECT_EQ(sync(three().first().and_then(download), pool), (floats{1, 1}));
    EXPECT_EQ(sync(first(three()).and_then(download), pool), (floats{1, 1}));
    EXPECT_EQ(sync(three().last().and_then(download), pool), (floats{0, 1, 2, 3}));
    EXPECT_EQ(sync(last(three()).and_then(download), pool), (floats{0, 1, 2, 3}));
    on.synchronize();
    EXPECT_EQ(bytes_in_use(), 0u);
}

TEST_P(chosen_outputs, of_an_operation_that_recovers) {
    round_robin pool(on, 2);
    int attempts = 0;
    auto operation = retry(2, [&attempts] {
        if (++attempts < 2) throw std::runtime_error("planned");
        return zip(value(std::string("a")), value(std::make_unique<int>(2)));
    });
    EXPECT_EQ(*sync(std::move(operation).last(), pool), 2);
}

CONFORMANCE_SUITE(taps);

TEST_P(taps, see_each_output_and_pass_it_on) {
    round_robin pool(on, 2);
    std::vector<std::size_t> sizes;
    const auto look = [&sizes](const tensor<float>& x, const tensor<int>& y) { sizes = {x.size(), y.size()}; };
    auto operation = zip(ones<float>({2}), zeros<int>({3})).tap(look).first().and_then(download);
    EXPECT_EQ(sync(std::move(operation), pool), (floats{1, 1}));
    EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 3}));
    EXPECT_EQ(sluice::sync(tap(ones<float>({1}), [](const tensor<float>&) { return 3; }).and_then(download), pool),
              floats{1});
}

TEST_P(taps, that_throw_stop_the_operation) {
    round_robin pool(on, 2);
    auto operation = ones<float>({2}).tap([](const auto&) { throw std::runtime_error("planned"); }).and_then(download);
    EXPECT_THROW(sluice::sync(std::move(operation), pool), std::runtime_error);
    on.synchronize();
    EXPECT_EQ(bytes_in_use(), 0u);
}

}  // namespace sluice::conformance::operation_list_tests
