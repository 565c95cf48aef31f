// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of integers of 8 bits that stand for numbers, on a CPU, as QuantizeLinear and
// DequantizeLinear define them:
//     real = (sum over k of (x[k] - x_zero) * weight[k]) * (x_scale * step) + bias, after ReLU if asked
//     y    = clamp(round(real * (1 / y_scale)) + y_zero), halves to even; or real itself
// Sums are exact 32-bit integers; the rest is f32. A weight is a signed integer whose zero point is subtracted already;
// each output has a step of its own. Computed in f32 node by node, real / y_scale differs by rounding only: y is the
// same, or, where real / y_scale is as good as between two integers, one of these two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::kernels {

// The weights of one layer, or of one group of a convolution (in the order height, width, channel), in host memory.
struct integer_layer {
    std::size_t in_features = 0, out_features = 0;
    std::vector<std::int8_t> weight;  // [out_features, in_features]
    std::vector<float> steps, bias;   // [out_features]; bias may be empty
};
// The layers of a convolution's groups: equal shares of the outputs.
std::vector<integer_layer> layers_of_groups(const integer_layer& whole, std::size_t groups);
// As rounded_image has it for int8.
std::vector<std::byte> integer_image(const std::vector<integer_layer>& layers);

// Of all outputs together.
struct quantized_form {
    float x_scale = 1, y_scale = 1;
    std::int32_t x_zero = 0, y_zero = 0;
    io::dtype x_type = io::dtype::u8, y_type = io::dtype::u8;  // i8 or u8; y also f32
    activation after = activation::none;                       // or ReLU
};

struct quantized_call {
    const std::byte* x;
    std::byte* y;
    const std::byte* image;
    std::byte* scratch;  // quantized_scratch_bytes(form) of them
    const rounded_kernel* with;
    convolution_form form;  // of a product: its rows are images of one pixel
    quantized_form numbers;
    // Where the scale and zero point of x are, if they are known only when x is; else null, and `numbers` has them.
    const float* x_scale = nullptr;
    const std::uint8_t* x_zero = nullptr;
};
std::size_t quantized_scratch_bytes(const convolution_form& form);
void run_quantized_product(const quantized_call& call);

// On a device that is a CPU. x and y are dense, and not the same.
void submit_quantized_product(stream on, storage& x, const convolution_form& form, const quantized_form& numbers,
                              const tensor<std::byte>& image, storage& y);

// The same of bytes that DynamicQuantizeLinear gave with this scale and zero point; y is f32.
void submit_dynamic_convolution(stream on, storage& x, storage& scale, storage& zero, const convolution_form& form,
                                activation after, storage& image, storage& y);

}  // namespace sluice::kernels

// Has no array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::quantized_call> =
    sluice::detail::compiler_clears_padding;
