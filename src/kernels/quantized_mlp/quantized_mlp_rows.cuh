// SPDX-License-Identifier: Apache-2.0
// What one warp of quantized_mlp does with its 16 rows: reading inputs, what follows the sums, writing outputs. All in
// registers, laid out as quantized_mlp_layout.hpp says.
//
// Padding needs no clearing, as it does with infinities in fused_mlp: elements of 8 bits have none, and a NaN is in all
// numbers of its row anyway.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gemm/accumulators.cuh"
#include "kernels/quantized_mlp/quantized_mlp_layout.hpp"

namespace sluice::kernels {

// Four numbers rounded to elements of 8 bits, the first in the lowest byte; negative ones become 0 when `Relu`.
template <typename T, bool Relu>
__device__ inline std::uint32_t four_rounded(float first, float second, float third, float fourth) {
    std::uint32_t made = 0;
    if constexpr (std::is_same_v<T, f8_e4m3>) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
        __trap();  // never launched there: see quantized_mlp_cuda.cu
#elif defined(__CUDA_ARCH__)
        if constexpr (Relu) {
            asm("{\n.reg .b16 low, high;\n"
                "cvt.rn.satfinite.relu.e4m3x2.f32 low, %2, %1;\ncvt.rn.satfinite.relu.e4m3x2.f32 high, %4, %3;\n"
                "mov.b32 %0, {low, high};\n}"
                : "=r"(made)
                : "f"(first), "f"(second), "f"(third), "f"(fourth));
        } else {
            asm("{\n.reg .b16 low, high;\n"
                "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\ncvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
                "mov.b32 %0, {low, high};\n}"
                : "=r"(made)
                : "f"(first), "f"(second), "f"(third), "f"(fourth));
        }
#endif
    } else {
        if constexpr (Relu) {
            first = fmaxf(first, 0);
            second = fmaxf(second, 0);
            third = fmaxf(third, 0);
            fourth = fmaxf(fourth, 0);
        }
        // Both conversions saturate, and the upper 16 bits of `made` come from the first packing.
        std::uint32_t upper;
        asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
            : "=r"(upper)
            : "r"(__float2int_rn(fourth)), "r"(__float2int_rn(third)), "r"(0));
        asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
            : "=r"(made)
            : "r"(__float2int_rn(second)), "r"(__float2int_rn(first)), "r"(upper));
    }
    return made;
}

// What goes into the activation: sums times the factor, plus what is added. `biases`: this layer's, in shared memory.
template <bool Biased, typename Sum, int Blocks>
__device__ inline void scale_sums(float (&z)[Blocks][4], const Sum (&sums)[Blocks][4], const float* biases,
                                  float factor) {
#pragma unroll
    for (int pair = 0; pair < Blocks / 2; ++pair) {
        float4 four{0, 0, 0, 0};
        if constexpr (Biased) four = reinterpret_cast<const float4*>(biases)[pair * 4 + threadIdx.x % 4];
        const float added[2][2] = {{four.x, four.y}, {four.z, four.w}};
#pragma unroll
        for (int block = 0; block < 2; ++block) {
#pragma unroll
            for (int place = 0; place < 4; ++place) {
                z[2 * pair + block][place] =
                    __fmaf_rn(static_cast<float>(sums[2 * pair + block][place]), factor, added[block][place % 2]);
            }
        }
    }
}

template <typename T, bool Relu, int Blocks>
__device__ inline void round_to_8_bit_operand(std::uint32_t (&a)[Blocks / 4][4], const float (&z)[Blocks][4]) {
    using namespace eight_bit;
#pragma unroll
    for (int step = 0; step < Blocks / 4; ++step) {
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            a[step][part] = four_rounded<T, Relu>(z[source_block(step, part, 0)][source_place(part, 0)],
                                                  z[source_block(step, part, 1)][source_place(part, 1)],
                                                  z[source_block(step, part, 2)][source_place(part, 2)],
                                                  z[source_block(step, part, 3)][source_place(part, 3)]);
        }
    }
}

// The next layer's left operand.
template <typename T, int Blocks>
__device__ inline void finish_8_bit_hidden(std::uint32_t (&a)[Blocks / 4][4], float (&z)[Blocks][4], activation after,
                                           float gain) {
    if (after == activation::relu) {
        round_to_8_bit_operand<T, true, Blocks>(a, z);
        return;
    }
    if (after != activation::none) {
        activate_registers(z, after);
        apply(z, [=](float x) { return x * gain; });
    }
    round_to_8_bit_operand<T, false, Blocks>(a, z);
}

// The 16 elements of a row from `column` on; zeros beyond the row's end. Rows of a multiple of 16 are read in one
// piece.
__device__ inline uint4 load_16_bytes(const std::uint8_t* row, std::size_t column, std::size_t columns) {
    if (columns % 16 == 0) {
        return column < columns ? __ldcs(reinterpret_cast<const uint4*>(row + column)) : uint4{0, 0, 0, 0};
    }
    std::uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const std::uint32_t each = column + i < columns ? row[column + i] : 0;
        words[i / 4] |= each << (8 * (i % 4));
    }
    return {words[0], words[1], words[2], words[3]};
}

