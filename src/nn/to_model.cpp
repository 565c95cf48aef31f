// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/to_model.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"

namespace sluice::nn {
namespace {

constant constant_of(const std::vector<float>& values, std::vector<std::size_t> shape) {
    const auto bytes = std::as_bytes(std::span(values));
    return {io::dtype::f32, std::move(shape),
            std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
}

// ONNX's name of the operator; empty for none.
std::string operator_of(activation after) {
    switch (after) {
        case activation::none: return {};
        case activation::relu: return "Relu";
        case activation::gelu: return "Gelu";
        case activation::sigmoid: return "Sigmoid";
        case activation::tanh: return "Tanh";
        case activation::softmax: return "Softmax";
    }
    throw error(errc::invalid_argument, "a layer ends with an activation that is not known");
}

value_info rows_of(std::string name, std::size_t features) {
    return {std::move(name), io::dtype::f32, std::vector<dimension>{{{}, "batch"}, {features, {}}}};
}

}  // namespace

model to_model(const std::vector<mlp_layer>& layers, std::filesystem::path path) {
    if (layers.empty()) throw error(errc::invalid_argument, "to_model: the perceptron has no layers");
    constexpr std::int64_t opset = 20;  // the first with Gelu
    model made;
    made.path = std::move(path);
    made.opsets = {{"", opset}};
    graph& body = made.body;
    body.inputs = {rows_of("input", layers.front().in_features)};
    body.outputs = {rows_of("output", layers.back().out_features)};
    std::string value = "input";
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const mlp_layer& layer = layers[i];
        const std::string number = std::to_string(i + 1), label = layer.name.empty() ? "layer " + number : layer.name;
        const bool is_last = i + 1 == layers.size();
        const std::string after = operator_of(layer.after);
        const std::string sum = is_last && after.empty() ? "output" : "sum " + number;
        node product{label, {}, "Gemm", {value, "weight " + number}, {sum}, {{"transB", std::int64_t{1}}}};
        body.constants.emplace("weight " + number, constant_of(layer.weight, {layer.out_features, layer.in_features}));
        if (!layer.bias.empty()) {
            product.inputs.push_back("bias " + number);
            body.constants.emplace("bias " + number, constant_of(layer.bias, {layer.out_features}));
        }
        body.nodes.push_back(std::move(product));
        value = sum;
        if (after.empty()) continue;
        value = is_last ? "output" : "value " + number;
        body.nodes.push_back({label + " " + after, {}, after, {sum}, {value}, {}});
    }
    check(made);
    return made;
}

}  // namespace sluice::nn
