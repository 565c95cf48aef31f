// SPDX-License-Identifier: Apache-2.0
// What the passes of a GPU make of recurrent layers, seen in the steps; recurrent_exports_device_tests.cpp runs them.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nn/graph_of_model.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "nn/small_models.hpp"

namespace sluice::nn::recurrent_passes_tests {
namespace {

using namespace test_support;
using operators::recurrent_views;

constexpr std::size_t inputs = 3, hidden = 4;

node with(node made, const std::string& name, std::vector<std::int64_t> value) {
    made.attributes[name] = std::move(value);
    return made;
}

// A tensor "zeros" from the shape of x, and an LSTM that has it for both states.
model from_zeros(float zero = 0, float weight = 1) {
    model made;
    made.path = "made.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("steps"), named("rows"), of(inputs)})};
    made.body.outputs = {f32("y", {named(""), named(""), named(""), named("")})};
    const auto numbers = [](std::vector<std::size_t> shape, float each) {
        std::size_t count = 1;
        for (const std::size_t length : shape) count *= length;
        return tensor_of(std::vector<float>(count, each), std::move(shape));
    };
    made.body.constants = {{"w", numbers({1, 4 * hidden, inputs}, 1)},
                           {"r", numbers({1, 4 * hidden, hidden}, weight)},
                           {"one", tensor_of(std::vector<std::int64_t>{1}, {1})},
                           {"two", tensor_of(std::vector<std::int64_t>{2}, {1})},
                           {"zero", tensor_of(std::vector<std::int64_t>{0}, {1})},
                           {"width", tensor_of(std::vector<std::int64_t>{hidden}, {1})}};
    node concat = make_node("Concat", {"two", "rows", "width"}, {"all"});
    concat.attributes["axis"] = std::int64_t{0};
    node fill = make_node("ConstantOfShape", {"all"}, {"both"});
    fill.attributes["value"] = tensor_of(std::vector<float>{zero}, {1});
    node lstm = make_node("LSTM", {"x", "w", "r"}, {"y"});
    lstm.inputs.insert(lstm.inputs.end(), {"", "", "zeros", "zeros"});
    lstm.attributes["hidden_size"] = static_cast<std::int64_t>(hidden);
    made.body.nodes = {make_node("Shape", {"x"}, {"shape"}),
                       make_node("Gather", {"shape", "one"}, {"rows"}),
                       concat,
                       fill,
                       make_node("Slice", {"both", "zero", "one", "zero"}, {"zeros"}),
                       lstm};
    return made;
}

// The model outlives the steps.
detail::prepared_graph steps_of(const model& from) {
    static const operators::known_to_network known{own_operators{}};
    detail::prepared_graph made = detail::graph_of_model(from, known);
    detail::find_host_values(made);
    return made;
}

const detail::step& step_of(const detail::prepared_graph& in, const std::string& op) {
    for (const detail::step& each : in.steps)
        if (each.from->op == op) return each;
    throw std::runtime_error("no step " + op);
}

bool are_dropped(const model& from) {
    detail::prepared_graph made = steps_of(from);
    detail::drop_zero_states(made);
    const bool reads_shapes = detail::takes_shape_only(step_of(made, "LSTM"), 5);
    EXPECT_EQ(detail::takes_shape_only(step_of(made, "LSTM"), 6), reads_shapes);
    EXPECT_FALSE(detail::takes_shape_only(step_of(made, "LSTM"), 2));
    return reads_shapes;
}

bool is_computed(const model& from, const std::string& op) {
    detail::prepared_graph made = steps_of(from);
    detail::drop_zero_states(made);
    detail::find_shapes_only(made);
    return !step_of(made, op).gives_shape_only;
}

}  // namespace

TEST(recurrent_passes, drop_zeros_and_nothing_else) {
    EXPECT_TRUE(are_dropped(from_zeros()));
    EXPECT_FALSE(is_computed(from_zeros(), "ConstantOfShape"));
    EXPECT_FALSE(is_computed(from_zeros(), "Slice"));
    EXPECT_TRUE(is_computed(from_zeros(), "LSTM"));
    EXPECT_FALSE(are_dropped(from_zeros(-0.0f)));
    EXPECT_FALSE(are_dropped(from_zeros(0.5f)));
    EXPECT_TRUE(is_computed(from_zeros(0.5f), "ConstantOfShape"));
}

TEST(recurrent_passes, keep_zeros_that_a_weight_makes_no_number) {
    EXPECT_FALSE(are_dropped(from_zeros(0, std::numeric_limits<float>::infinity())));
    EXPECT_FALSE(are_dropped(from_zeros(0, std::numeric_limits<float>::quiet_NaN())));
    EXPECT_TRUE(is_computed(from_zeros(0, std::numeric_limits<float>::infinity()), "Slice"));
}

TEST(recurrent_passes, keep_zeros_that_others_read) {
    model made = from_zeros();
    made.body.outputs.push_back(f32("zeros", {named(""), named(""), named("")}));
    EXPECT_TRUE(are_dropped(made));  // by the layer
    EXPECT_TRUE(is_computed(made, "Slice"));
    EXPECT_TRUE(is_computed(made, "ConstantOfShape"));
}

TEST(recurrent_passes, keep_a_state_that_is_not_zeros_beside_one_that_is) {
    model made = from_zeros();
    made.body.inputs.push_back(f32("c", {of(1), named("rows"), of(hidden)}));
    made.body.nodes.back().inputs[6] = "c";
    EXPECT_FALSE(are_dropped(made));
    EXPECT_TRUE(is_computed(made, "Slice"));
}

namespace {

// Turned, an RNN, its directions away, and turned back.
model turned(std::vector<std::int64_t> before = {1, 0, 2}, std::vector<std::int64_t> after = {1, 0, 2}) {
    model made;
    made.path = "made.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("rows"), named("steps"), of(inputs)})};
    made.body.outputs = {f32("y", {named(""), named(""), named("")})};
    made.body.constants = {{"w", tensor_of(std::vector<float>(hidden * inputs, 1), {1, hidden, inputs})},
                           {"r", tensor_of(std::vector<float>(hidden * hidden, 1), {1, hidden, hidden})},
                           {"one", tensor_of(std::vector<std::int64_t>{1}, {1})}};
    node layer = make_node("RNN", {"t", "w", "r"}, {"a"});
    layer.attributes["hidden_size"] = static_cast<std::int64_t>(hidden);
    made.body.nodes = {with(make_node("Transpose", {"x"}, {"t"}), "perm", std::move(before)), layer,
                       make_node("Squeeze", {"a", "one"}, {"s"}),
                       with(make_node("Transpose", {"s"}, {"y"}), "perm", std::move(after))};
    return made;
}

struct seen {
    std::size_t steps;
    recurrent_views views;
};
seen turned_by_pass(const model& from) {
    detail::prepared_graph made = steps_of(from);
    detail::turn_recurrent_layers(made);
    const auto& layers = step_of(made, "RNN").layers;
    return {made.steps.size(), layers != nullptr ? layers->recurrent : recurrent_views{}};
}

}  // namespace

TEST(recurrent_passes, turn_what_is_turned_around_a_layer) {
    const seen all = turned_by_pass(turned());
    EXPECT_EQ(all.steps, 1U);
    EXPECT_TRUE(all.views.x_has_rows_first);
    EXPECT_EQ(all.views.y, recurrent_views::form::rows_steps);
    const seen other_input = turned_by_pass(turned({0, 1, 2}));
    EXPECT_EQ(other_input.steps, 2U);
    EXPECT_FALSE(other_input.views.x_has_rows_first);
    const seen other_output = turned_by_pass(turned({1, 0, 2}, {0, 2, 1}));
    EXPECT_EQ(other_output.steps, 3U);
    EXPECT_TRUE(other_output.views.x_has_rows_first);
    EXPECT_EQ(other_output.views.y, recurrent_views::form::as_the_node);
}

TEST(recurrent_passes, do_not_turn_what_others_read) {
    model made = turned();
    made.body.outputs.push_back(f32("t", {named(""), named(""), named("")}));
    made.body.outputs.push_back(f32("s", {named(""), named(""), named("")}));
    EXPECT_EQ(turned_by_pass(made).steps, 4U);
    model rows_first = turned();
    rows_first.body.nodes[1].attributes["layout"] = std::int64_t{1};
    EXPECT_EQ(turned_by_pass(rows_first).steps, 4U);
}

}  // namespace sluice::nn::recurrent_passes_tests
