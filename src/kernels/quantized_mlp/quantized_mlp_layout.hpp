// SPDX-License-Identifier: Apache-2.0
// The order in which the kernels of quantized_mlp want a network's numbers, and which number is in which register: for
// the kernels, for packing, and for the test that follows both on a CPU.
//
// The image on a GPU is what the kernels keep in shared memory:
//
//     biases   [layers][width / 16][4 lanes][4] float, as in fused_mlp_dispatch.hpp
//     weights  [layers][width / 32 slabs of k][width / 8][2 halves of k][8 rows of n][16 of k] bytes
//
// A slab is what one step of a tensor core takes (mma.m16n8k32, wgmma with k32), in blocks of 8 rows of 16 bytes.
//
// In a step, lane 4g + t of a warp holds of the left operand, for the rows g and g + 8, the places 4t to 4t + 3 of k
// and 16 + 4t to 16 + 4t + 3, a register each (PTX: fragments of mma.m16n8k32). Of the accumulators it holds, for the
// same rows, columns 2t and 2t + 1 of each block of 8. So of four blocks it has just the 8 numbers that it needs for
// the next layer's step, only at other places of k. No number moves between lanes: the weights are packed in the order
// in which the columns come (hidden_column). In front and at the end columns are permuted so that each lane reads and
// writes device memory in pieces of 16 bytes (input_column, output_column).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "sluice/kernels/quantized_mlp.hpp"

namespace sluice::kernels {

// All pointers are memory of the device; matrices are row-major and dense. Trivially copyable.
struct quantized_mlp_call {
    const void* x;
    void* out;
    const void* image;
    std::size_t rows;
    detail::quantized_mlp_form form;
    float* scratch = nullptr;  // on a CPU: as many as quantized_mlp_scratch_floats says
};

namespace eight_bit {

// --- columns ---------------------------------------------------------------------------------------------------------

// The column of the layer before, whose outputs are at places of n, that is at place k of the operand.
SLUICE_KERNEL constexpr std::size_t hidden_column(std::size_t k) {
    const std::size_t half = k % 32 / 16, lane = k % 16 / 4, byte = k % 4;
    return k / 32 * 32 + 8 * (2 * half + byte / 2) + 2 * lane + byte % 2;
}
// The column of the inputs that is at place k of the first layer's operand.
SLUICE_KERNEL constexpr std::size_t input_column(std::size_t k) {
    const std::size_t step = k / 32, half = k % 32 / 16, lane = k % 16 / 4, byte = k % 4;
    return 64 * (step / 2) + 16 * lane + 8 * (step % 2) + 4 * half + byte;
}
// The column of the outputs that is at place n of the last layer's accumulators.
SLUICE_KERNEL constexpr std::size_t output_column(std::size_t n) {
    const std::size_t block = n / 8, lane = n % 8 / 2;
    return 64 * (block / 8) + 16 * lane + 2 * (block % 8) + n % 2;
}

// --- registers -------------------------------------------------------------------------------------------------------

// Register `part` of a step's left operand: rows g (0, 2) or g + 8 (1, 3), the first (0, 1) or second half of k. Byte
// `byte` of it comes from accumulator d[block][place] of this lane.
SLUICE_KERNEL constexpr int source_block(int step, int part, int byte) { return 4 * step + part / 2 * 2 + byte / 2; }
SLUICE_KERNEL constexpr int source_place(int part, int byte) { return part % 2 * 2 + byte % 2; }
// Word `word` of piece `piece` of a row of inputs goes to a[piece_step][piece_part].
SLUICE_KERNEL constexpr int piece_step(int piece, int word) { return 2 * piece + word / 2; }
SLUICE_KERNEL constexpr int piece_part(int word, int half_of_rows) { return word % 2 * 2 + half_of_rows; }
// Byte `byte` of piece `piece` of a row of outputs comes from accumulator d[block][place].
SLUICE_KERNEL constexpr int output_block(int piece, int byte) { return 8 * piece + byte / 2; }
SLUICE_KERNEL constexpr int output_place(int byte, int half_of_rows) { return half_of_rows * 2 + byte % 2; }
// Where this lane's piece begins in the row.
SLUICE_KERNEL constexpr std::size_t piece_column(int piece, unsigned lane) {
    return 64 * static_cast<std::size_t>(piece) + 16 * static_cast<std::size_t>(lane % 4);
}

// --- bytes -----------------------------------------------------------------------------------------------------------

SLUICE_KERNEL constexpr std::size_t layer_bytes(std::size_t width) { return width * width; }
SLUICE_KERNEL constexpr std::size_t slab_bytes(std::size_t width) { return 32 * width; }
SLUICE_KERNEL constexpr std::size_t weight_offset(std::size_t k, std::size_t n, std::size_t width) {
    return k / 32 * slab_bytes(width) + n / 8 * 256 + k % 32 / 16 * 128 + n % 8 * 16 + k % 16;
}

}  // namespace eight_bit

// The image on a GPU. The biases of the layers are what is added before the activation.
template <detail::eight_bit_element T>
std::vector<std::byte> quantized_image_for_cuda(const std::vector<mlp_layer>& layers, const std::vector<float>& scales,
                                                std::size_t width);

}  // namespace sluice::kernels

// None has an array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::quantized_mlp_call> =
    sluice::detail::compiler_clears_padding;
