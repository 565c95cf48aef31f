// SPDX-License-Identifier: Apache-2.0
#include "serve/mlp_network.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace sluice::serve {
namespace {

constexpr std::int64_t operator_set = 20;  // the first that has Gelu

nn::constant to_constant(const std::vector<float>& values, std::vector<std::size_t> shape) {
    return {io::dtype::f32, std::move(shape),
            std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()),
                                                values.size() * sizeof(float))};
}

std::string operator_of(activation what) {
    switch (what) {
        case activation::none: return {};
        case activation::relu: return "Relu";
        case activation::gelu: return "Gelu";
        case activation::sigmoid: return "Sigmoid";
        case activation::tanh: return "Tanh";
        case activation::softmax: return "Softmax";
    }
    return {};
}

nn::node make_node(std::string op, std::vector<std::string> inputs, std::string output) {
    nn::node made;
    made.name = output;
    made.op = std::move(op);
    made.inputs = std::move(inputs);
    made.outputs = {std::move(output)};
    return made;
}

// Gives the name of the layer's output.
std::string add_layer(nn::graph& to, const nn::dense_layer& layer, std::size_t number, std::string input) {
    const std::string name = "layer " + std::to_string(number);
    to.constants[name + " weight"] = to_constant(layer.weight, {layer.out_features, layer.in_features});
    std::vector<std::string> inputs{std::move(input), name + " weight"};
    if (!layer.bias.empty()) {
        to.constants[name + " bias"] = to_constant(layer.bias, {layer.out_features});
        inputs.push_back(name + " bias");
    }
    to.nodes.push_back(make_node("Gemm", std::move(inputs), name));
    to.nodes.back().attributes["transB"] = std::int64_t{1};
    const std::string op = operator_of(layer.after);
    if (op.empty()) return name;
    to.nodes.push_back(make_node(op, {name}, name + " " + op));
    return name + " " + op;
}

nn::value_info rows_of(std::string name, std::size_t features) {
    return {std::move(name), io::dtype::f32,
            std::vector<nn::dimension>{{.length = {}, .name = "batch"}, {.length = features, .name = {}}}};
}

}  // namespace

nn::model to_network(const nn::mlp_model& from, const std::filesystem::path& file) {
    nn::model made;
    made.path = file;
    made.opsets[""] = operator_set;
    made.body.inputs = {rows_of("input", from.in_features())};
    made.body.outputs = {rows_of("output", from.out_features())};
    std::string value = "input";
    for (std::size_t i = 0; i < from.layers.size(); ++i)
        value = add_layer(made.body, from.layers[i], i + 1, std::move(value));
    made.body.nodes.back().outputs.front() = "output";
    nn::check(made);
    return made;
}

}  // namespace sluice::serve
