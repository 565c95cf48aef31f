// SPDX-License-Identifier: Apache-2.0
// What both kernels of attention share: which part of the work a block has, rows in shared memory, and the scores with
// their scale and masks.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention/attention.hpp"
#include "kernels/gemm/accumulators.cuh"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::kernels {

__device__ inline float number_at(const void* from, std::int64_t i, io::dtype type) {
    switch (type) {
        case io::dtype::f16: return static_cast<float>(static_cast<const half*>(from)[i]);
        case io::dtype::bf16: return static_cast<float>(static_cast<const bfloat16*>(from)[i]);
        default: return static_cast<const float*>(from)[i];
    }
}

__device__ inline float scale_of(const attention_call& all) {
    float made = 1;
    for (std::size_t i = 0; i < all.scales; ++i) {
        const attention_scale& each = all.scale[i];
        const float one = each.at != nullptr ? number_at(each.at, 0, each.type) : each.value;
        made = each.is_divisor != 0 ? made / one : made * one;
    }
    return made;
}

// The queries of a head of a batch that a block has: `of_block` of them from `first` on.
struct attention_block {
    std::int64_t batch, head, first;

    __device__ attention_block(const attention_call& all, unsigned of_block) {
        const auto tiles = static_cast<unsigned>((all.queries + of_block - 1) / of_block);
        first = static_cast<std::int64_t>(blockIdx.x % tiles) * of_block;
        const unsigned rest = blockIdx.x / tiles;
        head = rest % static_cast<unsigned>(all.heads);
        batch = rest / static_cast<unsigned>(all.heads);
    }
    // The element of the operand at the beginning of a row.
    __device__ std::int64_t begin(const attention_operand& of, std::int64_t position) const {
        return batch * of.strides[0] + head * of.strides[1] + position * of.strides[2];
    }
    __device__ float masked(const attention_call& all, float score, std::int64_t query, std::int64_t key) const {
        for (std::size_t i = 0; i < all.masks; ++i) {
            const attention_mask& mask = all.mask[i];
            const std::int64_t at =
                batch * mask.strides[0] + head * mask.strides[1] + query * mask.strides[2] + key * mask.strides[3];
            if (mask.what == attention_mask::kind::added) {
                score += number_at(mask.at, at, mask.type);
            } else {
                const bool is_true = static_cast<const std::uint8_t*>(mask.at)[at] != 0;
                if (is_true != (mask.what == attention_mask::kind::kept_where_true))
                    score = number_at(mask.otherwise, 0, mask.type);
            }
        }
        return score;
    }
};

// exp(x - centre). Where all scores so far are -infinity, the centre is 0: they count nothing.
__device__ inline float attention_exp(float x, float centre) {
    constexpr float log2_e = 1.44269504f;
    return exp2f((x - centre) * log2_e);
}
__device__ inline float attention_centre(float largest) { return largest == -INFINITY ? 0.0f : largest; }

// The result of a query whose probabilities became 0: 0, or NaN where a value is infinite or NaN. (Seldom: not
// inlined.)
__device__ __noinline__ inline float zeros_by_values(const attention_call& all, const attention_block& block,
                                                     std::int64_t column) {
    if (column >= static_cast<std::int64_t>(all.value_size)) return 0;
    float made = 0;
    for (std::int64_t key = 0; key < static_cast<std::int64_t>(all.keys); ++key)
        made = fmaf(0.0f, number_at(all.v.at, block.begin(all.v, key) + column * all.v.strides[3], all.v.type), made);
    return made;
}

// Whether rows can be read in pieces of 16 bytes, each of which is of one row alone.
template <typename From>
__device__ inline bool has_whole_pieces(const From* from, std::int64_t of_row, std::int64_t of_element, unsigned size) {
    constexpr unsigned of_piece = 16 / sizeof(From);
    return of_element == 1 && size % of_piece == 0 && of_row % of_piece == 0 &&
           reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
}

}  // namespace sluice::kernels
