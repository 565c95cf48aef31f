// SPDX-License-Identifier: Apache-2.0
// Reader of NumPy's .npy format, versions 1.0, 2.0 and 3.0.
//
// Read: little-endian, row-major arrays of plain numbers. Everything else is refused when the file is opened,
// with a file_error that names the file, the byte offset and the field ('descr', 'fortran_order', 'shape'):
// Fortran order (other than in one dimension), big-endian, structured and object types, sizes that overflow,
// files shorter or longer than their header says.
//
// Thread safety: immutable once constructed.
//
// All members take constant time, but for these: the constructors are linear in the length of the header, read_rows and
// values in the number of elements, and forget_rows asks the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/io/mapped_file.hpp"

namespace sluice::io {

// The array in a file that is already in memory. Does not own the bytes: they must outlive it.
//
// A row is what one index of the first dimension selects: shape {n, d} has n rows of d elements, shape {n} has
// n rows of one element, and a scalar is one row of one element.
class npy_view {
public:
    // Parses and checks `file`, which holds the whole file. Errors name `label` in place of a path.
    npy_view(std::span<const std::byte> file, std::filesystem::path label);

    const std::filesystem::path& path() const noexcept { return path_; }  // the path or label that errors name
    dtype element_type() const noexcept { return type_; }                 // the type of each element
    // The lengths of the dimensions, rows first.
    const std::vector<std::size_t>& shape() const noexcept { return shape_; }
    // The first dimension; 1 for a scalar.
    std::size_t rows() const noexcept { return shape_.empty() ? 1 : shape_.front(); }
    std::size_t row_elements() const noexcept { return row_elements_; }                // elements of one row
    std::size_t row_bytes() const noexcept { return row_elements_ * size_of(type_); }  // bytes of one row

    // The elements, row-major; not necessarily aligned for their type.
    std::span<const std::byte> data() const noexcept { return data_; }
    // Of the first element, from the start of the file.
    std::uint64_t data_offset() const noexcept { return data_offset_; }

    // The bytes of `count` rows. Throws sluice::error (errc::invalid_argument) when they are not all there.
    std::span<const std::byte> row_range(std::size_t first_row, std::size_t count) const;
    // Converts whole rows to float, as many as `target` holds, starting with `first_row`. Throws sluice::error:
    // errc::shape_mismatch when target is not a whole number of rows, errc::invalid_argument past the end.
    void read_rows(std::size_t first_row, std::span<float> target) const;
    // A copy of all elements. Throws file_error unless they are stored as T.
    template <class T>
    std::vector<T> values() const {
        std::vector<T> copy(data_.size() / sizeof(T));
        copy_as(dtype_of<T>, std::as_writable_bytes(std::span(copy)));
        return copy;
    }

private:
    void copy_as(dtype wanted, std::span<std::byte> target) const;

    std::filesystem::path path_;
    dtype type_{};
    std::uint64_t descr_offset_ = 0;
    std::vector<std::size_t> shape_;
    std::size_t row_elements_ = 0;
    std::uint64_t data_offset_ = 0;
    std::span<const std::byte> data_;
};

// The same over a file on disk, which it keeps mapped.
class npy_file {
public:
    // Maps the file, parses and checks it. Throws file_error.
    explicit npy_file(std::filesystem::path path) : file_(std::move(path)), view_(file_.bytes(), file_.path()) {}

    const npy_view& view() const noexcept { return view_; }     // the array; valid as long as this object
    const mapped_file& file() const noexcept { return file_; }  // the mapped file
    // Advises the system that these rows were consumed, so that a large input does not stay resident.
    void forget_rows(std::size_t first_row, std::size_t count) const noexcept;

private:
    mapped_file file_;
    npy_view view_;
};

}  // namespace sluice::io
