// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft on quantized numbers. What ONNX Runtime computes with tables or integers is here what its
// documentation says: dequantized, computed and quantized again. Passes then compute with integers where they can.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "function_table.hpp"

namespace sluice::nn::detail {
namespace {

using strings = std::vector<std::string>;

// Without those at the end that are left out.
strings trimmed(strings inputs) {
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    return inputs;
}

std::string dequantized(expanded_node& in, std::size_t first, named_attributes with = {}) {
    return in.apply("DequantizeLinear", trimmed({in.input(first), in.input(first + 1), in.input(first + 2)}),
                    std::move(with));
}
// The node's output 0, with the scale and zero point of these inputs.
void give_quantized(expanded_node& in, const std::string& value, std::size_t scale) {
    if (!in.has(scale + 1)) in.refuse_unsupported("leaves out the zero point of its output");
    in.give(0, "QuantizeLinear", {value, in.input(scale), in.input(scale + 1)});
}

template <bool IsProduct>
void elementwise(expanded_node& in) {
    in.require(7, 8, 1, {});
    const std::string a = dequantized(in, 0), b = dequantized(in, 3);
    give_quantized(in, in.apply(IsProduct ? "Mul" : "Add", {a, b}), 6);
}
void sigmoid(expanded_node& in) {
    in.require(4, 5, 1, {});
    give_quantized(in, in.apply("Sigmoid", {dequantized(in, 0)}), 3);
}
void leaky_relu(expanded_node& in) {
    in.require(4, 5, 1, {"alpha"});
    give_quantized(in, in.apply("LeakyRelu", {dequantized(in, 0)}, in.some({"alpha"})), 3);
}
// Before operator set 13 Softmax is of a matrix, which differs unless the axis is the last one.
void softmax(expanded_node& in) {
    in.require(4, 5, 1, {"axis", "opset"});
    const bool is_of_axis = in.integer("opset", 13) >= 13, is_read_so = in.opset() >= 13;
    if (is_of_axis != is_read_so && in.integer("axis", -1) != -1)
        in.refuse_unsupported("has an axis other than the last one, in a model of another version of Softmax");
    const std::string made = in.apply("Softmax", {dequantized(in, 0)}, {{"axis", in.integer("axis", -1)}});
    give_quantized(in, made, 3);
}

void require_channels_first(const expanded_node& in) {
    if (in.integer("channels_last", 0) != 0) in.refuse_unsupported("has its channels last");
}
void global_average_pool(expanded_node& in) {
    in.require(4, 5, 1, {"channels_last"});
    require_channels_first(in);
    give_quantized(in, in.apply("GlobalAveragePool", {dequantized(in, 0)}), 3);
}
void average_pool(expanded_node& in) {
    in.require(4, 5, 1,
               {"auto_pad", "ceil_mode", "channels_last", "count_include_pad", "kernel_shape", "pads", "strides"});
    require_channels_first(in);
    if (in.integer("ceil_mode", 0) != 0 && in.integer("count_include_pad", 0) != 0) {
        in.refuse_unsupported(
            "counts padding (count_include_pad) in windows that may reach over the end (ceil_mode), "
            "where ONNX Runtime differs from AveragePool");
    }
    const auto with = in.some({"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"});
    give_quantized(in, in.apply("AveragePool", {dequantized(in, 0)}, with), 3);
}

// Each part has the output's scale before they are joined.
void concat(expanded_node& in) {
    const std::size_t count = in.what().inputs.size();
    in.require(5, count, 1, {"axis"});
    if (count % 3 != 2) in.refuse("has a part without a scale or zero point");
    strings parts;
    for (std::size_t i = 2; i < count; i += 3)
        parts.push_back(in.apply("QuantizeLinear", {dequantized(in, i), in.input(0), in.input(1)}));
    in.give(0, "Concat", parts, in.some({"axis"}));
}

// a, its scale, its zero point, the same of b, c in i32; the output's scale and zero point, or f32.
void gemm(expanded_node& in) {
    in.require(6, 9, 1, {"alpha", "transA", "transB"});
    const float alpha = in.real("alpha", 1);
    const std::int64_t axis = in.integer("transB", 0) != 0 ? 0 : 1;
    strings factors = {dequantized(in, 0), dequantized(in, 3, {{"axis", axis}})};
    if (in.has(6)) {
        const constant* const c = in.constant_of(in.input(6));
        if (c == nullptr || c->shape.empty() || c->shape.size() > 2)
            in.refuse_unsupported("adds something that is no constant of one or two dimensions");
        const std::string scale = in.apply("Mul", {in.input(1), in.input(4)});
        factors.push_back(in.apply("DequantizeLinear", {in.input(6), scale},
                                   {{"axis", static_cast<std::int64_t>(c->shape.size()) - 1}}));
    }
    named_attributes with = in.some({"alpha", "transA", "transB"});
    if (alpha != 1) with["beta"] = alpha;
    if (!in.has(7)) {
        in.give(0, "Gemm", factors, with);
    } else {
        give_quantized(in, in.apply("Gemm", factors, with), 7);
    }
}

// --- products in f32 of quantized factors ---------------------------------------------------------------------------

// The product of the scales of rows that have one scale together. Another shape than that is refused when it runs.
std::string one_scale(expanded_node& in, const std::string& scale, bool is_one) {
    if (const constant* const known = in.constant_of(scale)) {
        if (known->elements() != 1) in.refuse_unsupported("has a scale for each row");
        is_one = known->shape.size() <= 1;
    }
    return is_one ? scale : in.apply("Reshape", {scale, in.integers({})});
}
void give_product(expanded_node& in, const strings& factors, const std::string& scale, const std::string& of_weights,
                  const std::string& bias) {
    const std::string sum = in.apply("MatMulInteger", trimmed(factors));
    const std::string real = in.apply("Cast", {sum}, {{"to", std::int64_t{1}}});
    const std::string scales = in.apply("Mul", {scale, of_weights});
    if (bias.empty()) {
        in.give(0, "Mul", {real, scales});
    } else {
        in.give(0, "Add", {in.apply("Mul", {real, scales}), bias});
    }
}
void integers_to_float(expanded_node& in) {
    in.require(4, 7, 1, {});
    const bool is_one = in.is_given_by(in.input(2), "DynamicQuantizeLinear");
    give_product(in, {in.input(0), in.input(1), in.input(4), in.input(5)}, one_scale(in, in.input(2), is_one),
                 in.input(3), in.input(6));
}
void dynamic_matmul(expanded_node& in) {
    in.require(3, 5, 1, {});
    const strings rows = in.apply_to_several(3, "DynamicQuantizeLinear", {in.input(0)});
    give_product(in, {rows[0], in.input(1), rows[2], in.input(3)}, rows[1], in.input(2), in.input(4));
}

// Those of 16 bits, in files of versions in which ONNX's own have only 8.
template <bool IsBack>
void same_operator(expanded_node& in) {
    in.require(2, 3, 1, {"axis"});
    in.give(0, IsBack ? "DequantizeLinear" : "QuantizeLinear", in.what().inputs, in.what().attributes);
}

}  // namespace

std::span<const known_function> quantized_functions() {
    static constexpr std::array<known_function, 13> all = {{
        {"DequantizeLinear", &same_operator<true>},
        {"DynamicQuantizeMatMul", &dynamic_matmul},
        {"MatMulIntegerToFloat", &integers_to_float},
        {"QGemm", &gemm},
        {"QLinearAdd", &elementwise<false>},
        {"QLinearAveragePool", &average_pool},
        {"QLinearConcat", &concat},
        {"QLinearGlobalAveragePool", &global_average_pool},
        {"QLinearLeakyRelu", &leaky_relu},
        {"QLinearMul", &elementwise<true>},
        {"QLinearSigmoid", &sigmoid},
        {"QLinearSoftmax", &softmax},
        {"QuantizeLinear", &same_operator<false>},
    }};
    return all;
}

}  // namespace sluice::nn::detail
