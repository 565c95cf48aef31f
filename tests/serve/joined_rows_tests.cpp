// SPDX-License-Identifier: Apache-2.0
// The answer to a request is that of its rows alone, also while others ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "nn/support/row_recipes.hpp"
#include "serve/support/fake_engine.hpp"
#include "serve/support/network_on_cpu.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve::joined_rows_tests {
namespace {

using nn::test_support::f32;
using nn::test_support::make_node;
using nn::test_support::tensor_of;
using ::testing::HasSubstr;
using testing::network_on_cpu;
using testing::test_call;

using ints = std::vector<std::int64_t>;

// x [batch, 4] -> y
nn::model network_of(std::vector<nn::node> nodes, std::map<std::string, nn::constant, std::less<>> constants) {
    nn::model made;
    made.path = "test.onnx";
    made.opsets = {{"", 18}};
    made.body.inputs = {f32("x", {testing::named("batch"), testing::of(4)})};
    made.body.outputs = {f32("y", {testing::named("batch"), testing::of(4)})};
    made.body.nodes = std::move(nodes);
    made.body.constants = std::move(constants);
    return made;
}

nn::node with(nn::node made, std::string name, nn::attribute value) {
    made.attributes.emplace(std::move(name), std::move(value));
    return made;
}

// Rows touch each other only where a number is above 5.
nn::model above_five() {
    return network_of({make_node("Sub", {"x", "five"}, {"a"}), make_node("Relu", {"a"}, {"b"}),
                       make_node("ReduceMax", {"b", "first"}, {"c"}), make_node("Sub", {"x", "c"}, {"y"})},
                      {{"five", tensor_of(std::vector<float>{5}, {1})}, {"first", tensor_of(ints{0}, {1})}});
}

// Divides where a number is above 1: images of bytes, says who wrote it.
nn::model bytes_or_shares() {
    nn::graph then, otherwise;
    then.nodes = {make_node("Div", {"x", "k"}, {"t"})};
    then.outputs = {f32("t", {testing::named("batch"), testing::of(4)})};
    otherwise.nodes = {make_node("Identity", {"x"}, {"e"})};
    otherwise.outputs = {f32("e", {testing::named("batch"), testing::of(4)})};
    nn::node choice = with(make_node("If", {"is_byte"}, {"y"}), "then_branch", std::make_shared<const nn::graph>(then));
    choice = with(std::move(choice), "else_branch", std::make_shared<const nn::graph>(otherwise));
    return network_of({with(make_node("ReduceMax", {"x"}, {"most"}), "keepdims", std::int64_t{0}),
                       make_node("Greater", {"most", "one"}, {"is_byte"}), std::move(choice)},
                      {{"one", tensor_of(std::vector<float>{1}, {})}, {"k", tensor_of(std::vector<float>{255}, {})}});
}

// One scale for the batch. Its output is a label.
nn::model quantized_label() {
    std::vector<std::int8_t> weights(16);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<std::int8_t>(17 * i % 31) - 15;
    return network_of(
        {make_node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"}), make_node("MatMulInteger", {"q", "w", "z"}, {"i"}),
         with(make_node("ArgMax", {"i"}, {"l"}), "axis", std::int64_t{1}),
         with(make_node("Cast", {"l"}, {"y"}), "to", std::int64_t{1})},
        {{"w", tensor_of(weights, {4, 4})}});
}

nn::model dense_layer() {
    std::vector<float> weights(16);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.125f * static_cast<float>(i % 5) - 0.25f;
    return network_of({make_node("MatMul", {"x", "w"}, {"a"}), make_node("Softplus", {"a"}, {"y"})},
                      {{"w", tensor_of(weights, {4, 4})}});
}

std::vector<float> row_number(int i) {
    const float scale = i % 2 == 0 ? 0.1f : std::pow(10.f, static_cast<float>(i % 7));
    return {scale, -2 * scale, 3 * scale, 0.5f * scale};
}

// The answers of requests that wait together, and of each alone. How many rows were computed together.
std::size_t expect_answers_as_alone(const nn::model& from, const model_config& config) {
    runtime machine;
    const auto network = std::make_shared<network_on_cpu>(machine.find("cpu"), from);
    const auto served = served_model::make("m", 1, network, config);
    network->most_rows = 0;
    for (int round = 0; round < 20; ++round) {
        std::vector<std::shared_ptr<test_call>> calls;
        for (int i = 0; i < 8; ++i) {
            calls.push_back(std::make_shared<test_call>(row_number(i), std::vector<std::size_t>{1, 4}));
            served->submit(calls.back());
        }
        for (int i = 0; i < 8; ++i) {
            const std::vector<float> got = calls[static_cast<std::size_t>(i)]->get();
            const auto alone = network->run({nn::any_tensor(row_number(i), {1, 4})});
            const auto wanted = alone.front().values<float>();
            EXPECT_EQ(got.size(), wanted.size());
            for (std::size_t k = 0; k < std::min(got.size(), wanted.size()); ++k)
                EXPECT_NEAR(got[k], wanted[k], 1e-5 * std::abs(wanted[k])) << "row " << i << ", number " << k;
        }
    }
    return network->most_rows;
}

TEST(joined_rows, rows_that_the_graph_keeps_apart_are_joined) {
    EXPECT_GT(expect_answers_as_alone(dense_layer(), {.max_delay_us = 5000}), 1U);
}

TEST(joined_rows, a_maximum_of_the_batch_that_few_rows_change_is_not_joined) {
    EXPECT_EQ(expect_answers_as_alone(above_five(), {.max_delay_us = 5000}), 1U);
}

TEST(joined_rows, a_condition_on_the_batch_is_not_joined) {
    EXPECT_EQ(expect_answers_as_alone(bytes_or_shares(), {.max_delay_us = 5000}), 1U);
}

TEST(joined_rows, one_scale_for_the_batch_is_not_joined_though_only_a_label_comes_out) {
    EXPECT_EQ(expect_answers_as_alone(quantized_label(), {.max_delay_us = 5000}), 1U);
}

bool are_near(const std::vector<float>& a, std::span<const float> b) {
    if (a.size() != b.size()) return false;
    float magnitude = 0;
    for (const float each : b)
        if (std::isfinite(each)) magnitude = std::max(magnitude, std::abs(each));
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool is_same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
        if (!is_same && !(std::abs(a[i] - b[i]) <= 1e-5f * magnitude)) return false;
    }
    return true;
}

