// SPDX-License-Identifier: Apache-2.0
// The code in docs/adding_a_combinator.md.
#include <gtest/gtest.h>

#include <stdexcept>
#include <tuple>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::docs::adding_a_combinator_tests {
namespace {

// Notes the size of a tensor.
struct note_size {
    std::vector<std::size_t>* sizes;
    void operator()(const tensor<float>& x) const { sizes->push_back(x.size()); }
};
struct note_sum {
    std::vector<int>* sums;
    void operator()(int x, int y) const { sums->push_back(x + y); }
};
struct add {
    int operator()(int x, int y) const { return x + y; }
};

}  // namespace

TEST(adding_a_combinator, the_function_sees_the_output_and_the_output_is_passed_on) {
    runtime machine;
    single_stream pool(machine.default_device());
    std::vector<std::size_t> sizes;
    auto operation = tap(upload(std::vector<float>{1, 2, 3}), note_size{&sizes}).and_then(download);
    EXPECT_EQ(sync(std::move(operation), pool), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(sizes, std::vector<std::size_t>{3});
}

TEST(adding_a_combinator, several_outputs_are_separate_arguments) {
    runtime machine;
    single_stream pool(machine.default_device());
    std::vector<int> sums;
    EXPECT_EQ(sync(tap(value(2, 3), note_sum{&sums}).transform(add{}), pool), 5);
    EXPECT_EQ(sums, std::vector<int>{5});
}

TEST(adding_a_combinator, the_source_may_be_host_driven) {
    runtime machine;
    single_stream pool(machine.default_device());
    int attempts = 0;
    std::vector<int> sums;
    auto operation = retry(3, [&] {
        if (++attempts < 3) throw std::runtime_error("planned");
        return value(2, 3);
    });
    EXPECT_EQ(sync(tap(std::move(operation), note_sum{&sums}).transform(add{}), pool), 5);
    EXPECT_EQ(attempts, 3);
    EXPECT_EQ(sums, std::vector<int>{5});
}

TEST(adding_a_combinator, a_chain_of_them_takes_no_stack) {
    runtime machine;
    single_stream pool(machine.default_device());
    std::vector<int> sums;
    any_operation<std::tuple<int, int>> chain = value(2, 3);
    for (int i = 0; i < 100'000; ++i) chain = tap(std::move(chain), note_sum{&sums});
    EXPECT_EQ(sync(std::move(chain).transform(add{}), pool), 5);
    EXPECT_EQ(sums.size(), 100'000u);
}

}  // namespace sluice::docs::adding_a_combinator_tests
