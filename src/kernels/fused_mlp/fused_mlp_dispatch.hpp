// SPDX-License-Identifier: Apache-2.0
// The bodies of fused_mlp, and the order in which each wants a network's numbers (its image).
//
// On a GPU the image is what the kernel keeps in shared memory, byte for byte, so that bulk copies bring it there:
//
//     biases   [layers][width / 16][4 lanes][4] float: lane t of a quad holds columns 16j + 2t, + 1, + 8, + 9
//     weights  [layers][width / 16 slabs of k][width / 8][2 halves of k][8 rows of n][8 of k] elements
//     biases   [layers] slabs in which k = 0, 1 and 2 are three parts that add up to the bias, each rounded
//
// A slab is what one step of a tensor core takes, in blocks of 8 rows of 16 bytes: both wgmma and ldmatrix read these
// without bank conflicts.
//
// The accumulators of one layer are the left operand of the next in the registers where they are, so columns keep
// their places in between. Only in front and at the end they are permuted, so that each lane reads and writes device
// memory in pieces of 16 bytes: the 8 columns 8(4i + t) ... of lane t sit at the places that it holds of steps 2i and
// 2i + 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::kernels {

// All pointers are memory of the device; matrices are row-major and dense. Trivially copyable.
struct fused_mlp_call {
    const void* x;
    void* out;
    const void* image;
    std::size_t rows;
    detail::fused_mlp_form form;
    float* scratch = nullptr;  // on a CPU: as many as fused_mlp_scratch_floats says
};

// Which column of the inputs is at place k of the first layer's tensor core steps; the same for places n of the
// last layer's outputs.
SLUICE_KERNEL constexpr std::size_t fused_input_column(std::size_t k) {
    const std::size_t step = k / 16, lane = k % 8 / 2;
    return 8 * (4 * (step / 2) + lane) + 4 * (step % 2) + 2 * (k % 16 / 8) + k % 2;
}
SLUICE_KERNEL constexpr std::size_t fused_output_column(std::size_t n) {
    const std::size_t block = n / 8, lane = n % 8 / 2;
    return 8 * (4 * (block / 4) + lane) + 2 * (block % 4) + n % 2;
}

// Where things lie in the image of a GPU, in bytes.
SLUICE_KERNEL constexpr std::size_t fused_bias_bytes(std::size_t layers, std::size_t width) {
    return layers * width * sizeof(float);
}
SLUICE_KERNEL constexpr std::size_t fused_slab_bytes(std::size_t width) { return 32 * width; }
SLUICE_KERNEL constexpr std::size_t fused_weight_offset(std::size_t k, std::size_t n, std::size_t width) {
    return (k / 16) * (32 * width) + (n / 8) * 256 + (k % 16 / 8) * 128 + (n % 8) * 16 + (k % 8) * 2;
}
SLUICE_KERNEL constexpr std::size_t fused_bias_index(std::size_t n) {
    return (n / 16) * 16 + (n % 8 / 2) * 4 + (n % 16 / 8) * 2 + n % 2;
}

// What the element types are called where kernels are chosen.
enum class fused_type : unsigned char { f16, bf16, f32 };
template <typename T>
inline constexpr fused_type fused_type_of = std::same_as<T, half>       ? fused_type::f16
                                            : std::same_as<T, bfloat16> ? fused_type::bf16
                                                                        : fused_type::f32;

// How much scratch memory the body for a CPU needs.
std::size_t fused_mlp_scratch_floats(std::size_t rows, const detail::fused_mlp_form& form, fused_type type) noexcept;

// Runs all of it, on a worker thread of a CPU device, which other workers may help.
void fused_mlp_on_cpu(const fused_mlp_call& call, fused_type type);

// The launch for a GPU. Throws errc::unsupported when the device cannot.
launch_command fused_mlp_on_cuda(const fused_mlp_call& call, fused_type type, device& gpu);

}  // namespace sluice::kernels

// None has an array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::fused_mlp_call> =
    sluice::detail::compiler_clears_padding;