// Each operator that gives f32 is served to clients whose rows differ by powers of ten; one row is not finite.
TEST(joined_rows, answers_of_each_operator_are_those_of_the_row_alone) {
    runtime machine;
    std::size_t joined = 0, one_by_one = 0;
    for (const nn::testing::row_recipe& each : nn::testing::row_recipes()) {
        nn::testing::row_network written(each.opset);
        written.give(each.write(written, "x").front());
        const auto network = std::make_shared<network_on_cpu>(machine.find("cpu"), written.finished());
        std::vector<std::vector<float>> rows;
        for (int i = 0; i < 6; ++i) rows.push_back(row_number(i));
        rows.push_back({std::numeric_limits<float>::quiet_NaN(), 1, std::numeric_limits<float>::infinity(), -2});
        std::vector<std::vector<nn::any_tensor>> alone;
        for (const auto& row : rows) alone.push_back(network->run({nn::any_tensor(row, {1, 4})}));
        if (alone.front().front().type() != io::dtype::f32) continue;
        const auto served = served_model::make("m", 1, network, {.max_delay_us = 2000});
        network->most_rows = 0;
        std::vector<std::shared_ptr<test_call>> calls;
        for (const auto& row : rows) {
            calls.push_back(std::make_shared<test_call>(row, std::vector<std::size_t>{1, 4}));
            served->submit(calls.back());
        }
        for (std::size_t i = 0; i < rows.size(); ++i)
            EXPECT_TRUE(are_near(calls[i]->get(), alone[i].front().values<float>())) << each.op << ", row " << i;
        ++(network->most_rows > 1 ? joined : one_by_one);
        EXPECT_TRUE(network->rows().is_along_first_axes() || network->most_rows == 1U) << each.op;
    }
    EXPECT_GT(joined, 50U);
    EXPECT_GT(one_by_one, 10U);
}

TEST(joined_rows, the_reason_names_the_operator_in_the_way) {
    runtime machine;
    const auto of = [&](const nn::model& from, const model_config& config) {
        return served_model::make("m", 1, std::make_shared<network_on_cpu>(machine.find("cpu"), from), config);
    };
    EXPECT_THAT(of(above_five(), {})->joins_because(),
                HasSubstr("node 2 (ReduceMax) computes one number from all rows"));
    EXPECT_THAT(of(quantized_label(), {})->joins_because(), HasSubstr("(DynamicQuantizeLinear) computes one scale"));
    EXPECT_THAT(of(dense_layer(), {})->joins_because(), HasSubstr("the graph shows that rows are independent"));
    // A promise is kept, and the reason says that it is one.
    const auto promised = of(above_five(), {.max_batch = 8});
    EXPECT_EQ(promised->max_batch(), 8U);
    EXPECT_THAT(promised->joins_because(), HasSubstr("the configuration says so; it is not proven"));
    EXPECT_THAT(promised->joins_because(), HasSubstr("(ReduceMax)"));
}

}  // namespace
}  // namespace sluice::serve::joined_rows_tests
