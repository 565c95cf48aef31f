// SPDX-License-Identifier: Apache-2.0
// What is done with the tensor cores' accumulators in registers: activation, and rounding to 16-bit elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sluice/base/half.hpp"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels {

// Two floats rounded to the element type, the first in the lower half; negative ones become 0 when `Relu`. NaN stays.
template <typename T, bool Relu>
__device__ inline std::uint32_t rounded(float first, float second) {
    std::uint32_t made;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    __trap();  // never launched there: see mma.hpp
    made = 0;
#else
    if constexpr (std::is_same_v<T, half> && Relu) {
        asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(made) : "f"(second), "f"(first));
    } else if constexpr (std::is_same_v<T, half>) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(made) : "f"(second), "f"(first));
    } else if constexpr (Relu) {
        asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(made) : "f"(second), "f"(first));
    } else {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(made) : "f"(second), "f"(first));
    }
#endif
    return made;
}

__device__ inline float fast_tanh(float x) {
    float made;
    asm("tanh.approx.f32 %0, %1;" : "=f"(made) : "f"(x));  // within 2^-11, the element type's own precision
    return made;
}

template <int Blocks, typename Function>
__device__ inline void apply(float (&d)[Blocks][4], Function function) {
#pragma unroll
    for (auto& block : d) {
#pragma unroll
        for (float& each : block) each = function(each);
    }
}

// All but softmax. relu and gelu are those of activated.hpp. sigmoid and tanh have a form of their own for sums that
// are rounded to 16 bits next: tanh is one instruction, and sigmoid(x) = 1/2 + tanh(x/2) / 2.
template <int Blocks>
__device__ inline void activate_registers(float (&d)[Blocks][4], activation what) {
    switch (what) {
        case activation::relu: return apply(d, [](float x) { return activated<activation::relu>(x); });
        case activation::gelu: return apply(d, [](float x) { return activated<activation::gelu>(x); });
        case activation::sigmoid: return apply(d, [](float x) { return 0.5f + 0.5f * fast_tanh(0.5f * x); });
        case activation::tanh: return apply(d, fast_tanh);
        default: return;
    }
}

}  // namespace sluice::kernels
