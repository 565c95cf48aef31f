// SPDX-License-Identifier: Apache-2.0
// widened: a number that kernels keep in 16 bits, as a float. A GPU does it by one instruction, where the conversion of
// half itself takes about 30.
#pragma once

#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {

SLUICE_KERNEL inline float widened(float x) { return x; }
SLUICE_KERNEL inline float widened(bfloat16 x) { return x; }
SLUICE_KERNEL inline float widened(half x) {
#if defined(__CUDA_ARCH__)
    float made;
    asm("cvt.f32.f16 %0, %1;" : "=f"(made) : "h"(x.bits()));
    return made;
#else
    return x;
#endif
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::kernels
