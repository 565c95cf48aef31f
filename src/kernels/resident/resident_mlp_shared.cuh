// SPDX-License-Identifier: Apache-2.0
// The kernel of a network that stays on a GPU in lanes of several blocks, where each layer is regular
// (resident_layout::is_regular): what resident_mlp.cuh says, with all addresses computed before the first request. Most
// of the time of a layer would else be the latency of the instructions that compute them.
#pragma once

#include <cstdint>

#include "kernels/resident/resident_mlp.cuh"

namespace sluice::kernels::resident {

// What a thread needs of a layer. Addresses are of shared memory.
struct thread_layer {
    std::uint32_t operand;     // of this lane's first inputs
    std::uint32_t weights[2];  // of the warp's tiles
    std::uint32_t parts[2];    // where this lane's sums of a tile go, in the cluster
    std::uint32_t arrived[2];  // the mbarriers of these blocks
    std::uint32_t output;      // where the sum that this thread adds up goes
    float bias;                // of that sum
};
inline constexpr std::uint32_t nowhere = 0xffffffff;

__device__ inline std::uint32_t address_in(std::uint32_t block, std::uint32_t address) {
    std::uint32_t there = 0;
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
#endif
    return there;
}
__device__ inline uint4 load_16(std::uint32_t address) {
    uint4 made;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(made.x), "=r"(made.y), "=r"(made.z), "=r"(made.w)
                 : "r"(address)
                 : "memory");
    return made;
}
__device__ inline std::uint32_t load_4(std::uint32_t address) {
    std::uint32_t made;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(made) : "r"(address) : "memory");
    return made;
}

// Where the sum of this row and output of the own tiles goes: into the next layer's operand, the results of a softmax,
// or the answer.
__device__ inline std::uint32_t place_of(const unsigned char* shared, const resident_layout& layout, std::uint32_t at,
                                         std::uint32_t row, std::uint32_t output) {
    const resident_layer& layer = layout.layer[at];
    const std::uint32_t base = shared_address(shared);
    if (at + 1 != layout.layers) {
        const resident_layer& next = layout.layer[at + 1];
        return base + next.operand + (row * next.operand_pitch + output) * 2;
    }
    if (row >= layout.rows || output >= layer.outputs) return nowhere;
    const std::uint32_t place = row * layer.outputs + output;
    return layer.after == activation::softmax ? base + layout.results + place * 4 : base + layout.answer + place * 2;
}

__device__ inline thread_layer thread_layer_of(const unsigned char* shared, block_state& state,
                                               const resident_layout& layout, std::uint32_t at, std::uint32_t rank) {
    const resident_layer& layer = layout.layer[at];
    const std::uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32, base = shared_address(shared);
    thread_layer made;
    made.operand = base + layer.operand + (lane / 4 * layer.operand_pitch + lane % 4 * 2) * 2;
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t tile = min(threadIdx.x / 32 + i * warps, layer.tiles - 1);
        const std::uint32_t target = target_of(shared, layer, tile), block = target / 65536;
        const std::uint32_t place = (rank * layout.pairs() + lane % 4) * layer.next_tiles + target % 65536;
        const bool sends = rank < layer.sources && threadIdx.x / 32 + i * warps < layer.tiles;
        made.weights[i] = base + layer.weights + (tile * layer.steps * 32 + lane) * 16;
        made.parts[i] = sends ? address_in(block, base + layer.parts + place * 128 + lane / 4 * 16) : nowhere;
        made.arrived[i] = address_in(block, shared_address(&state.arrived[at]));
    }
    const own_sum mine = own_sum_at(layer, threadIdx.x);
    const bool adds = mine.row < most_resident_rows && mine.output < own_tiles(layer, rank) * resident_tile;
    made.output = adds ? place_of(shared, layout, at, mine.row, mine.output) : nowhere;
    made.bias = adds ? reinterpret_cast<const float*>(shared + layer.biases)[mine.output] : 0;
    return made;
}

struct warp_weights {
    uint4 tile[2][4];
};

template <std::uint32_t Steps>
__device__ inline void fetch_steps(warp_weights& to, const thread_layer& thread, bool has_second) {
#pragma unroll
    for (std::uint32_t step = 0; step < Steps; ++step) {
        to.tile[0][step] = load_16(thread.weights[0] + step * 512);
        if (has_second) to.tile[1][step] = load_16(thread.weights[1] + step * 512);
    }
}
template <typename T, std::uint32_t Steps>
__device__ inline void multiply_steps(float (&sums)[2][4], const warp_weights& weights, const thread_layer& thread,
                                      bool has_second) {
    uint2 right[Steps];
#pragma unroll
    for (std::uint32_t step = 0; step < Steps; ++step)
        right[step] = {load_4(thread.operand + step * 32), load_4(thread.operand + step * 32 + 16)};
    float odd[2][4] = {};
#pragma unroll
    for (std::uint32_t step = 0; step < Steps; ++step) {
        multiply_step<T>(step % 2 == 0 ? sums[0] : odd[0], weights.tile[0][step], right[step]);
        if (has_second) multiply_step<T>(step % 2 == 0 ? sums[1] : odd[1], weights.tile[1][step], right[step]);
    }
    add_to(sums[0], odd[0]);
    add_to(sums[1], odd[1]);
}

