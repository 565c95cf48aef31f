// SPDX-License-Identifier: Apache-2.0
// Networks with QuantizeLinear and DequantizeLinear: products between them are computed with integers, and give what
// the nodes give one by one.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::quantized_products_tests {
namespace {

using namespace test_support;

template <typename T>
std::vector<T> integers(std::size_t count, std::uint32_t seed, int low, int high) {
    std::vector<T> made(count);
    std::uint32_t state = seed;
    for (T& each : made) {
        state = state * 1664525u + 1013904223u;
        each = static_cast<T>(low + static_cast<int>((state >> 8) % static_cast<std::uint32_t>(high - low + 1)));
    }
    return made;
}

struct choices {
    bool is_signed = false;     // the activations
    bool is_by_channel = true;  // the weights' scales
    bool has_bias = true, has_relu = false, has_output_scale = true;
    bool is_transposed = true;  // of Gemm
};

void add_scale(model& to, const std::string& name, std::vector<float> scale, constant zero) {
    const std::size_t count = scale.size();
    to.body.constants.insert({name + "_scale", count == 1 ? tensor_of(scale, {}) : tensor_of(scale, {count})});
    to.body.constants.insert({name + "_zero", std::move(zero)});
}
constant zero_of(bool is_signed, int value) {
    return is_signed ? tensor_of<std::int8_t>({static_cast<std::int8_t>(value)}, {})
                     : tensor_of<std::uint8_t>({static_cast<std::uint8_t>(value)}, {});
}
node quantizing(const char* op, std::string from, const std::string& scale, std::string to,
                std::optional<std::int64_t> axis = {}) {
    node made = make_node(op, {std::move(from), scale + "_scale", scale + "_zero"}, {std::move(to)});
    if (axis) made.attributes["axis"] = *axis;
    return made;
}

// x, f32, quantized; then `op` with weights of this shape, whose outputs are counted along `axis`; then y.
model quantized(const std::string& op, std::vector<std::size_t> weights, std::size_t axis, const choices& how) {
    model made;
    made.path = "quantized.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {{"x", io::dtype::f32, {}}};
    made.body.outputs = {{"y", io::dtype::f32, {}}};
    const std::size_t outputs = weights[axis];
    std::size_t count = 1;
    for (const std::size_t each : weights) count *= each;
    const float x_scale = 0.031f;
    add_scale(made, "x", {x_scale}, zero_of(how.is_signed, how.is_signed ? -5 : 117));
    std::vector<float> steps(how.is_by_channel ? outputs : 1);
    for (std::size_t c = 0; c < steps.size(); ++c) steps[c] = 0.004f + 0.0007f * static_cast<float>(c % 5);
    add_scale(made, "w", steps,
              how.is_by_channel ? tensor_of(std::vector<std::int8_t>(outputs), {outputs}) : zero_of(true, 0));
    add_scale(made, "y", {0.05f}, zero_of(how.is_signed, how.is_signed ? 3 : 130));
    made.body.constants.insert({"w_q", tensor_of(integers<std::int8_t>(count, 3, -127, 127), std::move(weights))});
    std::vector<node>& nodes = made.body.nodes;
    nodes = {quantizing("QuantizeLinear", "x", "x", "x_q"), quantizing("DequantizeLinear", "x_q", "x", "x_f"),
             quantizing("DequantizeLinear", "w_q", "w", "w_f",
                        how.is_by_channel ? std::optional(static_cast<std::int64_t>(axis)) : std::nullopt)};
    node product = make_node(op, {"x_f", "w_f"}, {how.has_relu || how.has_output_scale ? "p" : "y"});
    if (how.has_bias) {
        for (float& each : steps) each *= x_scale;
        steps.resize(outputs, steps.front());
        add_scale(made, "b", steps, tensor_of(std::vector<std::int32_t>(outputs), {outputs}));
        made.body.constants.insert({"b_q", tensor_of(integers<std::int32_t>(outputs, 9, -3000, 3000), {outputs})});
        nodes.push_back(quantizing("DequantizeLinear", "b_q", "b", "b_f", 0));
        product.inputs.push_back("b_f");
    }
    if (op == "Gemm") product.attributes["transB"] = std::int64_t{how.is_transposed};
    nodes.push_back(std::move(product));
    if (how.has_relu) nodes.push_back(make_node("Relu", {"p"}, {how.has_output_scale ? "r" : "y"}));
    if (how.has_output_scale) {
        nodes.push_back(quantizing("QuantizeLinear", how.has_relu ? "r" : "p", "y", "y_q"));
        nodes.push_back(quantizing("DequantizeLinear", "y_q", "y", "y"));
    }
    return made;
}

class quantized_networks : public ::testing::Test {
protected:
    // Where the weights are an input, no pass applies.
    static model by_nodes(model from) {
        from.body.inputs.push_back({"w_q", io::dtype::i8, {}});
        from.body.constants.erase("w_q");
        return from;
    }
    std::vector<float> output(const network& of, std::vector<any_tensor> inputs) {
        const auto all = sync(of.run(std::move(inputs)), pool);
        return {all.at(0).values<float>().begin(), all.at(0).values<float>().end()};
    }
    void expect_same(const model& from, const any_tensor& x, bool has_output_scale = true) {
        const network fused = sync(make_network(from), pool);
        EXPECT_EQ(fused.rounding().quantized, 1u);
        const network nodes = sync(make_network(by_nodes(from)), pool);
        EXPECT_EQ(nodes.rounding().quantized, 0u);
        const std::vector<float> made = output(fused, {x});
        const std::vector<float> expected = output(nodes, {x, any_tensor(from.body.constants.at("w_q"))});
        ASSERT_EQ(made.size(), expected.size());
        const float step = has_output_scale ? 0.05f : 0;
        std::size_t different = 0;
        float largest = 0;
        for (std::size_t i = 0; i < made.size(); ++i) {
            largest = std::max(largest, std::abs(expected[i]));
            if (made[i] == expected[i]) continue;
            ++different;
            EXPECT_LE(std::abs(made[i] - expected[i]), step * 1.001f + 1e-5f * (1 + std::abs(expected[i]))) << i;
        }
        EXPECT_GT(largest, 0.5f);  // something was computed
        if (has_output_scale) {
            EXPECT_LE(different, made.size() / 200);  // those that are between two
        }
    }

