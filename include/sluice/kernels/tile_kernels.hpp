// SPDX-License-Identifier: Apache-2.0
// Kernels written with tiles (tile.hpp): product, matrix times vector, relu. For launch_tiles over their `out`.
#pragma once

#include "sluice/kernels/tile.hpp"

namespace sluice {

// What becomes of each sum at the end: function(column, sum), columns counted from the matrix' first.
struct keep_sums {
    SLUICE_KERNEL float operator()(std::size_t, float sum) const { return sum; }
};

// out = finish(a * b); a is [rows, inner], b [inner, columns] or, when Transposed, [columns, inner].
template <typename Arithmetic, bool Transposed, int Rows, int Columns, int Inner, typename Finish = keep_sums>
struct tile_gemm {
    using element = detail::tile_factor<Arithmetic>;
    tiles_of<const element, Rows, Inner> a;
    tiles_of<const element, Transposed ? Columns : Inner, Transposed ? Inner : Columns> b;
    tiles_of<element, Rows, Columns> out;
    Finish finish = {};

    SLUICE_KERNEL void operator()(const tile_block& at) const {
        accumulator<Arithmetic, Rows, Columns> sum;
        const unsigned rounds = a.across();
        auto left = a.load(at.row(), 0);
        auto right = load_b(at, 0);
        for (unsigned k = 0; k < rounds; ++k) {
            const auto now_left = left;
            const auto now_right = right;
            if (k + 1 < rounds) {  // in flight while this is multiplied
                left = a.load(at.row(), k + 1);
                right = load_b(at, k + 1);
            }
            if constexpr (Transposed) {
                mma_transposed(now_left, now_right, sum);
            } else {
                mma(now_left, now_right, sum);
            }
        }
        sum.replace([&](int, int column, float x) {
            return finish(std::size_t{at.column()} * Columns + static_cast<std::size_t>(column), x);
        });
        out.store(at, sum);
    }

private:
    SLUICE_KERNEL auto load_b(const tile_block& at, unsigned k) const {
        return Transposed ? b.load(at.column(), k) : b.load(k, at.column());
    }
};

// out = a * x, where x is a matrix of one row, out one of one column.
template <int Rows, int Inner>
struct tile_matvec {
    tiles_of<const float, Rows, Inner> a;
    tiles_of<const float, 1, Inner> x;
    tiles_of<float, Rows, 1> out;

    SLUICE_KERNEL void operator()(const tile_block& at) const {
        accumulator<float, Rows, 1> sum;
        for (unsigned k = 0; k < a.across(); ++k) {
            mma(a.load(at.row(), k), reshape<Inner, 1>(x.load(0, k)), sum);
        }
        out.store(at, sum);
    }
};

// out = max(x, 0); NaN stays. The output may be the input.
template <typename T, int Rows, int Columns>
struct tile_relu {
    tiles_of<const T, Rows, Columns> x;
    tiles_of<T, Rows, Columns> out;

    SLUICE_KERNEL void operator()(const tile_block& at) const {
        out.store(at, max(x.load(at.row(), at.column()), T(0.0f)));
    }
};

}  // namespace sluice
