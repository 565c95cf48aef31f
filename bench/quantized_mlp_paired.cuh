// SPDX-License-Identifier: Apache-2.0
// quantized_mlp on Hopper with two tiles of 64 rows a warpgroup, which use the biases that were read once. Rows, inputs
// and outputs are whole: a multiple of 128 rows, as wide as the operand.
//
// Rounding one tile while the tensor cores multiply the other was not tried on a GPU: ptxas serialises the products
// then.
#pragma once

#include "kernels/quantized_mlp/quantized_mlp_wgmma.cuh"

namespace sluice::kernels {

// The product of one layer, not waited for.
template <int Steps, int Blocks>
__device__ inline void begin_layer(float (&d)[Blocks][4], const std::uint32_t (&a)[Steps][4], std::uint64_t operand) {
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Steps; ++step) {
        wgmma<f8_e4m3>(d, a[step], operand + step * (eight_bit::slab_bytes(32 * Steps) / 16), step > 0);
    }
    wgmma_commit();
}

template <int Width, int Groups, bool Biased>
__global__ void __launch_bounds__(Groups* threads_of_group, 1)
    quantized_mlp_paired(const __grid_constant__ quantized_mlp_call all) {
    constexpr unsigned layer_bytes = eight_bit::layer_bytes(Width);
    extern __shared__ __align__(1024) unsigned char shared[];
    auto* const arrived = reinterpret_cast<mbarrier*>(shared);
    const unsigned layers = all.form.sizes.layers;
    const unsigned bias_bytes = fused_bias_bytes(layers, Width);
    const auto* const biases = reinterpret_cast<const float*>(shared + eight_bit_barrier_bytes);
    unsigned char* const weights = shared + eight_bit_barrier_bytes + bias_bytes;
    if (threadIdx.x == 0) {
        arrived->init(1);
        mbarrier::publish_inits();
        arrived->arrive_expecting(bias_bytes + layers * layer_bytes);
        arrived->copy(shared + eight_bit_barrier_bytes, all.image, bias_bytes + layers * layer_bytes);
    }
    unsigned pair = blockIdx.x + group_of_thread() * gridDim.x;
    const unsigned pairs = all.rows / (2 * rows_of_group);
    const unsigned stride = gridDim.x * Groups;
    std::uint32_t one_next[Width / 32][4], other_next[Width / 32][4];
    const auto load_next = [&] {
        load_8_bit_inputs<true>(one_next, all, first_row_in(2 * pair));
        load_8_bit_inputs<true>(other_next, all, first_row_in(2 * pair + 1));
    };
    load_next();
    __syncthreads();
    arrived->wait(0);
    const std::uint64_t first_operand = wgmma_operand(weights);
    float one_d[Width / 8][4] = {}, other_d[Width / 8][4] = {};
    while (pair < pairs) {
        std::uint32_t one_a[Width / 32][4], other_a[Width / 32][4];
#pragma unroll
        for (int step = 0; step < Width / 32; ++step) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                one_a[step][part] = one_next[step][part];
                other_a[step][part] = other_next[step][part];
            }
        }
        const std::size_t row = first_row_in(2 * pair);
        pair += stride;
        load_next();
        std::uint64_t operand = first_operand;
        for (unsigned layer = 0;;) {
            begin_layer(one_d, one_a, operand);
            begin_layer(other_d, other_a, operand);
            const activation after = all.form.sizes.after[layer];
            const float factor = all.form.factor[layer], gain = all.form.gain[layer];
            const float* const added = biases + layer * Width;
            operand += layer_bytes / 16;
            wgmma_wait<0>();
            wgmma_hold(one_d);
            wgmma_hold(other_d);
            scale_sums<Biased>(one_d, one_d, added, factor);
            scale_sums<Biased>(other_d, other_d, added, factor);
            if (++layer == layers) break;
            finish_8_bit_hidden<f8_e4m3>(one_a, one_d, after, gain);
            finish_8_bit_hidden<f8_e4m3>(other_a, other_d, after, gain);
        }
        store_8_bit_outputs<f8_e4m3, true>(one_d, all, row);
        store_8_bit_outputs<f8_e4m3, true>(other_d, all, row + rows_of_group);
    }
}

}  // namespace sluice::kernels
