// SPDX-License-Identifier: Apache-2.0
// Numbers that are quantized, over shapes, axes, types and special values at random: what chains and products between
// quantizations give is what their nodes give one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/operator_families.hpp"

namespace sluice::nn::quantized_families_tests {
namespace {

using namespace test_support;

class quantized_families : public operator_families {
protected:
    template <typename T>
    std::vector<T> integers(std::size_t count, int low, int high) {
        std::vector<T> made(count);
        for (T& each : made)
            each = static_cast<T>(low + static_cast<int>(any(0, static_cast<std::size_t>(high - low))));
        return made;
    }
    template <typename T>
    std::vector<T> integers(std::size_t count) {
        return integers<T>(count, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    }
    std::vector<float> scales(std::size_t count) {
        std::vector<float> made(count);
        for (float& each : made) each = 0.001f * static_cast<float>(any(1, 90));
        return made;
    }

    template <typename T>
    static double quantized(double x, float scale, int zero) {
        const double exact = std::rint(static_cast<double>(static_cast<float>(x) / scale)) + zero;
        const double low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
        return exact > low ? std::min(exact, high) : low;  // NaN is the smallest
    }

    template <typename T>
    void expect_along_an_axis() {
        lengths shape;
        for (std::size_t d = any(1, 4); d-- > 0;) shape.push_back(any(1, 3) == 1 ? any(30, 70) : any(1, 5));
        const std::size_t axis = any(0, shape.size() - 1), length = shape[axis];
        std::size_t inner = 1;
        for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
        const any_tensor x = with_odd(normal(shape), false);
        const std::vector<float> scale = scales(length);
        const std::vector<T> zero = integers<T>(length);
        const attributes with = {
            {"axis", whole(static_cast<std::int64_t>(axis) - (maybe() ? 0 : std::int64_t(shape.size())))}};
        const any_tensor q =
            run_node({.op = "QuantizeLinear", .inputs = {x, list(scale), list(zero)}, .with = with}, on_).at(0);
        const any_tensor back =
            run_node({.op = "DequantizeLinear", .inputs = {q, list(scale), list(zero)}, .with = with}, on_).at(0);
        for (std::size_t i = 0; i < x.elements(); ++i) {
            const std::size_t at = i / inner % length;
            const double expected = quantized<T>(static_cast<double>(x.values<float>()[i]), scale[at], zero[at]);
            ASSERT_EQ(static_cast<double>(q.values<T>()[i]), expected)
                << "element " << i << " of " << x.values<float>()[i];
            const double wide = (expected - zero[at]) * static_cast<double>(scale[at]);
            ASSERT_EQ(back.values<float>()[i], static_cast<float>(wide)) << "element " << i;
        }
    }

    std::vector<any_tensor> outputs(const model& of, std::vector<any_tensor> inputs, std::size_t fused) {
        const network made = sync(make_network(of), on_);
        EXPECT_EQ(made.rounding().quantized, fused);
        return sync(made.run(std::move(inputs)), on_);
    }
    // The same network, where a constant is an input: no pass knows it.
    static model with_input(model from, const std::string& name) {
        from.body.inputs.push_back({name, from.body.constants.at(name).type, {}});
        from.body.constants.erase(name);
        return from;
    }
};

TEST_P(quantized_families, scales_along_an_axis) {
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        expect_along_an_axis<std::uint8_t>();
        expect_along_an_axis<std::int8_t>();
        expect_along_an_axis<std::uint16_t>();
        expect_along_an_axis<std::int16_t>();
        if (HasFatalFailure()) return;
    }
}

// Two numbers are dequantized, added, and quantized again: one command.
TEST_P(quantized_families, chains_between_quantizations) {
    for (const std::size_t count : {1u, 255u, 1'000u, 70'001u}) {
        model made;
        made.path = "chain.onnx";
        made.opsets = {{"", 17}};
        made.body.inputs = {{"a", io::dtype::u8, {}}, {"b", io::dtype::i8, {}}};
        made.body.outputs = {{"y", io::dtype::u8, {}}};
        made.body.constants = {{"sa", tensor_of<float>({0.031f}, {})}, {"za", tensor_of<std::uint8_t>({120}, {})},
                               {"sb", tensor_of<float>({0.017f}, {})}, {"zb", tensor_of<std::int8_t>({-3}, {})},
                               {"sy", tensor_of<float>({0.025f}, {})}, {"zy", tensor_of<std::uint8_t>({9}, {})}};
        made.body.nodes = {make_node("DequantizeLinear", {"a", "sa", "za"}, {"x"}),
                           make_node("DequantizeLinear", {"b", "sb", "zb"}, {"z"}), make_node("Add", {"x", "z"}, {"s"}),
                           make_node("Relu", {"s"}, {"r"}), make_node("QuantizeLinear", {"r", "sy", "zy"}, {"y"})};
        const auto a = integers<std::uint8_t>(count);
        const auto b = integers<std::int8_t>(count);
        const auto y = outputs(made, {list(a), list(b)}, 0).at(0);
        for (std::size_t i = 0; i < count; ++i) {
            const float sum = static_cast<float>(a[i] - 120) * 0.031f + static_cast<float>(b[i] + 3) * 0.017f;
            ASSERT_EQ(y.values<std::uint8_t>()[i], quantized<std::uint8_t>(sum < 0 ? 0.0 : double(sum), 0.025f, 9))
                << i;
        }
    }
}

struct dynamic_choices {
    std::size_t inputs, outputs;
    bool is_unsigned, is_by_column, has_bias, has_relu;
};

model dynamic_layer(const dynamic_choices& of, constant weights, constant zero, std::vector<float> steps,
                    std::vector<float> bias) {
    model made;
    made.path = "dynamic.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {{"x", io::dtype::f32, {}}};
    made.body.outputs = {{"y", io::dtype::f32, {}}};
    const std::size_t count = steps.size();
    made.body.constants = {{"w", std::move(weights)},
                           {"wz", std::move(zero)},
                           {"ws", tensor_of(steps, count == 1 ? lengths{} : lengths{count})},
                           {"b", tensor_of(bias, {bias.size()})}};
    std::vector<std::string> names = {"p"};
    if (of.has_bias) names.push_back("q");
    if (of.has_relu) names.push_back("r");
    names.back() = "y";
    std::vector<node>& nodes = made.body.nodes;
    nodes = {make_node("DynamicQuantizeLinear", {"x"}, {"x_q", "x_s", "x_z"}),
             make_node("MatMulInteger", {"x_q", "w", "x_z", "wz"}, {"i"}), make_node("Cast", {"i"}, {"f"}),
             make_node("Mul", {"x_s", "ws"}, {"s"}), make_node("Mul", {"f", "s"}, {names[0]})};
    nodes[2].attributes["to"] = std::int64_t{1};
    std::size_t at = 0;
    if (of.has_bias) {
        nodes.push_back(make_node("Add", {"b", names[at]}, {names[at + 1]}));
        ++at;
    }
    if (of.has_relu) nodes.push_back(make_node("Relu", {names[at]}, {names[at + 1]}));
    return made;
}

TEST_P(quantized_families, dynamic_products_are_one_command) {
    for (int round = 0; round < 80; ++round) {
        const dynamic_choices of{any(1, 3) == 1 ? any(200, 600) : any(1, 40),
                                 any(1, 3) == 1 ? any(60, 300) : any(1, 40),
                                 maybe(),
                                 maybe(),
                                 maybe(),
                                 maybe()};
        SCOPED_TRACE("round " + std::to_string(round) + ": " + std::to_string(of.inputs) + " x " +
                     std::to_string(of.outputs));
        const std::size_t count = of.inputs * of.outputs, columns = of.is_by_column ? of.outputs : 1;
        const constant weights = of.is_unsigned
                                     ? tensor_of(integers<std::uint8_t>(count, 5, 250), {of.inputs, of.outputs})
                                     : tensor_of(integers<std::int8_t>(count), {of.inputs, of.outputs});
        const lengths shape = columns == 1 ? lengths{} : lengths{columns};
        const constant zero = of.is_unsigned ? tensor_of(integers<std::uint8_t>(columns, 123, 132), shape)
                                             : tensor_of(std::vector<std::int8_t>(columns), shape);
        std::vector<float> bias(of.outputs);
        for (float& each : bias) each = 0.01f * static_cast<float>(any(0, 200)) - 1;
        const model made = dynamic_layer(of, weights, zero, scales(columns), bias);
        const any_tensor x =
            normal(maybe() ? lengths{any(1, 150), of.inputs} : lengths{any(1, 3), any(1, 60), of.inputs});
        const any_tensor y = outputs(made, {x}, 1).at(0);
        const any_tensor expected = outputs(with_input(made, "w"), {x, any_tensor(weights)}, 0).at(0);
        ASSERT_EQ(y.shape(), expected.shape());
        float largest = 0;
        for (const float each : expected.values<float>()) largest = std::max(largest, std::fabs(each));
        for (std::size_t i = 0; i < y.elements(); ++i)
            ASSERT_NEAR(y.values<float>()[i], expected.values<float>()[i], 2e-6f * (1 + largest)) << "element " << i;
    }
}

struct dynamic_filters {
    std::size_t groups, channels, filters, dimensions;  // channels and filters of one group
    bool is_unsigned, is_by_filter, has_bias, has_relu;

