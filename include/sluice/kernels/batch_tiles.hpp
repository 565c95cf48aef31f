// SPDX-License-Identifier: Apache-2.0
// batch_tiles_of: a batch of matrices, a tensor of shape [batch, rows, columns], that tile kernels (tile.hpp) see as
// tiles of one matrix each. A block's tile has three coordinates: at.batch(), at.row(), at.column().
//
//     struct multiply_each {  // c[i] = a[i] * b[i]
//         SLUICE_KERNEL void operator()(const tile_block& at, batch_tiles_of<const float, 16, 8> a,
//                                       batch_tiles_of<const float, 8, 16> b, batch_tiles_of<float, 16, 16> c) const {
//             const auto left = a.matrix(at.batch());
//             const auto right = b.matrix(at.batch());
//             accumulator<float, 16, 16> sum;
//             for (unsigned k = 0; k < left.across(); ++k)
//                 mma(left.load(at.row(), k), right.load(k, at.column()), sum);
//             c.store(at, sum);
//         }
//     };
//     launch(multiply_each{}, std::move(a), b, std::move(c))  // c may be a batch_partition in tiles of [1, 16, 16]
//
// What lies beyond a matrix is loaded as zeros, or as the number that the load names, and not stored: no tile has
// numbers of two matrices.
//
// With SLUICE_CHECK_BOUNDS a matrix() beyond the batch stops the command with an error; the batch counts as a view
// whose elements are matrices.
//
// All members take constant time, but for loads and stores of tiles, which take what those of tiles_of take.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/kernels/tile.hpp"

namespace sluice {

inline namespace SLUICE_BOUNDS_ABI {

// T is const where the batch is only read.
template <typename T, int Rows, int Columns>
class batch_tiles_of {
public:
    using element = std::remove_const_t<T>;             // of the tensor, without const
    using matrix_type = tiles_of<T, Rows, Columns>;     // one matrix of the batch, seen as tiles
    using tile_type = typename matrix_type::tile_type;  // one tile, as a load gives it

    // Made by the launch: matrices of the same size, one after the other.
    SLUICE_KERNEL batch_tiles_of(T* data, std::size_t batches, std::size_t rows, std::size_t columns)
        : data_(data), batches_(batches), rows_(rows), columns_(columns) {}

    SLUICE_KERNEL std::size_t batches() const { return batches_; }  // how many matrices
    // Of each matrix: in tiles, and in numbers.
    SLUICE_KERNEL unsigned down() const { return matrix_type(data_, rows_, columns_).down(); }
    SLUICE_KERNEL unsigned across() const { return matrix_type(data_, rows_, columns_).across(); }  // in tiles
    SLUICE_KERNEL std::size_t rows() const { return rows_; }        // of each matrix, in numbers
    SLUICE_KERNEL std::size_t columns() const { return columns_; }  // of each matrix, in numbers

    // Any matrix, of what is only read.
    SLUICE_KERNEL matrix_type matrix(detail::index_as<unsigned> batch) const
    requires std::is_const_v<T>
    {
        return matrix_at(detail::within(batch, batches_, detail::accessed::view_element));
    }
    // The matrix of the block's own tile, of what is written: a block can reach no other tile of it.
    SLUICE_KERNEL matrix_type matrix(const tile_block& block) const
    requires(!std::is_const_v<T>)
    {
        return matrix_at(block.batch());
    }

    // The block's own tile.
    SLUICE_KERNEL tile_type load(const tile_block& block, element beyond = element(0.0f)) const {
        if constexpr (std::is_const_v<T>) {
            return matrix(block.batch()).load(block, beyond);
        } else {
            return matrix(block).load(block, beyond);
        }
    }
    // A tile, or an accumulator.
    template <typename Numbers>
    SLUICE_KERNEL void store(const tile_block& block, const Numbers& x) const
    requires(!std::is_const_v<T>)
    {
        matrix(block).store(block, x);
    }

private:
    // A matrix beyond the last one has no rows, so that loads give what is beyond the edges, and stores do nothing.
    SLUICE_KERNEL matrix_type matrix_at(std::size_t batch) const {
        if (batch >= batches_) return {data_, 0, columns_};
        return {data_ + batch * rows_ * columns_, rows_, columns_};
    }

    T* data_;
    std::size_t batches_;
    std::size_t rows_;
    std::size_t columns_;
};

}  // namespace SLUICE_BOUNDS_ABI

}  // namespace sluice
