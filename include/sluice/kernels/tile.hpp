// SPDX-License-Identifier: Apache-2.0
// Tile kernels: written once for blocks of threads, as if a block were one thread whose numbers are tiles.
//
//     template <typename T, int Rows, int Columns, int Inner>
//     struct multiply {  // c = a * b
//         SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const T, Rows, Inner> a,
//                                       tiles_of<const T, Inner, Columns> b, tiles_of<T, Rows, Columns> c) const {
//             accumulator<T, Rows, Columns> sum;
//             for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.row(), k), b.load(k, at.column()), sum);
//             c.store(at, sum);
//         }
//     };
//     launch(multiply<half, 64, 64, 32>{}, std::move(a), b, std::move(c))  // tile_launch.hpp
//
// Sizes of tiles are compile-time: powers of two. A matrix need not be a multiple of them: what lies beyond it is
// loaded as zeros, or as the number that the load names, and not stored. Of a matrix that is written, a block loads and
// stores the tile that is its own, and no other. Vectors: vector_tiles.hpp. Batches of matrices: batch_tiles.hpp. Sums
// and maxima of rows and columns: tile_reduce.hpp.
//
// With SLUICE_CHECK_BOUNDS (check_bounds.hpp) a load of a tile that begins beyond the matrix, or a number that the
// thread does not have, stops the command with an error.
//
// On a GPU a block is 128 threads; a tile is spread over their registers, 16 bytes a thread in row-major order, so that
// reshaping moves nothing. mma takes the tensor cores (sm_80 and later) for half and bfloat16, and for float where the
// accumulator's arithmetic is tf32; else plain arithmetic. On an earlier GPU a kernel that takes them ends with a trap,
// and the GPU is lost for the process: look at device_properties::compute_capability before. Sums are float. On a CPU a
// block is a thread, a tile an array.
//
// All functions over tiles take time linear in how many numbers of the tile a thread has; mma and mma_transposed are a
// product of Rows * Columns * Inner multiplications by the whole block; what only gives a size, a place or one number
// takes constant time.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/base/detail/access.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/kernels/detail/tile_mma.hpp"
#include "sluice/kernels/detail/tile_threads.hpp"

