// SPDX-License-Identifier: Apache-2.0
// The activations of one number, for kernels and for host code: the only definition of their formulas. activation.hpp
// says what they do with NaN and infinities. softmax, which needs a whole row, is not among them.
#pragma once

#include <math.h>

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activation.hpp"

namespace sluice::kernels {

// For an activation that is known when the code is compiled. Always inlined: files that are compiled for one kind of
// vector unit use it too, and the linker must not take their instance for the whole program. Costs O(1).
template <activation What>
[[gnu::always_inline]] SLUICE_KERNEL inline float activated(float x) {
    if constexpr (What == activation::relu) {
        return x < 0 ? 0 : x;  // NaN stays NaN: no comparison with it holds
    } else if constexpr (What == activation::gelu) {
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    } else if constexpr (What == activation::sigmoid) {
        return 1.0f / (1.0f + expf(-x));
    } else if constexpr (What == activation::tanh) {
        return tanhf(x);
    } else {
        static_assert(What == activation::none, "softmax needs a whole row");
        return x;
    }
}

// For one that is known at run time; softmax leaves x as it is. Costs O(1).
SLUICE_KERNEL inline float activated(float x, activation what) {
    switch (what) {
        case activation::relu: return activated<activation::relu>(x);
        case activation::gelu: return activated<activation::gelu>(x);
        case activation::sigmoid: return activated<activation::sigmoid>(x);
        case activation::tanh: return activated<activation::tanh>(x);
        case activation::none:
        case activation::softmax: break;
    }
    return x;
}

}  // namespace sluice::kernels
