// SPDX-License-Identifier: Apache-2.0
// fused_mlp on GPUs before or after Hopper: a warp owns 16 rows and takes them through all layers with mma.sync; the
// accumulators, rounded, are the next layer's left operand where they are. Weights come from L2 in parts of 32 KiB that
// the block's warps share, or stay in shared memory when they all fit in one part.
//
// Shared memory: biases, one part of the weights (see fused_mlp_dispatch.hpp).
#pragma once

#include "kernels/fused_mlp/fused_mlp_rows.cuh"
#include "kernels/tensor_cores/copy_together.cuh"
#include "kernels/tensor_cores/mma.cuh"

namespace sluice::kernels {

inline constexpr int mma_warps = 8;
inline constexpr std::size_t mma_part_bytes = 32 * 1024;

constexpr std::size_t fused_mma_bytes(std::size_t layers, std::size_t width) {
    return fused_bias_bytes(layers, width) + mma_part_bytes;
}

// Sums start at the bias.
template <int Blocks>
__device__ inline void start_at_bias(float (&d)[Blocks][4], const float* bias) {
    float b[Blocks][2];
    load_biases(b, bias);
#pragma unroll
    for (int block = 0; block < Blocks; ++block) {
#pragma unroll
        for (int place = 0; place < 4; ++place) d[block][place] = b[block][place % 2];
    }
}

template <typename T, int Width>
__global__ void __launch_bounds__(mma_warps * 32) fused_mlp_mma(const __grid_constant__ fused_mlp_call all) {
    constexpr int blocks = Width / 8, steps = Width / 16;
    constexpr std::size_t slab_bytes = std::size_t{32} * Width;
    extern __shared__ __align__(128) unsigned char shared[];
    const std::size_t layers = all.form.layers;
    const std::size_t bias_bytes = fused_bias_bytes(layers, Width);
    const std::size_t weight_bytes = layers * steps * slab_bytes;
    const bool is_resident = weight_bytes <= mma_part_bytes;
    const auto* const image = static_cast<const unsigned char*>(all.image);
    unsigned char* const weights = shared + bias_bytes;
    copy_together(shared, image, bias_bytes);
    if (is_resident) copy_together(weights, image + bias_bytes, weight_bytes);
    __syncthreads();

    constexpr std::size_t rows_of_block = mma_warps * 16;
    const std::size_t rounds = (all.rows + rows_of_block - 1) / rows_of_block;
    for (std::size_t round = blockIdx.x; round < rounds; round += gridDim.x) {
        const std::size_t row = round * rows_of_block + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        std::uint32_t a[steps][4];
        load_inputs<false>(a, all, row);
        float d[blocks][4];
        for (std::size_t layer = 0;;) {
            start_at_bias(d, reinterpret_cast<const float*>(shared) + layer * Width);
            constexpr int steps_of_part = steps * slab_bytes <= mma_part_bytes ? steps : mma_part_bytes / slab_bytes;
#pragma unroll
            for (int first = 0; first < steps; first += steps_of_part) {
                const std::size_t slab = layer * steps + first;
                if (!is_resident) {
                    __syncthreads();  // all warps are done with the part before
                    copy_together(weights, image + bias_bytes + slab * slab_bytes, steps_of_part * slab_bytes);
                    __syncthreads();
                }
                const unsigned char* const part = weights + (is_resident ? slab * slab_bytes : 0);
#pragma unroll
                for (int step = 0; step < steps_of_part; ++step) {
                    mma_slab<T>(d, a[first + step], part + step * slab_bytes);
                }
            }
            if (++layer == layers) break;
            finish_hidden<T>(a, d, all.form.after[layer - 1], all.form.features[layer]);
        }
        store_outputs<T, false>(d, all, row);
    }
}

}  // namespace sluice::kernels
