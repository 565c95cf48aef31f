// SPDX-License-Identifier: Apache-2.0
// Warpgroups, four warps that issue Hopper's wgmma together: which one a thread is in, how they share the registers of
// their block, and a barrier of each. Only for sm_90a.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

inline constexpr int threads_of_group = 128;
inline constexpr int rows_of_group = 64;  // of one wgmma

// This thread's warpgroup, in a form that shows the compiler that all lanes of a warp agree on it.
__device__ inline unsigned group_of_thread() { return __shfl_sync(0xffffffff, threadIdx.x / threads_of_group, 0); }

// This lane's first row in its warpgroup's tile.
__device__ inline std::size_t first_row_in(std::size_t tile) {
    return tile * rows_of_group + threadIdx.x % threads_of_group / 32 * 16 + threadIdx.x % 32 / 4;
}

// Moves registers between the warpgroups of a block; all of a warpgroup's threads say the same.
template <int Count>
__device__ inline void give_up_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

// All threads of this warpgroup. Barrier 0 is that of __syncthreads.
__device__ inline void group_barrier(unsigned group) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(threads_of_group) : "memory");
}

}  // namespace sluice::kernels
