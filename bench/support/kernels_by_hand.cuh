// SPDX-License-Identifier: Apache-2.0
// Copying and clearing kernels, as a careful engineer uses them in a CUDA graph with small transfers: the hand-over
// from a kernel to a copy engine and back takes longer than such a copy. The copies may start before the previous
// kernel has ended (programmatic dependent launch), as the library's do.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "support/by_hand.hpp"

namespace sluice::bench {

constexpr unsigned copying_threads = 256;

static __global__ void __launch_bounds__(copying_threads)
    copy_by_hand(uint4* to, const uint4* from, std::size_t words) {
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
    const std::size_t i = std::size_t{blockIdx.x} * copying_threads + threadIdx.x;
    if (i < words) to[i] = from[i];
}

static __global__ void __launch_bounds__(copying_threads) clear_by_hand(uint4* to, std::size_t words) {
    const std::size_t i = std::size_t{blockIdx.x} * copying_threads + threadIdx.x;
    if (i < words) to[i] = uint4{0, 0, 0, 0};
}

constexpr unsigned copying_blocks(std::size_t words) {
    return static_cast<unsigned>((words + copying_threads - 1) / copying_threads);
}

// Sizes are multiples of 16 bytes; the host's memory is pinned.
inline void enqueue_copy_by_hand(void* to, const void* from, std::size_t bytes, cudaStream_t on) {
    const std::size_t words = bytes / sizeof(uint4);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how{};
    how.gridDim = dim3(copying_blocks(words));
    how.blockDim = dim3(copying_threads);
    how.stream = on;
    how.attrs = &early;
    how.numAttrs = 1;
    check(cudaLaunchKernelEx(&how, copy_by_hand, static_cast<uint4*>(to), static_cast<const uint4*>(from), words));
}

inline void enqueue_clear_by_hand(void* to, std::size_t bytes, cudaStream_t on) {
    const std::size_t words = bytes / sizeof(uint4);
    clear_by_hand<<<copying_blocks(words), copying_threads, 0, on>>>(static_cast<uint4*>(to), words);
    check(cudaGetLastError());
}

}  // namespace sluice::bench
