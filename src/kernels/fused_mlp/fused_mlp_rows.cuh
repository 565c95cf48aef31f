// SPDX-License-Identifier: Apache-2.0
// What one warp of fused_mlp does with its 16 rows: reading inputs, activations between the layers, writing outputs.
// All in registers, laid out as mma.m16n8k16 has them: lane 4g + t holds of rows g and g + 8 the columns 2t and 2t + 1
// of each block of 8.
#pragma once

#include <cstdint>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "kernels/gemm/accumulators.cuh"

namespace sluice::kernels {

template <typename T, bool Relu, int Blocks>
__device__ inline void round_to_operand(std::uint32_t (&a)[Blocks / 2][4], const float (&d)[Blocks][4]) {
#pragma unroll
    for (int step = 0; step < Blocks / 2; ++step) {
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            const auto& block = d[2 * step + part / 2];
            a[step][part] = rounded<T, Relu>(block[part % 2 * 2], block[part % 2 * 2 + 1]);
        }
    }
}

// Neurons that only fill a layer up to the operand's width are 0 for the next one, whatever was computed there: of a
// row with an infinity that is NaN (infinity times a weight of 0), which times a weight of 0 would be NaN again
// everywhere.
template <int Steps>
__device__ inline void clear_padding(std::uint32_t (&a)[Steps][4], unsigned features) {
    if (features >= 16 * Steps) return;
#pragma unroll
    for (int block = 0; block < 2 * Steps; ++block) {
        const unsigned column = 8 * block + threadIdx.x % 4 * 2;
        const std::uint32_t kept = column + 1 < features ? 0xffffffffu : column < features ? 0x0000ffffu : 0;
        a[block / 2][block % 2 * 2] &= kept;
        a[block / 2][block % 2 * 2 + 1] &= kept;
    }
}

// The next layer's left operand, of a layer of that many features.
template <typename T, int Blocks>
__device__ inline void finish_hidden(std::uint32_t (&a)[Blocks / 2][4], float (&d)[Blocks][4], activation after,
                                     unsigned features) {
    if (after == activation::relu) {
        round_to_operand<T, true, Blocks>(a, d);
    } else {
        activate_registers(d, after);
        round_to_operand<T, false, Blocks>(a, d);
    }
    clear_padding(a, features);
}

// This lane's biases: of columns 2t and 2t + 1 of each block.
template <int Blocks>
__device__ inline void load_biases(float (&b)[Blocks][2], const float* bias) {
#pragma unroll
    for (int step = 0; step < Blocks / 2; ++step) {
        const float4 four = reinterpret_cast<const float4*>(bias)[step * 4 + threadIdx.x % 4];
        b[2 * step][0] = four.x;
        b[2 * step][1] = four.y;
        b[2 * step + 1][0] = four.z;
        b[2 * step + 1][1] = four.w;
    }
}

template <int Blocks>
__device__ inline void add_biases(float (&d)[Blocks][4], const float (&b)[Blocks][2]) {
#pragma unroll
    for (int block = 0; block < Blocks; ++block) {
#pragma unroll
        for (int place = 0; place < 4; ++place) d[block][place] += b[block][place % 2];
    }
}

// The 8 elements of a row from `column` on; zeros beyond the row's end. Rows of a multiple of 8 are read in one piece.
__device__ inline uint4 load_piece(const std::uint16_t* row, std::size_t column, std::size_t columns) {
    if (columns % 8 == 0) {
        return column < columns ? __ldcs(reinterpret_cast<const uint4*>(row + column)) : uint4{0, 0, 0, 0};
    }
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const std::uint32_t low = column + 2 * i < columns ? row[column + 2 * i] : 0;
        const std::uint32_t high = column + 2 * i + 1 < columns ? row[column + 2 * i + 1] : 0;
        pairs[i] = low | high << 16;
    }
    return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

__device__ inline void store_piece(std::uint16_t* row, std::size_t column, std::size_t columns, const uint4& piece) {
    if (columns % 8 == 0) {
        if (column < columns) __stcs(reinterpret_cast<uint4*>(row + column), piece);
        return;
    }
    const std::uint32_t pairs[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (column + i < columns) row[column + i] = static_cast<std::uint16_t>(pairs[i / 2] >> (16 * (i % 2)));
    }
}

