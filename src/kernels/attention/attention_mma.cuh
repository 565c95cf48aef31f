// SPDX-License-Identifier: Apache-2.0
// attention by tensor cores: four warps have 16 queries each and share the keys and values of a tile. The exponentials
// of a tile, rounded, are the left factor of the second product where they are.
//
// Shared memory: 64 rows each of queries, keys and values, as the factors' type. A row is 16 bytes longer than it is
// wide, so that eight rows of a matrix are in different banks.
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "sluice/kernels/detail/mma.hpp"

namespace sluice::kernels {

inline constexpr int attention_mma_threads = 128;

constexpr std::size_t attention_mma_bytes(std::size_t width) { return 3 * attention_tile * (width + 8) * 2; }

// Eight elements, rounded to T; those from `size` on are 0.
template <typename T, typename From>
__device__ inline uint4 eight_elements(const From* from, std::int64_t of_element, unsigned count, bool is_whole) {
    if constexpr (std::is_same_v<T, From>) {
        if (is_whole) return *reinterpret_cast<const uint4*>(from);
    } else {
        if (is_whole) {
            const float4 a = reinterpret_cast<const float4*>(from)[0], b = reinterpret_cast<const float4*>(from)[1];
            return {rounded<T, false>(a.x, a.y), rounded<T, false>(a.z, a.w), rounded<T, false>(b.x, b.y),
                    rounded<T, false>(b.z, b.w)};
        }
    }
    float x[8] = {};
#pragma unroll
    for (unsigned j = 0; j < 8; ++j)
        if (j < count) x[j] = static_cast<float>(from[j * of_element]);
    return {rounded<T, false>(x[0], x[1]), rounded<T, false>(x[2], x[3]), rounded<T, false>(x[4], x[5]),
            rounded<T, false>(x[6], x[7])};
}

// 64 rows to shared memory; those that are not there, and elements from `size` on, are 0.
template <typename T, int Width, typename From>
__device__ inline void load_rows(T* to, const From* from, std::int64_t of_row, std::int64_t of_element, unsigned rows,
                                 unsigned size) {
    constexpr unsigned pieces = Width / 8, at_once = 4;
    constexpr unsigned rounds = attention_tile * pieces / attention_mma_threads / at_once;
    const bool is_whole = has_whole_pieces(from, of_row, of_element, size) && size % 8 == 0;
    for (unsigned round = 0; round < rounds; ++round) {
        uint4 held[at_once];
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k) {
            const unsigned i = threadIdx.x + (round * at_once + k) * attention_mma_threads;
            const unsigned row = i / pieces, at = i % pieces * 8;
            held[k] = uint4{0, 0, 0, 0};
            if (row < rows && at < size)
                held[k] = eight_elements<T>(from + row * of_row + at * of_element, of_element, size - at, is_whole);
        }
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k) {
            const unsigned i = threadIdx.x + (round * at_once + k) * attention_mma_threads;
            *reinterpret_cast<uint4*>(to + i / pieces * (Width + 8) + i % pieces * 8) = held[k];
        }
    }
}
template <typename T, int Width>
__device__ inline void load_rows(T* to, const attention_operand& from, std::int64_t begin, std::size_t rows,
                                 std::size_t size) {
    const auto few = static_cast<unsigned>(rows < attention_tile ? rows : attention_tile);
    const auto wide = static_cast<unsigned>(size);
    const std::int64_t of_row = from.strides[2], of_element = from.strides[3];
    if (from.type == io::dtype::f32) {
        load_rows<T, Width>(to, static_cast<const float*>(from.at) + begin, of_row, of_element, few, wide);
    } else {
        load_rows<T, Width>(to, static_cast<const T*>(from.at) + begin, of_row, of_element, few, wide);
    }
}

template <typename T>
__device__ inline std::uint32_t address_of(const T* row) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
}

// A warp's scores of 16 queries and the tile's keys, without scale.
template <typename T, int Width>
__device__ inline void attention_scores(float (&scores)[8][4], const T* q, const T* k, std::size_t size) {
    constexpr int pitch = Width + 8;
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < Width / 16; ++step) {
        if (static_cast<std::size_t>(step) * 16 >= size) break;
        std::uint32_t a[4];
        load_matrices(a, address_of(q + lane % 16 * pitch + step * 16 + lane / 16 * 8));
#pragma unroll
        for (int keys = 0; keys < 4; ++keys) {
            std::uint32_t b[4];
            load_matrices(
                b, address_of(k + (keys * 16 + lane / 16 * 8 + lane % 8) * pitch + step * 16 + lane / 8 % 2 * 8));
            mma<T>(scores[2 * keys], a, b[0], b[1]);
            mma<T>(scores[2 * keys + 1], a, b[2], b[3]);
        }
    }
}

