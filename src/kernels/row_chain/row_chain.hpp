// SPDX-License-Identifier: Apache-2.0
// row_chain: dense layers one after the other, with activations and layer norms between them, as one kernel of a GPU,
// for few rows. Where a kernel for each layer takes what its launch and its last block take, this one takes what
// reading the weights does: a cluster of blocks has eight rows, and each block some outputs of each layer, which it
// sends into the shared memory of all of them.
//
// A layer: y = after_norm(norm(after_product(x * weights^T + bias))), in f32, where the norm, if there is one, is
// LayerNormalization over the outputs: (x - mean) / sqrt(variance + epsilon) * scale + shift. Biases and what products
// give are rounded to the element type, and so is what a norm gives that is not the last: as by a kernel for each
// layer.
//
// The image: its form, in row_chain_head bytes; for each layer the weights, in tiles of 16 outputs, each [chunks of 64
// bytes of an output][2][32 lanes][16 bytes] of the element type: lane 4g + t has the part t of the chunk, first of the
// output g, then of g + 8. Those of 16 bits are the left factor of mma.m16n8k16. There are as many tiles as give whole
// 32 outputs, the last ones filled with zeros. After the weights of all layers come the biases, scales and shifts, f32,
// as many; those that a layer lacks are not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "sluice/io/dtype.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::kernels {

// What comes after a product.
struct row_norm {
    std::vector<float> scale, shift;  // [outputs]; shift may be empty
    float epsilon = 1e-5f;
    activation after = activation::none;
};
struct row_chain_part {
    mlp_layer layer;  // not softmax
    std::optional<row_norm> norm = {};
};

inline constexpr std::size_t most_chain_layers = 12, widest_chain_layer = 2048, row_chain_head = 1024;

// Offsets are bytes of the image; 0 for what is not there.
struct row_chain_layer {
    std::uint64_t weights, bias, scale, shift;
    std::uint32_t inputs, outputs;
    std::uint32_t after_product, after_norm;  // activation
    float epsilon;
    std::uint32_t has_norm;
};

// What a chain looks like, apart from its numbers. Without padding.
struct row_chain_form {
    std::uint64_t type;  // io::dtype: f32, f16 or bf16
    std::uint64_t count;
    std::uint64_t numbers, number_bytes;  // where biases, scales and shifts begin, and what they take
    row_chain_layer layers[most_chain_layers];

    std::size_t inputs() const noexcept { return layers[0].inputs; }
    std::size_t outputs() const noexcept { return layers[count - 1].outputs; }
    std::size_t widest() const noexcept;
    std::size_t weight_bytes() const noexcept;
};

struct packed_row_chain {
    row_chain_form form;
    std::vector<std::byte> image;
};

// Empty where the layers are none, too many or too wide, do not fit each other, or end with a softmax inside. Costs
// O(weights).
std::optional<packed_row_chain> pack_row_chain(const std::vector<row_chain_part>& parts, io::dtype type);

// A closure. Without padding.
struct row_chain_call {
    row_chain_layer first;
    std::uint64_t type, count, widest, numbers, number_bytes;
    const std::byte* image;
    const void* x;  // [rows, inputs]: f32, or the element type
    float* y;       // [rows, outputs]
    std::uint64_t rows, is_x_wide, blocks;
};
static_assert(std::is_trivially_copyable_v<row_chain_call>);

// Whether the kernel is there for this GPU, and is the faster form for this number of rows.
bool has_row_chain(const row_chain_form& form, std::size_t rows, const device_properties& gpu);
struct row_chain_data {
    const std::byte* image;
    const void* x;
    float* y;
    std::size_t rows;
    bool is_x_wide;  // f32
};
// Completes `call`, which must outlive the submission.
launch_command row_chain_command(const row_chain_form& form, const row_chain_data& data, row_chain_call& call);

}  // namespace sluice::kernels
