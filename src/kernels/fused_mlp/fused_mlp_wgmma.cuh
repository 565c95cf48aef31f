// SPDX-License-Identifier: Apache-2.0
// fused_mlp on Hopper: a warpgroup owns 64 rows and takes them through all layers. wgmma reads the activations from
// registers and the weights from shared memory; its accumulators, rounded, are the next layer's left operand where they
// are. Warpgroups share only the weights, and do not wait for each other: while one rounds, others multiply.
//
// Two kernels: `resident` keeps all weights in shared memory; `streamed`, for networks that do not fit, brings them
// from L2 again for every block of rows, through a ring of 32 KiB stages that a further warpgroup fills ahead.
//
// `resident` adds the biases on the tensor cores, as one more step of k whose left operand is ones: adding them to the
// accumulators in registers took a fifth of the time. `streamed` has no room for that, and does.
//
// Shared memory: barriers, biases, weights (see fused_mlp_dispatch.hpp).
#pragma once

#include "kernels/fused_mlp/fused_mlp_rows.cuh"
#include "kernels/tensor_cores/warpgroup.cuh"
#include "kernels/tensor_cores/wgmma.cuh"
#include "sluice/kernels/mbarrier.hpp"

namespace sluice::kernels {

inline constexpr std::size_t fused_barrier_bytes = 256;
inline constexpr std::size_t fused_stage_bytes = 32 * 1024;
inline constexpr int fused_stages = 6;

constexpr std::size_t fused_resident_bytes(std::size_t layers, std::size_t width) {
    return fused_barrier_bytes + layers * (width * width * 2 + fused_slab_bytes(width));
}
constexpr std::size_t fused_streamed_bytes(std::size_t layers, std::size_t width) {
    return fused_barrier_bytes + fused_bias_bytes(layers, width) + fused_stages * fused_stage_bytes;
}

template <typename T, int Width, int Groups, bool Whole, bool Biased>
__global__ void __launch_bounds__(Groups* threads_of_group, 1)
    fused_mlp_resident(const __grid_constant__ fused_mlp_call all) {
    constexpr int blocks = Width / 8, steps = Width / 16;
    constexpr unsigned layer_bytes = 2 * Width * Width;
    extern __shared__ __align__(1024) unsigned char shared[];
    auto* const arrived = reinterpret_cast<mbarrier*>(shared);  // one a layer
    const unsigned layers = all.form.layers;
    constexpr unsigned slab_bytes = fused_slab_bytes(Width);
    constexpr unsigned stored_bytes = layer_bytes + slab_bytes;  // weights, then biases
    unsigned char* const weights = shared + fused_barrier_bytes;

    if (threadIdx.x == 0) {
        for (unsigned layer = 0; layer < layers; ++layer) arrived[layer].init(1);
        mbarrier::publish_inits();
        const auto* const image = static_cast<const unsigned char*>(all.image) + fused_bias_bytes(layers, Width);
        for (unsigned layer = 0; layer < layers; ++layer) {
            unsigned char* const to = weights + layer * stored_bytes;
            arrived[layer].arrive_expecting(stored_bytes);
            arrived[layer].copy(to, image + layer * layer_bytes, layer_bytes);
            arrived[layer].copy(to + layer_bytes, image + layers * layer_bytes + layer * slab_bytes, slab_bytes);
        }
    }
    // Tiles go round the blocks first, so that few rows are spread over many multiprocessors.
    unsigned tile = blockIdx.x + group_of_thread() * gridDim.x;
    const unsigned tiles = (all.rows + rows_of_group - 1) / rows_of_group;
    const unsigned stride = gridDim.x * (blockDim.x / threads_of_group);

    std::uint32_t next[steps][4];
    load_inputs<Whole>(next, all, first_row_in(tile));
    __syncthreads();

    // A one for each of the three parts of a bias.
    constexpr unsigned one = std::is_same_v<T, half> ? 0x3c00 : 0x3f80;
    const std::uint32_t one_or_two = threadIdx.x % 4 == 0 ? one << 16 | one : threadIdx.x % 4 == 1 ? one : 0;
    const std::uint32_t ones[4] = {one_or_two, one_or_two, 0, 0};
    const std::uint64_t first_operand = wgmma_operand(weights);
    float d[blocks][4] = {};
    for (bool is_first = true; tile < tiles; is_first = false) {
        std::uint32_t a[steps][4];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
#pragma unroll
            for (int part = 0; part < 4; ++part) a[step][part] = next[step][part];
        }
        const std::size_t row = first_row_in(tile);
        tile += stride;
        load_inputs<Whole>(next, all, first_row_in(tile));  // while this tile is worked on

        std::uint64_t operand = first_operand;
        for (unsigned layer = 0;;) {
            if (is_first) arrived[layer].wait(0);
            wgmma_begin();
            if constexpr (Biased) wgmma<T>(d, ones, operand + layer_bytes / 16, 0);
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                wgmma<T>(d, a[step], operand + step * (slab_bytes / 16), Biased || step > 0);
            }
            wgmma_commit();
            const activation after = all.form.after[layer];  // while the tensor cores work
            operand += stored_bytes / 16;
            wgmma_wait<0>();
            wgmma_hold(d);
            if (++layer == layers) break;
            finish_hidden<T>(a, d, after, all.form.features[layer]);
        }
        store_outputs<T, Whole>(d, all, row);
    }
}

