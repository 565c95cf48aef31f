// SPDX-License-Identifier: Apache-2.0
// Tiles (tile.hpp) that become one column or one row, and the other way round:
//
//     struct softmax_rows {  // of a matrix of at most 64 columns
//         SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<float, 16, 64> x) const {
//             const auto mine = x.load(at, -INFINITY);  // what no row has does not count
//             const auto largest = broadcast<16, 64>(row_maxima(mine));
//             const auto powers = map(mine, largest, [](float a, float b) { return expf(a - b); });
//             const auto sums = broadcast<16, 64>(row_sums(powers));
//             x.store(at, map(powers, sums, [](float a, float b) { return a / b; }));
//         }
//     };
//
// All threads of the block call each of these functions. On a GPU the numbers pass through shared memory, and the order
// in which a function combines the numbers of a row or column depends on the size of the tile; on a CPU it is from
// first to last. So combine with a function for which the order does not matter, up to rounding.
//
// A tile at the edge of a matrix has zeros beyond it unless its load names another number.
//
// All functions here take time linear in the numbers of the tile, divided among the threads of the block, which wait
// for each other.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/base/detail/is_nan.hpp"
#include "sluice/kernels/detail/tile_threads.hpp"
#include "sluice/kernels/tile.hpp"

namespace sluice {

namespace detail {

#if defined(__CUDACC__)
// Shared memory of the block, one piece for each size: all reductions of a kernel that need as much use the same. The
// threads wait for each other before they write it.
template <std::size_t Bytes>
__device__ void* reduction_memory() {
    __shared__ __align__(16) unsigned char all[Bytes];
    return all;
}
#endif

// Combines the numbers of each line of a tile, converted to Result: a line is a row where AlongRows, else a column.
// `to` has a number for each line, in order.
template <bool AlongRows, typename Result, typename Tile, typename To, typename Function>
SLUICE_KERNEL void combine_lines(const Tile& from, To& to, Function function) {
    constexpr int rows = Tile::rows, columns = Tile::columns;
    constexpr int lines = AlongRows ? rows : columns, length = AlongRows ? columns : rows;
    using spread = typename To::spread;
#if defined(__CUDA_ARCH__)
    // All threads combine parts of lines, then the holders of the results combine the parts.
    constexpr int most_parts = lines < tile_threads ? tile_threads / lines : 1;
    constexpr int parts = most_parts < length ? most_parts : length;
    using number_tile = shared_tile<std::remove_cvref_t<decltype(from[0])>, rows, columns>;
    auto& all = *static_cast<number_tile*>(reduction_memory<sizeof(number_tile)>());
    __shared__ Result combined[lines * parts];
    __syncthreads();  // the last ones have been read
    all.put(from);
    __syncthreads();
    for (int i = tile_thread(); i < lines * parts; i += tile_threads) {
        const int line = i % lines, part = i / lines;
        const auto number = [&](int place) {
            return Result(AlongRows ? all.element[line * all.pitch + place] : all.element[place * all.pitch + line]);
        };
        Result sum = number(part);
        for (int place = part + parts; place < length; place += parts) sum = function(sum, number(place));
        combined[i] = sum;
    }
    __syncthreads();
    SLUICE_UNROLL
    for (int p = 0; p < spread::pieces; ++p) {
        if (!spread::holds(p)) continue;
        SLUICE_UNROLL
        for (int i = 0; i < spread::piece; ++i) {
            const int line = spread::place(p) + i;
            Result sum = combined[line];
            for (int part = 1; part < parts; ++part) sum = function(sum, combined[part * lines + line]);
            to[p * spread::piece + i] = sum;
        }
    }
#else
    static_assert(spread::count == lines);
    for (int line = 0; line < lines; ++line) {
        const auto number = [&](int place) {
            return Result(from[AlongRows ? line * columns + place : place * columns + line]);
        };
        Result sum = number(0);
        for (int place = 1; place < length; ++place) sum = function(sum, number(place));
        to[line] = sum;
    }
#endif
}

struct add_numbers {
    SLUICE_KERNEL float operator()(float a, float b) const { return a + b; }
};
// NaN stays.
struct larger_number {
    template <typename T>
    SLUICE_KERNEL T operator()(const T& a, const T& b) const {
        return a < b || is_nan(b) ? b : a;
    }
};

}  // namespace detail

// Each row as one number: function(function(first, second), third) ... in some order.
template <typename T, int Rows, int Columns, typename Function>
SLUICE_KERNEL tile<T, Rows, 1> combine_rows(const tile<T, Rows, Columns>& x, Function function) {
    tile<T, Rows, 1> made;
    detail::combine_lines<true, T>(x, made, function);
    return made;
}
// Each column as one number.
template <typename T, int Rows, int Columns, typename Function>
SLUICE_KERNEL tile<T, 1, Columns> combine_columns(const tile<T, Rows, Columns>& x, Function function) {
    tile<T, 1, Columns> made;
    detail::combine_lines<false, T>(x, made, function);
    return made;
}

// Sums are float, whatever the numbers are.
template <typename T, int Rows, int Columns>
SLUICE_KERNEL tile<float, Rows, 1> row_sums(const tile<T, Rows, Columns>& x) {
    tile<float, Rows, 1> made;
    detail::combine_lines<true, float>(x, made, detail::add_numbers());
    return made;
}
// The sum of each column, as a float.
template <typename T, int Rows, int Columns>
SLUICE_KERNEL tile<float, 1, Columns> column_sums(const tile<T, Rows, Columns>& x) {
    tile<float, 1, Columns> made;
    detail::combine_lines<false, float>(x, made, detail::add_numbers());
    return made;
}

// NaN where there is one.
template <typename T, int Rows, int Columns>
SLUICE_KERNEL tile<T, Rows, 1> row_maxima(const tile<T, Rows, Columns>& x) {
    return combine_rows(x, detail::larger_number());
}
// The largest number of each column; NaN where there is one.
template <typename T, int Rows, int Columns>
SLUICE_KERNEL tile<T, 1, Columns> column_maxima(const tile<T, Rows, Columns>& x) {
    return combine_columns(x, detail::larger_number());
}

// A tile of one column in every column, of one row in every row, of one number everywhere.
template <int NewRows, int NewColumns, typename T, int Rows, int Columns>
SLUICE_KERNEL tile<T, NewRows, NewColumns> broadcast(const tile<T, Rows, Columns>& x) {
    static_assert((Rows == NewRows || Rows == 1) && (Columns == NewColumns || Columns == 1),
                  "broadcast: each size of the tile stays, or was 1");
    tile<T, NewRows, NewColumns> made;
    using spread = typename tile<T, NewRows, NewColumns>::spread;
    const auto source = [](int place) {
        return place / NewColumns % Rows * Columns + (Columns == 1 ? 0 : place % NewColumns);
    };
#if defined(__CUDA_ARCH__)
    using given = typename tile<T, Rows, Columns>::spread;
    __shared__ T all[Rows * Columns];
    __syncthreads();  // the last ones have been read
    SLUICE_UNROLL
    for (int p = 0; p < given::pieces; ++p) {
        if (!given::holds(p)) continue;
        SLUICE_UNROLL
        for (int i = 0; i < given::piece; ++i) all[given::place(p) + i] = x[p * given::piece + i];
    }
    __syncthreads();
    SLUICE_UNROLL
    for (int p = 0; p < spread::pieces; ++p) {
        if (!spread::holds(p)) continue;
        SLUICE_UNROLL
        for (int i = 0; i < spread::piece; ++i) made[p * spread::piece + i] = all[source(spread::place(p) + i)];
    }
#else
    for (int i = 0; i < spread::count; ++i) made[i] = x[source(i)];
#endif
    return made;
}

}  // namespace sluice
