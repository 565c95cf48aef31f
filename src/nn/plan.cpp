// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/plan.hpp"

#include <algorithm>
#include <string>

#include "nn/fused_sizes.hpp"
#include "sluice/devices/replicate.hpp"
#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/matvec.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/op/named.hpp"

namespace sluice::nn {
namespace {

// Of networks wider than always_fused_width_on_gpu: there are blocks of them for every multiprocessor.
constexpr std::size_t fused_rows = 8192;
// Up to here the weights are all that a layer reads (bench/results, matvec).
constexpr std::size_t matvec_rows = 2;

// Smaller batches are not worth cutting up: each piece costs its own launches.
constexpr std::size_t least_bytes_for_pieces = std::size_t{4} << 20;
constexpr std::size_t least_rows_for_pieces = 1024;

// The name of a fused network's command in traces.
const std::string all_layers = "all layers";

template <typename T>
constexpr bool is_short = !std::same_as<T, float>;

template <typename T>
shared_tensor<T> put(std::vector<float> values, const shape& shape, execution_context& context) {
    if constexpr (is_short<T>) {
        std::vector<T> rounded(values.begin(), values.end());
        return shared_tensor<T>(upload(std::move(rounded), shape).submit(context));
    } else {
        return shared_tensor<T>(upload(std::move(values), shape).submit(context));
    }
}

// Created once, so that a name costs a run some nanoseconds and no string.
template <typename T>
std::vector<basic_plan_layer<T>> with_names(std::vector<basic_plan_layer<T>> layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].name.empty()) layers[i].name = "layer " + std::to_string(i + 1);
    }
    return layers;
}

// As one command, on devices where that pays: a GPU's kernel has 16-bit elements, a CPU's is for floats.
bool can_fuse(const std::vector<mlp_layer>& layers, const device& on, bool is_short) {
    std::size_t widest = 0;
    for (const mlp_layer& layer : layers) widest = std::max({widest, layer.in_features, layer.out_features});
    const bool has_inner_softmax = std::any_of(layers.begin(), layers.end() - 1,
                                               [](const auto& layer) { return layer.after == activation::softmax; });
    const bool is_gpu = on.kind() == device_kind::cuda;
    const bool has_kernel = is_gpu ? is_short && on.properties().compute_capability >= 80 : !is_short;
    return has_kernel && can_fuse_mlp(on.kind(), layers.size(), widest) && !has_inner_softmax;
}

template <typename T>
tensor<T> through(stream on, const basic_plan_layer<T>& layer, const tensor<T>& x) {
    tensor<T> y(on, {x.rows(), layer.weight->rows()}, {"forward"});
    const tensor<T>* const bias = layer.bias ? &**layer.bias : nullptr;
    if constexpr (is_short<T>) {
        // Softmax is for floats.
        const activation after = layer.after == activation::softmax ? activation::none : layer.after;
        if (x.rows() >= 1 && x.rows() <= matvec_rows) {
            matvec(on, x, *layer.weight, bias, y, after);
        } else {
            gemm(on, x, *layer.weight, bias, y, {.transpose_b = true, .after = after});
        }
        if (layer.after == activation::softmax) {
            tensor<float> exact(on, y.shape(), {"forward"});
            cast(on, y, exact);
            softmax(on, exact);
            cast(on, exact, y);
        }
    } else {
        gemm(on, x, *layer.weight, bias, y, {.transpose_b = true, .after = layer.after});
    }
    return y;
}

}  // namespace

std::vector<std::size_t> pieces_of_batch(std::size_t rows, std::size_t bytes_of_row) {
    if (rows < least_rows_for_pieces || rows * bytes_of_row < least_bytes_for_pieces) return {rows};
    const std::size_t last = rows / 16;
    return {rows - 4 * last, 3 * last, last};
}

template <detail::plan_element T>
basic_plan<T>::basic_plan(std::vector<basic_plan_layer<T>> layers, std::optional<packed_mlp<T>> fused)
    : layers_(std::make_shared<const std::vector<basic_plan_layer<T>>>(with_names(std::move(layers)))),
      fused_(std::move(fused)) {
    if (layers_->empty()) throw error(errc::invalid_argument, "a network has at least one layer", {"plan"});
}

