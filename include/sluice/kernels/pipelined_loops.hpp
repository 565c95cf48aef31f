// SPDX-License-Identifier: Apache-2.0
// run_pipelined: a block pipeline in a kernel of your own. The threads of a block, or a part of them, copy batches of
// the input to shared memory and call a function object on each, in the form that the first argument names
// (pipelined_forms.hpp).
//
//     template <typename Form>
//     __global__ void halve(const float* in, double* out, std::size_t size) {
//         extern __shared__ __align__(128) unsigned char shared[];
//         run_pipelined(Form{}, pipelined::batches<float>{in, size, 2048}, shared,
//                       [=](const float* batch, std::size_t first, std::size_t count, unsigned rank, unsigned threads)
//                       {
//                           for (std::size_t i = rank; i < count; i += threads) out[first + i] = batch[i] / 2.0;
//                       });
//     }
//
// `batch` is the elements from `first` on, `count` of them, in shared memory; this thread is `rank` of the `threads`
// that compute. What it computes, and where the results go, is the function object's affair: another type, another
// place, or a sum in a variable of the thread that it refers to.
//
// Each block takes every gridDim.x-th batch from blockIdx.x on; with warp_scope, each warp of the grid is counted so.
// When the call returns, the threads that took part have left the loop: `shared` may be used for something else, and
// they see what the others of their group wrote (of their warp with warp_scope). Threads that are not in the `part`
// return at once. Threads that only copy return without a call of the function object.
//
// Conditions, on a GPU: the block is one-dimensional and Form::fits(blockDim.x); all threads that take part make the
// call; `shared` is pipelined::shared_bytes<Form>(threads, bytes of a batch), 128-byte aligned, used by no other thread
// meanwhile; the input is 16-byte aligned, a batch a multiple of 16 bytes and not empty; `bulk` needs sm_90. Where one
// of those is not met that the kernel can see (all but the size of `shared` and its other users), the kernel traps. The
// function object does not synchronise the block.
//
// It costs one call of the function object for each batch and thread that computes, and a copy of each batch.
//
// On a CPU the same call is a plain loop over all batches, with rank 0 of 1, and `shared` is not used: the function
// object gets the input itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/detail/pipelined_device.hpp"
#include "sluice/kernels/pipelined_forms.hpp"

namespace sluice {

namespace pipelined {

// An input and how it is cut. The last batch may be shorter.
template <typename T>
struct batches {
    const T* in;        // the first element
    std::size_t size;   // elements
    std::size_t batch;  // elements of one, but the last
};

}  // namespace pipelined

namespace detail {

template <typename T>
inline constexpr bool can_be_staged =
    std::is_trivially_copyable_v<T> && !std::is_const_v<T> && sizeof(T) <= 16 && 16 % sizeof(T) == 0;

// The input with what is done to each batch; `Work` may be a reference.
template <typename T, typename Work>
struct pipelined_work {
    using element = T;
    const T* in;
    std::size_t size;
    std::size_t batch;
    Work work;

    SLUICE_KERNEL std::size_t batches() const { return (size + batch - 1) / batch; }
    SLUICE_KERNEL std::size_t count(std::size_t which) const {
        return which + 1 < batches() ? batch : size - which * batch;
    }
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
    SLUICE_KERNEL void compute(const T* staged, std::size_t which, unsigned rank, unsigned threads) const {
        work(staged, which * batch, count(which), rank, threads);
    }
};

#if defined(__CUDACC__)
inline namespace SLUICE_LAUNCH_ABI {

// Runs a form for the threads of `Block` that take part.
template <typename Form, typename Block, typename Call>
__device__ void run_pipelined_as(Form form, Block, const Call& all, void* shared) {
    using group = group_of<Form, Block>;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    if constexpr (Form::needs_hopper) {
        __trap();
    } else {
        if (group::has_this_thread()) run_form(form, group{}, all, shared);
    }
#else
    if (group::has_this_thread()) run_form(form, group{}, all, shared);
#endif
}

}  // namespace SLUICE_LAUNCH_ABI
#endif

}  // namespace detail

#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <typename Form, typename T, typename Work>
SLUICE_KERNEL void run_pipelined(Form form, const pipelined::batches<T>& input, void* shared, Work&& work) {
    static_assert(std::is_base_of_v<pipelined::form, Form>, "the first argument of run_pipelined is a form");
    static_assert(detail::can_be_staged<T>,
                  "a block pipeline copies trivially copyable elements of 1, 2, 4, 8 or 16 bytes");
    static_assert(std::is_invocable_v<Work&, const T*, std::size_t, std::size_t, unsigned, unsigned>,
                  "run_pipelined calls work(const T* batch, first, count, rank, threads)");
    const detail::pipelined_work<T, Work&> all{input.in, input.size, input.batch, work};
    const bool is_cut = input.batch != 0 && input.batch * sizeof(T) % 16 == 0;
#if defined(__CUDA_ARCH__)
    const auto is_aligned = [](const void* to, unsigned by) { return reinterpret_cast<std::uintptr_t>(to) % by == 0; };
    if (!is_cut || !is_aligned(input.in, 16) || !is_aligned(shared, 128) || blockDim.y != 1 || blockDim.z != 1 ||
        !Form::fits(blockDim.x)) {
        __trap();
    }
    detail::run_pipelined_as(form, detail::block_group{}, all, shared);
#else
    static_cast<void>(form);
    static_cast<void>(shared);
    if (!is_cut) std::abort();
    for (std::size_t which = 0; which < all.batches(); ++which) all.compute(all.in + which * all.batch, which, 0, 1);
#endif
}

}  // namespace sluice
