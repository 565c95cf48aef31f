// SPDX-License-Identifier: Apache-2.0
// Kernels written with tiles (tile.hpp): product, products of a batch, matrix times vector, relu. gemm_tiles,
// batch_gemm_tiles, matvec_tiles and relu_tiles are for launch (tile_launch.hpp), tile_gemm is for launch_tiles over
// its `out`:
//
//     launch(gemm_tiles<half, 64, 64, 32>{}, std::move(a), b, std::move(out))
//     launch(batch_gemm_tiles<half, 64, 64, 32>{}, std::move(a), b, std::move(out))
//     launch(matvec_tiles<128, 32>{}, a, std::move(x), std::move(out))
//     launch(relu_tiles<vector_tiles_of<float, 256>>{}, std::move(x))
//
// Errors: errc::shape_mismatch for sizes that do not fit each other; otherwise those of launch.
#pragma once

#include "sluice/kernels/tile_launch.hpp"

namespace sluice {

// What becomes of each sum at the end: function(column, sum), columns counted from the matrix' first. Costs O(1).
struct keep_sums {
    SLUICE_KERNEL float operator()(std::size_t, float sum) const { return sum; }
};

// out = finish(a * b); a is [rows, inner], b [inner, columns] or, when Transposed, [columns, inner]. Each block costs
// O(inner) loads of tiles and products of them.
template <typename Arithmetic, bool Transposed, int Rows, int Columns, int Inner, typename Finish = keep_sums>
struct tile_gemm {
    using element = detail::tile_factor<Arithmetic>;                                        // of the matrices
    tiles_of<const element, Rows, Inner> a;                                                 // the left factor
    tiles_of<const element, Transposed ? Columns : Inner, Transposed ? Inner : Columns> b;  // the right factor
    tiles_of<element, Rows, Columns> out;                                                   // the product
    Finish finish = {};  // makes the element of `out` from the column and the sum

    SLUICE_KERNEL void operator()(const tile_block& at) const {
        accumulator<Arithmetic, Rows, Columns> sum;
        const unsigned rounds = a.across();
        decltype(a.load(at.row(), 0)) left;
        decltype(load_b(at, 0)) right;
        if (rounds != 0) {
            left = a.load(at.row(), 0);
            right = load_b(at, 0);
        }
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

// out = a * b, or += with Adds; a is [rows, inner], b [inner, columns]. Each block costs O(inner) loads of tiles and
// products of them.
template <typename Arithmetic, int Rows, int Columns, int Inner, bool Adds = false>
struct gemm_tiles {
    using element = detail::tile_factor<Arithmetic>;        // of the matrices
    using left = tiles_of<const element, Rows, Inner>;      // the left factor
    using right = tiles_of<const element, Inner, Columns>;  // the right factor
    using product = tiles_of<element, Rows, Columns>;       // the result

    SLUICE_KERNEL void operator()(const tile_block& at, left a, right b, product out) const {
        if constexpr (Adds) {
            accumulator<Arithmetic, Rows, Columns> sum(out, at);
            for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.row(), k), b.load(k, at.column()), sum);
            out.store(at, sum);
        } else {
            tile_gemm<Arithmetic, false, Rows, Columns, Inner>{a, b, out}(at);
        }
    }
    // For the launch: why the sizes do not fit; null when they do. Costs O(1).
    const char* misfit(left a, right b, product out) const {
        return a.columns() == b.rows() && out.rows() == a.rows() && out.columns() == b.columns()
                   ? nullptr
                   : "the sizes of the matrices do not fit a product";
    }
};

// out[i] = a[i] * b[i], for the matrices of three batches. Each block costs O(inner) loads of tiles and products of
// them.
template <typename Arithmetic, int Rows, int Columns, int Inner>
struct batch_gemm_tiles {
    using element = detail::tile_factor<Arithmetic>;              // of the matrices
    using left = batch_tiles_of<const element, Rows, Inner>;      // the left factors
    using right = batch_tiles_of<const element, Inner, Columns>;  // the right factors
    using product = batch_tiles_of<element, Rows, Columns>;       // the results

    SLUICE_KERNEL void operator()(const tile_block& at, left a, right b, product out) const {
        tile_gemm<Arithmetic, false, Rows, Columns, Inner>{a.matrix(at.batch()), b.matrix(at.batch()),
                                                           out.matrix(at)}(at);
    }
    // For the launch: why the sizes do not fit; null when they do. Costs O(1).
    const char* misfit(left a, right b, product out) const {
        return a.batches() == out.batches() && b.batches() == out.batches() && a.columns() == b.rows() &&
                       out.rows() == a.rows() && out.columns() == b.columns()
                   ? nullptr
                   : "the sizes of the batches do not fit products of their matrices";
    }
};

// out = a * x. Each block costs O(inner) loads of tiles and products of them.
template <int Rows, int Inner>
struct matvec_tiles {
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const float, Rows, Inner> a,
                                  vector_tiles_of<const float, Inner> x, vector_tiles_of<float, Rows> out) const {
        accumulator<float, Rows, 1> sum;
        for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.index(), k), x.load_column(k), sum);
        out.store(at, sum);
    }
    // For the launch: why the sizes do not fit; null when they do. Costs O(1).
    const char* misfit(tiles_of<const float, Rows, Inner> a, vector_tiles_of<const float, Inner> x,
                       vector_tiles_of<float, Rows> out) const {
        return a.columns() == x.size() && a.rows() == out.size() ? nullptr
                                                                 : "the sizes of the matrix and the vectors do not fit";
    }
};

// x = max(x, 0); NaN stays. Tiles is how it sees x: tiles_of<half, 64, 64>, vector_tiles_of<float, 256>. Each block
// costs one load and one store of its tile.
template <typename Tiles>
struct relu_tiles {
    SLUICE_KERNEL void operator()(const tile_block& at, Tiles x) const {
        x.store(at, max(x.load(at), typename Tiles::element(0.0f)));
    }
};

}  // namespace sluice
