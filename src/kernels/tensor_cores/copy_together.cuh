// SPDX-License-Identifier: Apache-2.0
// A copy to shared memory by all threads of a block.
#pragma once

#include <cstddef>

namespace sluice::kernels {

// Whole pieces of 16 bytes, aligned. No thread reads `to` before the next __syncthreads.
__device__ inline void copy_together(void* to, const void* from, std::size_t bytes) {
    for (std::size_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
        static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
    }
}

}  // namespace sluice::kernels
