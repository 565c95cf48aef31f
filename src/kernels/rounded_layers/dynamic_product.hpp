// SPDX-License-Identifier: Apache-2.0
// Products on a CPU of rows of bytes, as DynamicQuantizeLinear makes them, by constant weights of 8 bits:
//     y = after((sum over k of (x[k] - zero) * weight[k]) * (scale * step) + bias)
// Scale and zero point are in memory, since they are known only when x is. Sums are exact 32-bit integers; the rest is
// f32. The weights are an image (quantized_product.hpp, one layer).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/rounded_layers/rounded_layers.hpp"

namespace sluice::kernels {

struct dynamic_product {
    const std::uint8_t* x;  // [rows, in_features]
    const float* scale;
    const std::uint8_t* zero;
    const std::byte* image;
    float* y;  // [rows, out_features]
    std::size_t rows, in_features, out_features;
    activation after;
    const rounded_kernel* with;
};

// On the calling thread, with the workers that have nothing else to do.
void run_dynamic_product(const dynamic_product& of);

// On a device that is a CPU. All are dense; y is none of the others. What `of` says of addresses and the kernel is set
// here.
void submit_dynamic_product(stream on, storage& x, storage& scale, storage& zero, storage& image, storage& y,
                            dynamic_product of);

}  // namespace sluice::kernels

// Has no array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::dynamic_product> =
    sluice::detail::compiler_clears_padding;
