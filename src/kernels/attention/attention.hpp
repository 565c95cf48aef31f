// SPDX-License-Identifier: Apache-2.0
// attention: softmax(scale * q * k + masks) * v of all batches and heads as one command. The scores are never in
// memory: keys are taken in tiles, and sums are multiplied again when a tile has a larger score (online softmax).
//
//     y[b, h, i, e] = sum over j of p[b, h, i, j] * v[b, h, j, e]
//     p[b, h, i, .] = softmax of  scale * sum over d of q[b, h, i, d] * k[b, h, j, d],  changed by the masks in order
//
// All tensors have strides. Elements are f32, or of the 16 bits that factors are rounded to. Such factors are
// multiplied by tensor cores, f32 otherwise by the vector units of a GPU. On a CPU f32 only. Scores, exponentials and
// sums are f32; the exponentials are factors, and rounded as such.
//
// Special values are those of the nodes: a row of scores with NaN or +infinity, or of -infinity alone, gives NaN (but
// see gives_zeros). A key with the weight 0 gives NaN where its value is infinite or NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/base/kernel.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::kernels {

// Of a tensor with the dimensions batch, head, position, element. Strides are in elements; 0 where it is repeated.
struct attention_operand {
    static constexpr std::size_t rank = 4;

    const void* at;
    std::int64_t strides[rank];
    io::dtype type;  // of its elements
    std::uint32_t unused;
};

// What is done with a score before the softmax.
struct attention_mask {
    enum class kind : std::uint32_t { added, kept_where_true, kept_where_false };

    const void* at;         // of batch, head, query, key: the numbers that are added, or booleans
    const void* otherwise;  // the number in place of a score that is not kept
    std::int64_t strides[attention_operand::rank];
    kind what;
    io::dtype type;  // of the numbers
};
struct attention_scale {
    const void* at;  // one number of the type; null: it is `value`
    float value;
    std::uint32_t is_divisor;
    io::dtype type;
    std::uint32_t unused;
};

// Trivially copyable.
struct attention_call {
    static constexpr std::size_t most_masks = 3, most_scales = 4;
    static constexpr std::size_t largest_size = 256;  // of a query and of a value

    attention_operand q, k, v, y;  // y is written; its elements are neighbours
    std::size_t batches, heads, queries, keys, size, value_size;
    io::dtype factors;          // f32, or what factors are rounded to: then operands are f32 or of this type
    std::uint32_t gives_zeros;  // 1: probabilities that are NaN are 0; values count with 0 then
    std::size_t masks, scales;
    attention_mask mask[most_masks];
    attention_scale scale[most_scales];
};

// Whether there is a kernel for it on such a device; `capability` is 0 on a CPU.
bool has_attention(const attention_call& call, const device_properties& on);
// The launch; the command points to the call, which the caller keeps until it is submitted.
launch_command attention_command(attention_call& call, const device_properties& on);

// One number of the type, as f32.
float attention_number(const void* at, io::dtype type);
// Whether the probabilities of a query with this sum of exponentials become 0.
SLUICE_KERNEL inline bool gives_zeros(const attention_call& call, float sum) {
    return call.gives_zeros != 0 && !(sum > 0);
}
// The product of all scales.
float attention_factor(const attention_call& call);
// On a CPU: the queries from `first` to `last` of a head of a batch, at most queries_at_once of them.
struct attention_loops {
    static constexpr std::size_t queries_at_once = 64;
    void (*run)(const attention_call& call, float scale, std::size_t batch, std::size_t head, std::size_t first,
                std::size_t last) noexcept;
};
extern const attention_loops attention_baseline, attention_avx2, attention_avx512;

}  // namespace sluice::kernels
