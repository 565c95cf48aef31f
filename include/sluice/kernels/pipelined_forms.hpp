// SPDX-License-Identifier: Apache-2.0
// The forms of a block pipeline, as types: who copies, who waits, how many batches are on their way, and which threads
// of the block take part. pipelined_transform and run_pipelined take them (docs/pipelines.md says when each wins, with
// measurements):
//
//     plain_loads           a batch is loaded, then computed on: nothing overlaps inside a block
//     one_stage             cuda::pipeline with one stage: the copy needs no registers, but nothing overlaps either
//     two_stages            the next batch is copied while this one is computed on
//     n_stages<N>           the next N - 1 are
//     roles<N, Producers>   the first `Producers` threads of the block copy, the others compute
//     roles_where<N, Which> the threads copy whose rank Which accepts, the others compute
//     thread_scope<N>       each thread waits for its own copies, __syncthreads for the others'
//     warp_scope<N>         a pipeline for each warp: batches of its own, and __syncwarp instead of __syncthreads
//     primitives<N>         thread_scope with the C primitives and zero fill at the ragged end
//     arrivals<N>           the C primitives, the copies arriving on a barrier in shared memory
//     bulk<N>               Hopper's bulk copies: one thread asks for a batch, a barrier counts its bytes
//
//     part<Threads, Form>   `Form` by the first `Threads` threads of the block; the others take no part
//
// All functions here take constant time, but for fits of roles_where, which asks Which about each thread.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/base/kernel.hpp"

namespace sluice {

// How pipelined_transform and pipelined_reduce launch a form.
struct pipelined_options {
    unsigned threads = 256;          // of a block, those that only copy or take no part included; at most 1024
    std::size_t batch_bytes = 8192;  // a multiple of 16; shared memory holds as many as the form has stages, for
                                     // warp_scope that many for each warp
    unsigned blocks = 0;             // 0: as many as the device runs at once with 48 KiB of shared memory each
};

}  // namespace sluice