template <detail::plan_element T>
plan_route basic_plan<T>::route(std::size_t rows) const noexcept {
    if (!fused_) return plan_route::layers;
    const bool pays = is_short<T> ? fused_->form().width <= always_fused_width_on_gpu || rows >= fused_rows
                                  : fused_->image().size() <= most_fused_bytes_on_cpu || rows <= fused_rows_on_cpu;
    return pays ? plan_route::fused : plan_route::layers;
}

template <detail::plan_element T>
tensor<T> forward_operation<T>::submit(execution_context& context) && {
    tensor<T> x = std::move(inputs_);
    if (x.shape().rank() != 2 || x.columns() != network_.in_features()) {
        throw error(errc::shape_mismatch,
                    "the network takes [rows, " + std::to_string(network_.in_features()) + "], the input is " +
                        to_string(x.shape()),
                    {"forward", context.device().name()});
    }
    if (network_.route(x.rows()) == plan_route::fused) {
        const sluice::detail::name_scope name(context, all_layers);
        return fused_mlp(std::move(x), *network_.fused()).submit(context);
    }
    for (const basic_plan_layer<T>& layer : network_.layers()) {
        const sluice::detail::name_scope name(context, layer.name);
        x = through(context.stream(), layer, x);  // its memory is reused after this layer
    }
    return x;
}

template <detail::plan_element T>
basic_plan<T> make_plan_operation<T>::submit(execution_context& context) && {
    std::optional<packed_mlp<T>> fused;
    if (!from_.empty() && can_fuse(from_, context.device(), is_short<T>)) fused = pack_mlp<T>(from_).submit(context);
    std::vector<basic_plan_layer<T>> layers;
    layers.reserve(from_.size());
    for (mlp_layer& layer : from_) {
        auto weight = put<T>(std::move(layer.weight), {layer.out_features, layer.in_features}, context);
        std::optional<shared_tensor<T>> bias;
        if (!layer.bias.empty()) bias = put<T>(std::move(layer.bias), {layer.out_features}, context);
        layers.emplace_back(std::move(weight), std::move(bias), layer.after);
    }
    return basic_plan<T>(std::move(layers), std::move(fused));
}

template <detail::plan_element T>
auto replicate_plan_operation<T>::submit(execution_context& context) && -> output {
    const std::size_t count = devices_.size();
    const auto on_each = [&](auto tensor) {
        return sluice::replicate(devices_, std::move(tensor), location_).submit(context);
    };
    std::vector<std::vector<basic_plan_layer<T>>> layers(count);
    for (const basic_plan_layer<T>& layer : network_.layers()) {
        const auto weights = on_each(layer.weight);
        std::vector<shared_tensor<T>> biases;
        if (layer.bias) biases = on_each(*layer.bias);
        for (std::size_t i = 0; i < count; ++i) {
            layers[i].emplace_back(weights[i], layer.bias ? std::optional(biases[i]) : std::nullopt, layer.after);
        }
    }
    std::vector<shared_tensor<std::byte>> images;
    if (network_.fused()) images = on_each(network_.fused()->shared_image());
    const int architecture = network_.layers().front().weight->memory()->owner().properties().compute_capability;
    output made;
    for (std::size_t i = 0; i < count; ++i) {
        std::optional<packed_mlp<T>> fused;
        if (network_.fused() && devices_[i].properties().compute_capability == architecture)
            fused = packed_mlp<T>(network_.fused()->form(), images[i]);
        made.emplace_back(std::move(layers[i]), std::move(fused));
    }
    return made;
}

template class basic_plan<float>;
template class basic_plan<half>;
template class basic_plan<bfloat16>;
template class forward_operation<float>;
template class forward_operation<half>;
template class forward_operation<bfloat16>;
template class replicate_plan_operation<float>;
template class replicate_plan_operation<half>;
template class replicate_plan_operation<bfloat16>;
template class make_plan_operation<float>;
template class make_plan_operation<half>;
template class make_plan_operation<bfloat16>;

}  // namespace sluice::nn
