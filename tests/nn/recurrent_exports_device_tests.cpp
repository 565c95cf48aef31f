// SPDX-License-Identifier: Apache-2.0
// Recurrent layers that begin with zeros, as exporters write them, on the default device, a GPU where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/precision_choice.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::recurrent_exports_device_tests {
namespace {

using namespace test_support;

constexpr std::size_t inputs = 6, hidden = 136;

std::vector<float> noise(std::size_t count, unsigned seed) {
    std::minstd_rand generator(seed);
    std::uniform_real_distribution<float> any(-0.5f, 0.5f);
    std::vector<float> made(count);
    for (float& each : made) each = any(generator);
    return made;
}

template <typename Value>
node with(node made, const std::string& name, Value value) {
    made.attributes[name] = std::move(value);
    return made;
}

// How the states come.
enum class zeros { none, of_shape, expanded, constant };

// Two layers of LSTM and one of GRU. The zeros of all are one tensor, cut into layers. `width`: of the zeros.
model layers(zeros how, std::size_t width = hidden, float value = 0) {
    model made;
    made.path = "zeros.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("steps"), named("rows"), of(inputs)})};
    made.body.outputs = {f32("y", {named(""), named(""), named(""), named("")}),
                         f32("last_c", {named(""), named(""), named("")})};
    const auto numbers = [](std::vector<std::size_t> shape, unsigned seed) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        return tensor_of(noise(count, seed), std::move(shape));
    };
    const auto integers = [](std::vector<std::int64_t> all) {
        const std::size_t count = all.size();
        return tensor_of(all, {count});
    };
    made.body.constants = {{"w", numbers({1, 4 * hidden, inputs}, 1)},
                           {"r", numbers({1, 4 * hidden, hidden}, 2)},
                           {"w2", numbers({1, 4 * hidden, hidden}, 3)},
                           {"r2", numbers({1, 4 * hidden, hidden}, 4)},
                           {"w3", numbers({1, 3 * hidden, hidden}, 5)},
                           {"r3", numbers({1, 3 * hidden, hidden}, 6)},
                           {"one", integers({1})},
                           {"layers", integers({2})},
                           {"width", integers({static_cast<std::int64_t>(width)})},
                           {"zero", integers({0})},
                           {"two", integers({2})},
                           {"zeros", tensor_of(std::vector<float>(5 * width, value), {1, 5, width})},
                           {"number", tensor_of(std::vector<float>{value}, {1, 1, 1})}};
    std::vector<node>& nodes = made.body.nodes;
    std::string first, second;
    if (how == zeros::of_shape || how == zeros::expanded) {
        nodes = {make_node("Shape", {"x"}, {"shape"}), make_node("Gather", {"shape", "one"}, {"rows"}),
                 with(make_node("Concat", {"layers", "rows", "width"}, {"all"}), "axis", std::int64_t{0})};
        if (how == zeros::of_shape)
            nodes.push_back(with(make_node("ConstantOfShape", {"all"}, {"both"}), "value",
                                 tensor_of(std::vector<float>{value}, {1})));
        else
            nodes.push_back(make_node("Expand", {"number", "all"}, {"both"}));
        nodes.push_back(make_node("Slice", {"both", "zero", "one", "zero"}, {"first"}));
        nodes.push_back(make_node("Slice", {"both", "one", "two", "zero"}, {"second"}));
        first = "first";
        second = "second";
    } else if (how == zeros::constant) {
        first = second = "zeros";
    }
    const auto add = [&](const char* op, const std::string& from, const char* w, const char* r, const std::string& h,
                         const std::string& c, const char* to, std::vector<std::string> more) {
        std::vector<std::string> given{from, w, r, "", "", h};
        if (std::string(op) == "LSTM") given.push_back(c);
        more.insert(more.begin(), to);
        node layer;
        layer.op = op;
        layer.inputs = given;
        layer.outputs = more;
        layer.attributes["hidden_size"] = static_cast<std::int64_t>(hidden);
        nodes.push_back(std::move(layer));
    };
    add("LSTM", "x", "w", "r", first, first, "a", {"", ""});
    nodes.push_back(make_node("Squeeze", {"a", "one"}, {"b"}));
    add("LSTM", "b", "w2", "r2", second, second, "c", {"last_h", "last_c"});
    nodes.push_back(make_node("Squeeze", {"c", "one"}, {"d"}));
    add("GRU", "d", "w3", "r3", second, "", "y", {""});
    return made;
}

