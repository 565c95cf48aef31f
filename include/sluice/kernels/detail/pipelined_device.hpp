// SPDX-License-Identifier: Apache-2.0
// The loops of the block pipelines, one a form, as device functions of a group of threads (pipelined_groups.hpp).
// Kernels call them through run_pipelined (pipelined_loops.hpp).
//
// Each runs over the group's batches. `all` has the input (`in`, `batch`, `batches()`, `count(which)`), and `compute`,
// which gets a staged batch. `shared` is for as many batches as the form has stages.
#pragma once

#include <cstddef>

#include "sluice/kernels/detail/pipelined_groups.hpp"
#include "sluice/kernels/pipelined_forms.hpp"

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>

#include <cuda/pipeline>

#include "sluice/kernels/mbarrier.hpp"

namespace sluice::detail {

inline namespace SLUICE_LAUNCH_ABI {

// Where a stage's elements are.
template <typename T>
__device__ T* stage_of(void* shared, const std::size_t batch, unsigned stage) {
    return static_cast<T*>(shared) + stage * batch;
}

template <typename Group, typename Call>
__device__ void run_form(pipelined::plain_loads, Group group, const Call& all, void* shared) {
    using T = typename Call::element;
    T* const staged = static_cast<T*>(shared);
    for (std::size_t which = group.first(); which < all.batches(); which += group.step()) {
        const std::size_t count = all.count(which);
        const T* const from = all.in + which * all.batch;
        for (std::size_t i = group.rank(); i < count; i += group.size()) staged[i] = from[i];
        group.sync();
        all.compute(staged, which, group.rank(), group.size());
        group.sync();
    }
}

// The group's pipeline state, as bytes: nvcc warns that constructors of shared variables do not run; this one need not,
// since make_pipeline makes it.
template <unsigned Stages, typename Group>
__device__ auto& pipeline_state() {
    using state = cuda::pipeline_shared_state<cuda::thread_scope_block, Stages>;
    __shared__ alignas(state) unsigned char bytes[sizeof(state)];
    return *reinterpret_cast<state*>(bytes);
}

// After a loop on a pipeline: no thread of the group uses the pipeline or the stages any more.
template <typename Group, typename Pipeline>
__device__ void leave(Group group, Pipeline& pipe) {
    pipe.quit();
    group.sync();
}

// Copies a batch, the whole group together.
template <typename Group, typename Call, typename Pipeline>
__device__ void fetch_together(Group group, const Call& all, std::size_t which, typename Call::element* to,
                               Pipeline& pipe) {
    using T = typename Call::element;
    const auto block = group.cooperative();
    const T* const from = all.in + which * all.batch;
    pipe.producer_acquire();
    if (all.count(which) == all.batch) {
        cuda::memcpy_async(block, to, from, cuda::aligned_size_t<16>(all.batch * sizeof(T)), pipe);
    } else {
        cuda::memcpy_async(block, to, from, all.count(which) * sizeof(T), pipe);
    }
    pipe.producer_commit();
}

template <unsigned Stages, typename Group, typename Call>
__device__ void run_form(pipelined::n_stages<Stages>, Group group, const Call& all, void* shared) {
    using T = typename Call::element;
    auto& state = pipeline_state<Stages, Group>();
    auto pipe = cuda::make_pipeline(group.cooperative(), &state);
    std::size_t fetched = group.first();
    unsigned filling = 0, stage = 0;
    for (std::size_t which = group.first(); which < all.batches(); which += group.step()) {
        for (; fetched < all.batches() && fetched < which + Stages * group.step(); fetched += group.step()) {
            fetch_together(group, all, fetched, stage_of<T>(shared, all.batch, filling), pipe);
            filling = (filling + 1) % Stages;
        }
        pipe.consumer_wait();
        all.compute(stage_of<T>(shared, all.batch, stage), which, group.rank(), group.size());
        pipe.consumer_release();
        stage = (stage + 1) % Stages;
    }
    if constexpr (Group::continues) leave(group, pipe);
}

// What this thread does in a form with roles: its rank among the producers if it produces, else among the consumers.
template <typename Group, unsigned Producers>
struct role_by_rank {
    __device__ static bool produces() { return Group::rank() < Producers; }
    __device__ static unsigned producer() { return Group::rank(); }
    __device__ static constexpr unsigned producers() { return Producers; }
    __device__ static unsigned consumer() { return Group::rank() - Producers; }
    __device__ static unsigned consumers() { return Group::size() - Producers; }
};
template <typename Group, unsigned Stages, unsigned Producers>
__device__ role_by_rank<Group, Producers> role_in(Group, pipelined::roles<Stages, Producers>) {
    return {};
}

template <typename Group>
struct role_by_predicate {
    bool is_producer;
    unsigned before, all;  // producers of lower rank, and of the group

    __device__ bool produces() const { return is_producer; }
    __device__ unsigned producer() const { return before; }
    __device__ unsigned producers() const { return all; }
    __device__ unsigned consumer() const { return Group::rank() - before; }
    __device__ unsigned consumers() const { return Group::size() - all; }
};
// The warp asks the predicate for 32 ranks at a time.
template <typename Group, unsigned Stages, typename Which>
__device__ role_by_predicate<Group> role_in(Group group, pipelined::roles_where<Stages, Which>) {
    const unsigned lane = group.rank() % 32;
    unsigned before = 0, producers = 0;
    for (unsigned first = 0; first < group.size(); first += 32) {
        const unsigned accepted = __ballot_sync(0xffffffff, Which{}(first + lane));
        producers += __popc(accepted);
        const unsigned below = group.rank() <= first ? 0 : group.rank() - first;
        before += __popc(below >= 32 ? accepted : accepted & ((1u << below) - 1));
    }
    return {static_cast<bool>(Which{}(group.rank())), before, producers};
}

template <typename Form, typename Group, typename Call>
__device__ void run_roles(Form form, Group group, const Call& all, void* shared) {
    using T = typename Call::element;
    auto& state = pipeline_state<Form::stages, Group>();
    const auto role = role_in(group, form);
    const bool produces = role.produces();
    auto pipe = cuda::make_pipeline(group.cooperative(), &state,
                                    produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    constexpr std::size_t piece = 16 / sizeof(T);
    unsigned stage = 0;
    for (std::size_t which = group.first(); which < all.batches(); which += group.step()) {
        T* const staged = stage_of<T>(shared, all.batch, stage);
        if (produces) {
            const std::size_t count = all.count(which), whole = count / piece * piece;
            const T* const from = all.in + which * all.batch;
            pipe.producer_acquire();
            for (std::size_t i = role.producer() * piece; i < whole; i += role.producers() * piece) {
                cuda::memcpy_async(staged + i, from + i, cuda::aligned_size_t<16>(16), pipe);
            }
            for (std::size_t i = whole + role.producer(); i < count; i += role.producers()) {
                cuda::memcpy_async(staged + i, from + i, sizeof(T), pipe);
            }
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            all.compute(staged, which, role.consumer(), role.consumers());
            pipe.consumer_release();
        }
        stage = (stage + 1) % Form::stages;
    }
    if constexpr (Group::continues) leave(group, pipe);
}

template <unsigned Stages, unsigned Producers, typename Group, typename Call>
__device__ void run_form(pipelined::roles<Stages, Producers> form, Group group, const Call& all, void* shared) {
    run_roles(form, group, all, shared);
}

template <unsigned Stages, typename Which, typename Group, typename Call>
__device__ void run_form(pipelined::roles_where<Stages, Which> form, Group group, const Call& all, void* shared) {
    run_roles(form, group, all, shared);
}

template <unsigned Stages, typename Group, typename Call>
__device__ void run_form(pipelined::thread_scope<Stages>, Group group, const Call& all, void* shared) {
    using T = typename Call::element;
    auto pipe = cuda::make_pipeline();  // of this thread alone
    constexpr std::size_t piece = 16 / sizeof(T);
    const auto fetch = [&](std::size_t which, unsigned stage) {
        pipe.producer_acquire();
        if (which < all.batches()) {
            const std::size_t count = all.count(which), whole = count / piece * piece;
            const T* const from = all.in + which * all.batch;
            T* const to = stage_of<T>(shared, all.batch, stage);
            for (std::size_t i = group.rank() * piece; i < whole; i += group.size() * piece) {
                cuda::memcpy_async(to + i, from + i, cuda::aligned_size_t<16>(16), pipe);
            }
            for (std::size_t i = whole + group.rank(); i < count; i += group.size()) {
                cuda::memcpy_async(to + i, from + i, sizeof(T), pipe);
            }
        }
        pipe.producer_commit();
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage)
        fetch(group.first() + std::size_t{stage} * group.step(), stage);
    unsigned stage = 0;
    for (std::size_t which = group.first(); which < all.batches(); which += group.step()) {
        fetch(which + (Stages - 1) * std::size_t{group.step()}, (stage + Stages - 1) % Stages);
        cuda::pipeline_consumer_wait_prior<Stages - 1>(pipe);
        group.sync();
        all.compute(stage_of<T>(shared, all.batch, stage), which, group.rank(), group.size());
        pipe.consumer_release();
        group.sync();  // before the stage is filled again
        stage = (stage + 1) % Stages;
    }
}

// The same in a warp: group.sync() is __syncwarp, and the warp has its own stages.
template <unsigned Stages, typename Group, typename Call>
__device__ void run_form(pipelined::warp_scope<Stages>, Group group, const Call& all, void* shared) {
    run_form(pipelined::thread_scope<Stages>{}, group, all,
             stage_of<typename Call::element>(shared, all.batch, Stages * group.pipeline()));
}

// This thread's pieces of a batch by the C primitives; the last piece is filled up with zeros.
template <typename Group, typename Call>
__device__ void fetch_pieces(Group group, const Call& all, std::size_t which, typename Call::element* to) {
    using T = typename Call::element;
    const std::size_t bytes = all.count(which) * sizeof(T);
    const auto* const from = reinterpret_cast<const unsigned char*>(all.in + which * all.batch);
    auto* const there = reinterpret_cast<unsigned char*>(to);
    for (std::size_t i = group.rank() * 16; i < bytes; i += group.size() * 16) {
        const std::size_t left = bytes - i;
        __pipeline_memcpy_async(there + i, from + i, 16, left < 16 ? 16 - left : 0);
    }
}

template <unsigned Stages, typename Group, typename Call>
__device__ void run_form(pipelined::primitives<Stages>, Group group, const Call& all, void* shared) {
    using T = typename Call::element;
    const auto fetch = [&](std::size_t which, unsigned stage) {
        if (which < all.batches()) fetch_pieces(group, all, which, stage_of<T>(shared, all.batch, stage));
        __pipeline_commit();  // an empty one counts too
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage)
        fetch(group.first() + std::size_t{stage} * group.step(), stage);
    unsigned stage = 0;
    for (std::size_t which = group.first(); which < all.batches(); which += group.step()) {
        fetch(which + (Stages - 1) * std::size_t{group.step()}, (stage + Stages - 1) % Stages);
        __pipeline_wait_prior(Stages - 1);
        group.sync();
        all.compute(stage_of<T>(shared, all.batch, stage), which, group.rank(), group.size());
        group.sync();
        stage = (stage + 1) % Stages;
    }
}

template <unsigned Stages, typename Group, typename Call>
__device__ void run_form(pipelined::arrivals<Stages>, Group group, const Call& all, void* shared) {
    using T = typename Call::element;
    __shared__ __mbarrier_t arrived[Stages];
    if (group.rank() < Stages) __mbarrier_init(&arrived[group.rank()], group.size());
    group.sync();
    const auto fetch = [&](std::size_t which, unsigned stage) {
        if (which >= all.batches()) return;
        fetch_pieces(group, all, which, stage_of<T>(shared, all.batch, stage));
        __pipeline_arrive_on(
            &arrived[stage]);  // once the copies are there; counts as one more arrival that is expected
        static_cast<void>(__mbarrier_arrive(&arrived[stage]));
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage)
        fetch(group.first() + std::size_t{stage} * group.step(), stage);
    unsigned stage = 0;
    bool parity = false;
    for (std::size_t which = group.first(); which < all.batches(); which += group.step()) {
        fetch(which + (Stages - 1) * std::size_t{group.step()}, (stage + Stages - 1) % Stages);
        while (!__mbarrier_try_wait_parity(&arrived[stage], parity, 1000)) {
        }
        all.compute(stage_of<T>(shared, all.batch, stage), which, group.rank(), group.size());
        group.sync();
        stage = (stage + 1) % Stages;
        if (stage == 0) parity = !parity;
    }
    if constexpr (Group::continues) {
        if (group.rank() < Stages) __mbarrier_inval(&arrived[group.rank()]);
    }
}

template <unsigned Stages, typename Group, typename Call>
__device__ void run_form(pipelined::bulk<Stages>, Group group, const Call& all, void* shared) {
    using T = typename Call::element;
    __shared__ kernels::mbarrier arrived[Stages];
    if (group.rank() == 0) {
        for (auto& each : arrived) each.init(1);
        kernels::mbarrier::publish_inits();
    }
    // Bulk copies do not see by themselves what threads have written to the stages before.
    if constexpr (Group::continues) kernels::mbarrier::publish_writes();
    group.sync();
    const auto fetch = [&](std::size_t which, unsigned stage) {
        if (group.rank() != 0 || which >= all.batches()) return;
        const std::size_t bytes = all.count(which) * sizeof(T), whole = bytes / 16 * 16;
        T* const to = stage_of<T>(shared, all.batch, stage);
        const T* const from = all.in + which * all.batch;
        for (std::size_t i = whole / sizeof(T); i < all.count(which); ++i) to[i] = from[i];  // fewer than 16 bytes
        arrived[stage].arrive_expecting(whole);  // after that, and so before a thread that waits
        if (whole != 0) arrived[stage].copy(to, from, whole);
    };
    for (unsigned stage = 0; stage + 1 < Stages; ++stage)
        fetch(group.first() + std::size_t{stage} * group.step(), stage);
    unsigned stage = 0, parity = 0;
    for (std::size_t which = group.first(); which < all.batches(); which += group.step()) {
        fetch(which + (Stages - 1) * std::size_t{group.step()}, (stage + Stages - 1) % Stages);
        arrived[stage].wait(parity);
        all.compute(stage_of<T>(shared, all.batch, stage), which, group.rank(), group.size());
        group.sync();
        stage = (stage + 1) % Stages;
        if (stage == 0) parity ^= 1;
    }
    if constexpr (Group::continues) {
        if (group.rank() == 0) {
            for (auto& each : arrived) each.invalidate();
        }
    }
}

template <unsigned Threads, typename Of, unsigned First, unsigned Barrier, typename Group, typename Call>
__device__ void run_form(pipelined::part<Threads, Of, First, Barrier>, Group group, const Call& all, void* shared) {
    run_form(Of{}, group, all, shared);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail

#endif