    static any_tensor input(std::vector<std::size_t> shape) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        std::vector<float> values;
        for (const int each : integers<int>(count, 77, -4000, 4000))
            values.push_back(0.001f * static_cast<float>(each));
        return any_tensor(values, std::move(shape));
    }

    runtime machine{runtime_options{.cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

}  // namespace

TEST_F(quantized_networks, multiply_with_integers) {
    for (const bool is_signed : {false, true}) {
        for (const bool is_by_channel : {false, true}) {
            for (const bool has_relu : {false, true}) {
                const choices how{.is_signed = is_signed, .is_by_channel = is_by_channel, .has_relu = has_relu};
                expect_same(quantized("Gemm", {50, 37}, 0, how), input({70, 37}));
                choices plain = how;
                plain.is_transposed = false;
                expect_same(quantized("Gemm", {37, 50}, 1, plain), input({3, 37}));
                plain.has_bias = false;
                expect_same(quantized("MatMul", {37, 50}, 1, plain), input({2, 5, 37}));
            }
        }
    }
}

TEST_F(quantized_networks, convolve_with_integers) {
    for (const bool is_signed : {false, true}) {
        for (const bool has_bias : {false, true}) {
            const choices how{.is_signed = is_signed, .has_bias = has_bias, .has_relu = has_bias};
            model made = quantized("Conv", {12, 3, 3, 2}, 0, how);
            node& convolution = *std::ranges::find(made.body.nodes, "Conv", &node::op);
            convolution.attributes = {{"group", std::int64_t{2}},
                                      {"pads", std::vector<std::int64_t>{1, 2, 0, 1}},
                                      {"strides", std::vector<std::int64_t>{1, 2}}};
            expect_same(made, input({2, 6, 9, 11}));
            expect_same(quantized("Conv", {5, 4, 3}, 0, how), input({3, 4, 20}));
        }
    }
}

TEST_F(quantized_networks, give_numbers_where_nothing_quantizes_them) {
    for (const bool has_relu : {false, true}) {
        const choices how{.has_relu = has_relu, .has_output_scale = false};
        expect_same(quantized("Gemm", {50, 37}, 0, how), input({5, 37}), false);
    }
}

TEST_F(quantized_networks, saturate) {
    model made = quantized("Gemm", {20, 40}, 0, {});
    made.body.constants["y_scale"] = tensor_of<float>({0.001f}, {});
    const network fused = sync(make_network(made), pool);
    ASSERT_EQ(fused.rounding().quantized, 1u);
    const std::vector<float> y = output(fused, {input({30, 40})});
    EXPECT_EQ(*std::ranges::max_element(y), 125 * 0.001f);  // (255 - 130)
    EXPECT_EQ(*std::ranges::min_element(y), -130 * 0.001f);
    EXPECT_EQ(y, output(sync(make_network(by_nodes(made)), pool),
                        {input({30, 40}), any_tensor(made.body.constants.at("w_q"))}));
}

// Scales and zero points for which the integers would not do, or are not known, are left to the nodes.
TEST_F(quantized_networks, leave_the_rest_to_the_nodes) {
    const model plain = quantized("Gemm", {20, 40}, 0, {});
    const auto count = [&](const model& from) { return sync(make_network(from), pool).rounding().quantized; };
    EXPECT_EQ(count(plain), 1u);
    model made = plain;
    made.body.constants["x_scale"] = tensor_of<float>({0.0f}, {});
    EXPECT_EQ(count(made), 0u);
    made = plain;
    made.body.constants["w_scale"] = tensor_of(std::vector<float>(20, std::nanf("")), {20});
    EXPECT_EQ(count(made), 0u);
    made = plain;
    made.body.constants["w_zero"] = tensor_of(std::vector<std::int8_t>(20, 100), {20});  // -127 - 100 is no byte
    EXPECT_EQ(count(made), 0u);
    made = plain;
    std::ranges::find(made.body.nodes, "Gemm", &node::op)->attributes["alpha"] = 0.5f;
    EXPECT_EQ(count(made), 0u);
    made = plain;
    for (node& each : made.body.nodes)
        if (each.op == "DequantizeLinear" && each.inputs[0] == "x_q") each.inputs.pop_back();
    made.body.constants["x_zero"] = zero_of(false, 0);
    EXPECT_EQ(count(made), 0u);
    made = quantized("Conv", {8, 4, 3, 3}, 0, {.has_bias = false});
    EXPECT_EQ(count(made), 1u);
    made.body.constants["b"] = tensor_of(std::vector<float>(8, 1.0f), {1, 8});  // the operator refuses it
    std::ranges::find(made.body.nodes, "Conv", &node::op)->inputs.push_back("b");
    EXPECT_EQ(count(made), 0u);
    made = plain;
    made.body.outputs.push_back({"p", io::dtype::f32, {}});  // also what is not quantized yet
    const network with_two = sync(make_network(made), pool);
    EXPECT_EQ(with_two.rounding().quantized, 1u);
    const auto both = sync(with_two.run({input({4, 40})}), pool);
    for (std::size_t i = 0; i < both[0].elements(); ++i) {
        const float real = both[1].values<float>()[i];
        if (std::abs(real) < 6) {
            EXPECT_NEAR(both[0].values<float>()[i], real, 0.0251f);
        }
    }
}

// Two products read the same dequantized value, and so does another node.
TEST_F(quantized_networks, keep_a_dequantization_that_others_read) {
    model made = quantized("Gemm", {40, 40}, 0, {.has_output_scale = false});
    std::ranges::find(made.body.nodes, "Gemm", &node::op)->outputs = {"g"};
    made.body.nodes.push_back(make_node("Add", {"g", "x_f"}, {"y"}));
    expect_same(made, input({6, 40}), false);
}

TEST_F(quantized_networks, stay_as_they_are_in_other_precisions) {
    const model made = quantized("Gemm", {20, 40}, 0, {});
    const any_tensor x = input({4, 40});
    const std::vector<float> expected = output(sync(make_network(made), pool), {x});
    for (const precision each : {precision::bf16, precision::f16, precision::int8}) {
        const network other = sync(make_network(made, {.precision = each}), pool);
        EXPECT_EQ(other.rounding().quantized, 1u);
        EXPECT_EQ(other.rounding().rounded, 0u);
        EXPECT_TRUE(other.rounding().kept.empty());
        EXPECT_EQ(output(other, {x}), expected);
    }
}

TEST_F(quantized_networks, are_compiled_into_graphs) {
    const network made = sync(make_network(quantized("Conv", {12, 3, 3, 2}, 0, {})), pool);
    const any_tensor x = input({2, 3, 9, 11});
    const std::vector<float> expected = output(made, {x});
    const auto fast = compile(pool, [&] { return made.run({x}); });
    for (int i = 0; i < 3; ++i) {
        const auto again = sync(fast(), pool);
        EXPECT_TRUE(std::ranges::equal(again.at(0).values<float>(), expected));
    }
}

}  // namespace sluice::nn::quantized_products_tests
