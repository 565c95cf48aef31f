// SPDX-License-Identifier: Apache-2.0
// Activations of what a CPU's library has computed, by the worker thread that computed it.
//
// They follow the product in place of being fused with it: what oneDNN's fused ones make of NaN and infinities differs
// from primitive to primitive (2.6 on AVX-512: ReLU of NaN is 0 after an inner product, of -infinity NaN after a
// convolution).
#pragma once

#include <cstddef>
#include <span>

#include "sluice/kernels/activated.hpp"

namespace sluice::kernels {

// x = after(x), in place, as activation.hpp says; `none` and softmax change nothing.
void activate_on_cpu(std::span<float> x, activation after) noexcept;

// The same for ReLU.
inline void rectify_on_cpu(std::span<float> x) {
    for (float& element : x) element = activated<activation::relu>(element);
}

}  // namespace sluice::kernels
