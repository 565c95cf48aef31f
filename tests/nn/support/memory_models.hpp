// SPDX-License-Identifier: Apache-2.0
// Networks with memory that tests write down: recurrent layers, a causal convolution, attention to what came before.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::test_support {

inline std::vector<float> some_numbers(std::size_t count, unsigned seed, float most = 1) {
    std::minstd_rand random(seed + 1);
    random.discard(10);
    std::uniform_real_distribution<float> any(-most, most);
    std::vector<float> made(count);
    for (float& each : made) each = any(random);
    return made;
}

inline model memory_model(std::string name, std::vector<value_info> inputs, std::vector<value_info> outputs,
                          std::vector<node> nodes) {
    model made;
    made.path = std::move(name);
    made.opsets = {{"", 17}};
    made.body.inputs = std::move(inputs);
    made.body.outputs = std::move(outputs);
    made.body.nodes = std::move(nodes);
    return made;
}

// One layer of 4 units from 3 numbers, with sequences of any length: x is [time, batch, 3], or with `layout` 1
// [batch, time, 3], as other frameworks have it. The state is h0 and hn, and of an LSTM c0 and cn.
inline model recurrent_model(const std::string& op, std::int64_t layout = 0) {
    const std::size_t gates = op == "RNN" ? 1 : op == "GRU" ? 3 : 4, units = 4, features = 3;
    const bool has_cell = op == "LSTM";
    const auto lengths = [&](std::vector<dimension> first, std::vector<dimension> other) {
        return layout == 0 ? std::move(first) : std::move(other);
    };
    const std::vector<dimension> state =
        lengths({of(1), named("batch"), of(units)}, {named("batch"), of(1), of(units)});
    node layer = make_node(op, {"x", "w", "r", "b", "", "h0"}, {"y", "hn"});
    layer.attributes = {{"hidden_size", static_cast<std::int64_t>(units)}, {"layout", layout}};
    std::vector<value_info> inputs = {
        f32("x", lengths({named("time"), named("batch"), of(features)}, {named("batch"), named("time"), of(features)})),
        f32("h0", state)};
    std::vector<value_info> outputs = {f32("y", lengths({named("time"), of(1), named("batch"), of(units)},
                                                        {named("batch"), named("time"), of(1), of(units)})),
                                       f32("hn", state)};
    if (has_cell) {
        layer.inputs.push_back("c0");
        layer.outputs.push_back("cn");
        inputs.push_back(f32("c0", state));
        outputs.push_back(f32("cn", state));
    }
    model made = memory_model(op + ".onnx", std::move(inputs), std::move(outputs), {std::move(layer)});
    made.body.constants = {{"w", tensor_of(some_numbers(gates * units * features, 1), {1, gates * units, features})},
                           {"r", tensor_of(some_numbers(gates * units * units, 2, 0.7f), {1, gates * units, units})},
                           {"b", tensor_of(some_numbers(2 * gates * units, 3, 0.5f), {1, 2 * gates * units})}};
    return made;
}

// Windows of 3 in each of 2 channels, over the 2 columns that came before: y is [batch, 2, time].
inline model causal_convolution() {
    node joined = make_node("Concat", {"cache_in", "x"}, {"all"});
    joined.attributes = {{"axis", std::int64_t{2}}};
    model made = memory_model(
        "causal.onnx",
        {f32("x", {named("batch"), of(2), named("time")}), f32("cache_in", {named("batch"), of(2), of(2)})},
        {f32("y", {named("batch"), of(2), named("time")}), f32("cache_out", {named("batch"), of(2), of(2)})},
        {joined, make_node("Conv", {"all", "w"}, {"y"}),
         make_node("Slice", {"all", "first", "last", "axis"}, {"cache_out"})});
    made.body.constants = {{"w", tensor_of(some_numbers(12, 4), {2, 2, 3})},
                           {"first", tensor_of<std::int64_t>({-2}, {1})},
                           {"last", tensor_of<std::int64_t>({std::numeric_limits<std::int64_t>::max()}, {1})},
                           {"axis", tensor_of<std::int64_t>({2}, {1})}};
    return made;
}

// y = softmax(x * keys^T) * keys over all x so far: the keys grow with each step. x is [1, 1, 4].
inline model growing_attention() {
    node joined = make_node("Concat", {"past_key_values.0.key", "x"}, {"present.0.key"});
    joined.attributes = {{"axis", std::int64_t{1}}};
    node turned = make_node("Transpose", {"present.0.key"}, {"turned"});
    turned.attributes = {{"perm", std::vector<std::int64_t>{0, 2, 1}}};
    return memory_model(
        "attention.onnx",
        {f32("x", {of(1), of(1), of(4)}), f32("past_key_values.0.key", {of(1), named("past"), of(4)})},
        {f32("y", {of(1), of(1), of(4)}), f32("present.0.key", {of(1), named("all"), of(4)})},
        {joined, turned, make_node("MatMul", {"x", "turned"}, {"scores"}),
         make_node("Softmax", {"scores"}, {"weights"}), make_node("MatMul", {"weights", "present.0.key"}, {"y"})});
}

// sum_out = sum_in + table[place], which refuses places beyond 3; y = 2 * sum_out.
inline model running_sum() {
    model made = memory_model(
        "sum.onnx", {{"place", io::dtype::i64, {{named("n")}}}, f32("sum_state_in", {named("n")})},
        {f32("y", {named("n")}), f32("sum_state_out", {named("n")})},
        {make_node("Gather", {"table", "place"}, {"one"}), make_node("Add", {"sum_state_in", "one"}, {"sum_state_out"}),
         make_node("Add", {"sum_state_out", "sum_state_out"}, {"y"})});
    made.body.constants = {{"table", tensor_of<float>({1, 10, 100, 1000}, {4})}};
    return made;
}

}  // namespace sluice::nn::test_support