namespace sluice {

namespace detail {
inline namespace SLUICE_BOUNDS_ABI {
struct tile_block_maker;
}
}  // namespace detail

inline namespace SLUICE_BOUNDS_ABI {

// Which tile of the output is this block's. Only a launch makes it.
class tile_block {
public:
    SLUICE_KERNEL unsigned row() const { return row_; }        // in tiles
    SLUICE_KERNEL unsigned column() const { return column_; }  // in tiles
    // Which matrix of a batch (batch_tiles.hpp); 0 in other launches.
    SLUICE_KERNEL unsigned batch() const { return batch_; }
    // Its number among all blocks, matrix after matrix and row after row: the tile of a vector.
    SLUICE_KERNEL unsigned index() const { return index_; }

private:
    friend struct detail::tile_block_maker;
    SLUICE_KERNEL tile_block(unsigned batch, unsigned row, unsigned column, unsigned index)
        : batch_(batch), row_(row), column_(column), index_(index) {}

    unsigned batch_;
    unsigned row_;
    unsigned column_;
    unsigned index_;
};

}  // namespace SLUICE_BOUNDS_ABI

namespace detail {
inline namespace SLUICE_BOUNDS_ABI {
struct tile_block_maker {
    SLUICE_KERNEL static tile_block make(unsigned row, unsigned column, unsigned index) {
        return {0, row, column, index};
    }
    // The same block, in a batch.
    SLUICE_KERNEL static tile_block make_of_batch(unsigned batch, unsigned row, const tile_block& of) {
        return {batch, row, of.column(), of.index()};
    }
};
}  // namespace SLUICE_BOUNDS_ABI
}  // namespace detail

inline namespace SLUICE_BOUNDS_ABI {

template <typename T, int Rows, int Columns>
class tiles_of;

// Rows * Columns numbers of a block; a thread has some of them.
template <typename T, int Rows, int Columns>
class tile {
    static_assert((Rows & (Rows - 1)) == 0 && (Columns & (Columns - 1)) == 0, "sizes of tiles are powers of two");

public:
    static constexpr int rows = Rows, columns = Columns;    // its size
    using spread = detail::tile_spread<T, Rows * Columns>;  // which numbers a thread has; for functions over tiles

    // The same number everywhere.
    SLUICE_KERNEL static tile full(T each) {
        tile made;
        SLUICE_UNROLL
        for (int i = 0; i < spread::count; ++i) made[i] = each;
        return made;
    }

    // This thread's i-th; see spread::place.
    SLUICE_KERNEL T& operator[](detail::index_as<int> i) {
        return mine_[detail::within(i, spread::count, detail::accessed::tile_number)];
    }
    SLUICE_KERNEL const T& operator[](detail::index_as<int> i) const {
        return mine_[detail::within(i, spread::count, detail::accessed::tile_number)];
    }

    // A function of each number, and of two tiles' numbers at the same place.
    template <typename Function>
    SLUICE_KERNEL friend tile map(const tile& x, Function function) {
        tile made;
        SLUICE_UNROLL
        for (int i = 0; i < spread::count; ++i) made[i] = function(x[i]);
        return made;
    }
    template <typename Function>
    SLUICE_KERNEL friend tile map(const tile& x, const tile& y, Function function) {
        tile made;
        SLUICE_UNROLL
        for (int i = 0; i < spread::count; ++i) made[i] = function(x[i], y[i]);
        return made;
    }

private:
    alignas(16) T mine_[spread::count];
};

// The larger of each number and one; of two. NaN stays.
template <typename T, int Rows, int Columns>
SLUICE_KERNEL tile<T, Rows, Columns> max(const tile<T, Rows, Columns>& x, std::type_identity_t<T> least) {
    return map(x, [=](T each) { return each < least ? least : each; });
}
template <typename T, int Rows, int Columns>
SLUICE_KERNEL tile<T, Rows, Columns> max(const tile<T, Rows, Columns>& x, const tile<T, Rows, Columns>& y) {
    return map(x, y, [](T a, T b) { return a < b || detail::is_nan(b) ? b : a; });
}

// The same numbers in row-major order as another shape.
template <int NewRows, int NewColumns, typename T, int Rows, int Columns>
SLUICE_KERNEL tile<T, NewRows, NewColumns> reshape(const tile<T, Rows, Columns>& x) {
    static_assert(NewRows * NewColumns == Rows * Columns);
    tile<T, NewRows, NewColumns> made;
    SLUICE_UNROLL
    for (int i = 0; i < decltype(made)::spread::count; ++i) made[i] = x[i];
    return made;
}

// Sums of products of tiles: zeros at first, or what a tile has. Arithmetic is the type of the factors, or tf32 for
// floats.
template <typename Arithmetic, int Rows, int Columns>
class accumulator {
public:
    static constexpr int rows = Rows, columns = Columns;  // its size
    // How a block multiplies; for functions over tiles.
    using product = detail::tile_product<Arithmetic, Rows, Columns>;

    accumulator() = default;
    // Starts from the block's own tile of a matrix: z += x * y.
    template <typename T>
    SLUICE_KERNEL accumulator(const tiles_of<T, Rows, Columns>& from, const tile_block& at) {
        replace([&](int row, int column, float) { return from.value_of(at, row, column); });
    }
    // Starts from a tile. All threads of the block call it.
    template <typename T>
    SLUICE_KERNEL explicit accumulator(const tile<T, Rows, Columns>& from) {
        detail::spread_as_sums<product>(from, mine_);
    }

    // function(row, column, sum) gives what becomes of each sum; rows and columns are those of the tile.
    template <typename Function>
    SLUICE_KERNEL void replace(Function function) {
        if (!product::has_sums()) return;
        SLUICE_UNROLL
        for (int i = 0; i < product::count; ++i) {
            const detail::tile_position at = product::place(i);
            mine_[i] = function(at.row, at.column, mine_[i]);
        }
    }
    // Calls function(row, column, sum) for each sum that this thread has; changes none.
    template <typename Function>
    SLUICE_KERNEL void each(Function function) const {
        if (!product::has_sums()) return;
        SLUICE_UNROLL
        for (int i = 0; i < product::count; ++i) {
            const detail::tile_position at = product::place(i);
            function(at.row, at.column, mine_[i]);
        }
    }

    // The sums as a tile of factors, for another product. All threads of the block call it.
    SLUICE_KERNEL tile<detail::tile_factor<Arithmetic>, Rows, Columns> as_tile() const {
        tile<detail::tile_factor<Arithmetic>, Rows, Columns> made;
        detail::spread_as_tile<product>(mine_, made);
        return made;
    }

    // sum += a * b. All threads of the block call it.
    template <int Inner>
    SLUICE_KERNEL friend void mma(const tile<detail::tile_factor<Arithmetic>, Rows, Inner>& a,
                                  const tile<detail::tile_factor<Arithmetic>, Inner, Columns>& b, accumulator& sum) {
        detail::multiply_tiles<false, Arithmetic, Rows, Columns>(a, b, sum.mine_);
    }
    // sum += a * b^T.
    template <int Inner>
    SLUICE_KERNEL friend void mma_transposed(const tile<detail::tile_factor<Arithmetic>, Rows, Inner>& a,
                                             const tile<detail::tile_factor<Arithmetic>, Columns, Inner>& b,
                                             accumulator& sum) {
        detail::multiply_tiles<true, Arithmetic, Rows, Columns>(a, b, sum.mine_);
    }

private:
    float mine_[product::count] = {};
};

// A dense row-major matrix in device memory, seen as tiles. T is const where it is only read.
template <typename T, int Rows, int Columns>
class tiles_of {
public:
    using element = std::remove_const_t<T>;          // of the matrix, without const
    using tile_type = tile<element, Rows, Columns>;  // one tile, as a load gives it

    // Made by the launch: row after row, without gaps.
    SLUICE_KERNEL tiles_of(T* data, std::size_t rows, std::size_t columns)
        : data_(data), rows_(rows), columns_(columns) {}

    // How many tiles the matrix has from top to bottom, clipped ones included.
    SLUICE_KERNEL unsigned down() const { return static_cast<unsigned>((rows_ + Rows - 1) / Rows); }
    // How many tiles the matrix has from left to right, clipped ones included.
    SLUICE_KERNEL unsigned across() const { return static_cast<unsigned>((columns_ + Columns - 1) / Columns); }
    SLUICE_KERNEL std::size_t rows() const { return rows_; }        // of the matrix, in numbers
    SLUICE_KERNEL std::size_t columns() const { return columns_; }  // of the matrix, in numbers

    // Any tile, of what is only read. Numbers beyond the matrix are `beyond`.
    SLUICE_KERNEL tile_type load(detail::index_as<unsigned> tile_row, detail::index_as<unsigned> tile_column,
                                 element beyond = element(0.0f)) const
    requires std::is_const_v<T>
    {
        const auto row = static_cast<unsigned>(detail::within(tile_row, down(), detail::accessed::matrix_tile_row));
        const auto column =
            static_cast<unsigned>(detail::within(tile_column, across(), detail::accessed::matrix_tile_column));
        tile_type made;
        SLUICE_UNROLL
        for (int p = 0; p < spread::pieces; ++p) {
            SLUICE_UNROLL
            for (int run = 0; run < spread::piece; run += run_length) {
                const run_of_row from = run_at(row, column, p, run);
                element* const to = &made[p * spread::piece + run];
                if (from.count >= run_length && has_aligned_rows()) {
                    detail::copy_piece<run_length>(to, from.first);
                    continue;
                }
                SLUICE_UNROLL
                for (int i = 0; i < run_length; ++i) to[i] = i < from.count ? from.first[i] : beyond;
            }
        }
        return made;
    }
    // The block's own tile.
    SLUICE_KERNEL tile_type load(const tile_block& block, element beyond = element(0.0f)) const {
        return tiles_of<const element, Rows, Columns>(data_, rows_, columns_).load(block.row(), block.column(), beyond);
    }

    // The block's own tile.
    SLUICE_KERNEL void store(const tile_block& block, const tile_type& x) const
    requires(!std::is_const_v<T>)
    {
        SLUICE_UNROLL
        for (int p = 0; p < spread::pieces; ++p) {
            SLUICE_UNROLL
            for (int run = 0; run < spread::piece; run += run_length) {
                const run_of_row to = run_at(block.row(), block.column(), p, run);
                const element* const from = &x[p * spread::piece + run];
                if (to.count >= run_length && has_aligned_rows()) {
                    detail::copy_piece<run_length>(to.first, from);
                    continue;
                }
                SLUICE_UNROLL
                for (int i = 0; i < run_length; ++i) {
                    if (i < to.count) to.first[i] = from[i];
                }
            }
        }
    }
    template <typename Arithmetic>
    SLUICE_KERNEL void store(const tile_block& block, const accumulator<Arithmetic, Rows, Columns>& sum) const
    requires(!std::is_const_v<T>)
    {
        sum.each([&](int row, int column, float x) {
            const std::size_t r = std::size_t{block.row()} * Rows + static_cast<std::size_t>(row);
            const std::size_t c = std::size_t{block.column()} * Columns + static_cast<std::size_t>(column);
            if (r < rows_ && c < columns_) data_[r * columns_ + c] = element(x);
        });
    }

private:
    template <typename Arithmetic, int SumRows, int SumColumns>
    friend class accumulator;
    using spread = typename tile_type::spread;
    static constexpr int run_length = Columns < spread::piece ? Columns : spread::piece;  // of a piece in one row

    // One number of the block's own tile.
    SLUICE_KERNEL float value_of(const tile_block& block, int row, int column) const {
        const std::size_t r = std::size_t{block.row()} * Rows + static_cast<std::size_t>(row);
        const std::size_t c = std::size_t{block.column()} * Columns + static_cast<std::size_t>(column);
        return r < rows_ && c < columns_ ? float(data_[r * columns_ + c]) : 0.0f;
    }

    // The part of a thread's piece that is adjacent in the matrix, and how many of its elements exist.
    struct run_of_row {
        T* first;
        int count;
    };
    SLUICE_KERNEL run_of_row run_at(unsigned row, unsigned column, int piece, int within) const {
        const int place = spread::place(piece) + within;
        const std::size_t r = std::size_t{row} * Rows + static_cast<std::size_t>(place / Columns);
        const std::size_t c = std::size_t{column} * Columns + static_cast<std::size_t>(place % Columns);
        if (!spread::holds(piece) || r >= rows_ || c >= columns_) return {data_, 0};
        const std::size_t left = columns_ - c;
        return {data_ + r * columns_ + c, left < run_length ? static_cast<int>(left) : run_length};
    }
    // Whether whole runs are where they can be read at once.
    SLUICE_KERNEL bool has_aligned_rows() const { return columns_ % run_length == 0; }

    T* data_;
    std::size_t rows_;
    std::size_t columns_;
};

}  // namespace SLUICE_BOUNDS_ABI

}  // namespace sluice
