// SPDX-License-Identifier: Apache-2.0
// Operators that draw numbers: where these lie, what a seed does, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "nn/support/single_nodes.hpp"

namespace sluice::nn::random_operators_tests {
namespace {

using namespace test_support;
using enum errc;
using ::testing::Each;
using ::testing::ElementsAre;

std::vector<float> drawn(const std::string& op, const std::vector<any_tensor>& inputs, const attributes& with) {
    const std::vector<any_tensor> made = outputs_of({op, inputs, with});
    const auto values = made.at(0).values<float>();
    return {values.begin(), values.end()};
}
double mean_of(const std::vector<float>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

TEST(random_numbers, are_spread_evenly_between_two) {
    const attributes with{{"shape", wholes({50, 80})}, {"low", 2.0f}, {"high", 5.0f}, {"seed", 7.0f}};
    const std::vector<float> values = drawn("RandomUniform", {}, with);
    ASSERT_EQ(values.size(), 4000u);
    EXPECT_THAT(values, Each(::testing::AllOf(::testing::Ge(2.0f), ::testing::Lt(5.0f))));
    // The mean of 4000 such numbers has a standard deviation of 0.014.
    EXPECT_NEAR(mean_of(values), 3.5, 0.1);
}

TEST(random_numbers, are_around_their_mean) {
    const attributes with{{"shape", wholes({4000})}, {"mean", 1.0f}, {"scale", 2.0f}, {"seed", 7.0f}};
    const std::vector<float> values = drawn("RandomNormal", {}, with);
    ASSERT_EQ(values.size(), 4000u);
    const double mean = mean_of(values);
    EXPECT_NEAR(mean, 1, 0.2);
    double squares = 0;
    for (const float each : values) squares += (each - mean) * (each - mean);
    EXPECT_NEAR(std::sqrt(squares / 4000), 2, 0.15);
}

TEST(random_numbers, are_those_of_their_seed) {
    const auto of_seed = [](float seed) { return drawn("RandomUniformLike", {ones({3, 4})}, {{"seed", seed}}); };
    EXPECT_EQ(of_seed(1), of_seed(1));
    EXPECT_NE(of_seed(1), of_seed(2));
    // Without a seed each run has one of its own.
    const auto unseeded = [] { return drawn("RandomNormalLike", {ones({8})}, {}); };
    EXPECT_NE(unseeded(), unseeded());
}

TEST(random_numbers, have_the_type_of_the_attribute) {
    const auto type_of = [](std::int64_t number) {
        return outputs_of({"RandomUniformLike", {ones({2})}, {{"dtype", whole(number)}}}).at(0).type();
    };
    EXPECT_EQ(type_of(1), io::dtype::f32);
    EXPECT_EQ(type_of(10), io::dtype::f16);
    EXPECT_EQ(type_of(11), io::dtype::f64);
    EXPECT_EQ(type_of(16), io::dtype::bf16);
}

TEST(random_numbers, are_one_as_often_as_their_probability_says) {
    EXPECT_THAT(drawn("Bernoulli", {list<float>({0, 1, 0, 1})}, {}), ElementsAre(0, 1, 0, 1));
    const std::vector<float> even =
        drawn("Bernoulli", {any_tensor(std::vector<float>(4000, 0.25f), {4000})}, {{"seed", 3.0f}});
    EXPECT_NEAR(mean_of(even), 0.25, 0.04);
    EXPECT_EQ(outputs_of({"Bernoulli", {ones({2})}, {{"dtype", whole(9)}}}).at(0).type(), io::dtype::boolean);
}

TEST(random_numbers, of_classes_are_drawn_by_their_logarithms) {
    constexpr float never = -std::numeric_limits<float>::infinity();
    const any_tensor x(std::vector<float>{0, never, std::log(3.0f), never, 5, never}, {2, 3});
    const auto made =
        outputs_of({"Multinomial", {x}, {{"sample_size", whole(1000)}, {"dtype", whole(7)}, {"seed", 1.0f}}});
    EXPECT_THAT(made.at(0).shape(), ElementsAre(2, 1000));
    const auto values = made.at(0).values<std::int64_t>();
    EXPECT_NEAR(static_cast<double>(std::count(values.begin(), values.begin() + 1000, 2)), 750, 70);
    EXPECT_EQ(std::count(values.begin(), values.begin() + 1000, 1), 0);
    EXPECT_EQ(std::count(values.begin() + 1000, values.end(), 1), 1000);
}

TEST(random_numbers, are_refused_where_there_are_none) {
    expect_refusals({
        {"RandomUniform", {}, {}, bad_file, "has no shape"},
        {"RandomUniform", {}, {{"shape", wholes({-1})}}, bad_file, "has the length -1"},
        {"RandomUniform",
         {},
         {{"shape", wholes({1})}, {"low", 2.0f}, {"high", 1.0f}},
         bad_file,
         "has a distribution of 2.000000 and 1.000000"},
        {"RandomNormal",
         {},
         {{"shape", wholes({1})}, {"scale", -1.0f}},
         bad_file,
         "has a distribution of 0.000000 and -1.000000"},
        {"RandomNormal",
         {},
         {{"shape", wholes({1})}, {"dtype", whole(8)}},
         unsupported,
         "names the element type 8, which is not supported"},
        {"RandomNormalLike", {list({1})}, {}, unsupported, "makes elements of type i64"},
        {"Bernoulli", {list({1})}, {}, unsupported, "does not take i64"},
        {"Multinomial", {ones({3})}, {}, shape_mismatch, "draws 1 times from f32 [3]"},
        {"Multinomial", {ones({1, 3})}, {{"dtype", whole(1)}}, bad_file, "makes elements of type f32"},
    });
}

}  // namespace sluice::nn::random_operators_tests
