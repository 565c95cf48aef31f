// SPDX-License-Identifier: Apache-2.0
// What a warp knows of its queries while attention_mma.cuh goes over the keys, and the results that it gives in the
// end.
#pragma once

#include "kernels/attention/attention_rows.cuh"

namespace sluice::kernels {

// exp(x - centre); the exponentials are rounded to 16 bits, and those below 2^-126 are 0.
__device__ inline float fast_exp(float x, float centre) {
    constexpr float log2_e = 1.44269504f;
    float made;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"((x - centre) * log2_e));
    return made;
}

// What a thread knows of its two rows of queries, 8 apart.
struct attention_rows_state {
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

    // The scores become exponentials. Says by what earlier sums are multiplied.
    template <int Blocks>
    __device__ void take(float (&scores)[Blocks][4], float (&by)[2]) {
#pragma unroll
        for (int half_of = 0; half_of < 2; ++half_of) {
            float most = largest[half_of];
#pragma unroll
            for (const auto& each : scores) most = fmaxf(most, fmaxf(each[2 * half_of], each[2 * half_of + 1]));
#pragma unroll
            for (int step = 1; step < 4; step *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, step));
            const float centre = attention_centre(most);
            by[half_of] = fast_exp(largest[half_of], centre);
            largest[half_of] = most;
            float own = 0;
#pragma unroll
            for (auto& each : scores) {
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    float& one = each[2 * half_of + k];
                    one = fast_exp(one, centre);
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
#pragma unroll
            for (int step = 1; step < 4; step *= 2) each += __shfl_xor_sync(0xffffffff, each, step);
    }
};

// Two neighbours of a query's result, from an even column on.
template <typename T>
__device__ inline void store_pair(const attention_call& all, std::int64_t begin, int column, float first,
                                  float second) {
    const auto size = static_cast<int>(all.value_size);
    if (column >= size) return;
    void* const to = const_cast<void*>(all.y.at);
    // (An attribute of the call alone: the same for all threads.)
    if (all.y.type == io::dtype::f32) {
        float* const at = static_cast<float*>(to) + begin + column;
        at[0] = first;
        if (column + 1 < size) at[1] = second;
        return;
    }
    T* const at = static_cast<T*>(to) + begin + column;
    const std::uint32_t both = rounded<T, false>(first, second);
    if (column + 1 < size && reinterpret_cast<std::uintptr_t>(at) % 4 == 0) {
        *reinterpret_cast<std::uint32_t*>(at) = both;
    } else {
        at[0] = T::from_bits(static_cast<std::uint16_t>(both));
        if (column + 1 < size) at[1] = T::from_bits(static_cast<std::uint16_t>(both >> 16));
    }
}

// The results of warps that have queries of their own.
template <typename T, int Width>
__device__ inline void store_attention(const attention_call& all, const attention_block& block, std::int64_t query,
                                       const float (&sums)[Width / 8][4], const attention_rows_state& rows) {
#pragma unroll
    for (int half_of = 0; half_of < 2; ++half_of) {
        const std::int64_t row = query + 8 * half_of;
        if (row >= static_cast<std::int64_t>(all.queries)) continue;
        const std::int64_t begin = block.begin(all.y, row);
        const float sum = rows.sum[half_of], by = 1 / sum;
        const bool are_zeros = gives_zeros(all, sum);
#pragma unroll
        for (int part = 0; part < Width / 8; ++part) {
            const int column = part * 8 + static_cast<int>(threadIdx.x % 4 * 2);
            float first = sums[part][2 * half_of] * by, second = sums[part][2 * half_of + 1] * by;
            if (are_zeros) {
                first = zeros_by_values(all, block, column);
                second = zeros_by_values(all, block, column + 1);
            }
            store_pair<T>(all, begin, column, first, second);
        }
    }
}

// The results of all warps for the same 16 queries, which are at `memory` afterwards.
template <typename T, int Width, typename Shape>
__device__ inline void join_attention(const attention_call& all, const attention_block& block, float* memory,
                                      const float (&sums)[Width / 8][4], const attention_rows_state& rows) {
    constexpr int of_warp = 16 * Width, threads_of_row = attention_mma_threads / 16;
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
    float* const states = memory + Shape::warps * of_warp;  // of each warp 16 largest scores and 16 sums
    __syncthreads();                                        // all warps are done with keys and values
#pragma unroll
    for (int half_of = 0; half_of < 2; ++half_of) {
        const int row = lane / 4 + 8 * half_of;
        if (lane % 4 == 0) {
            states[warp * 32 + row] = rows.largest[half_of];
            states[warp * 32 + 16 + row] = rows.sum[half_of];
        }
#pragma unroll
        for (int part = 0; part < Width / 8; ++part) {
            *reinterpret_cast<float2*>(memory + warp * of_warp + row * Width + part * 8 + lane % 4 * 2) = {
                sums[part][2 * half_of], sums[part][2 * half_of + 1]};
        }
    }
    __syncthreads();
    const int row = static_cast<int>(threadIdx.x) / threads_of_row;
    const std::int64_t query = block.first + row;
    if (query >= static_cast<std::int64_t>(all.queries)) return;
    float largest = -INFINITY, sum = 0, by[Shape::warps];
#pragma unroll
    for (int each = 0; each < Shape::warps; ++each) largest = fmaxf(largest, states[each * 32 + row]);
#pragma unroll
    for (int each = 0; each < Shape::warps; ++each) {
        by[each] = fast_exp(states[each * 32 + row], attention_centre(largest));
        sum += states[each * 32 + 16 + row] * by[each];
    }
    const std::int64_t begin = block.begin(all.y, query);
    const bool are_zeros = gives_zeros(all, sum);
    const int first = static_cast<int>(threadIdx.x) % threads_of_row * 2;
    for (int column = first; column < Width; column += 2 * threads_of_row) {
        float2 made = {0, 0};
#pragma unroll
        for (int each = 0; each < Shape::warps; ++each) {
            const float2 two = *reinterpret_cast<const float2*>(memory + each * of_warp + row * Width + column);
            made.x += two.x * by[each];
            made.y += two.y * by[each];
        }
        made.x /= sum, made.y /= sum;
        if (are_zeros) made = {zeros_by_values(all, block, column), zeros_by_values(all, block, column + 1)};
        store_pair<T>(all, begin, column, made.x, made.y);
    }
}

}  // namespace sluice::kernels
