// SPDX-License-Identifier: Apache-2.0
// attention of f32 by the vector units of a GPU: a thread has 4 queries by 4 keys of the scores of a tile, then 4
// queries by 4 elements of each 64 of the result.
//
// Shared memory: the queries, then the tile's keys or its values, then the exponentials. Queries, keys and exponentials
// lie the other way round: what a thread multiplies is four numbers side by side.
#pragma once

#include "kernels/attention/attention_device.cuh"

namespace sluice::kernels {

inline constexpr int attention_tile = 64;  // queries of a block, and keys of a tile
inline constexpr int attention_fma_threads = 256, attention_pitch = attention_tile + 4;

constexpr std::size_t attention_fma_bytes(std::size_t width) {
    return (2 * width + attention_tile) * attention_pitch * sizeof(float);
}

// to[element][row]; rows that are not there are 0.
template <int Width>
__device__ inline void load_columns(float* to, const float* from, std::int64_t of_row, std::int64_t of_element,
                                    std::size_t rows, std::size_t size) {
    const bool is_whole = has_whole_pieces(from, of_row, of_element, static_cast<unsigned>(size));
    for (unsigned i = threadIdx.x; i < attention_tile * Width / 4; i += attention_fma_threads) {
        const unsigned row = i % attention_tile, at = i / attention_tile * 4;
        float x[4] = {};
        if (row < rows && at < size) {
            const float* const piece = from + row * of_row + at * of_element;
            if (is_whole) {
                const float4 four = *reinterpret_cast<const float4*>(piece);
                x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
            } else {
                for (unsigned j = 0; j < 4 && at + j < size; ++j) x[j] = piece[j * of_element];
            }
        }
        for (unsigned j = 0; j < 4; ++j) to[(at + j) * attention_pitch + row] = x[j];
    }
}
// to[row][element]
template <int Width>
__device__ inline void load_values(float* to, const float* from, std::int64_t of_row, std::int64_t of_element,
                                   std::size_t rows, std::size_t size) {
    for (unsigned i = threadIdx.x; i < attention_tile * Width; i += attention_fma_threads) {
        const unsigned row = i / Width, at = i % Width;
        to[i] = row < rows && at < size ? from[row * of_row + at * of_element] : 0.0f;
    }
}

__device__ inline void four_numbers(float (&to)[4], const float* from) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

template <int Width>
__global__ void __launch_bounds__(attention_fma_threads) attend_by_fma(const __grid_constant__ attention_call all) {
    extern __shared__ __align__(16) unsigned char attention_memory[];
    float* const q = reinterpret_cast<float*>(attention_memory);
    float *const kv = q + Width * attention_pitch, *const p = kv + Width * attention_pitch;
    const attention_block block(all, attention_tile);
    const unsigned of_rows = threadIdx.x / 16 * 4, of_keys = threadIdx.x % 16 * 4;
    const float scale = scale_of(all);
    const auto* const from_q = static_cast<const float*>(all.q.at) + block.begin(all.q, block.first);
    load_columns<Width>(q, from_q, all.q.strides[2], all.q.strides[3],
                        all.queries - static_cast<std::size_t>(block.first), all.size);
    float sums[4][Width / 16] = {}, largest[4], sum[4] = {};
    for (float& each : largest) each = -INFINITY;
    for (std::size_t first = 0; first < all.keys; first += attention_tile) {
        const auto from = static_cast<std::int64_t>(first);
        const std::size_t rest = all.keys - first, keys = rest < attention_tile ? rest : attention_tile;
        __syncthreads();  // all are done with the tile before
        load_columns<Width>(kv, static_cast<const float*>(all.k.at) + block.begin(all.k, from), all.k.strides[2],
                            all.k.strides[3], keys, all.size);
        __syncthreads();
        float scores[4][4] = {};
        for (std::size_t d = 0; d < all.size; ++d) {
            float x[4], w[4];
            four_numbers(x, q + d * attention_pitch + of_rows);
            four_numbers(w, kv + d * attention_pitch + of_keys);
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) scores[i][j] += x[i] * w[j];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const std::int64_t row = block.first + of_rows + i;
            float most = largest[i];
            for (int j = 0; j < 4; ++j) {
                const std::int64_t key = from + of_keys + j;
                scores[i][j] *= scale;
                if (key >= static_cast<std::int64_t>(all.keys)) {
                    scores[i][j] = -INFINITY;
                } else if (row < static_cast<std::int64_t>(all.queries)) {
                    scores[i][j] = block.masked(all, scores[i][j], row, key);
                }
                most = fmaxf(most, scores[i][j]);
            }
            for (int step = 1; step < 16; step *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, step));
            const float centre = attention_centre(most), by = attention_exp(largest[i], centre);
            largest[i] = most;
            float own = 0;
            for (int j = 0; j < 4; ++j) {
                scores[i][j] = attention_exp(scores[i][j], centre);
                own += scores[i][j];
            }
            sum[i] = sum[i] * by + own;
            for (float& each : sums[i]) each *= by;
        }
        for (int j = 0; j < 4; ++j)
            *reinterpret_cast<float4*>(p + (of_keys + j) * attention_pitch + of_rows) =
                float4{scores[0][j], scores[1][j], scores[2][j], scores[3][j]};
        __syncthreads();  // the keys are not needed any more, and the exponentials are there
        load_values<Width>(kv, static_cast<const float*>(all.v.at) + block.begin(all.v, from), all.v.strides[2],
                           all.v.strides[3], keys, all.value_size);
        __syncthreads();
        for (std::size_t key = 0; key < keys; ++key) {
            float x[4];
            four_numbers(x, p + key * attention_pitch + of_rows);
#pragma unroll
            for (int part = 0; part < Width / 64; ++part) {
                float w[4];
                four_numbers(w, kv + key * Width + part * 64 + of_keys);
                for (int i = 0; i < 4; ++i)
                    for (int j = 0; j < 4; ++j) sums[i][part * 4 + j] += x[i] * w[j];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        for (int step = 1; step < 16; step *= 2) sum[i] += __shfl_xor_sync(0xffffffff, sum[i], step);
        const std::int64_t row = block.first + of_rows + i;
        if (row >= static_cast<std::int64_t>(all.queries)) continue;
        float* const to = static_cast<float*>(const_cast<void*>(all.y.at)) + block.begin(all.y, row);
        const bool are_zeros = gives_zeros(all, sum[i]);
        for (int part = 0; part < Width / 64; ++part) {
            for (int j = 0; j < 4; ++j) {
                const std::size_t at = part * 64 + of_keys + j;
                if (at >= all.value_size) continue;
                to[at] = are_zeros ? zeros_by_values(all, block, static_cast<std::int64_t>(at))
                                   : sums[i][part * 4 + j] / sum[i];
            }
        }
    }
}

}  // namespace sluice::kernels
