// SPDX-License-Identifier: Apache-2.0
// Rows of queries, keys and values on their way to shared memory, for attention_mma.cuh.
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "sluice/kernels/detail/mma.hpp"

namespace sluice::kernels {

inline constexpr int attention_mma_threads = 128;

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

template <typename T>
__device__ inline std::uint32_t address_of(const T* row) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
}

// 16 bytes on their way to shared memory, or 0 there.
__device__ inline void copy_piece(std::uint32_t to, const void* from, bool is_there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    __trap();  // never launched there: see mma.hpp
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
#endif
}
// Until all pieces of this thread have arrived.
__device__ inline void wait_for_pieces() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Rows to shared memory, in pieces of eight elements: neighbouring threads have neighbouring pieces. Rows that are not
// there, and elements from `size` on, are 0. Through registers: a function that is called, since it is long and seldom
// needed.
template <typename T, int Width, int Rows, typename From>
__device__ __noinline__ void convert_rows(T* to, const From* from, std::int64_t of_row, std::int64_t of_element,
                                          unsigned rows, unsigned size, bool is_whole) {
    constexpr unsigned pieces = Width / 8, at_once = attention_mma_threads / pieces;
    constexpr unsigned together = 4;  // reads before the first is stored
    const unsigned first = threadIdx.x / pieces, at = threadIdx.x % pieces * 8;
    const From* piece = from + first * of_row + at * of_element;
    T* place = to + first * (Width + 8) + at;
    for (unsigned row = first; row < Rows; row += together * at_once) {
        uint4 held[together];
#pragma unroll
        for (unsigned k = 0; k < together; ++k) {
            held[k] = uint4{0, 0, 0, 0};
            if (at < size && row + k * at_once < rows)
                held[k] = eight_elements<T>(piece + k * at_once * of_row, of_element, size - at, is_whole);
        }
#pragma unroll
        for (unsigned k = 0; k < together; ++k)
            if (row + k * at_once < Rows) *reinterpret_cast<uint4*>(place + k * at_once * (Width + 8)) = held[k];
        piece += together * at_once * of_row;
        place += together * at_once * (Width + 8);
    }
}
// The same for elements of T that lie in whole pieces: they are copied while the block continues. Elements from `size`
// on are 0 up to a multiple of 16, which is all that is multiplied.
template <typename T, int Width, int Rows>
__device__ inline void copy_rows(T* to, const T* from, std::int64_t of_row, unsigned rows, unsigned size) {
    constexpr unsigned pieces = Width / 8, at_once = attention_mma_threads / pieces;
    static_assert(Rows % at_once == 0);
    const unsigned first = threadIdx.x / pieces, at = threadIdx.x % pieces * 8;
    if (at >= (size + 15) / 16 * 16) return;
    const T* piece = from + first * of_row + at;
    const std::uint32_t place = address_of(to + first * (Width + 8) + at);
#pragma unroll
    for (unsigned row = 0; row < Rows; row += at_once) {
        const bool is_there = at < size && row + first < rows;
        copy_piece(place + row * (Width + 8) * 2, is_there ? piece : from, is_there);
        piece += at_once * of_row;
    }
}
template <typename T, int Width, int Rows>
__device__ inline void load_rows(T* to, const attention_operand& from, std::int64_t begin, std::size_t rows,
                                 std::size_t size) {
    const auto few = static_cast<unsigned>(rows < Rows ? rows : Rows);
    const auto wide = static_cast<unsigned>(size);
    const std::int64_t of_row = from.strides[2], of_element = from.strides[3];
    if (from.type == io::dtype::f32) {
        const auto* const begins = static_cast<const float*>(from.at) + begin;
        const bool is_whole = has_whole_pieces(begins, of_row, of_element, wide) && size % 8 == 0;
        return convert_rows<T, Width, Rows>(to, begins, of_row, of_element, few, wide, is_whole);
    }
    const auto* const begins = static_cast<const T*>(from.at) + begin;
    if (has_whole_pieces(begins, of_row, of_element, wide))
        return copy_rows<T, Width, Rows>(to, begins, of_row, few, wide);
    convert_rows<T, Width, Rows>(to, begins, of_row, of_element, few, wide, false);
}

}  // namespace sluice::kernels