std::vector<any_tensor> outputs_of(model made, std::size_t rows, precision what, round_robin& pool) {
    const network on = sync(make_network(std::move(made), {.precision = what}), pool);
    const any_tensor x(noise(7 * rows * inputs, 9), {7, rows, inputs});
    std::vector<any_tensor> outputs = sync(on.run({x}), pool);
    // Prepared, the same.
    const auto compiled = compile(pool, [&] { return on.run({x}); });
    const std::vector<any_tensor> again = sync(compiled(), pool);
    for (std::size_t i = 0; i < outputs.size(); ++i)
        EXPECT_TRUE(std::ranges::equal(outputs[i].values<float>(), again[i].values<float>()));
    return outputs;
}

struct exported {
    std::size_t units;
    std::string op, direction;
    bool turns_input, joins_directions, turns_output;
};
std::ostream& operator<<(std::ostream& to, const exported& of) {
    return to << of.units << " units, " << of.op << ", " << of.direction << ": " << of.turns_input
              << of.joins_directions << of.turns_output;
}

model exported_layer(const exported& how) {
    const std::size_t directions = how.direction == "bidirectional" ? 2 : 1, gates = how.op == "RNN"    ? 1
                                                                                     : how.op == "LSTM" ? 4
                                                                                                        : 3;
    model made;
    made.path = "exported.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("first"), named("second"), of(inputs)})};
    made.body.outputs = {f32("y", {})};
    made.body.outputs[0].shape.reset();
    // So small that rounding errors do not grow from step to step.
    std::vector<float> of_state = noise(directions * gates * how.units * how.units, 2);
    for (float& each : of_state) each /= std::sqrt(static_cast<float>(how.units));
    made.body.constants = {
        {"w", tensor_of(noise(directions * gates * how.units * inputs, 1), {directions, gates * how.units, inputs})},
        {"r", tensor_of(of_state, {directions, gates * how.units, how.units})},
        {"b", tensor_of(noise(directions * 2 * gates * how.units, 3), {directions, 2 * gates * how.units})},
        {"one", tensor_of(std::vector<std::int64_t>{1}, {1})},
        {"joined", tensor_of(std::vector<std::int64_t>{0, 0, -1}, {3})}};
    std::vector<node>& nodes = made.body.nodes;
    const auto turn = [&](const std::string& from, const std::string& to, std::vector<std::int64_t> order) {
        nodes.push_back(with(make_node("Transpose", {from}, {to}), "perm", std::move(order)));
    };
    if (how.turns_input) turn("x", "t", {1, 0, 2});
    node layer;
    layer.op = how.op;
    layer.inputs = {how.turns_input ? "t" : "x", "w", "r", "b"};
    layer.outputs = {how.joins_directions ? "a" : "y"};
    layer.attributes["hidden_size"] = static_cast<std::int64_t>(how.units);
    layer.attributes["direction"] = how.direction;
    if (how.op == "GRU") layer.attributes["linear_before_reset"] = std::int64_t{1};
    nodes.push_back(std::move(layer));
    if (!how.joins_directions) return made;
    const std::string joined = how.turns_output ? "j" : "y";
    if (directions == 2) {
        turn("a", "s", {0, 2, 1, 3});
        nodes.push_back(make_node("Reshape", {"s", "joined"}, {joined}));
    } else {
        nodes.push_back(make_node("Squeeze", {"a", "one"}, {joined}));
    }
    if (how.turns_output) turn("j", "y", {1, 0, 2});
    return made;
}

}  // namespace