    std::size_t all() const { return groups * filters; }
    // Numbers of the filters, as they are added to images.
    lengths along_channels() const {
        lengths made(dimensions + 1, 1);
        made[0] = all();
        return made;
    }
};

model dynamic_convolution(const dynamic_filters& of, constant weights, constant zero, const std::vector<float>& steps,
                          const std::vector<float>& bias, attributes with) {
    model made = dynamic_layer({0, 0, of.is_unsigned, of.is_by_filter, of.has_bias, of.has_relu}, std::move(weights),
                               std::move(zero), {1}, bias);
    made.body.constants["ws"] = tensor_of(steps, steps.size() == 1 ? lengths{} : of.along_channels());
    made.body.constants["b"] = tensor_of(bias, of.along_channels());
    made.body.nodes[1].op = "ConvInteger";
    made.body.nodes[1].attributes = std::move(with);
    return made;
}

TEST_P(quantized_families, dynamic_convolutions_are_one_command) {
    for (int round = 0; round < 80; ++round) {
        const dynamic_filters of{maybe() ? 1 : any(1, 4),
                                 maybe() ? any(1, 5) : any(5, 40),
                                 any(1, 3) == 1 ? any(20, 60) : any(1, 20),
                                 any(1, 2),
                                 maybe(),
                                 maybe(),
                                 maybe(),
                                 maybe()};
        const auto axis = [&](std::size_t low, std::size_t high) {
            std::vector<std::int64_t> made(of.dimensions);
            for (std::int64_t& each : made) each = static_cast<std::int64_t>(any(low, high));
            return made;
        };
        const std::vector<std::int64_t> window = axis(1, 4), strides = axis(1, 3), dilations = axis(1, 3);
        std::vector<std::int64_t> pads = axis(0, 3);
        for (std::size_t d = 0; d < of.dimensions; ++d) pads.push_back(static_cast<std::int64_t>(any(0, 3)));
        lengths filter{of.all(), of.channels}, image{any(1, 3), of.groups * of.channels};
        for (std::size_t d = 0; d < of.dimensions; ++d) {
            filter.push_back(static_cast<std::size_t>(window[d]));
            image.push_back(any(10, of.dimensions == 1 ? 120 : 16));
        }
        SCOPED_TRACE("round " + std::to_string(round) + ": " + std::to_string(of.groups) + " groups of " +
                     std::to_string(of.channels) + " channels and " + std::to_string(of.filters) + " filters");
        const std::size_t columns = of.is_by_filter ? of.all() : 1;
        const constant weights = of.is_unsigned ? tensor_of(integers<std::uint8_t>(product(filter), 5, 250), filter)
                                                : tensor_of(integers<std::int8_t>(product(filter)), filter);
        const constant zero = of.is_unsigned ? tensor_of(integers<std::uint8_t>(columns, 123, 132),
                                                         columns == 1 ? lengths{} : lengths{columns})
                                             : tensor_of(std::vector<std::int8_t>(1), {});
        std::vector<float> bias(of.all());
        for (float& each : bias) each = 0.01f * static_cast<float>(any(0, 200)) - 1;
        const model made = dynamic_convolution(of, weights, zero, scales(columns), bias,
                                               {{"group", whole(static_cast<std::int64_t>(of.groups))},
                                                {"strides", wholes(strides)},
                                                {"dilations", wholes(dilations)},
                                                {"pads", wholes(pads)}});
        const any_tensor x = normal(image);
        const any_tensor y = outputs(made, {x}, 1).at(0);
        const any_tensor expected = outputs(with_input(made, "w"), {x, any_tensor(weights)}, 0).at(0);
        ASSERT_EQ(y.shape(), expected.shape());
        float largest = 0;
        for (const float each : expected.values<float>()) largest = std::max(largest, std::fabs(each));
        for (std::size_t i = 0; i < y.elements(); ++i)
            ASSERT_NEAR(y.values<float>()[i], expected.values<float>()[i], 2e-6f * (1 + largest)) << "element " << i;
    }
}

// What the pass does not know is left as it is: weights whose zero point takes them out of eight bits, a scale that is
// no constant, a sum that something else reads too.
TEST_P(quantized_families, other_dynamic_products_stay_nodes) {
    const dynamic_choices of{3, 2, true, false, true, true};
    const auto layer = [&](std::uint8_t zero) {
        return dynamic_layer(of, tensor_of<std::uint8_t>({0, 255, 7, 9, 250, 3}, {3, 2}),
                             tensor_of<std::uint8_t>({zero}, {}), {0.1f}, {1, 2});
    };
    const any_tensor x(std::vector<float>{1, -2, 3, 0.5f, 0, -1}, {2, 3});
    EXPECT_EQ(outputs(layer(128), {x}, 1).size(), 1u);
    EXPECT_EQ(outputs(layer(0), {x}, 0).size(), 1u);
    EXPECT_EQ(outputs(with_input(layer(128), "ws"), {x, number(0.1f)}, 0).size(), 1u);
    model with_two = layer(128);
    with_two.body.outputs.push_back({"i", io::dtype::i32, {}});
    EXPECT_EQ(outputs(with_two, {x}, 0).size(), 2u);
}

TEST_P(quantized_families, whole_quantized_products_compute_with_integers) {
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const bool is_convolution = maybe(), is_signed = maybe(), is_by_output = maybe(),
                   has_bias = is_convolution && maybe();
        const std::size_t groups = is_convolution ? any(1, 2) : 1, in = any(1, 9), out = groups * any(1, 20);
        const lengths filter = is_convolution ? lengths{out, in, any(1, 3), any(1, 3)} : lengths{in, out};
        const lengths image =
            is_convolution ? lengths{any(1, 2), groups * in, any(3, 9), any(3, 9)} : lengths{any(1, 70), in};
        const std::size_t scaled = is_by_output ? out : 1;
        const lengths per_output = is_by_output ? lengths{out} : lengths{};
        const auto zero = [&](int value) {
            return is_signed ? tensor_of<std::int8_t>({static_cast<std::int8_t>(value - 128)}, {})
                             : tensor_of<std::uint8_t>({static_cast<std::uint8_t>(value)}, {});
        };
        model made;
        made.path = "whole.onnx";
        made.opsets = {{"", 17}};
        const io::dtype type = is_signed ? io::dtype::i8 : io::dtype::u8;
        made.body.inputs = {{"x", type, {}}};
        made.body.outputs = {{"y", type, {}}};
        made.body.constants = {{"xs", tensor_of<float>({0.02f}, {})},
                               {"xz", zero(117)},
                               {"w", tensor_of(integers<std::int8_t>(product(filter)), filter)},
                               {"ws", tensor_of(scales(scaled), per_output)},
                               {"wz", tensor_of(std::vector<std::int8_t>(scaled), per_output)},
                               {"ys", tensor_of<float>({0.4f}, {})},
                               {"yz", zero(100)}};
        node only = make_node(is_convolution ? "QLinearConv" : "QLinearMatMul",
                              {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz"}, {"y"});
        if (has_bias) {
            made.body.constants.insert({"b", tensor_of(integers<std::int32_t>(out, -3000, 3000), {out})});
            only.inputs.push_back("b");
        }
        if (is_convolution) {
            only.attributes["group"] = static_cast<std::int64_t>(groups);
            only.attributes["pads"] = std::vector<std::int64_t>{1, 0, 1, 1};
        }
        made.body.nodes = {std::move(only)};
        const any_tensor x = is_signed ? any_tensor(integers<std::int8_t>(product(image)), image)
                                       : any_tensor(integers<std::uint8_t>(product(image)), image);
        const any_tensor y = outputs(made, {x}, 1).at(0);
        const any_tensor expected =
            outputs(with_input(made, "w"), {x, any_tensor(made.body.constants.at("w"))}, 0).at(0);
        ASSERT_EQ(y.shape(), expected.shape());
        std::size_t different = 0;
        for (std::size_t i = 0; i < y.elements(); ++i) {
            const auto at = [&](const any_tensor& of) {
                return is_signed ? int{of.values<std::int8_t>()[i]} : int{of.values<std::uint8_t>()[i]};
            };
            ASSERT_LE(std::abs(at(y) - at(expected)), 1) << "element " << i;
            different += at(y) != at(expected);
        }
        EXPECT_LE(different, y.elements() / 100 + 1);
    }
}

INSTANTIATE_TEST_SUITE_P(workers, quantized_families, ::testing::Values(1u, 3u));

}  // namespace
}  // namespace sluice::nn::quantized_families_tests