// The inputs of the warp's rows, from `row` on (this lane's first), as the first layer's left operand. Rows beyond the
// last are zeros. `Whole`: rows are as wide as the operand, which leaves no branches.
template <bool Whole, int Steps>
__device__ inline void load_inputs(std::uint32_t (&a)[Steps][4], const fused_mlp_call& all, std::size_t row) {
    const std::size_t columns = Whole ? 16 * Steps : all.form.in_features;
    const auto* from = static_cast<const std::uint16_t*>(all.x) + row * columns;
#pragma unroll
    for (int half_of_rows = 0; half_of_rows < 2; ++half_of_rows, row += 8, from += 8 * columns) {
#pragma unroll
        for (int pair = 0; pair < Steps / 2; ++pair) {
            const std::size_t column = 8 * (4 * pair + threadIdx.x % 4);
            uint4 piece{0, 0, 0, 0};
            if (row < all.rows) {
                piece =
                    Whole ? __ldcs(reinterpret_cast<const uint4*>(from + column)) : load_piece(from, column, columns);
            }
            a[2 * pair][half_of_rows] = piece.x;
            a[2 * pair][half_of_rows + 2] = piece.y;
            a[2 * pair + 1][half_of_rows] = piece.z;
            a[2 * pair + 1][half_of_rows + 2] = piece.w;
        }
    }
}

// The column of the outputs that d[block][place] of this lane is.
__device__ inline std::size_t output_column(int block, int place) {
    return 8 * (4 * (block / 4) + threadIdx.x % 4) + 2 * (block % 4) + place % 2;
}

// softmax over each row: a row's columns are spread over the four lanes of a quad. A row with NaN becomes all NaN.
template <int Blocks>
__device__ inline void softmax_registers(float (&d)[Blocks][4], std::size_t columns) {
    constexpr unsigned everyone = 0xffffffff;
#pragma unroll
    for (int half_of_rows = 0; half_of_rows < 2; ++half_of_rows) {
        float largest = -INFINITY;
#pragma unroll
        for (int i = 0; i < 2 * Blocks; ++i) {
            const float each = d[i / 2][2 * half_of_rows + i % 2];
            if (output_column(i / 2, i % 2) < columns) largest = fmaxf(largest, each);
        }
        for (int step = 1; step < 4; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(everyone, largest, step));
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 2 * Blocks; ++i) {
            float& each = d[i / 2][2 * half_of_rows + i % 2];
            each = __expf(each - largest);  // NaN stays, and makes the sum NaN
            if (output_column(i / 2, i % 2) < columns) sum += each;
        }
        for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(everyone, sum, step);
        const float scale = 1 / sum;
#pragma unroll
        for (int i = 0; i < 2 * Blocks; ++i) d[i / 2][2 * half_of_rows + i % 2] *= scale;
    }
}

template <typename T, bool Whole, int Blocks>
__device__ inline void store_outputs(float (&d)[Blocks][4], const fused_mlp_call& all, std::size_t row) {
    const std::size_t columns = Whole ? 8 * Blocks : all.form.out_features;
    const activation after = all.form.after[all.form.layers - 1];
    if (after == activation::softmax) {
        softmax_registers(d, columns);
    } else if (after != activation::none) {
        activate_registers(d, after);
    }
    auto* to = static_cast<std::uint16_t*>(all.out) + row * columns;
#pragma unroll
    for (int half_of_rows = 0; half_of_rows < 2; ++half_of_rows, row += 8, to += 8 * columns) {
        if (row >= all.rows) return;
#pragma unroll
        for (int piece = 0; piece < Blocks / 4; ++piece) {
            std::uint32_t pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                pairs[i] =
                    rounded<T, false>(d[4 * piece + i][2 * half_of_rows], d[4 * piece + i][2 * half_of_rows + 1]);
            }
            const std::size_t column = 8 * (4 * piece + threadIdx.x % 4);
            const uint4 made{pairs[0], pairs[1], pairs[2], pairs[3]};
            if constexpr (Whole) {
                __stcs(reinterpret_cast<uint4*>(to + column), made);
            } else {
                store_piece(to, column, columns, made);
            }
        }
    }
}

}  // namespace sluice::kernels
