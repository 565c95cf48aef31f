// SPDX-License-Identifier: Apache-2.0
// attention by tensor cores. Four warps of a block have 16 queries each and share the keys and values of a tile; or,
// where there are no more than 16, all have the same queries, and each a part of the tile's keys: what they found is
// brought together at the end. The exponentials of a tile, rounded, are the left factor of the second product where
// they are. While a tile is multiplied the next one is copied.
//
// Shared memory: queries, and two tiles of keys and values, as the factors' type. A row is 16 bytes longer than it is
// wide, so that eight rows of a matrix are in different banks.
#pragma once

#include "kernels/attention/attention_result.cuh"
#include "kernels/attention/attention_rows.cuh"

namespace sluice::kernels {

// `QueryWarps` is 4 or 1: how many warps have queries of their own.
template <int Width, int QueryWarps>
struct attention_shape {
    static constexpr int warps = attention_mma_threads / 32, query_warps = QueryWarps, key_warps = warps / QueryWarps;
    static constexpr int queries = 16 * query_warps;
    static constexpr int keys_of_warp = key_warps == 1 ? (Width == 256 ? 32 : 64) : (Width == 64 ? 32 : 16);
    static constexpr int keys = keys_of_warp * key_warps;  // of a tile
    static constexpr int pitch = Width + 8;
    static constexpr int tile = keys * pitch;  // elements
    static constexpr std::size_t shared_bytes = (queries * pitch + 4 * tile) * 2;
    static_assert(key_warps == 1 || warps * (16 * Width + 32) * 4 <= 4 * tile * 2, "results of warps go there");
};

// A warp's scores of 16 queries and its keys of the tile, without scale.
template <typename T, int Width, int Keys>
__device__ inline void attention_scores(float (&scores)[Keys / 8][4], const T* q, const T* k, std::size_t size) {
    constexpr int pitch = Width + 8;
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < Width / 16; ++step) {
        if (static_cast<std::size_t>(step) * 16 >= size) break;
        std::uint32_t a[4];
        load_matrices(a, address_of(q + lane % 16 * pitch + step * 16 + lane / 16 * 8));
#pragma unroll
        for (int keys = 0; keys < Keys / 16; ++keys) {
            std::uint32_t b[4];
            load_matrices(
                b, address_of(k + (keys * 16 + lane / 16 * 8 + lane % 8) * pitch + step * 16 + lane / 8 % 2 * 8));
            mma<T>(scores[2 * keys], a, b[0], b[1]);
            mma<T>(scores[2 * keys + 1], a, b[2], b[3]);
        }
    }
}

// Adds the exponentials times the values of these keys.
template <typename T, int Width, int Keys>
__device__ inline void add_values(float (&sums)[Width / 8][4], const float (&p)[Keys / 8][4], const T* v,
                                  std::size_t size) {
    constexpr int pitch = Width + 8;
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int keys = 0; keys < Keys / 16; ++keys) {
        const float(&low)[4] = p[2 * keys], (&high)[4] = p[2 * keys + 1];
        const std::uint32_t a[4] = {rounded<T, false>(low[0], low[1]), rounded<T, false>(low[2], low[3]),
                                    rounded<T, false>(high[0], high[1]), rounded<T, false>(high[2], high[3])};
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            if (static_cast<std::size_t>(part) * 16 >= size) break;
            std::uint32_t b[4];
            load_matrices<true>(
                b, address_of(v + (keys * 16 + lane / 8 % 2 * 8 + lane % 8) * pitch + part * 16 + lane / 16 * 8));
            mma<T>(sums[2 * part], a, b[0], b[1]);
            mma<T>(sums[2 * part + 1], a, b[2], b[3]);
        }
    }
}

// function(score, row, column): each score of a thread that is of a query and a key that are there; which of its two
// rows, and which column of its 16 or more.
template <int Blocks, typename Function>
__device__ inline void each_score(float (&scores)[Blocks][4], const bool (&has_row)[2], std::int64_t columns,
                                  const Function& function) {
#pragma unroll
    for (int at = 0; at < Blocks; ++at) {
#pragma unroll
        for (int place = 0; place < 4; ++place) {
            const int column = at * 8 + place % 2;
            if (has_row[place / 2] && column < columns) function(scores[at][place], place / 2, column);
        }
    }
}

