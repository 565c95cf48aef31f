// plan: a network whose weights are on a device, ready to run. Immutable; copies share the weights.
//
//     const nn::plan network = sync(nn::make_plan(nn::load_mlp("digits.safetensors")), pool);
//     auto logits = sync(upload(rows, {n, 64})
//                            .and_then([=](auto x) { return network.forward(std::move(x)); })
//                            .and_then(download), pool);
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/kernels/activation.hpp"
#include "sluice/nn/mlp_model.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::nn {

// A layer on the device: y = after(x * weight^T + bias).
struct plan_layer {
    shared_tensor<float> weight;               // [out features, in features]
    std::optional<shared_tensor<float>> bias;  // [out features]
    activation after;
    std::string name = {};  // of its commands in traces; a plan calls its layers "layer 1", "layer 2" ...

    plan_layer(shared_tensor<float> w, std::optional<shared_tensor<float>> b, activation a)
        : weight(std::move(w)), bias(std::move(b)), after(a) {}
};

class forward_operation;

class plan {
public:
    // Throws errc::invalid_argument for no layers. Use make_plan.
    explicit plan(std::vector<plan_layer> layers);

    std::size_t in_features() const noexcept { return (*layers_).front().weight->shape()[1]; }
    std::size_t out_features() const noexcept { return (*layers_).back().weight->shape()[0]; }
    const std::vector<plan_layer>& layers() const noexcept { return *layers_; }

    // The network's outputs [rows, out features] for inputs [rows, in features]. Throws errc::shape_mismatch
    // for inputs of another width, when submitted.
    forward_operation forward(tensor<float> inputs) const;

private:
    std::shared_ptr<const std::vector<plan_layer>> layers_;
};

class forward_operation : public operation_base<forward_operation> {
public:
    using output = tensor<float>;

    forward_operation(plan network, tensor<float> inputs) : network_(std::move(network)), inputs_(std::move(inputs)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const { return {.commands = network_.layers().size()}; }

private:
    plan network_;
    tensor<float> inputs_;
};

class make_plan_operation : public operation_base<make_plan_operation> {
public:
    using output = plan;

    explicit make_plan_operation(mlp_model model) : model_(std::move(model)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const;

private:
    mlp_model model_;
};

// Puts a network's weights on the context's device, once. The output may be used at once: work that reads
// the weights is ordered behind their upload.
inline auto make_plan(mlp_model model) { return make_plan_operation(std::move(model)); }

}  // namespace sluice::nn