__device__ inline void store_16_bytes(std::uint8_t* row, std::size_t column, std::size_t columns, const uint4& piece) {
    if (columns % 16 == 0) {
        if (column < columns) __stcs(reinterpret_cast<uint4*>(row + column), piece);
        return;
    }
    const std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        if (column + i < columns) row[column + i] = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)));
    }
}

// The inputs of the warp's rows, from `row` on (this lane's first), as the first layer's left operand. Rows beyond the
// last are zeros. `Whole`: rows are as wide as the operand, which leaves no branches.
template <bool Whole, int Steps>
__device__ inline void load_8_bit_inputs(std::uint32_t (&a)[Steps][4], const quantized_mlp_call& all, std::size_t row) {
    using namespace eight_bit;
    const std::size_t columns = Whole ? 32 * Steps : all.form.sizes.in_features;
    const auto* from = static_cast<const std::uint8_t*>(all.x) + row * columns;
#pragma unroll
    for (int half_of_rows = 0; half_of_rows < 2; ++half_of_rows, row += 8, from += 8 * columns) {
#pragma unroll
        for (int piece = 0; piece < Steps / 2; ++piece) {
            const std::size_t column = piece_column(piece, threadIdx.x);
            uint4 read{0, 0, 0, 0};
            if (row < all.rows) {
                read = Whole ? __ldcs(reinterpret_cast<const uint4*>(from + column))
                             : load_16_bytes(from, column, columns);
            }
            const std::uint32_t words[4] = {read.x, read.y, read.z, read.w};
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                a[piece_step(piece, word)][piece_part(word, half_of_rows)] = words[word];
            }
        }
    }
}

// softmax over each row: a row's columns are spread over the four lanes of a quad. A row with NaN becomes all NaN.
template <int Blocks>
__device__ inline void softmax_8_bit(float (&z)[Blocks][4], std::size_t columns) {
    constexpr unsigned everyone = 0xffffffff;
    const auto is_there = [=](int i) {
        return eight_bit::output_column(8 * (i / 2) + threadIdx.x % 4 * 2 + i % 2) < columns;
    };
#pragma unroll
    for (int half_of_rows = 0; half_of_rows < 2; ++half_of_rows) {
        float largest = -INFINITY;
#pragma unroll
        for (int i = 0; i < 2 * Blocks; ++i) {
            if (is_there(i)) largest = fmaxf(largest, z[i / 2][2 * half_of_rows + i % 2]);
        }
        for (int step = 1; step < 4; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(everyone, largest, step));
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 2 * Blocks; ++i) {
            float& each = z[i / 2][2 * half_of_rows + i % 2];
            each = __expf(each - largest);  // NaN stays, and makes the sum NaN
            if (is_there(i)) sum += each;
        }
        for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(everyone, sum, step);
        const float scale = 1 / sum;
#pragma unroll
        for (int i = 0; i < 2 * Blocks; ++i) z[i / 2][2 * half_of_rows + i % 2] *= scale;
    }
}

template <typename T, bool Whole, int Blocks>
__device__ inline void store_8_bit_outputs(float (&z)[Blocks][4], const quantized_mlp_call& all, std::size_t row) {
    using namespace eight_bit;
    const std::size_t columns = Whole ? 8 * Blocks : all.form.sizes.out_features;
    const unsigned last = all.form.sizes.layers - 1;
    const activation after = all.form.sizes.after[last];
    if (after != activation::none) {
        if (after == activation::softmax) {
            softmax_8_bit(z, columns);
        } else {
            activate_registers(z, after);
        }
        const float gain = all.form.gain[last];
        apply(z, [=](float x) { return x * gain; });
    }
    auto* to = static_cast<std::uint8_t*>(all.out) + row * columns;
#pragma unroll
    for (int half_of_rows = 0; half_of_rows < 2; ++half_of_rows, row += 8, to += 8 * columns) {
        if (row >= all.rows) return;
#pragma unroll
        for (int piece = 0; piece < Blocks / 8; ++piece) {
            std::uint32_t words[4];
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                float four[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    four[i] = z[output_block(piece, 4 * word + i)][output_place(4 * word + i, half_of_rows)];
                }
                words[word] = four_rounded<T, false>(four[0], four[1], four[2], four[3]);
            }
            const std::size_t column = piece_column(piece, threadIdx.x);
            const uint4 made{words[0], words[1], words[2], words[3]};
            if constexpr (Whole) {
                __stcs(reinterpret_cast<uint4*>(to + column), made);
            } else {
                store_16_bytes(to, column, columns, made);
            }
        }
    }
}

}  // namespace sluice::kernels
