// SPDX-License-Identifier: Apache-2.0
// The loops behind pipelined_transform, one a form: the device functions can be called from kernels of your own.
//
// Each runs on a whole block, over every gridDim.x-th batch from blockIdx.x on. `shared` is dynamic shared memory for
// as many batches as the form has stages, 128-byte aligned; inputs are 16-byte aligned, batches a multiple of 16 bytes.
#pragma once

#include <cstddef>

#include "sluice/base/kernel.hpp"
#include "sluice/runtime/command.hpp"

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>

#include <cuda/pipeline>

#include "sluice/kernels/mbarrier.hpp"
#endif

namespace sluice {

namespace pipelined {
struct form {
    static constexpr unsigned stages = 1;
    static constexpr unsigned producers = 0;  // threads that only copy
    static constexpr bool needs_hopper = false;
};
template <unsigned Stages>
struct staged_form : form {
    static_assert(Stages >= 1);
    static constexpr unsigned stages = Stages;
};

struct plain_loads : form {};
template <unsigned Stages>
struct n_stages : staged_form<Stages> {};
using one_stage = n_stages<1>;
using two_stages = n_stages<2>;
template <unsigned Stages, unsigned Producers>
struct roles : staged_form<Stages> {
    static_assert(Producers >= 1);
    static constexpr unsigned producers = Producers;
};
template <unsigned Stages>
struct thread_scope : staged_form<Stages> {};
template <unsigned Stages>
struct primitives : staged_form<Stages> {};
template <unsigned Stages>
struct arrivals : staged_form<Stages> {};
template <unsigned Stages>
struct bulk : staged_form<Stages> {
    static constexpr bool needs_hopper = true;
};
}  // namespace pipelined

namespace detail {

inline namespace SLUICE_LAUNCH_ABI {

template <typename T, typename Function>
struct pipelined_call {
    const T* in;
    T* out;
    std::size_t size;   // elements
    std::size_t batch;  // elements of one, but the last
    Function function;

    SLUICE_KERNEL std::size_t batches() const { return (size + batch - 1) / batch; }
    SLUICE_KERNEL std::size_t count(std::size_t which) const {
        return which + 1 < batches() ? batch : size - which * batch;
    }
    SLUICE_KERNEL void compute(const T* staged, std::size_t which, unsigned rank, unsigned threads) const {
        function(staged, out + which * batch, count(which), rank, threads);
    }
};

template <typename Call>
void pipelined_on_host(const void* closure) {
    const auto& all = *static_cast<const Call*>(closure);
    for (std::size_t which = 0; which < all.batches(); ++which) all.compute(all.in + which * all.batch, which, 0, 1);
}

#if defined(__CUDACC__)

// Where a stage's elements are.
template <typename T>
__device__ T* stage_of(void* shared, const std::size_t batch, unsigned stage) {
    return static_cast<T*>(shared) + stage * batch;
}

template <typename T, typename Function>
__device__ void run_pipelined(pipelined::plain_loads, const pipelined_call<T, Function>& all, void* shared) {
    T* const staged = static_cast<T*>(shared);
    for (std::size_t which = blockIdx.x; which < all.batches(); which += gridDim.x) {
        const std::size_t count = all.count(which);
        const T* const from = all.in + which * all.batch;
        for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) staged[i] = from[i];
        __syncthreads();
        all.compute(staged, which, threadIdx.x, blockDim.x);
        __syncthreads();
    }
}

// The block's pipeline state, as bytes: nvcc warns that constructors of shared variables do not run; this one need not,
// since make_pipeline makes it.
template <unsigned Stages>
__device__ auto& pipeline_state() {
    using state = cuda::pipeline_shared_state<cuda::thread_scope_block, Stages>;
    __shared__ alignas(state) unsigned char bytes[sizeof(state)];
    return *reinterpret_cast<state*>(bytes);
}

// Copies a batch, the whole block together.
template <typename T, typename Function, typename Pipeline>
__device__ void fetch_together(const pipelined_call<T, Function>& all, std::size_t which, T* to, Pipeline& pipe) {
    const auto block = cooperative_groups::this_thread_block();
    const T* const from = all.in + which * all.batch;
    pipe.producer_acquire();
    if (all.count(which) == all.batch) {
        cuda::memcpy_async(block, to, from, cuda::aligned_size_t<16>(all.batch * sizeof(T)), pipe);
    } else {
        cuda::memcpy_async(block, to, from, all.count(which) * sizeof(T), pipe);
    }
    pipe.producer_commit();
}

template <unsigned Stages, typename T, typename Function>
__device__ void run_pipelined(pipelined::n_stages<Stages>, const pipelined_call<T, Function>& all, void* shared) {
    auto& state = pipeline_state<Stages>();
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
    std::size_t fetched = blockIdx.x;
    unsigned filling = 0, stage = 0;
    for (std::size_t which = blockIdx.x; which < all.batches(); which += gridDim.x) {
        for (; fetched < all.batches() && fetched < which + Stages * gridDim.x; fetched += gridDim.x) {
            fetch_together(all, fetched, stage_of<T>(shared, all.batch, filling), pipe);
            filling = (filling + 1) % Stages;
        }
        pipe.consumer_wait();
        all.compute(stage_of<T>(shared, all.batch, stage), which, threadIdx.x, blockDim.x);
        pipe.consumer_release();
        stage = (stage + 1) % Stages;
    }
}

template <unsigned Stages, unsigned Producers, typename T, typename Function>
__device__ void run_pipelined(pipelined::roles<Stages, Producers>, const pipelined_call<T, Function>& all,
                              void* shared) {
    auto& state = pipeline_state<Stages>();
    const auto block = cooperative_groups::this_thread_block();
    const bool produces = threadIdx.x < Producers;
    auto pipe =
        cuda::make_pipeline(block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    constexpr std::size_t piece = 16 / sizeof(T);
    unsigned stage = 0;
    for (std::size_t which = blockIdx.x; which < all.batches(); which += gridDim.x) {
        T* const staged = stage_of<T>(shared, all.batch, stage);
        if (produces) {
            const std::size_t count = all.count(which), whole = count / piece * piece;
            const T* const from = all.in + which * all.batch;
            pipe.producer_acquire();
            for (std::size_t i = threadIdx.x * piece; i < whole; i += Producers * piece) {
                cuda::memcpy_async(staged + i, from + i, cuda::aligned_size_t<16>(16), pipe);
            }
            for (std::size_t i = whole + threadIdx.x; i < count; i += Producers) {
                cuda::memcpy_async(staged + i, from + i, sizeof(T), pipe);
            }
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            all.compute(staged, which, threadIdx.x - Producers, blockDim.x - Producers);
            pipe.consumer_release();
        }
        stage = (stage + 1) % Stages;
    }
}

template <unsigned Stages, typename T, typename Function>
__device__ void run_pipelined(pipelined::thread_scope<Stages>, const pipelined_call<T, Function>& all, void* shared) {
    auto pipe = cuda::make_pipeline();  // of this thread alone
    constexpr std::size_t piece = 16 / sizeof(T);
    const auto fetch = [&](std::size_t which, unsigned stage) {
        pipe.producer_acquire();
        if (which < all.batches()) {
            const std::size_t count = all.count(which), whole = count / piece * piece;
            const T* const from = all.in + which * all.batch;
            T* const to = stage_of<T>(shared, all.batch, stage);
            for (std::size_t i = threadIdx.x * piece; i < whole; i += blockDim.x * piece) {
                cuda::memcpy_async(to + i, from + i, cuda::aligned_size_t<16>(16), pipe);
            }
            for (std::size_t i = whole + threadIdx.x; i < count; i += blockDim.x) {
                cuda::memcpy_async(to + i, from + i, sizeof(T), pipe);
            }
        }
        pipe.producer_commit();
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage) fetch(blockIdx.x + std::size_t{stage} * gridDim.x, stage);
    unsigned stage = 0;
    for (std::size_t which = blockIdx.x; which < all.batches(); which += gridDim.x) {
        fetch(which + (Stages - 1) * std::size_t{gridDim.x}, (stage + Stages - 1) % Stages);
        cuda::pipeline_consumer_wait_prior<Stages - 1>(pipe);
        __syncthreads();
        all.compute(stage_of<T>(shared, all.batch, stage), which, threadIdx.x, blockDim.x);
        pipe.consumer_release();
        __syncthreads();  // before the stage is filled again
        stage = (stage + 1) % Stages;
    }
}

// This thread's pieces of a batch by the C primitives; the last piece is filled up with zeros.
template <typename T, typename Function>
__device__ void fetch_pieces(const pipelined_call<T, Function>& all, std::size_t which, T* to) {
    const std::size_t bytes = all.count(which) * sizeof(T);
    const auto* const from = reinterpret_cast<const unsigned char*>(all.in + which * all.batch);
    auto* const there = reinterpret_cast<unsigned char*>(to);
    for (std::size_t i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16) {
        const std::size_t left = bytes - i;
        __pipeline_memcpy_async(there + i, from + i, 16, left < 16 ? 16 - left : 0);
    }
}

template <unsigned Stages, typename T, typename Function>
__device__ void run_pipelined(pipelined::primitives<Stages>, const pipelined_call<T, Function>& all, void* shared) {
    const auto fetch = [&](std::size_t which, unsigned stage) {
        if (which < all.batches()) fetch_pieces(all, which, stage_of<T>(shared, all.batch, stage));
        __pipeline_commit();  // an empty one counts too
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage) fetch(blockIdx.x + std::size_t{stage} * gridDim.x, stage);
    unsigned stage = 0;
    for (std::size_t which = blockIdx.x; which < all.batches(); which += gridDim.x) {
        fetch(which + (Stages - 1) * std::size_t{gridDim.x}, (stage + Stages - 1) % Stages);
        __pipeline_wait_prior(Stages - 1);
        __syncthreads();
        all.compute(stage_of<T>(shared, all.batch, stage), which, threadIdx.x, blockDim.x);
        __syncthreads();
        stage = (stage + 1) % Stages;
    }
}

template <unsigned Stages, typename T, typename Function>
__device__ void run_pipelined(pipelined::arrivals<Stages>, const pipelined_call<T, Function>& all, void* shared) {
    __shared__ __mbarrier_t arrived[Stages];
    if (threadIdx.x < Stages) __mbarrier_init(&arrived[threadIdx.x], blockDim.x);
    __syncthreads();
    const auto fetch = [&](std::size_t which, unsigned stage) {
        if (which >= all.batches()) return;
        fetch_pieces(all, which, stage_of<T>(shared, all.batch, stage));
        __pipeline_arrive_on(
            &arrived[stage]);  // once the copies are there; counts as one more arrival that is expected
        static_cast<void>(__mbarrier_arrive(&arrived[stage]));
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage) fetch(blockIdx.x + std::size_t{stage} * gridDim.x, stage);
    unsigned stage = 0;
    bool parity = false;
    for (std::size_t which = blockIdx.x; which < all.batches(); which += gridDim.x) {
        fetch(which + (Stages - 1) * std::size_t{gridDim.x}, (stage + Stages - 1) % Stages);
        while (!__mbarrier_try_wait_parity(&arrived[stage], parity, 1000)) {
        }
        all.compute(stage_of<T>(shared, all.batch, stage), which, threadIdx.x, blockDim.x);
        __syncthreads();
        stage = (stage + 1) % Stages;
        if (stage == 0) parity = !parity;
    }
}

template <unsigned Stages, typename T, typename Function>
__device__ void run_pipelined(pipelined::bulk<Stages>, const pipelined_call<T, Function>& all, void* shared) {
    __shared__ kernels::mbarrier arrived[Stages];
    if (threadIdx.x == 0) {
        for (auto& each : arrived) each.init(1);
        kernels::mbarrier::publish_inits();
    }
    __syncthreads();
    const auto fetch = [&](std::size_t which, unsigned stage) {
        if (threadIdx.x != 0 || which >= all.batches()) return;
        const std::size_t bytes = all.count(which) * sizeof(T), whole = bytes / 16 * 16;
        T* const to = stage_of<T>(shared, all.batch, stage);
        const T* const from = all.in + which * all.batch;
        for (std::size_t i = whole / sizeof(T); i < all.count(which); ++i) to[i] = from[i];  // fewer than 16 bytes
        arrived[stage].arrive_expecting(whole);  // after that, and so before a thread that waits
        if (whole != 0) arrived[stage].copy(to, from, whole);
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage) fetch(blockIdx.x + std::size_t{stage} * gridDim.x, stage);
    unsigned stage = 0, parity = 0;
    for (std::size_t which = blockIdx.x; which < all.batches(); which += gridDim.x) {
        fetch(which + (Stages - 1) * std::size_t{gridDim.x}, (stage + Stages - 1) % Stages);
        arrived[stage].wait(parity);
        all.compute(stage_of<T>(shared, all.batch, stage), which, threadIdx.x, blockDim.x);
        __syncthreads();
        stage = (stage + 1) % Stages;
        if (stage == 0) parity ^= 1;
    }
}

template <typename Form, typename Call>
__global__ void pipelined_on_device(const __grid_constant__ Call all) {
    extern __shared__ __align__(128) unsigned char pipelined_shared[];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    if constexpr (Form::needs_hopper) {
        __trap();  // never launched: pipelined_transform refuses it on such a GPU
    } else {
        run_pipelined(Form{}, all, pipelined_shared);
    }
#else
    run_pipelined(Form{}, all, pipelined_shared);
#endif
}

#endif

template <typename Form, typename Call>
launch_command pipelined_command(Form, const Call&) {
    launch_command made;
#if defined(__CUDACC__)
    made.device_function = reinterpret_cast<const void*>(&pipelined_on_device<Form, Call>);
#endif
    made.host_function = &pipelined_on_host<Call>;
    return made;
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace detail
}  // namespace sluice
