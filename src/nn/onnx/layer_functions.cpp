// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft that are several of ONNX's own: activations with a bias, products and convolutions with
// an activation, norms of sums, embeddings.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "function_table.hpp"

namespace sluice::nn::detail {
namespace {

using strings = std::vector<std::string>;

// --- activations
// ------------------------------------------------------------------------------------------------------

void gelu(expanded_node& in) {
    in.require(1, 1, 1, {});
    in.give(0, "Gelu", {in.input(0)});
}
void bias_gelu(expanded_node& in) {
    in.require(2, 2, 1, {});
    in.give(0, "Gelu", {in.apply("Add", {in.input(0), in.input(1)})});
}
void fast_gelu(expanded_node& in) {
    in.require(1, 2, 1, {});
    const std::string x = in.has(1) ? in.apply("Add", {in.input(0), in.input(1)}) : in.input(0);
    in.give(0, "Gelu", {x}, {{"approximate", std::string("tanh")}});
}
void quick_gelu(expanded_node& in) {
    in.require(1, 1, 1, {"alpha"});
    in.give(0, "Swish", {in.input(0)}, {{"alpha", in.real("alpha", 1.702f)}});
}

// The activation of a fused operator, whose numbers are `numbers` in the order of the operator's own attributes.
void give_activated(expanded_node& in, const std::string& value, const std::vector<float>& numbers) {
    struct known {
        std::string_view name;
        std::vector<std::string> attributes;
    };
    static const std::array<known, 5> all = {
        {{"Relu", {}}, {"Sigmoid", {}}, {"Tanh", {}}, {"LeakyRelu", {"alpha"}}, {"HardSigmoid", {"alpha", "beta"}}}};
    const std::string name = in.text("activation", "");
    if (name == "Clip" && numbers.size() == 2 && in.opset() >= 11) {
        in.give(0, "Clip", {value, in.number(numbers[0]), in.number(numbers[1])});
        return;
    }
    for (const auto& [known_name, attributes] : all) {
        if (name != known_name) continue;
        named_attributes with;
        for (std::size_t i = 0; i < attributes.size() && i < numbers.size(); ++i) with[attributes[i]] = numbers[i];
        in.give(0, name, {value}, with);
        return;
    }
    in.refuse_unsupported("has the activation '" + name +
                          "'; Relu, Sigmoid, Tanh, LeakyRelu, HardSigmoid and, of f32, Clip are supported");
}

// --- products and convolutions
// ------------------------------------------------------------------------------------------

void fused_conv(expanded_node& in) {
    in.require(
        2, 4, 1,
        {"activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
    const auto with = in.some({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
    strings inputs = {in.input(0), in.input(1)};
    if (in.has(2)) inputs.push_back(in.input(2));
    const bool has_activation = in.what().attributes.contains("activation");
    const auto* const numbers = in.what().find<std::vector<float>>("activation_params");
    if (!has_activation && !in.has(3)) {
        in.give(0, "Conv", inputs, with);
        return;
    }
    std::string made = in.apply("Conv", inputs, with);
    if (in.has(3)) {
        if (!has_activation) {
            in.give(0, "Add", {made, in.input(3)});
            return;
        }
        made = in.apply("Add", {made, in.input(3)});
    }
    give_activated(in, made, numbers != nullptr ? *numbers : std::vector<float>());
}

void fused_gemm(expanded_node& in) {
    in.require(
        2, 3, 1,
        {"activation", "activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta", "transA", "transB"});
    const auto with = in.some({"alpha", "beta", "transA", "transB"});
    if (in.text("activation", "").empty()) {
        in.give(0, "Gemm", in.what().inputs, with);
        return;
    }
    std::vector<float> numbers;
    for (const std::string_view each : {"activation_alpha", "activation_beta"})
        if (const auto* const number = in.what().find<float>(each)) numbers.push_back(*number);
    give_activated(in, in.apply("Gemm", in.what().inputs, with), numbers);
}

// Of a constant the dimensions are known, else Einsum takes as many as there are.
void fused_matmul(expanded_node& in) {
    in.require(2, 2, 1, {"alpha", "transA", "transB", "transBatchA", "transBatchB"});
    if (in.integer("transBatchA", 0) != 0 || in.integer("transBatchB", 0) != 0)
        in.refuse_unsupported("multiplies along the first dimension");
    std::array<std::string, 2> factors = {in.input(0), in.input(1)};
    std::array<bool, 2> is_exchanged = {in.integer("transA", 0) != 0, in.integer("transB", 0) != 0};
    for (std::size_t i = 0; i < 2; ++i) {
        const constant* const known = in.constant_of(factors[i]);
        if (!is_exchanged[i] || known == nullptr || known->shape.size() < 2) continue;
        std::vector<std::int64_t> order(known->shape.size());
        for (std::size_t d = 0; d < order.size(); ++d) order[d] = static_cast<std::int64_t>(d);
        std::swap(order[order.size() - 2], order.back());
        factors[i] = in.apply("Transpose", {factors[i]}, {{"perm", order}});
        is_exchanged[i] = false;
    }
    const float alpha = in.real("alpha", 1);
    const bool is_plain = !is_exchanged[0] && !is_exchanged[1];
    const std::string equation =
        std::string(is_exchanged[0] ? "...ji," : "...ij,") + (is_exchanged[1] ? "...kj" : "...jk") + "->...ik";
    const named_attributes with = is_plain ? named_attributes() : named_attributes{{"equation", equation}};
    const std::string_view op = is_plain ? "MatMul" : "Einsum";
    const strings inputs = {factors[0], factors[1]};
    if (alpha == 1) {
        in.give(0, op, inputs, with);
    } else {
        in.give(0, "Mul", {in.apply(op, inputs, with), in.number(alpha)});
    }
}

// --- norms
// ------------------------------------------------------------------------------------------------------------

void simplified_norm(expanded_node& in) {
    in.require(2, 2, 2, {"axis", "epsilon", "stash_type"});
    if (in.wants(1)) in.refuse_unsupported("gives the factors of its rows");
    in.give(0, "RMSNormalization", {in.input(0), in.input(1)}, in.some({"axis", "epsilon", "stash_type"}));
}

// The sum of the inputs, which is the output 3 where it is wanted.
std::string sum_of_skip(expanded_node& in, std::size_t bias) {
    for (const std::size_t i : {1, 2})
        if (in.wants(i)) in.refuse_unsupported("gives means or factors of its rows");
    std::string sum = in.input(0);
    const strings others = in.has(bias) ? strings{in.input(bias), in.input(1)} : strings{in.input(1)};
    for (std::size_t i = 0; i < others.size(); ++i) {
        const bool is_given = i + 1 == others.size() && in.wants(3);
        sum = is_given ? in.give(3, "Add", {sum, others[i]}) : in.apply("Add", {sum, others[i]});
    }
    return sum;
}
void skip_norm(expanded_node& in) {
    in.require(3, 5, 4, {"epsilon"});
    strings inputs = {sum_of_skip(in, 4), in.input(2)};
    if (in.has(3)) inputs.push_back(in.input(3));
    in.give(0, "LayerNormalization", inputs, {{"axis", std::int64_t{-1}}, {"epsilon", in.real("epsilon", 1e-12f)}});
}
void skip_simplified_norm(expanded_node& in) {
    in.require(3, 4, 4, {"epsilon"});
    const std::string sum = sum_of_skip(in, 3);
    in.give(0, "RMSNormalization", {sum, in.input(2)},
            {{"axis", std::int64_t{-1}}, {"epsilon", in.real("epsilon", 1e-12f)}});
}

// ids, segments, the tables of words, positions and segments, scale, bias, mask, positions.
void embeddings(expanded_node& in) {
    in.require(7, 9, 3, {"epsilon", "mask_index_type"});
    if (in.wants(1)) in.refuse_unsupported("counts its mask");
    if (in.has(1) != in.has(4)) in.refuse("has segments without their table, or a table without segments");
    std::string positions;
    if (in.has(8)) {
        positions = in.apply("Gather", {in.input(3), in.input(8)});
    } else {
        const constant* const table = in.constant_of(in.input(3));
        if (table != nullptr && !table->shape.empty() && table->shape[0] == 1)
            in.refuse_unsupported("has the position of one token only");  // which Add would take for each
        const std::string length =
            in.apply("Gather", {in.apply("Shape", {in.input(0)}), in.integers({1})}, {{"axis", std::int64_t{0}}});
        positions = in.apply("Slice", {in.input(3), in.integers({0}), length, in.integers({0})});
    }
    std::string sum = in.apply("Gather", {in.input(2), in.input(0)});
    const bool has_segments = in.has(1);
    sum = !has_segments && in.wants(2) ? in.give(2, "Add", {sum, positions}) : in.apply("Add", {sum, positions});
    if (has_segments) {
        const std::string segments = in.apply("Gather", {in.input(4), in.input(1)});
        sum = in.wants(2) ? in.give(2, "Add", {sum, segments}) : in.apply("Add", {sum, segments});
    }
    in.give(0, "LayerNormalization", {sum, in.input(5), in.input(6)},
            {{"axis", std::int64_t{-1}}, {"epsilon", in.real("epsilon", 1e-12f)}});
}

}  // namespace

std::span<const known_function> layer_functions() {
    static constexpr std::array<known_function, 11> all = {{
        {"BiasGelu", &bias_gelu},
        {"EmbedLayerNormalization", &embeddings},
        {"FastGelu", &fast_gelu},
        {"FusedConv", &fused_conv},
        {"FusedGemm", &fused_gemm},
        {"FusedMatMul", &fused_matmul},
        {"Gelu", &gelu},
        {"QuickGelu", &quick_gelu},
        {"SimplifiedLayerNormalization", &simplified_norm, ""},
        {"SkipLayerNormalization", &skip_norm},
        {"SkipSimplifiedLayerNormalization", &skip_simplified_norm},
    }};
    return all;
}

}  // namespace sluice::nn::detail
