// SPDX-License-Identifier: Apache-2.0
// plan: a network whose weights are on a device, ready to run. Immutable; copies share the weights.
//
//     const nn::plan network = sync(nn::make_plan(nn::to_layers(model)), pool);
//     auto logits = sync(upload(rows, {n, 64})
//                            .and_then([=](auto x) { return network.forward(std::move(x)); })
//                            .and_then(download), pool);
//
// In f32; with make_plan<half> or make_plan<bfloat16> weights, inputs and outputs have that type, and sums are float.
//
// For one size of batches again and again, the plan can be a graph: nn::compile_forward.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/base/half.hpp"
#include "sluice/devices/device_set.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn {

namespace detail {
template <typename T>
concept plan_element = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;
}  // namespace detail

// A layer on the device: y = after(x * weight^T + bias).
template <detail::plan_element T>
struct basic_plan_layer {
    shared_tensor<T> weight;               // [out features, in features]
    std::optional<shared_tensor<T>> bias;  // [out features]
    activation after;                      // applied to the layer's outputs
    std::string name = {};  // of its commands in traces; a plan calls its layers "layer 1", "layer 2" ...

    // The weight, the bias and the activation. Costs moves of its arguments.
    basic_plan_layer(shared_tensor<T> w, std::optional<shared_tensor<T>> b, activation a)
        : weight(std::move(w)), bias(std::move(b)), after(a) {}
};
using plan_layer = basic_plan_layer<float>;  // a layer of an f32 plan

// How a batch goes through the network.
enum class plan_route : unsigned char {
    layers,  // a product for each layer
    fused,   // all layers in one command: see fused_mlp
};

template <detail::plan_element T>
class forward_operation;

// A network on a device, with weights of type T; `plan` is the one in f32. See the top of this file.
template <detail::plan_element T>
class basic_plan {
public:
    // Throws errc::invalid_argument for no layers. `fused`: the same network, where it can be fused; its weights are
    // on the device once more then, packed. Use make_plan. Costs O(layers), and no command.
    explicit basic_plan(std::vector<basic_plan_layer<T>> layers, std::optional<packed_mlp<T>> fused = std::nullopt);

    // Numbers of a row that goes in. Costs O(1).
    std::size_t in_features() const noexcept { return (*layers_).front().weight->shape()[1]; }
    // Numbers of a row that comes out. Costs O(1).
    std::size_t out_features() const noexcept { return (*layers_).back().weight->shape()[0]; }
    // The layers, in the order in which they are applied.
    const std::vector<basic_plan_layer<T>>& layers() const noexcept { return *layers_; }
    // The packed form of all layers; none where the plan has only the single layers.
    const std::optional<packed_mlp<T>>& fused() const noexcept { return fused_; }

    // What forward does with a batch of `rows` rows. Costs O(1).
    plan_route route(std::size_t rows) const noexcept;

    // The network's outputs [rows, out features] for inputs [rows, in features]. Throws errc::shape_mismatch
    // for inputs of another width, when submitted. Costs one command where the route is fused, else O(layers) commands.
    forward_operation<T> forward(tensor<T> inputs) const { return {*this, std::move(inputs)}; }

private:
    std::shared_ptr<const std::vector<basic_plan_layer<T>>> layers_;
    std::optional<packed_mlp<T>> fused_;
};
using plan = basic_plan<float>;

// The operation that basic_plan::forward returns.
template <detail::plan_element T>
class forward_operation : public operation_base<forward_operation<T>> {
public:
    using output = tensor<T>;

    forward_operation(basic_plan<T> network, tensor<T> inputs)
        : network_(std::move(network)), inputs_(std::move(inputs)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const { return {.commands = network_.layers().size()}; }

private:
    basic_plan<T> network_;
    tensor<T> inputs_;
};

// The operation that make_plan returns.
template <detail::plan_element T>
class make_plan_operation : public operation_base<make_plan_operation<T>> {
public:
    using output = basic_plan<T>;