// Layers have 2 or 4 steps (resident_regular_steps): without a branch between two steps, all loads are begun at
// once.
__device__ inline void fetch(warp_weights& to, const thread_layer& thread, const resident_layer& layer) {
    const bool has_second = layer.tiles > blockDim.x / 32;
    if (layer.steps == 2) return fetch_steps<2>(to, thread, has_second);
    fetch_steps<4>(to, thread, has_second);
}
template <typename T>
__device__ inline void multiply_whole(float (&sums)[2][4], const warp_weights& weights, const thread_layer& thread,
                                      const resident_layer& layer) {
    const bool has_second = layer.tiles > blockDim.x / 32;
    if (layer.steps == 2) return multiply_steps<T, 2>(sums, weights, thread, has_second);
    multiply_steps<T, 4>(sums, weights, thread, has_second);
}

__device__ inline void send(std::uint32_t to, std::uint32_t arrived, const float (&sums)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(__float_as_uint(sums[0])), "r"(__float_as_uint(sums[1])), "r"(__float_as_uint(sums[2])),
                 "r"(__float_as_uint(sums[3])), "r"(arrived)
                 : "memory");
#endif
}

template <typename T>
__device__ inline void put_sum(std::uint32_t to, float sum, activation after, bool as_float) {
    if (as_float)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(sum) : "memory");
    else
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(bits_of<T>(after_layer(sum, after))) : "memory");
}

// One request: all layers. Returns false, to all threads, when the kernel is to end.
template <typename T, int Blocks, int Layers>
__device__ inline bool run_layers(unsigned char* shared, block_state& state, const resident_call& call,
                                  const thread_layer (&threads)[Layers], warp_weights& weights, std::uint32_t rank,
                                  std::uint32_t rows, std::uint32_t phase) {
    const resident_layout& layout = call.layout;
    const bool sends = threadIdx.x % 4 * 2 < rows;
    bool is_whole = true;
#pragma unroll
    for (std::uint32_t at = 0; at < Layers; ++at) {
        const resident_layer& layer = layout.layer[at];
        const thread_layer& thread = threads[at];
        float sums[2][4] = {};
        __syncwarp();  // the tensor cores take whole warps
        multiply_whole<T>(sums, weights, thread, layer);
        if (sends && thread.parts[0] != nowhere) send(thread.parts[0], thread.arrived[0], sums[0]);
        if (sends && thread.parts[1] != nowhere) send(thread.parts[1], thread.arrived[1], sums[1]);
        // (By the last thread: the first warps wait for the parts.)
        if (threadIdx.x + 1 == blockDim.x) expect_parts(state, layer, at, rank, rows);
        // What the next layer needs is fetched before this layer's sums are there.
        if (at + 1 < Layers) fetch(weights, threads[at + 1], layout.layer[at + 1]);
        const bool adds = thread.output != nowhere && threadIdx.x < (rows + 1) / 2 * layer.next_tiles * 32;
        if (adds) {
            const part_addresses<Blocks> parts(shared, layout, layer, threadIdx.x);
            is_whole = await_parts(state, at, phase, call.stop);
            const float sum = parts.sum(thread.bias);
            if (is_whole)
                put_sum<T>(thread.output, sum, layer.after, at + 1 == Layers && layer.after == activation::softmax);
        }
        is_whole = __syncthreads_and(is_whole) != 0;
        if (!is_whole) break;
    }
    return is_whole;
}

}  // namespace sluice::kernels::resident

namespace sluice::kernels {

template <typename T, int Blocks, int Layers>
__global__ void __launch_bounds__(512, 1) resident_mlp_shared(const __grid_constant__ resident_call call) {
    using namespace resident;
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ block_state state;
    const resident_layout& layout = call.layout;
    const std::uint32_t rank = blockIdx.x % Blocks;
    begin(shared, state, call, rank);
    begin_exchange<Blocks>(state);
    const bool may_be_late = !all_take_part<Blocks>(layout);
    if (!may_be_late) cluster_wait<Blocks>();
    thread_layer threads[Layers];
    const auto prepare = [&] {
#pragma unroll
        for (std::uint32_t at = 0; at < Layers; ++at) threads[at] = thread_layer_of(shared, state, layout, at, rank);
    };
    prepare();
    warp_weights weights;
    answer_requests<T, Blocks>(
        shared, state, call, Layers - 1, may_be_late, [&] { fetch(weights, threads[0], layout.layer[0]); }, prepare,
        [&](std::uint32_t rows, std::uint32_t phase) {
            return run_layers<T, Blocks>(shared, state, call, threads, weights, rank, rows, phase);
        });
}

}  // namespace sluice::kernels