TEST(exported_layers, give_what_a_cpu_gives) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    round_robin on_cpu(machine.find("cpu"), 1);
    for (const auto& [units, op] : {std::pair(20, "RNN"), {20, "GRU"}, {20, "LSTM"}, {136, "RNN"}, {136, "LSTM"}}) {
        for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
            for (unsigned bits = 0; bits < 8; ++bits) {
                const exported how{
                    static_cast<std::size_t>(units), op, direction, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
                if (how.turns_output && !how.joins_directions) continue;
                for (const auto& [first, second] : {std::pair{1, 7}, {7, 1}, {5, 9}, {9, 5}}) {
                    SCOPED_TRACE(::testing::Message() << how << ", " << first << " x " << second);
                    const auto steps = static_cast<std::size_t>(first), rows = static_cast<std::size_t>(second);
                    const any_tensor x(noise(steps * rows * inputs, 9), {steps, rows, inputs});
                    const network expecting = sync(make_network(exported_layer(how)), on_cpu);
                    const std::vector<any_tensor> expected = sync(expecting.run({x}), on_cpu);
                    for (const auto& [what, bound] : {std::pair{precision::f32, 1e-5}, {precision::f16, 5e-3}}) {
                        const network made = sync(make_network(exported_layer(how), {.precision = what}), pool);
                        const std::vector<any_tensor> got = sync(made.run({x}), pool);
                        ASSERT_EQ(got[0].shape(), expected[0].shape());
                        if (machine.default_device().kind() != device_kind::cpu) {
                            for (const network_step& each : made.steps())
                                EXPECT_NE(each.operators.front(), "Transpose") << each.name;
                        }
                        EXPECT_LE(difference_of(expected, got).relative, bound);
                        const auto compiled = compile(pool, [&] { return made.run({x}); });
                        EXPECT_LE(difference_of(expected, sync(compiled(), pool)).relative, bound);
                    }
                }
            }
        }
    }
}

TEST(zero_states, are_the_same_as_none) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    for (const precision what : {precision::f32, precision::f16, precision::bf16}) {
        const auto expected = outputs_of(layers(zeros::none), 5, what, pool);
        for (const zeros how : {zeros::of_shape, zeros::expanded, zeros::constant}) {
            SCOPED_TRACE(std::string(to_string(what)) + ", " + std::to_string(static_cast<int>(how)));
            const auto got = outputs_of(layers(how), 5, what, pool);
            for (std::size_t i = 0; i < got.size(); ++i) {
                EXPECT_EQ(got[i].shape(), expected[i].shape());
                EXPECT_TRUE(std::ranges::equal(got[i].values<float>(), expected[i].values<float>())) << i;
            }
        }
    }
}

TEST(zero_states, of_another_number_count) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    for (const precision what : {precision::f32, precision::f16}) {
        const auto without = outputs_of(layers(zeros::none), 5, what, pool);
        const auto expected = outputs_of(layers(zeros::constant, hidden, 0.25f), 5, what, pool);
        EXPECT_FALSE(std::ranges::equal(without[0].values<float>(), expected[0].values<float>()));
        for (const zeros how : {zeros::of_shape, zeros::expanded}) {
            const auto got = outputs_of(layers(how, hidden, 0.25f), 5, what, pool);
            EXPECT_TRUE(std::ranges::equal(got[0].values<float>(), expected[0].values<float>()));
        }
    }
}

TEST(zero_states, of_a_wrong_shape_are_refused) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    for (const zeros how : {zeros::of_shape, zeros::expanded, zeros::constant})
        for (const precision what : {precision::f32, precision::f16})
            EXPECT_THROW(outputs_of(layers(how, hidden + 1), 5, what, pool), error);
    EXPECT_THROW(outputs_of(layers(zeros::constant), 4, precision::f32, pool), error);  // they are for 5 rows
}

}  // namespace sluice::nn::recurrent_exports_device_tests
