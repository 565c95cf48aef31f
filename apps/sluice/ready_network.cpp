// SPDX-License-Identifier: Apache-2.0
#include "ready_network.hpp"

#include "network_file.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

nn::value_info rows_of(const char* name, std::size_t width) {
    return {name, io::dtype::f32, {{{.length = {}, .name = "batch"}, {.length = width, .name = {}}}}};
}

std::variant<nn::network, nn::plan> made(std::variant<nn::model, nn::mlp_model> from, scheduling_policy& pool) {
    if (nn::model* const graph = std::get_if<nn::model>(&from)) return sync(nn::make_network(std::move(*graph)), pool);
    return sync(nn::make_plan(std::move(std::get<nn::mlp_model>(from))), pool);
}

}  // namespace

loaded_network load_any_network(const std::filesystem::path& path, const nn::mlp_load_options& options) {
    if (is_onnx(path)) {
        if (options.hidden || options.output) {
            throw error(errc::invalid_argument,
                        "an ONNX file has its activations as nodes: leave out --activation and --output-activation");
        }
        nn::model graph = nn::load_onnx(path);
        const auto inputs = graph.body.inputs, outputs = graph.body.outputs;
        return {path, std::move(graph), inputs, outputs};
    }
    nn::mlp_model layers = nn::load_mlp(path, options);
    const std::size_t in = layers.in_features(), out = layers.out_features();
    return {path, std::move(layers), {rows_of("input", in)}, {rows_of("output", out)}};
}

ready_network::ready_network(loaded_network from, scheduling_policy& pool)
    : path_(std::move(from.path)),
      inputs_(std::move(from.inputs)),
      outputs_(std::move(from.outputs)),
      what_(made(std::move(from.what), pool)) {}

bool ready_network::is_host_input(std::size_t input) const {
    return network() != nullptr && network()->is_host_input(input);
}

std::vector<nn::any_tensor> ready_network::run(const std::vector<nn::any_tensor>& inputs,
                                               scheduling_policy& pool) const {
    if (network() != nullptr) return sync(network()->run(inputs), pool);
    std::vector<nn::any_tensor> outputs;
    with_call(inputs, [&](const auto& call) {
        if constexpr (std::is_same_v<decltype(sync(call(), pool)), std::vector<float>>) {
            const std::size_t rows = inputs.front().shape()[0];
            const std::vector<float> numbers = sync(call(), pool);
            outputs.emplace_back(numbers, std::vector{rows, rows == 0 ? 0 : numbers.size() / rows});
        }
    });
    return outputs;
}

void ready_network::require_rows(const std::vector<nn::any_tensor>& inputs) const {
    const std::size_t width = *inputs_.front().shape->back().length;
    const bool fits = inputs.size() == 1 && inputs.front().shape().size() == 2 && inputs.front().shape()[1] == width &&
                      inputs.front().type() == io::dtype::f32;
    if (fits) return;
    throw error(errc::shape_mismatch,
                path_.string() + ": the network takes f32 [batch, " + std::to_string(width) + "]" +
                    (inputs.size() == 1 ? ", and is given " + nn::to_string(inputs.front()) : std::string()));
}

}  // namespace sluice::app
