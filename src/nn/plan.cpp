#include "sluice/nn/plan.hpp"

#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/op/named.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn {
namespace {

shared_tensor<float> put(std::vector<float> values, const shape& shape, execution_context& context) {
    return shared_tensor<float>(upload(std::move(values), shape).submit(context));
}

// Made once, so that a name costs a run some nanoseconds and no string.
std::vector<plan_layer> with_names(std::vector<plan_layer> layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].name.empty()) layers[i].name = "layer " + std::to_string(i + 1);
    }
    return layers;
}

}  // namespace

plan::plan(std::vector<plan_layer> layers)
    : layers_(std::make_shared<const std::vector<plan_layer>>(with_names(std::move(layers)))) {
    if (layers_->empty()) throw error(errc::invalid_argument, "a network has at least one layer", {"plan"});
}

forward_operation plan::forward(tensor<float> inputs) const { return {*this, std::move(inputs)}; }

tensor<float> forward_operation::submit(execution_context& context) && {
    tensor<float> x = std::move(inputs_);
    if (x.shape().rank() != 2 || x.columns() != network_.in_features()) {
        throw error(errc::shape_mismatch,
                    "the network takes [rows, " + std::to_string(network_.in_features()) + "], the input is " +
                        to_string(x.shape()),
                    {"forward", context.device().name()});
    }
    for (const plan_layer& layer : network_.layers()) {
        const detail::name_scope name(context, layer.name);
        tensor<float> y(context.stream(), {x.rows(), layer.weight->shape()[0]}, {"forward"});
        const tensor<float>* const bias = layer.bias ? &**layer.bias : nullptr;
        gemm(context.stream(), x, *layer.weight, bias, y, {.transpose_b = true, .after = layer.after});
        x = std::move(y);  // what it held is reused behind this layer
    }
    return x;
}

plan make_plan_operation::submit(execution_context& context) && {
    std::vector<plan_layer> layers;
    layers.reserve(model_.layers.size());
    for (dense_layer& layer : model_.layers) {
        auto weight = put(std::move(layer.weight), {layer.out_features, layer.in_features}, context);
        std::optional<shared_tensor<float>> bias;
        if (!layer.bias.empty()) bias = put(std::move(layer.bias), {layer.out_features}, context);
        layers.emplace_back(std::move(weight), std::move(bias), layer.after);
    }
    return plan(std::move(layers));
}

work_estimate make_plan_operation::estimate() const {
    return {2 * model_.layers.size(), model_.parameters() * sizeof(float)};
}

}  // namespace sluice::nn
