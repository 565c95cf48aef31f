// SPDX-License-Identifier: Apache-2.0
// quantized_mlp with mma.sync: std::int8_t on all GPUs, f8_e4m3 on those that are not Hopper's. A warp owns 16 rows and
// takes them through all layers; the sums, rounded, are the next layer's left operand where they are. Weights stay in
// shared memory when they fit into 80 KiB, or come from L2 in parts of 32 KiB that the block's warps share.
//
// Shared memory: biases, weights (see quantized_mlp_layout.hpp).
#pragma once

#include "kernels/quantized_mlp/quantized_mlp_rows.cuh"
#include "kernels/tensor_cores/copy_together.cuh"
#include "kernels/tensor_cores/mma.cuh"

namespace sluice::kernels {

inline constexpr int eight_bit_warps = 8;
inline constexpr std::size_t eight_bit_part_bytes = 32 * 1024;
inline constexpr std::size_t most_resident_bytes = 80 * 1024;  // of weights; two such blocks fit on a multiprocessor

template <typename T>
using sum_of = std::conditional_t<std::is_same_v<T, f8_e4m3>, float, int>;

SLUICE_KERNEL constexpr bool has_resident_weights(std::size_t layers, std::size_t width) {
    return layers * eight_bit::layer_bytes(width) <= most_resident_bytes;
}
constexpr std::size_t eight_bit_mma_bytes(std::size_t layers, std::size_t width) {
    return fused_bias_bytes(layers, width) +
           (has_resident_weights(layers, width) ? layers * eight_bit::layer_bytes(width) : eight_bit_part_bytes);
}

// d += a * b: 32 of k, four elements a register.
template <typename T>
__device__ inline void mma_8_bit(sum_of<T> (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    __trap();  // never launched there: see quantized_mlp_cuda.cu
#else
    if constexpr (std::is_same_v<T, std::int8_t>) {
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
        __trap();
#else
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
    }
#endif
}

template <typename T, int Blocks>
__device__ inline void mma_8_bit_slab(sum_of<T> (&d)[Blocks][4], const std::uint32_t (&a)[4],
                                      const unsigned char* slab) {
#pragma unroll
    for (int block = 0; block < Blocks; block += 2) {
        std::uint32_t b[4];
        load_blocks(b, slab + block * 256);
        mma_8_bit<T>(d[block], a, b[0], b[1]);
        mma_8_bit<T>(d[block + 1], a, b[2], b[3]);
    }
}

template <typename T, int Width>
__global__ void __launch_bounds__(eight_bit_warps * 32)
    quantized_mlp_mma(const __grid_constant__ quantized_mlp_call all) {
    constexpr int blocks = Width / 8, steps = Width / 32;
    constexpr std::size_t slab_bytes = eight_bit::slab_bytes(Width);
    extern __shared__ __align__(128) unsigned char shared[];
    const std::size_t layers = all.form.sizes.layers;
    const std::size_t bias_bytes = fused_bias_bytes(layers, Width);
    const bool is_resident = has_resident_weights(layers, Width);
    const auto* const image = static_cast<const unsigned char*>(all.image);
    unsigned char* const weights = shared + bias_bytes;
    copy_together(shared, image, bias_bytes);
    if (is_resident) copy_together(weights, image + bias_bytes, layers * eight_bit::layer_bytes(Width));
    __syncthreads();

    constexpr std::size_t rows_of_block = eight_bit_warps * 16;
    const std::size_t rounds = (all.rows + rows_of_block - 1) / rows_of_block;
    for (std::size_t round = blockIdx.x; round < rounds; round += gridDim.x) {
        const std::size_t row = round * rows_of_block + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        std::uint32_t a[steps][4];
        load_8_bit_inputs<false>(a, all, row);
        float z[blocks][4];
        for (std::size_t layer = 0;;) {
            sum_of<T> d[blocks][4] = {};
            constexpr int steps_of_part = steps * slab_bytes <= eight_bit_part_bytes
                                              ? steps
                                              : static_cast<int>(eight_bit_part_bytes / slab_bytes);
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
                    mma_8_bit_slab<T>(d, a[first + step], part + step * slab_bytes);
                }
            }
            scale_sums<true>(z, d, reinterpret_cast<const float*>(shared) + layer * Width, all.form.factor[layer]);
            if (++layer == layers) break;
            finish_8_bit_hidden<T>(a, z, all.form.sizes.after[layer - 1], all.form.gain[layer - 1]);
        }
        store_8_bit_outputs<T, false>(z, all, row);
    }
}

}  // namespace sluice::kernels
