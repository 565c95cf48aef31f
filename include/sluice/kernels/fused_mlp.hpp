// SPDX-License-Identifier: Apache-2.0
// fused_mlp: a whole multi-layer perceptron as one command. On a GPU one kernel: weights stay in shared memory and
// activations in registers, so that device memory sees only the inputs and the outputs. On a CPU: blocks of rows small
// enough that they and a layer's weights stay in cache.
//
//     const packed_mlp<half> network = sync(pack_mlp<half>(std::move(layers)), pool);
//     auto out = sync(upload(rows, {n, 64}).and_then(fused_mlp(network)).and_then(download), pool);
//
// Elements are half or bfloat16, on a CPU also float. Inputs and weights have that type, biases are float; sums are
// float; on a GPU the activations between layers are rounded to the element type. NaN stays NaN.
//
// Sizes: 1 to 9 layers (0 to 8 hidden ones), each 1 to 256 wide, on a CPU to 2048. Inside, a GPU pads all layers to one
// width, so a network of equal layers of 32, 64, 128 or 256 wastes nothing.
//
// Errors, before anything is submitted: errc::invalid_argument for layers that do not chain, have other sizes or a
// softmax before the last; errc::shape_mismatch for inputs of another width; errc::unsupported for float on a GPU, and
// for a GPU without tensor cores for the element type (before sm_80).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// A layer in host memory: y = after(x * weight^T + bias).
struct mlp_layer {
    std::size_t in_features = 0;   // numbers of a row that goes in
    std::size_t out_features = 0;  // numbers of a row that comes out
    std::vector<float> weight;     // [out_features, in_features], row-major; rounded to the element type when packed
    std::vector<float> bias;       // [out_features], or empty
    activation after = activation::none;  // applied to the layer's outputs
    std::string name = {};                // of its commands in traces: "0", "net.2"
};

namespace detail {
inline constexpr std::size_t most_fused_layers = 9;
// Wider, and a GPU's shared memory holds no layer. A CPU has no such bound, but beyond it nothing was measured.
constexpr std::size_t widest_fused_layer(device_kind on) noexcept { return on == device_kind::cuda ? 256 : 2048; }

// What a packed network looks like, apart from its numbers. Trivially copyable.
struct fused_mlp_form {
    std::size_t in_features = 0;
    std::size_t out_features = 0;
    std::size_t layers = 0;
    bool is_biased = false;                              // whether any layer is
    std::size_t width = 0;                               // what every layer is padded to on a GPU
    std::uint16_t features[most_fused_layers + 1] = {};  // of the inputs, then of each layer's outputs
    activation after[most_fused_layers] = {};
};

// Throws errc::invalid_argument unless the layers make a network that can be fused, on a CPU at least.
fused_mlp_form check_fused_mlp(const std::vector<mlp_layer>& layers, const source_location& location,
                               std::string_view operation = "pack_mlp");

template <typename T>
concept fused_element = std::same_as<T, half> || std::same_as<T, bfloat16> || std::same_as<T, float>;

// What fused_mlp runs: packed_mlp, or quantized_mlp.
template <typename Network>
concept fused_network = requires(const Network& network) {
    typename Network::element;
    network.form();
    network.image();
    network.out_features();
};
}  // namespace detail

// A network on a device, ready for fused_mlp. Immutable; copies share the memory.
template <detail::fused_element T>
class packed_mlp {
public:
    using element = T;  // of its inputs and outputs

    // Called by pack_mlp. Costs moves of its arguments.
    packed_mlp(const detail::fused_mlp_form& form, shared_tensor<std::byte> image)
        : form_(form), image_(std::move(image)) {}

    std::size_t in_features() const noexcept { return form_.in_features; }    // numbers of an input row
    std::size_t out_features() const noexcept { return form_.out_features; }  // numbers of an output row
    std::size_t layers() const noexcept { return form_.layers; }              // the number of layers

    // For commands: the sizes of the packed network.
    const detail::fused_mlp_form& form() const noexcept { return form_; }
    // For commands: in the order that the kernel of its device wants.
    const tensor<std::byte>& image() const noexcept { return *image_; }
    const shared_tensor<std::byte>& shared_image() const noexcept { return image_; }  // the same, to be kept

private:
    detail::fused_mlp_form form_;
    shared_tensor<std::byte> image_;
};

template <detail::fused_element T>
class pack_mlp_operation : public operation_base<pack_mlp_operation<T>> {
public:
    using output = packed_mlp<T>;

    pack_mlp_operation(std::vector<mlp_layer> layers, source_location location)
        : form_(detail::check_fused_mlp(layers, location)), layers_(std::move(layers)), location_(location) {}

    output submit(execution_context& context) &&;
    work_estimate estimate() const { return {1, form_.layers * form_.width * form_.width * sizeof(T)}; }

private:
    detail::fused_mlp_form form_;
    std::vector<mlp_layer> layers_;
    source_location location_;
};

// Puts a network on the context's device, once. The output may be used at once: what reads it is ordered after its
// upload. Throws errc::invalid_argument here, when the layers cannot be fused; when they are too wide for the context's
// device, once it is submitted. Submitting it costs O(parameters) on the host, padded as the device wants them, and
// their upload.
template <detail::fused_element T>
auto pack_mlp(std::vector<mlp_layer> layers, source_location location = source_location::current()) {
    return pack_mlp_operation<T>(std::move(layers), location);
}

// Whether pack_mlp takes layers of these sizes there: `widest` is the largest number of features, in or out. Costs
// O(1).
constexpr bool can_fuse_mlp(device_kind on, std::size_t layers, std::size_t widest) noexcept {
    return layers >= 1 && layers <= detail::most_fused_layers && widest >= 1 &&
           widest <= detail::widest_fused_layer(on);
}

// The plain form: one command on a stream. x is [rows, in features], out [rows, out features] and not x. Does not
// block. Costs one command; on a CPU also workspace of the stream.
template <detail::fused_network Network>
void fused_mlp(stream on, const tensor<typename Network::element>& x, const Network& network,
               tensor<typename Network::element>& out, source_location location = source_location::current());

// What fused_mlp returns. Its output is a new tensor [rows, out features].
template <detail::fused_network Network>
class fused_mlp_operation : public operation_base<fused_mlp_operation<Network>> {
public:
    using output = tensor<typename Network::element>;

    fused_mlp_operation(output x, Network network, source_location location)
        : x_(std::move(x)), network_(std::move(network)), location_(location) {}

    output submit(execution_context& context) && {
        output out(context.stream(), {x_.rows(), network_.out_features()}, {"fused_mlp", {}, location_});
        fused_mlp(context.stream(), x_, network_, out, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    output x_;
    Network network_;
    source_location location_;
};

// The operation: its output is a new tensor; the inputs are released after it. Submitting it costs a new tensor and one
// command.
template <detail::fused_network Network>
auto fused_mlp(tensor<typename Network::element> x, Network network,
               source_location location = source_location::current()) {
    return fused_mlp_operation<Network>(std::move(x), std::move(network), location);
}
// The function of x, for and_then. It costs what the operation costs.
template <detail::fused_network Network>
auto fused_mlp(Network network, source_location location = source_location::current()) {
    return [=](tensor<typename Network::element> x) {
        return fused_mlp_operation<Network>(std::move(x), network, location);
    };
}

}  // namespace sluice