// Adds the exponentials times the tile's values.
template <typename T, int Width>
__device__ inline void add_values(float (&sums)[Width / 8][4], const float (&p)[8][4], const T* v, std::size_t size) {
    constexpr int pitch = Width + 8;
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int keys = 0; keys < 4; ++keys) {
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

// What a thread knows of its two rows of queries, 8 apart.
struct attention_rows_state {
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

    // The scores become exponentials. Says by what earlier sums are multiplied.
    __device__ void take(float (&scores)[8][4], float (&by)[2]) {
#pragma unroll
        for (int half_of = 0; half_of < 2; ++half_of) {
            float most = largest[half_of];
#pragma unroll
            for (const auto& each : scores) most = fmaxf(most, fmaxf(each[2 * half_of], each[2 * half_of + 1]));
            for (int step = 1; step < 4; step *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, step));
            const float centre = attention_centre(most);
            by[half_of] = attention_exp(largest[half_of], centre);
            largest[half_of] = most;
            float own = 0;
#pragma unroll
            for (auto& each : scores) {
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    float& one = each[2 * half_of + k];
                    one = attention_exp(one, centre);
                    own += one;
                }
            }
            sum[half_of] = sum[half_of] * by[half_of] + own;
        }
    }
    // Of all four threads that have these rows.
    __device__ void finish() {
#pragma unroll
        for (float& each : sum)
            for (int step = 1; step < 4; step *= 2) each += __shfl_xor_sync(0xffffffff, each, step);
    }
};

template <typename T, int Width>
__device__ inline void store_attention(const attention_call& all, const attention_block& block, std::int64_t query,
                                       const float (&sums)[Width / 8][4], const attention_rows_state& rows) {
    const auto size = static_cast<int>(all.value_size), column = static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
    for (int half_of = 0; half_of < 2; ++half_of) {
        const std::int64_t row = query + 8 * half_of;
        if (row >= static_cast<std::int64_t>(all.queries)) continue;
        const std::int64_t begin = block.begin(all.y, row);
        const float by = 1 / rows.sum[half_of];
#pragma unroll
        for (int part = 0; part < Width / 8; ++part) {
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int at = part * 8 + column + k;
                if (at >= size) continue;
                const float one = sums[part][2 * half_of + k] * by;
                // (An attribute of the call alone: the same for all threads.)
                if (all.y.type == io::dtype::f32) {
                    static_cast<float*>(const_cast<void*>(all.y.at))[begin + at] = one;
                } else {
                    static_cast<T*>(const_cast<void*>(all.y.at))[begin + at] = T(one);
                }
            }
        }
    }
}

template <typename T, int Width>
__global__ void __launch_bounds__(attention_mma_threads) attend_by_mma(const __grid_constant__ attention_call all) {
    constexpr int pitch = Width + 8;
    extern __shared__ __align__(16) unsigned char attention_memory[];
    T* const q = reinterpret_cast<T*>(attention_memory);
    T *const k = q + attention_tile * pitch, *const v = k + attention_tile * pitch;
    const attention_block block(all);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const std::int64_t query = block.first + warp * 16 + lane / 4;
    const float scale = scale_of(all);
    load_rows<T, Width>(q, all.q, block.begin(all.q, block.first), all.queries - static_cast<std::size_t>(block.first),
                        all.size);
    float sums[Width / 8][4] = {};
    attention_rows_state rows;
    for (std::size_t first = 0; first < all.keys; first += attention_tile) {
        const auto from = static_cast<std::int64_t>(first);
        __syncthreads();  // all warps are done with the tile before
        load_rows<T, Width>(k, all.k, block.begin(all.k, from), all.keys - first, all.size);
        load_rows<T, Width>(v, all.v, block.begin(all.v, from), all.keys - first, all.value_size);
        __syncthreads();
        float scores[8][4] = {};
        attention_scores<T, Width>(scores, q + warp * 16 * pitch, k, all.size);
#pragma unroll
        for (int keys = 0; keys < 8; ++keys) {
#pragma unroll
            for (int place = 0; place < 4; ++place) {
                const std::int64_t row = query + place / 2 * 8, key = from + keys * 8 + lane % 4 * 2 + place % 2;
                float& score = scores[keys][place];
                score *= scale;
                if (key >= static_cast<std::int64_t>(all.keys)) {
                    score = -INFINITY;
                } else if (row < static_cast<std::int64_t>(all.queries)) {
                    score = block.masked(all, score, row, key);
                }
            }
        }
        float by[2];
        rows.take(scores, by);
#pragma unroll
        for (auto& each : sums) {
#pragma unroll
            for (int place = 0; place < 4; ++place) each[place] *= by[place / 2];
        }
        add_values<T, Width>(sums, scores, v, all.value_size);
    }
    rows.finish();
    store_attention<T, Width>(all, block, query, sums, rows);
}

}  // namespace sluice::kernels
