// SPDX-License-Identifier: Apache-2.0
// A network from a file of either format, and the same on a device: what is measured and compared.
//
// An ONNX file becomes an nn::network, with any operators. A safetensors file becomes an nn::plan: a multi-layer
// perceptron with one input, f32 [batch, features], and one output.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/mlp_model.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/plan.hpp"
#include "sluice/op/and_then.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::app {

struct loaded_network {
    std::filesystem::path path;
    std::variant<nn::model, nn::mlp_model> what;
    std::vector<nn::value_info> inputs, outputs;
};

// Throws as nn::load_onnx and nn::load_mlp, and for activations that are given for an ONNX file.
loaded_network load_any_network(const std::filesystem::path& path, const nn::mlp_load_options& options);

// Immutable; copies share the weights. Thread safety: all members may be called on any thread.
class ready_network {
public:
    // Puts it on the policy's device; blocks. Throws as nn::make_network.
    ready_network(loaded_network from, scheduling_policy& pool);

    const std::vector<nn::value_info>& inputs() const noexcept { return inputs_; }
    const std::vector<nn::value_info>& outputs() const noexcept { return outputs_; }
    bool is_host_input(std::size_t input) const;
    // Of an ONNX file, else null.
    const nn::network* network() const noexcept { return std::get_if<nn::network>(&what_); }

    // The outputs for these inputs, all in host memory; blocks.
    std::vector<nn::any_tensor> run(const std::vector<nn::any_tensor>& inputs, scheduling_policy& pool) const;

    // Calls use(call), where each call() is an operation: the network once, from these inputs to outputs in host
    // memory. `call` may be copied, and be called on any thread.
    template <typename Use>
    void with_call(const std::vector<nn::any_tensor>& inputs, const Use& use) const {
        if (const nn::network* const graph = network()) {
            use([network = *graph, inputs] { return network.run(inputs); });
        } else {
            require_rows(inputs);
            use([plan = std::get<nn::plan>(what_), rows = inputs.front()] {
                return upload(rows.values<float>(), rows.host_owner(), shape{rows.shape()[0], rows.shape()[1]})
                    .and_then([plan](tensor<float> x) { return plan.forward(std::move(x)); })
                    .and_then(download);
            });
        }
    }

private:
    void require_rows(const std::vector<nn::any_tensor>& inputs) const;

    std::filesystem::path path_;
    std::vector<nn::value_info> inputs_, outputs_;
    std::variant<nn::network, nn::plan> what_;
};

}  // namespace sluice::app
