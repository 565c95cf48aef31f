// SPDX-License-Identifier: Apache-2.0
// How the blocks of a cluster exchange partial sums: a warp that has sums of 16 outputs sends them into the shared
// memory of the block that adds them up (st.async), whose mbarrier completes when the parts of all blocks are there.
//
// The tensor cores give lane 4 g + q the sums of rows 2 q and 2 q + 1 and of outputs g and g + 8 of a tile. These four
// floats lie together; so the parts of one source, two rows and one tile are 128 bytes, [g][4].
#pragma once

#include <cstdint>

#include "kernels/resident/resident_requests.cuh"

namespace sluice::kernels::resident {

// After these cycles a block that waits for others looks for an end: some hundred microseconds.
inline constexpr std::uint32_t cycles_before_stop = 1u << 18;

__device__ inline std::uint32_t shared_address(const void* in) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(in));
}

// Relaxed: what a block has read from its own memory by then is read, and nothing that it has written is read after the
// barrier. With a release, each thread waits for its answer's way to the host.
template <int Blocks>
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
    if constexpr (Blocks > 1) asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
template <int Blocks>
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
    if constexpr (Blocks > 1) asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
}

// Before the first exchange: one thread makes the mbarriers. Then all blocks may use them after a cluster_wait.
template <int Blocks>
__device__ inline void begin_exchange(block_state& state) {
#if __CUDA_ARCH__ >= 900
    if constexpr (Blocks > 1) {
        if (threadIdx.x == 0) {
            for (auto& each : state.arrived)
                asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&each)) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        __syncthreads();
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    }
#endif
}

// Every block has inputs of the first layer; so the answer to a request needs something of each.
template <int Blocks>
__device__ inline bool all_take_part(const resident_layout& layout) {
    return layout.layer[0].sources == Blocks;
}

// How many tiles of the layer's outputs this block adds up.
__device__ inline std::uint32_t own_tiles(const resident_layer& layer, std::uint32_t rank) {
    const std::uint32_t first = rank * layer.next_tiles;
    return first < layer.tiles ? min(layer.next_tiles, layer.tiles - first) : 0;
}

// The layer's mbarrier completes with the bytes of a request of that many rows. One thread calls it for each request.
__device__ inline void expect_parts(block_state& state, const resident_layer& layer, std::uint32_t at,
                                    std::uint32_t rank, std::uint32_t rows) {
#if __CUDA_ARCH__ >= 900
    const std::uint32_t bytes = own_tiles(layer, rank) * layer.sources * 128 * ((rows + 1) / 2);
    if (bytes != 0)
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(&state.arrived[at])),
                     "r"(bytes)
                     : "memory");
#endif
}

// Sends a tile's sums; all lanes of a warp call it.
__device__ inline void send_part(unsigned char* shared, block_state& state, const resident_layout& layout,
                                 std::uint32_t at, std::uint32_t rank, std::uint32_t rows, std::uint32_t target,
                                 const float (&sums)[4]) {
#if __CUDA_ARCH__ >= 900
    const resident_layer& layer = layout.layer[at];
    const std::uint32_t lane = threadIdx.x % 32, pair = lane % 4, block = target / 65536;
    if (2 * pair >= rows) return;
    const std::uint32_t place = (rank * layout.pairs() + pair) * layer.next_tiles + target % 65536;
    std::uint32_t to, arrived;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(to)
        : "r"(shared_address(shared + layer.parts) + place * 128 + lane / 4 * 16), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(arrived) : "r"(shared_address(&state.arrived[at])), "r"(block));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(__float_as_uint(sums[0])), "r"(__float_as_uint(sums[1])), "r"(__float_as_uint(sums[2])),
                 "r"(__float_as_uint(sums[3])), "r"(arrived)
                 : "memory");
#endif
}

// Waits until the parts of all blocks are there; returns false when the kernel is to end. `phase` changes with each
// request. (Of the block's scope: at the cluster's each look would invalidate the cache of global memory.)
__device__ inline bool await_parts(block_state& state, std::uint32_t at, std::uint32_t phase,
                                   const std::uint32_t* stop) {
#if __CUDA_ARCH__ >= 900
    const std::uint32_t arrived = shared_address(&state.arrived[at]);
    std::uint32_t begin = static_cast<std::uint32_t>(clock64());
    for (;;) {
        std::uint32_t is_there;
        asm volatile(
            "{.reg .pred there; mbarrier.try_wait.parity.shared.b64 there, [%1], %2; selp.u32 %0, 1, 0, there;}"
            : "=r"(is_there)
            : "r"(arrived), "r"(phase)
            : "memory");
        if (is_there != 0) return true;
        const auto time = static_cast<std::uint32_t>(clock64());
        if (time - begin < cycles_before_stop) continue;
        if (read_host_word(stop) != 0) return false;
        begin = time;
    }
#else
    return true;
#endif
}

// A row and an output of the own tiles, whose parts a thread adds up.
struct own_sum {
    std::uint32_t row, output;
};
// The one of place `i` among [pairs of rows][next_tiles][32].
__device__ inline own_sum own_sum_at(const resident_layer& layer, std::uint32_t i) {
    const std::uint32_t of_pair = layer.next_tiles * 32, pair = i / of_pair, in = i - pair * of_pair;
    return {2 * pair + in % 2, in / 32 * resident_tile + in % 32 / 4 + in % 4 / 2 * 8};
}

// Where the parts of place `i` are. Made before the parts are awaited, and kept in registers from then on: else one
// address is computed from another between two loads.
template <int Blocks>
struct part_addresses {
    static constexpr int groups = Blocks / 4;
    std::uint32_t first[groups];  // of every fourth source
    std::uint32_t pitch;

    __device__ part_addresses(const unsigned char* shared, const resident_layout& layout, const resident_layer& layer,
                              std::uint32_t i)
        : pitch(layout.pairs() * layer.next_tiles * 128) {
#pragma unroll
        for (int group = 0; group < groups; ++group) {
            first[group] = shared_address(shared + layer.parts) + i * 4 + group * 4 * pitch;
            asm volatile("" : "+r"(first[group]));
        }
        asm volatile("" : "+r"(pitch));
    }
    // (The parts of blocks that are no sources are 0.)
    __device__ float sum(float bias) const {
        float sums[4] = {bias, 0, 0, 0};
#pragma unroll
        for (std::uint32_t source = 0; source < Blocks; ++source) {
            float part;
            asm volatile("ld.shared.f32 %0, [%1];"
                         : "=f"(part)
                         : "r"(first[source / 4] + source % 4 * pitch)
                         : "memory");
            sums[source % 4] += part;
        }
        return sums[0] + sums[1] + (sums[2] + sums[3]);
    }
};

}  // namespace sluice::kernels::resident
