// SPDX-License-Identifier: Apache-2.0
// The threads that run a block pipeline together: all of a block, a part of it, or one warp. For the loops in
// pipelined_device.hpp.
//
// Each group has the rank of this thread and the number of threads, a barrier for them, the first batch of this group
// and the step to its next one; and whether the kernel continues after the loop, which then leaves nothing behind.
#pragma once

#include <cstddef>

#include "sluice/kernels/pipelined_forms.hpp"

#if defined(__CUDACC__)
#include <cooperative_groups.h>

namespace sluice::detail {

inline namespace SLUICE_LAUNCH_ABI {

struct block_group {
    static constexpr bool continues = true;
    __device__ static unsigned rank() { return threadIdx.x; }
    __device__ static unsigned size() { return blockDim.x; }
    __device__ static void sync() { __syncthreads(); }
    __device__ static unsigned first() { return blockIdx.x; }
    __device__ static unsigned step() { return gridDim.x; }
    // As cuda::make_pipeline and cuda::memcpy_async take it.
    __device__ static auto cooperative() { return cooperative_groups::this_thread_block(); }
    __device__ static unsigned pipeline() { return 0; }
    __device__ static bool has_this_thread() { return true; }
};

// All that a kernel does is the loop.
struct kernel_group : block_group {
    static constexpr bool continues = false;
};

template <unsigned Threads, unsigned First, unsigned Barrier>
struct part_group : block_group {
    __device__ static unsigned rank() { return threadIdx.x - First; }
    __device__ static unsigned size() { return Threads; }
    __device__ static unsigned thread_rank() { return rank(); }
    __device__ static void sync() { asm volatile("barrier.cta.sync %0, %1;" ::"n"(Barrier), "n"(Threads) : "memory"); }
    __device__ static part_group cooperative() { return {}; }
    __device__ static bool has_this_thread() { return threadIdx.x - First < Threads; }
};

// This thread's warp. `Block` is what its pipelines divide the batches among.
template <typename Block>
struct warp_group {
    static constexpr bool continues = true;
    __device__ static unsigned rank() { return threadIdx.x % 32; }
    __device__ static unsigned size() { return 32; }
    __device__ static void sync() { __syncwarp(); }
    __device__ static unsigned pipeline() { return Block::rank() / 32; }
    __device__ static std::size_t first() { return std::size_t{blockIdx.x} * (Block::size() / 32) + pipeline(); }
    __device__ static std::size_t step() { return std::size_t{gridDim.x} * (Block::size() / 32); }
    __device__ static bool has_this_thread() { return Block::has_this_thread(); }
};

// The group that runs a form, where the whole block is `Block`.
template <typename Form, typename Block>
struct group_of_form {
    using type = Block;
};
template <unsigned Stages, typename Block>
struct group_of_form<pipelined::warp_scope<Stages>, Block> {
    using type = warp_group<Block>;
};
template <unsigned Threads, typename Of, unsigned First, unsigned Barrier, typename Block>
struct group_of_form<pipelined::part<Threads, Of, First, Barrier>, Block> {
    using type = typename group_of_form<Of, part_group<Threads, First, Barrier>>::type;
};
template <typename Form, typename Block>
using group_of = typename group_of_form<Form, Block>::type;

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail

#endif
