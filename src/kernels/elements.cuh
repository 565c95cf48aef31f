// Elements of tensors inside kernels: several in one load, and as floats and back. On a GPU 16-bit elements are
// converted by one instruction each; the results are those of half.hpp, but for a NaN's bits.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "sluice/runtime/half.hpp"
#include "sluice/runtime/kernel.hpp"

namespace sluice::kernels {

// Count elements that stand side by side at a multiple of their bytes, or of 16: read and written at once, 16 bytes
// an instruction.
template <typename T, std::size_t Count>
struct alignas(sizeof(T) * Count < 16 ? sizeof(T) * Count : 16) piece {
    T element[Count];
};

// How many elements of T are 16 bytes.
template <typename T>
inline constexpr std::size_t piece_size = 16 / sizeof(T);

template <typename T>
SLUICE_KERNEL inline float as_float(T x) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::same_as<T, half>) {
        float made;
        asm("cvt.f32.f16 %0, %1;" : "=f"(made) : "h"(x.bits()));
        return made;
    }
#endif
    return static_cast<float>(x);
}

template <typename T>
SLUICE_KERNEL inline T from_float(float x) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::same_as<T, half>) {
        std::uint16_t bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return half::from_bits(bits);
    }
#if __CUDA_ARCH__ >= 800
    if constexpr (std::same_as<T, bfloat16>) {
        std::uint16_t bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bfloat16::from_bits(bits);
    }
#endif
#endif
    return T(x);
}

}  // namespace sluice::kernels
