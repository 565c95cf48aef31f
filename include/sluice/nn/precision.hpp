// SPDX-License-Identifier: Apache-2.0
// precision: in which numbers a network multiplies, and what a device has for them.
//
//     const nn::network fast = sync(nn::make_network(model, {.precision = nn::precision::bf16}), pool);
//     for (const std::string& each : fast.rounding().kept) std::cout << each << '\n';
//
// f32      The model's own types. No number is rounded that the file does not round. The default.
// bf16     Products and convolutions (MatMul, Gemm, Conv) of f32 with constant weights: the weights are rounded to the
// f16      type once, their inputs at each run; products and sums are f32. The rest stays f32: activations, the
//          network's inputs and outputs. On a GPU, and of convolutions in three dimensions, biases and results are
//          rounded; on a GPU also values between convolutions of images, attention's factors, and all of recurrent
//          layers of more than 128 units but their sums: weights, inputs, and states after each step
//          (docs/networks.md). Numbers that the type does not have (f16: beyond 65504) become infinite.
// int8     The same products; the weights of each output are integers from -127 to 127 times one number, and on a CPU
//          the inputs of each row (of a convolution: of each image and group) integers from 0 to 255, from which one
//          integer is subtracted, times another number. Sums are exact integers. A NaN or an infinity among the inputs
//          gives NaN in all outputs of its row or image. On a GPU only the weights are rounded.
//
// What is not rounded although it is a product or convolution is in rounding().kept, with the reason: nothing is
// rounded that would lose more than the rounding, e.g. a weight that is infinite in f16. How much a network's outputs
// change can only be measured: choose_precision (precision_choice.hpp) does it for some inputs of yours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
class device;
}

namespace sluice::nn {

// The numbers in which a network multiplies: see the top of this file.
enum class precision : unsigned char { f32, bf16, f16, int8 };

std::string_view to_string(precision what) noexcept;  // "f32", "bf16", "f16", "int8"; costs O(1)
// The reverse of to_string; empty for another text. Costs O(1).
std::optional<precision> precision_from_string(std::string_view text) noexcept;

// What a device has for it.
struct precision_support {
    bool is_native = false;  // it multiplies these numbers; else they are widened first
    std::string how;         // "AVX-512-BF16", "f32 arithmetic with AVX2, on rounded factors"
};
// What the device has for a network in this precision. Costs O(1); the first call on a CPU asks the processor what it
// has.
precision_support support_of(precision what, const device& on);

// What was made of a network's products and convolutions.
struct rounding_report {
    nn::precision precision = nn::precision::f32;  // that was asked for
    std::size_t rounded = 0;                       // products, convolutions and recurrent layers
    std::size_t quantized = 0;      // between DequantizeLinear and QuantizeLinear: computed with the file's integers
    std::vector<std::string> kept;  // those in the model's types: the node, a colon, why
    precision_support support;      // of the device
};

}  // namespace sluice::nn
