// SPDX-License-Identifier: Apache-2.0
// quantized_mlp of f8_e4m3 on Hopper: a warpgroup owns 64 rows and takes them through all layers. wgmma reads the
// activations from registers and the weights from shared memory, where all layers stay; its accumulators, rounded, are
// the next layer's left operand where they are. Warpgroups share only the weights, and do not wait for each other:
// while one rounds, others multiply.
//
// The biases are added in registers, by the multiplication with the factor that each sum needs anyway. As a further
// step of k, as in fused_mlp, they would cost the tensor cores half as much again at a width of 64.
//
// Shared memory: barriers, biases if there are any, weights (see quantized_mlp_layout.hpp).
#pragma once

#include "kernels/quantized_mlp/quantized_mlp_rows.cuh"
#include "kernels/tensor_cores/warpgroup.cuh"
#include "kernels/tensor_cores/wgmma.cuh"
#include "sluice/kernels/mbarrier.hpp"

namespace sluice::kernels {

inline constexpr std::size_t eight_bit_barrier_bytes = 256;

constexpr std::size_t eight_bit_resident_bytes(std::size_t layers, std::size_t width) {
    return eight_bit_barrier_bytes + fused_bias_bytes(layers, width) + layers * eight_bit::layer_bytes(width);
}

template <int Width, int Groups, bool Whole, bool Biased>
__global__ void __launch_bounds__(Groups* threads_of_group, 1)
    quantized_mlp_resident(const __grid_constant__ quantized_mlp_call all) {
    constexpr int blocks = Width / 8, steps = Width / 32;
    constexpr unsigned layer_bytes = eight_bit::layer_bytes(Width), slab_bytes = eight_bit::slab_bytes(Width);
    extern __shared__ __align__(1024) unsigned char shared[];
    auto* const arrived = reinterpret_cast<mbarrier*>(shared);  // one a layer; the biases come with the first
    const unsigned layers = all.form.sizes.layers;
    const unsigned bias_bytes = fused_bias_bytes(layers, Width);
    const auto* const biases = reinterpret_cast<const float*>(shared + eight_bit_barrier_bytes);
    unsigned char* const weights = shared + eight_bit_barrier_bytes + bias_bytes;

    if (threadIdx.x == 0) {
        for (unsigned layer = 0; layer < layers; ++layer) arrived[layer].init(1);
        mbarrier::publish_inits();
        const auto* const image = static_cast<const unsigned char*>(all.image);
        for (unsigned layer = 0; layer < layers; ++layer) {
            arrived[layer].arrive_expecting(layer_bytes + (Biased && layer == 0 ? bias_bytes : 0));
            if (Biased && layer == 0) arrived[0].copy(shared + eight_bit_barrier_bytes, image, bias_bytes);
            arrived[layer].copy(weights + layer * layer_bytes, image + bias_bytes + layer * layer_bytes, layer_bytes);
        }
    }
    // Tiles go round the blocks first, so that few rows are spread over many multiprocessors.
    unsigned tile = blockIdx.x + group_of_thread() * gridDim.x;
    const unsigned tiles = (all.rows + rows_of_group - 1) / rows_of_group;
    const unsigned stride = gridDim.x * (blockDim.x / threads_of_group);

    std::uint32_t next[steps][4];
    load_8_bit_inputs<Whole>(next, all, first_row_in(tile));
    __syncthreads();

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
        load_8_bit_inputs<Whole>(next, all, first_row_in(tile));  // while this tile is worked on

        std::uint64_t operand = first_operand;
        for (unsigned layer = 0;;) {
            if (is_first) arrived[layer].wait(0);
            wgmma_begin();
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                wgmma<f8_e4m3>(d, a[step], operand + step * (slab_bytes / 16), step > 0);
            }
            wgmma_commit();
            // While the tensor cores work.
            const activation after = all.form.sizes.after[layer];
            const float factor = all.form.factor[layer], gain = all.form.gain[layer];
            const float* const added = biases + layer * Width;
            operand += layer_bytes / 16;
            wgmma_wait<0>();
            wgmma_hold(d);
            scale_sums<Biased>(d, d, added, factor);
            if (++layer == layers) break;
            finish_8_bit_hidden<f8_e4m3>(a, d, after, gain);
        }
        store_8_bit_outputs<f8_e4m3, Whole>(d, all, row);
    }
}

}  // namespace sluice::kernels