// Of a thread whose first row is `query` and whose first column is `key`.
template <int Blocks>
__device__ inline void mask_scores(float (&scores)[Blocks][4], const attention_call& all, const attention_block& block,
                                   std::int64_t query, std::int64_t key) {
    const auto queries = static_cast<std::int64_t>(all.queries), columns = static_cast<std::int64_t>(all.keys) - key;
    const bool has_row[2] = {query < queries, query + 8 < queries};
    for (std::size_t i = 0; i < all.masks; ++i) {
        const attention_mask& mask = all.mask[i];
        const std::int64_t of_column = mask.strides[3];
        const std::int64_t first =
            block.batch * mask.strides[0] + block.head * mask.strides[1] + query * mask.strides[2] + key * of_column;
        const std::int64_t rows[2] = {first, first + 8 * mask.strides[2]};
        const auto add = [&](const auto* from) {
            each_score(scores, has_row, columns, [&](float& score, int row, int column) {
                score += static_cast<float>(from[rows[row] + column * of_column]);
            });
        };
        if (mask.what == attention_mask::kind::added) {
            switch (mask.type) {
                case io::dtype::f16: add(static_cast<const half*>(mask.at)); break;
                case io::dtype::bf16: add(static_cast<const bfloat16*>(mask.at)); break;
                default: add(static_cast<const float*>(mask.at));
            }
        } else {
            const float otherwise = number_at(mask.otherwise, 0, mask.type);
            const bool kept = mask.what == attention_mask::kind::kept_where_true;
            const auto* const from = static_cast<const std::uint8_t*>(mask.at);
            each_score(scores, has_row, columns, [&](float& score, int row, int column) {
                if ((from[rows[row] + column * of_column] != 0) != kept) score = otherwise;
            });
        }
    }
}

// Scales and masks what the products have given; keys that are not there count nothing. The first of the warp's keys
// is `first`.
template <int Blocks>
__device__ inline void change_scores(float (&scores)[Blocks][4], const attention_call& all,
                                     const attention_block& block, float scale, std::int64_t query,
                                     std::int64_t first) {
    const std::int64_t key = first + threadIdx.x % 4 * 2, columns = static_cast<std::int64_t>(all.keys) - key;
#pragma unroll
    for (auto& each : scores) {
#pragma unroll
        for (float& score : each) score *= scale;
    }
    if (all.masks != 0) mask_scores(scores, all, block, query, key);
    if (first + Blocks * 8 <= static_cast<std::int64_t>(all.keys)) return;
#pragma unroll
    for (int at = 0; at < Blocks; ++at) {
#pragma unroll
        for (int place = 0; place < 4; ++place)
            if (at * 8 + place % 2 >= columns) scores[at][place] = -INFINITY;
    }
}

template <typename T, int Width, int QueryWarps>
__global__ void __launch_bounds__(attention_mma_threads) attend_by_mma(const __grid_constant__ attention_call all) {
    using shape = attention_shape<Width, QueryWarps>;
    constexpr int pitch = shape::pitch, tile = shape::tile, own_keys = shape::keys_of_warp;
    extern __shared__ __align__(16) unsigned char attention_memory[];
    dependency_trigger();
    dependency_wait();
    T* const q = reinterpret_cast<T*>(attention_memory);
    T *const k = q + shape::queries * pitch, *const v = k + 2 * tile;
    const attention_block block(all, shape::queries);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned query_warp = QueryWarps == 1 ? 0 : warp, key_warp = QueryWarps == 1 ? warp : 0;
    const std::int64_t query = block.first + query_warp * 16 + lane / 4;
    const auto load_tile = [&](std::size_t first, int stage) {
        const auto from = static_cast<std::int64_t>(first);
        load_rows<T, Width, shape::keys>(k + stage * tile, all.k, block.begin(all.k, from), all.keys - first, all.size);
        load_rows<T, Width, shape::keys>(v + stage * tile, all.v, block.begin(all.v, from), all.keys - first,
                                         all.value_size);
    };
    load_rows<T, Width, shape::queries>(q, all.q, block.begin(all.q, block.first),
                                        all.queries - static_cast<std::size_t>(block.first), all.size);
    load_tile(0, 0);
    const float scale = scale_of(all);
    float sums[Width / 8][4] = {};
    attention_rows_state rows;
    int stage = 0;
    for (std::size_t first = 0; first < all.keys; first += shape::keys, stage ^= 1) {
        wait_for_pieces();
        __syncthreads();  // the tile is there, and all warps are done with the one before
        if (first + shape::keys < all.keys) load_tile(first + shape::keys, stage ^ 1);
        const auto own = first + key_warp * own_keys;
        if (own >= all.keys) continue;
        const int place = stage * tile + static_cast<int>(key_warp) * own_keys * pitch;
        float scores[own_keys / 8][4] = {}, by[2];
        attention_scores<T, Width, own_keys>(scores, q + query_warp * 16 * pitch, k + place, all.size);
        change_scores(scores, all, block, scale, query, static_cast<std::int64_t>(own));
        rows.take(scores, by);
#pragma unroll
        for (auto& each : sums) {
#pragma unroll
            for (int at = 0; at < 4; ++at) each[at] *= by[at / 2];
        }
        add_values<T, Width, own_keys>(sums, scores, v + place, all.value_size);
    }
    rows.finish();
    if constexpr (QueryWarps == 1) {
        join_attention<T, Width, shape>(all, block, reinterpret_cast<float*>(k), sums, rows);
    } else {
        store_attention<T, Width>(all, block, query, sums, rows);
    }
}

}  // namespace sluice::kernels