template <typename T, int Width, int Groups, bool Whole>
__global__ void __launch_bounds__((Groups + 1) * threads_of_group, 1)
    fused_mlp_streamed(const __grid_constant__ fused_mlp_call all) {
    constexpr int blocks = Width / 8, steps = Width / 16;
    constexpr int steps_of_stage = fused_stage_bytes / (Width * 32);
    constexpr int stages_of_layer = steps / steps_of_stage;
    static_assert(steps % steps_of_stage == 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    auto* const biases_arrived = reinterpret_cast<mbarrier*>(shared);
    mbarrier* const filled = biases_arrived + 1;
    mbarrier* const emptied = filled + fused_stages;
    const unsigned layers = all.form.layers;
    const std::size_t bias_bytes = fused_bias_bytes(layers, Width);
    unsigned char* const biases = shared + fused_barrier_bytes;
    unsigned char* const ring = biases + bias_bytes;

    if (threadIdx.x == 0) {
        biases_arrived->init(1);
        for (int stage = 0; stage < fused_stages; ++stage) {
            filled[stage].init(1);
            emptied[stage].init(Groups);
        }
        mbarrier::publish_inits();
    }
    __syncthreads();

    static_assert(Groups == 2 || Groups == 3, "the registers below are for these");
    constexpr unsigned rows_of_block = Groups * rows_of_group;
    const unsigned rounds = (all.rows + rows_of_block - 1) / rows_of_block;
    const unsigned group = group_of_thread();
    int stage = 0;
    unsigned parity = 0;  // of the ring's current turn
    const auto advance = [&] {
        if (++stage < fused_stages) return;
        stage = 0;
        parity ^= 1;
    };

    if (group == Groups) {  // the one that fills the ring
        give_up_registers<Groups == 2 ? 24 : 32>();
        if (threadIdx.x % threads_of_group != 0) return;
        const auto* const image = static_cast<const unsigned char*>(all.image);
        biases_arrived->arrive_expecting(bias_bytes);
        biases_arrived->copy(biases, image, bias_bytes);
        const unsigned stages_of_network = layers * stages_of_layer;
        for (unsigned round = blockIdx.x; round < rounds; round += gridDim.x) {
            for (unsigned part = 0; part < stages_of_network; ++part, advance()) {
                emptied[stage].wait(parity ^ 1);  // the first turn finds all stages empty
                filled[stage].arrive_expecting(fused_stage_bytes);
                filled[stage].copy(ring + stage * fused_stage_bytes, image + bias_bytes + part * fused_stage_bytes,
                                   fused_stage_bytes);
            }
        }
        return;
    }

    take_registers<Groups == 2 ? 240 : 160>();
    biases_arrived->wait(0);
    const bool tells = threadIdx.x % threads_of_group == 0;
    for (unsigned round = blockIdx.x; round < rounds; round += gridDim.x) {
        const std::size_t row = first_row_in(std::size_t{round} * Groups + group);
        std::uint32_t a[steps][4];
        load_inputs<Whole>(a, all, row);
        float d[blocks][4] = {};
        for (unsigned layer = 0;;) {
            int before = 0;
#pragma unroll
            for (int part = 0; part < stages_of_layer; ++part) {
                filled[stage].wait(parity);
                const std::uint64_t operand = wgmma_operand(ring + stage * fused_stage_bytes);
                wgmma_begin();
#pragma unroll
                for (int step = 0; step < steps_of_stage; ++step) {
                    wgmma<T>(d, a[part * steps_of_stage + step], operand + step * (Width * 32 / 16), part + step > 0);
                }
                wgmma_commit();
                if (part > 0) {
                    wgmma_wait<1>();
                    if (tells) emptied[before].arrive();
                }
                before = stage;
                advance();
            }
            wgmma_wait<0>();
            if (tells) emptied[before].arrive();
            wgmma_hold(d);
            float b[blocks][2];
            load_biases(b, reinterpret_cast<const float*>(biases) + layer * Width);
            add_biases(d, b);
            if (++layer == layers) break;
            finish_hidden<T>(a, d, all.form.after[layer - 1], all.form.features[layer]);
        }
        store_outputs<T, Whole>(d, all, row);
    }
}

}  // namespace sluice::kernels