    explicit make_plan_operation(std::vector<mlp_layer> layers) : from_(std::move(layers)) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const {
        std::size_t bytes = 0;
        for (const mlp_layer& each : from_) bytes += (each.weight.size() + each.bias.size()) * sizeof(T);
        return {2 * from_.size(), bytes};
    }

private:
    std::vector<mlp_layer> from_;
};

// Puts a network's weights on the context's device, once, rounded to T. The output may be used at once: work that reads
// the weights is ordered after their upload. Costs O(parameters) on the host for the rounding, and their upload.
template <detail::plan_element T = float>
auto make_plan(std::vector<mlp_layer> layers) {
    return make_plan_operation<T>(std::move(layers));
}

// The network on each device of a set, in the set's order, from one that is on any of them: the weights are copied from
// device to device, as sluice::replicate does. A GPU of another architecture than the first's goes without the fused
// form.
template <detail::plan_element T>
class replicate_plan_operation : public operation_base<replicate_plan_operation<T>> {
public:
    using output = std::vector<basic_plan<T>>;

    replicate_plan_operation(device_set devices, basic_plan<T> network, const source_location& location)
        : devices_(std::move(devices)), network_(std::move(network)), location_(location) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const { return {2 * network_.layers().size() * devices_.size()}; }

private:
    device_set devices_;
    basic_plan<T> network_;
    source_location location_;
};
// See replicate_plan_operation, which it returns. Submitting it costs what sluice::replicate costs for each weight and
// bias, and for the packed network.
template <detail::plan_element T>
auto replicate(device_set devices, basic_plan<T> network, source_location location = source_location::current()) {
    return replicate_plan_operation<T>(std::move(devices), std::move(network), location);
}

// The network as a graph for batches of `rows` rows, from the device's memory to the host's:
//
//     const auto fast = nn::compile_forward(pool, network, 64);
//     std::vector<float> logits = sync(upload(rows, {64, 784}).and_then(fast), pool);
// Costs what compile costs.
template <detail::plan_element T>
auto compile_forward(sluice::detail::compile_place at, const basic_plan<T>& network, std::size_t rows,
                     graph_options options = {}) {
    return compile(
        at, std::move(options), [=](tensor<T> x) { return network.forward(std::move(x)).and_then(download); },
        device_input<T>({rows, network.in_features()}));
}

// In how many rows at a time a batch is best brought to the device: small ones all at once; ones of 4 MiB or more as
// twelve, three and one sixteenth. While a piece is copied the one before it is computed, so what is left after the
// last byte is the work on the last piece. Measured on an H200 (784-512-512-10 in bf16, 16384 rows): see bench/results.
// Costs one allocation.
std::vector<std::size_t> pieces_of_batch(std::size_t rows, std::size_t bytes_of_row);

// The same from the host's memory: a launch is given a vector, a span, or a host_buffer, which is pinned and not
// copied. `pieces`: the rows of each piece, in order; without, pieces_of_batch says. `bring`: how the outputs come
// back, download (a vector) or download_buffer (a host_buffer, not copied again). More errors, here:
// errc::invalid_argument for a piece without rows, errc::shape_mismatch for pieces that are not `rows` in all.
// Costs what compile costs.
template <detail::plan_element T, typename Bring = download_function>
auto compile_forward_from_host(sluice::detail::compile_place at, const basic_plan<T>& network, std::size_t rows,
                               graph_options options = {}, std::vector<std::size_t> pieces = {}, Bring bring = {}) {
    if (pieces.empty()) pieces = pieces_of_batch(rows, network.in_features() * sizeof(T));
    const auto forward = [=](std::vector<tensor<T>> x) {
        return with_context([network, bring, x = std::move(x)](execution_context& context) mutable {
            std::vector<tensor<T>> outputs;
            for (tensor<T>& each : x) outputs.push_back(network.forward(std::move(each)).submit(context));
            return bring(std::move(outputs));
        });
    };
    return compile(at, std::move(options), forward,
                   host_input_in_pieces<T>({rows, network.in_features()}, std::move(pieces)));
}

}  // namespace sluice::nn
