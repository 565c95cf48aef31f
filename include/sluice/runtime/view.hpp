// SPDX-License-Identifier: Apache-2.0
// Views: the form in which kernels receive tensors. Views do not own memory and are valid only during the launch.
// Read-only views give every element to every index. Disjoint views give an index only its own elements. All are
// row-major; offsets and sizes count elements. With SLUICE_CHECK_BOUNDS (check_bounds.hpp) an index beyond the size
// stops the command with an error; without it the behaviour is undefined.
//
// All members take constant time.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/base/detail/access.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice {

inline namespace SLUICE_BOUNDS_ABI {

// A flat read-only range: view<const float>.
template <typename T>
class view {
    static_assert(std::is_const_v<T>, "view<T> is for reading: write view<const T>; to write, take a disjoint_view<T>");

public:
    using element_type = T;  // const

    SLUICE_KERNEL view(T* data, std::size_t size) : data_(data), size_(size) {}  // made by the launch

    // The element at this index, from 0.
    SLUICE_KERNEL T& operator[](detail::element_index i) const {
        return data_[detail::within(i, size_, detail::accessed::view_element)];
    }
    SLUICE_KERNEL std::size_t size() const { return size_; }  // in elements
    SLUICE_KERNEL T* data() const { return data_; }           // the first element

private:
    T* data_;
    std::size_t size_;
};

// A read-only matrix: matrix_view<const float>.
template <typename T>
class matrix_view {
    static_assert(std::is_const_v<T>, "matrix_view<T> is for reading: write matrix_view<const T>");

public:
    using element_type = T;  // const

    // Made by the launch: row after row, without gaps.
    SLUICE_KERNEL matrix_view(T* data, std::size_t rows, std::size_t columns)
        : data_(data), rows_(rows), columns_(columns) {}

    // The element in this row and column, from 0.
    SLUICE_KERNEL T& operator()(detail::element_index row, detail::element_index column) const {
        return data_[detail::within(row, rows_, detail::accessed::matrix_row) * columns_ +
                     detail::within(column, columns_, detail::accessed::matrix_column)];
    }
    SLUICE_KERNEL std::size_t rows() const { return rows_; }        // of the matrix
    SLUICE_KERNEL std::size_t columns() const { return columns_; }  // of the matrix
    SLUICE_KERNEL T* data() const { return data_; }                 // row after row, without gaps

private:
    T* data_;
    std::size_t rows_;
    std::size_t columns_;
};

// A flat range in which index i may access only element i.
template <typename T>
class disjoint_view {
public:
    using element_type = T;  // of the elements

    SLUICE_KERNEL disjoint_view(T* data, std::size_t size) : data_(data), size_(size) {}  // made by the launch

    // The element of this index; null when the launch is larger than the range.
    SLUICE_KERNEL T* at(index_1d at) const {
        if (at.value() >= size_) return nullptr;
        T* const element = data_ + at.value();
#if defined(__CUDA_ARCH__)
        __builtin_assume(element != nullptr);  // so that the kernel's own check of it costs nothing
#endif
        return element;
    }
    SLUICE_KERNEL std::size_t size() const { return size_; }  // in elements

private:
    T* data_;
    std::size_t size_;
};

// A matrix in which index (r, c) may access only element (r, c).
template <typename T>
class disjoint_matrix {
public:
    using element_type = T;  // of the elements

    // Made by the launch: row after row, without gaps.
    SLUICE_KERNEL disjoint_matrix(T* data, std::size_t rows, std::size_t columns)
        : data_(data), rows_(rows), columns_(columns) {}

    // The element of this index; null when the launch is larger than the matrix.
    SLUICE_KERNEL T* at(index_2d at) const {
        return at.row() < rows_ && at.column() < columns_ ? data_ + at.row() * columns_ + at.column() : nullptr;
    }
    SLUICE_KERNEL std::size_t rows() const { return rows_; }        // of the matrix
    SLUICE_KERNEL std::size_t columns() const { return columns_; }  // of the matrix

private:
    T* data_;
    std::size_t rows_;
    std::size_t columns_;
};

// One tile of a partition, clipped at the edge of the tensor.
template <typename T>
class tile_view {
public:
    using element_type = T;  // of the elements

    // Made by disjoint_tiles. The first element is at `origin`, the next row `stride` elements further.
    SLUICE_KERNEL tile_view(T* origin, std::size_t row0, std::size_t column0, std::size_t rows, std::size_t columns,
                            std::size_t stride)
        : origin_(origin), row0_(row0), column0_(column0), rows_(rows), columns_(columns), stride_(stride) {}

    // Element (row, column) of the tile, counted from the tile's corner.
    SLUICE_KERNEL T& operator()(detail::element_index row, detail::element_index column) const {
        return origin_[detail::within(row, rows_, detail::accessed::tile_row) * stride_ +
                       detail::within(column, columns_, detail::accessed::tile_column)];
    }
    SLUICE_KERNEL std::size_t rows() const { return rows_; }        // of this tile, clipped at the edge
    SLUICE_KERNEL std::size_t columns() const { return columns_; }  // of this tile, clipped at the edge
    // The position of the tile's corner in the whole tensor.
    SLUICE_KERNEL std::size_t first_row() const { return row0_; }
    SLUICE_KERNEL std::size_t first_column() const { return column0_; }  // of this tile in the matrix

private:
    T* origin_;
    std::size_t row0_;
    std::size_t column0_;
    std::size_t rows_;
    std::size_t columns_;
    std::size_t stride_;
};

// A partitioned tensor: a tile_index may access only its own tile.
template <typename T>
class disjoint_tiles {
public:
    using element_type = T;  // of the elements

    // Made by the launch: a matrix, row after row without gaps, and the size of a tile.
    SLUICE_KERNEL disjoint_tiles(T* data, std::size_t rows, std::size_t columns, std::size_t tile_rows,
                                 std::size_t tile_columns)
        : data_(data), rows_(rows), columns_(columns), tile_rows_(tile_rows), tile_columns_(tile_columns) {}

    // The tile of this index; it has no rows when the launch is larger than the partition.
    SLUICE_KERNEL tile_view<T> at(tile_index at) const {
        const std::size_t row = at.row() * tile_rows_;
        const std::size_t column = at.column() * tile_columns_;
        if (row >= rows_ || column >= columns_) return {data_, row, column, 0, 0, columns_};
        const std::size_t rows_left = rows_ - row;
        const std::size_t columns_left = columns_ - column;
        return {data_ + row * columns_ + column,
                row,
                column,
                rows_left < tile_rows_ ? rows_left : tile_rows_,
                columns_left < tile_columns_ ? columns_left : tile_columns_,
                columns_};
    }

private:
    T* data_;
    std::size_t rows_;
    std::size_t columns_;
    std::size_t tile_rows_;
    std::size_t tile_columns_;
};

}  // namespace SLUICE_BOUNDS_ABI

}  // namespace sluice