namespace sluice::pipelined {

// What every form has.
struct form {
    static constexpr unsigned stages = 1;        // batches of a block that are in shared memory at a time
    static constexpr bool needs_hopper = false;  // sm_90 or later
    // Whether a block of that many threads can run the form. The number is a multiple of 32 in any case.
    SLUICE_KERNEL static constexpr bool fits(unsigned threads) { return threads >= 32 && threads % 32 == 0; }
    // How many pipelines such a block runs, each with batches of its own.
    SLUICE_KERNEL static constexpr unsigned pipelines(unsigned) { return 1; }
    static constexpr bool is_part = false;  // not all threads of the block take part
};
// What the forms with several stages have.
template <unsigned Stages>
struct staged_form : form {
    static_assert(Stages >= 1 && Stages <= 255, "a pipeline has from 1 to 255 stages");
    static constexpr unsigned stages = Stages;  // see form
};

// Loads a batch, then computes on it: nothing overlaps inside a block.
struct plain_loads : form {};
// Computes on one batch while the next Stages - 1 are copied.
template <unsigned Stages>
struct n_stages : staged_form<Stages> {};
using one_stage = n_stages<1>;   // nothing overlaps, but the copy needs no registers
using two_stages = n_stages<2>;  // the next batch is copied meanwhile
// The first `Producers` threads of the block copy, the others compute.
template <unsigned Stages, unsigned Producers>
struct roles : staged_form<Stages> {
    static_assert(Producers >= 1, "roles needs at least one thread that copies");
    // One thread at least computes.
    SLUICE_KERNEL static constexpr bool fits(unsigned threads) { return form::fits(threads) && Producers < threads; }
};
// Each thread waits for its own copies, and with __syncthreads for those of the others.
template <unsigned Stages>
struct thread_scope : staged_form<Stages> {};
// A pipeline for each warp, with batches of its own; __syncwarp takes the place of __syncthreads.
template <unsigned Stages>
struct warp_scope : staged_form<Stages> {
    SLUICE_KERNEL static constexpr unsigned pipelines(unsigned threads) { return threads / 32; }  // one for each warp
};
// thread_scope with the C primitives, and zero fill at the ragged end.
template <unsigned Stages>
struct primitives : staged_form<Stages> {};
// The C primitives; the copies arrive on a barrier in shared memory.
template <unsigned Stages>
struct arrivals : staged_form<Stages> {
    // Each stage's barrier has a thread that makes it ready.
    SLUICE_KERNEL static constexpr bool fits(unsigned threads) { return form::fits(threads) && Stages <= threads; }
};
// Bulk copies of Hopper: one thread asks for a batch, and a barrier counts its bytes.
template <unsigned Stages>
struct bulk : staged_form<Stages> {
    static constexpr bool needs_hopper = true;  // bulk copies
};

// Predicates for roles_where. One of your own is a type without data:
//
//     struct last_lanes {
//         SLUICE_KERNEL constexpr bool operator()(unsigned rank) const { return rank % 32 >= 28; }
//     };
struct even_ranks {
    SLUICE_KERNEL constexpr bool operator()(unsigned rank) const { return rank % 2 == 0; }
};
// The opposite of even_ranks.
struct odd_ranks {
    SLUICE_KERNEL constexpr bool operator()(unsigned rank) const { return rank % 2 == 1; }
};
// The first `Producers` threads: the same as roles.
template <unsigned Producers>
struct first_ranks {
    static_assert(Producers >= 1, "at least one thread copies");
    SLUICE_KERNEL constexpr bool operator()(unsigned rank) const { return rank < Producers; }
};

// `Which` accepts at least one rank of those that take part, and not all.
template <unsigned Stages, typename Which>
struct roles_where : staged_form<Stages> {
    static_assert(std::is_empty_v<Which> && std::is_trivially_default_constructible_v<Which>,
                  "the predicate of roles_where is a type without data: each thread makes one");
    static_assert(std::is_invocable_r_v<bool, const Which&, unsigned>,
                  "the predicate of roles_where is called as bool(unsigned rank), on a const object");
    // Whether some threads copy and some compute.
    SLUICE_KERNEL static constexpr bool fits(unsigned threads) {
        unsigned producers = 0;
        for (unsigned rank = 0; rank < threads; ++rank) producers += Which{}(rank) ? 1 : 0;
        return form::fits(threads) && producers != 0 && producers != threads;
    }
};

// `Threads` threads of the block run `Of`, from the thread `First` on; their ranks begin with 0. The others return from
// run_pipelined at once and may do something else, another part too. `Barrier` is the number of a barrier of the block,
// which nothing else in the kernel uses meanwhile; 0 is that of __syncthreads.
template <unsigned Threads, typename Of, unsigned First = 0, unsigned Barrier = 1>
struct part : Of {
    static_assert(std::is_base_of_v<form, Of>, "part<Threads, Form>: the second argument is a form");
    static_assert(!Of::is_part, "part<Threads, Form>: the form is not a part itself");
    static constexpr bool is_part = true;  // it is one
    static_assert(Threads >= 32 && Threads % 32 == 0 && First % 32 == 0, "a part of a block is whole warps");
    static_assert(First <= 1024 && Threads <= 1024 - First, "a block has at most 1024 threads");
    static_assert(Barrier >= 1 && Barrier <= 15, "a part synchronises on a barrier from 1 to 15");
    static_assert(Of::fits(Threads), "that many threads cannot run this form");
    // Whether the part's threads are in the block.
    SLUICE_KERNEL static constexpr bool fits(unsigned threads) {
        return form::fits(threads) && First + Threads <= threads;
    }
    // Of the part's threads.
    SLUICE_KERNEL static constexpr unsigned pipelines(unsigned) { return Of::pipelines(Threads); }
};

// The shared memory that a block of `threads` threads needs for batches of `batch_bytes`.
template <typename Form>
SLUICE_KERNEL constexpr std::size_t shared_bytes(unsigned threads, std::size_t batch_bytes) {
    return std::size_t{Form::pipelines(threads)} * Form::stages * batch_bytes;
}

}  // namespace sluice::pipelined
