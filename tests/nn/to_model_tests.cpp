// SPDX-License-Identifier: Apache-2.0
// to_model: perceptrons become networks of operators that compute the same.
#include "sluice/nn/to_model.hpp"

#include <gmock/gmock.h>

#include "sluice/nn/network.hpp"
#include "sluice/nn/to_layers.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::to_model_tests {
namespace {

using ::testing::ElementsAre;

std::vector<mlp_layer> layers_with(activation hidden, activation last) {
    std::vector<mlp_layer> made;
    made.push_back({2, 3, {1, 2, 3, 4, -5, 6}, {0.5f, -1, 2}, hidden, "first"});
    made.push_back({3, 2, {1, -1, 2, 0.25f, 3, -2}, {}, last});
    return made;
}

}  // namespace

TEST(to_model, is_the_reverse_of_to_layers) {
    using enum activation;
    for (const activation hidden : {none, relu, gelu, sigmoid, tanh}) {
        for (const activation last : {none, relu, softmax}) {
            const std::vector<mlp_layer> from = layers_with(hidden, last);
            const std::vector<mlp_layer> again = to_layers(to_model(from, "layers.safetensors"));
            ASSERT_EQ(again.size(), 2u);
            for (std::size_t i = 0; i < 2; ++i) {
                EXPECT_EQ(again[i].weight, from[i].weight);
                EXPECT_EQ(again[i].bias, from[i].bias);
                EXPECT_EQ(again[i].after, from[i].after);
            }
        }
    }
}

TEST(to_model, gives_a_network_that_runs) {
    runtime machine(runtime_options{.cuda = false});
    round_robin pool(machine.default_device(), 1);
    const model from = to_model(layers_with(activation::relu, activation::none), "layers.safetensors");
    const network made = sync(make_network(from), pool);
    EXPECT_EQ(made.inputs()[0].name, "input");
    EXPECT_EQ(made.outputs()[0].name, "output");
    // first: (1 + 2 + 0.5, 3 + 4 - 1, -5 + 6 + 2) = (3.5, 6, 3)
    const auto y = sync(made.run({any_tensor(std::vector<float>{1, 1}, {1, 2})}), pool);
    EXPECT_THAT(y.at(0).values<float>(), ElementsAre(3.5f - 6 + 6, 0.875f + 18 - 6));
}

TEST(to_model, refuses_a_perceptron_without_layers) { EXPECT_THROW(to_model({}, "none"), error); }

}  // namespace sluice::nn::to_model_tests
