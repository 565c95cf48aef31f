// SPDX-License-Identifier: Apache-2.0
// vector_tiles_of: a vector that tile kernels (tile.hpp) see as tiles of Size numbers.
//
//     struct scale {  // y *= factor
//         float factor;
//         SLUICE_KERNEL void operator()(const tile_block& at, vector_tiles_of<float, 256> y) const {
//             y.store(at, map(y.load(at), [by = factor](float each) { return by * each; }));
//         }
//     };
//     launch(scale{0.5f}, std::move(y))
//
// A tile of a vector is a tile of one row. The block's own tile has the block's index(). What lies beyond the vector is
// loaded as zeros, or as the number that the load names, and not stored.
//
// All members take constant time, but for loads and stores of tiles, which take what those of tiles_of take for a
// matrix of one row.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/kernels/tile.hpp"

namespace sluice {

inline namespace SLUICE_BOUNDS_ABI {

// A tile of a vector: one row.
template <typename T, int Size>
using vector_tile = tile<T, 1, Size>;

// T is const where the vector is only read.
template <typename T, int Size>
class vector_tiles_of {
public:
    using element = std::remove_const_t<T>;        // of the vector, without const
    using tile_type = vector_tile<element, Size>;  // one tile, as a load gives it

    // Made by the launch.
    SLUICE_KERNEL vector_tiles_of(T* data, std::size_t size) : row_(data, 1, size), data_(data) {}

    SLUICE_KERNEL unsigned count() const { return row_.across(); }     // the number of tiles, a clipped one included
    SLUICE_KERNEL std::size_t size() const { return row_.columns(); }  // the size of the vector, in numbers

    // Any tile, of what is only read. Numbers beyond the vector are `beyond`.
    SLUICE_KERNEL tile_type load(detail::index_as<unsigned> index, element beyond = element(0.0f)) const
    requires std::is_const_v<T>
    {
        return row_.load(0u, index, beyond);
    }
    // The same as a column, to multiply a matrix by it.
    SLUICE_KERNEL tile<element, Size, 1> load_column(detail::index_as<unsigned> index,
                                                     element beyond = element(0.0f)) const
    requires std::is_const_v<T>
    {
        return reshape<Size, 1>(load(index, beyond));
    }

    // The block's own tile.
    SLUICE_KERNEL tile_type load(const tile_block& block, element beyond = element(0.0f)) const {
        return row_.load(in_row(block), beyond);
    }
    SLUICE_KERNEL void store(const tile_block& block, const tile_type& x) const
    requires(!std::is_const_v<T>)
    {
        row_.store(in_row(block), x);
    }
    // The same from sums in a column, or in a row.
    template <typename Arithmetic, int Rows, int Columns>
    SLUICE_KERNEL void store(const tile_block& block, const accumulator<Arithmetic, Rows, Columns>& sum) const
    requires(!std::is_const_v<T> && (Rows == 1 || Columns == 1) && Rows * Columns == Size)
    {
        if constexpr (Rows == 1) {
            row_.store(in_row(block), sum);
        } else {
            const std::size_t first = std::size_t{block.index()} * Size;
            sum.each([&](int row, int, float x) {
                const std::size_t at = first + static_cast<std::size_t>(row);
                if (at < size()) data_[at] = element(x);
            });
        }
    }

private:
    SLUICE_KERNEL static tile_block in_row(const tile_block& block) {
        return detail::tile_block_maker::make(0, block.index(), block.index());
    }

    tiles_of<T, 1, Size> row_;
    T* data_;
};

}  // namespace SLUICE_BOUNDS_ABI

}  // namespace sluice
