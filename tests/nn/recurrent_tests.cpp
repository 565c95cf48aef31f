// SPDX-License-Identifier: Apache-2.0
// What `clip` limits in recurrent operators: the arguments of the gates' activations, and nothing else. One unit, in
// f32, f64 and f16, in one step and in two. ONNX Runtime gives the same numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/single_nodes.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::recurrent_tests {
namespace {

using namespace test_support;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// All weights are 1 for the input and 0 for the state. The arguments of all gates are the input, 5, limited to 1.
template <typename T>
single_node clipped(std::string op, std::size_t gates, std::size_t steps, std::vector<T> states) {
    const auto tensor = [](std::vector<std::size_t> shape, std::size_t count, float value) {
        return any_tensor(std::vector<T>(count, T(value)), std::move(shape));
    };
    single_node made{.op = std::move(op),
                     .inputs = {tensor({steps, 1, 1}, steps, 5), tensor({1, gates, 1}, gates, 1),
                                tensor({1, gates, 1}, gates, 0), any_tensor(), any_tensor()},
                     .with = {{"hidden_size", whole(1)}, {"clip", 1.0f}},
                     .opset = 14,
                     .outputs = 1 + states.size()};
    for (const T state : states) made.inputs.emplace_back(std::vector<T>{state}, std::vector<std::size_t>{1, 1, 1});
    return made;
}

template <typename T>
double number_of(const any_tensor& from) {
    return static_cast<double>(static_cast<float>(from.values<T>()[0]));
}

template <typename T>
void expect_limited_arguments(double tolerance) {
    for (std::size_t steps = 1; steps <= 2; ++steps) {
        double c = 3, h = 3;
        for (std::size_t t = 0; t < steps; ++t) {
            c = sigmoid(1) * c + sigmoid(1) * std::tanh(1);
            h = (1 - sigmoid(1)) * std::tanh(1) + sigmoid(1) * h;
        }
        const auto lstm = outputs_of(clipped<T>("LSTM", 4, steps, {T(0.0f), T(3.0f)}));
        EXPECT_NEAR(number_of<T>(lstm.at(2)), c, tolerance);
        EXPECT_NEAR(number_of<T>(lstm.at(1)), sigmoid(1) * std::tanh(c), tolerance);
        const auto gru = outputs_of(clipped<T>("GRU", 3, steps, {T(3.0f)}));
        EXPECT_NEAR(number_of<T>(gru.at(1)), h, tolerance);
        EXPECT_NEAR(number_of<T>(outputs_of(clipped<T>("RNN", 1, steps, {T(3.0f)})).at(1)), std::tanh(1), tolerance);
    }
}

TEST(recurrent_operators, clip_the_arguments_of_gates_and_not_the_cell_state) {
    expect_limited_arguments<float>(1e-6);
    expect_limited_arguments<double>(1e-6);
    expect_limited_arguments<half>(4e-3);
}

}  // namespace
}  // namespace sluice::nn::recurrent_tests
