// SPDX-License-Identifier: Apache-2.0
// quantized_mlp: a multi-layer perceptron of 8-bit numbers for fused_mlp, f8_e4m3 or std::int8_t, with a scale for each
// layer's weights and one for its outputs. It moves half the bytes of 16-bit elements, and Hopper multiplies twice as
// many f8 in the same time.
//
//     using e4m3 = f8_e4m3;
//     const mlp_scales scales = calibrate_mlp<e4m3>(layers, sample);    // rows of typical inputs, floats
//     const quantized_mlp<e4m3> network = sync(pack_quantized_mlp<e4m3>(layers, scales), pool);
//     auto out = sync(upload(rows, {n, 64})
//                         .and_then(quantize<e4m3>(scales.input))
//                         .and_then(fused_mlp(network))
//                         .and_then(dequantize<float>(scales.outputs.back()))
//                         .and_then(download), pool);
//
// An element q stands for the number q * scale. Of layer i, with s the scale of its inputs (scales.input, or the
// outputs' scale of the layer before), w = scales.weights[i] and y = scales.outputs[i], everything in float:
//
//     weights   round(weight * (1 / w)), once
//     sum       of the products of 8-bit numbers; std::int8_t: exact
//     none and relu:  output = round(after(fma(sum, s * w / y, bias / y)))
//     others:         output = round(after(fma(sum, s * w, bias)) * (1 / y))
//
// where round is that of quantize: to nearest even, saturating. The factors s * w / y, bias / y and 1 / y are computed
// in double and rounded to float once. NaN among f8 inputs makes all outputs of its row NaN.
//
// On a CPU an f8 sum is that of float additions in the order of the inputs. On a GPU its order is free, and Hopper
// keeps about 14 significant bits of a sum: where it is nearly between two neighbours, an output is the other one. The
// same holds for gelu, sigmoid, tanh and softmax, which differ in last places. With std::int8_t, none and relu the
// outputs are the same bit for bit on every device.
//
// Sizes: 1 to 9 layers, each 1 to 256 wide, on a CPU to 1024. Inside, a GPU pads all layers to one width, 64, 128 or
// 256.
//
// Errors, before anything is submitted: errc::invalid_argument for layers that do not chain, have other sizes or a
// softmax before the last, for weights, biases or scales that are not finite, and scales that are not positive or not
// one for each layer; errc::shape_mismatch for inputs of another width; errc::unsupported for a GPU without tensor
// cores for the element type: f8_e4m3 needs sm_89 or later, std::int8_t sm_80.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sluice/kernels/detail/eight_bits.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/kernels/quantize.hpp"

namespace sluice {

// What the 8-bit numbers of a network stand for.
struct mlp_scales {
    float input = 1;             // of the network's inputs
    std::vector<float> weights;  // of each layer's weights
    std::vector<float> outputs;  // of each layer's outputs; the last is that of the network's
};

// Scales for a network, from a sample of its inputs: `rows` are as many floats as whole rows have, in host memory. Each
// scale is the largest magnitude / L, where L is 448 for f8_e4m3 and 127 for std::int8_t: of the rows, of a layer's
// weights, and of a layer's outputs for these rows, computed in float. Of zeros only, it is 1 / L. What a later input
// makes larger saturates, so the rows should cover what is to come; some hundred are usual.
//
// Runs on the calling thread, rows times weights multiplications. Throws errc::invalid_argument for layers that
// pack_quantized_mlp refuses on a CPU, no rows, a part of a row, and rows whose outputs after a layer are not finite.
// Costs O(rows * parameters) on the calling thread.
template <detail::eight_bit_element T>
mlp_scales calibrate_mlp(const std::vector<mlp_layer>& layers, std::span<const float> rows,
                         source_location location = source_location::current());

namespace detail {
// Wider, and float would not hold the sums of std::int8_t exactly on a CPU.
constexpr std::size_t widest_quantized_layer(device_kind on) noexcept { return on == device_kind::cuda ? 256 : 1024; }

// What a packed network looks like, apart from its numbers. Trivially copyable.
struct quantized_mlp_form {
    fused_mlp_form sizes;
    float factor[most_fused_layers] = {};  // of a layer's sums, before the activation
    float gain[most_fused_layers] = {};    // of what the activation gives; 1 after none and relu
};

// Throws errc::invalid_argument for layers or scales that cannot be used. The biases of the layers become what is added
// before the activation.
quantized_mlp_form check_quantized_mlp(std::vector<mlp_layer>& layers, const mlp_scales& scales,
                                       const source_location& location);
}  // namespace detail

// A network on a device, ready for fused_mlp. Immutable; copies share the memory.
template <detail::eight_bit_element T>
class quantized_mlp {
public:
    using element = T;  // of its inputs and outputs

    // Called by pack_quantized_mlp. Costs moves of its arguments.
    quantized_mlp(const detail::quantized_mlp_form& form, shared_tensor<std::byte> image)
        : form_(form), image_(std::move(image)) {}

    std::size_t in_features() const noexcept { return form_.sizes.in_features; }    // numbers of an input row
    std::size_t out_features() const noexcept { return form_.sizes.out_features; }  // numbers of an output row
    std::size_t layers() const noexcept { return form_.sizes.layers; }              // the number of layers

    // For commands: the sizes and factors of the packed network.
    const detail::quantized_mlp_form& form() const noexcept { return form_; }
    // For commands: in the order that the kernel of its device wants.
    const tensor<std::byte>& image() const noexcept { return *image_; }

private:
    detail::quantized_mlp_form form_;
    shared_tensor<std::byte> image_;
};

template <detail::eight_bit_element T>
class pack_quantized_mlp_operation : public operation_base<pack_quantized_mlp_operation<T>> {
public:
    using output = quantized_mlp<T>;

    pack_quantized_mlp_operation(std::vector<mlp_layer> layers, const mlp_scales& scales, source_location location)
        : layers_(std::move(layers)), location_(location) {
        form_ = detail::check_quantized_mlp(layers_, scales, location);
        weight_scales_ = scales.weights;
    }

    output submit(execution_context& context) &&;
    work_estimate estimate() const { return {1, form_.sizes.layers * form_.sizes.width * form_.sizes.width}; }

private:
    detail::quantized_mlp_form form_;
    std::vector<mlp_layer> layers_;  // with the biases that the kernels add
    std::vector<float> weight_scales_;
    source_location location_;
};

// Rounds a network to 8 bits and puts it on the context's device, once. The output may be used at once: what reads it
// is ordered after its upload. Throws errc::invalid_argument here, when the layers or the scales cannot be used; when
// they are too wide for the context's device, once it is submitted. Submitting it costs O(parameters) on the host,
// padded as the device wants them, and their upload.
template <detail::eight_bit_element T>
auto pack_quantized_mlp(std::vector<mlp_layer> layers, const mlp_scales& scales,
                        source_location location = source_location::current()) {
    return pack_quantized_mlp_operation<T>(std::move(layers), scales, location);
}

}  // namespace sluice
