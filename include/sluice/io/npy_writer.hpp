// SPDX-License-Identifier: Apache-2.0
// Writer of NumPy's .npy format (version 1.0, row-major, little-endian).
//
// Thread safety: the write functions may be called from many threads at once, in any order; commit() after them.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/io/atomic_file.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/io/npy_part_writer.hpp"

namespace sluice::io {

// Every row must be written exactly once; then commit() makes the file appear. Destroyed before that, nothing is
// left. The system's refusals are a file_error with errc::io_failed.
class npy_writer {
public:
    // Fixes the shape (rows first, see npy_view) and writes the header to a temporary file next to `target`.
    // Throws sluice::error (errc::invalid_argument) for a shape whose size overflows, more than 64 dimensions,
    // or bf16, which the format does not have. Costs what atomic_file's constructor costs, a write of the header, and a
    // call of the system for the length.
    npy_writer(std::filesystem::path target, std::vector<std::size_t> shape, dtype type = dtype::f32);

    dtype element_type() const noexcept { return type_; }  // the type of each element
    // The lengths of the dimensions, rows first.
    const std::vector<std::size_t>& shape() const noexcept { return shape_; }
    std::size_t rows() const noexcept { return rows_; }            // the first dimension; 1 for a scalar
    std::size_t row_bytes() const noexcept { return row_bytes_; }  // bytes of one row
    // For others that write rows of it, see npy_part_writer. Costs a few copies of the path.
    npy_part part() const { return {std::filesystem::absolute(file_.temporary()), header_.size(), rows_, row_bytes_}; }

    // Writes whole rows of an f32 array. Throws sluice::error: errc::shape_mismatch when the array is of another
    // type or `values` is not a whole number of rows, errc::invalid_argument past the end. Costs O(values).
    void write_rows(std::size_t first_row, std::span<const float> values);
    // The same for any element type, as stored bytes. Costs O(bytes).
    void write_row_bytes(std::size_t first_row, std::span<const std::byte> bytes);
    // Counts rows that others wrote to the temporary file as written. Costs O(1).
    void count_rows_of_others(std::size_t rows) noexcept;
    // Blocks until the file is on the disk and in its place. Throws sluice::error (errc::invalid_argument) unless
    // exactly rows() rows were written. Costs what atomic_file::commit costs.
    void commit();

private:
    std::vector<std::size_t> shape_;
    dtype type_;
    std::size_t rows_;
    std::size_t row_bytes_;
    std::string header_;
    io::atomic_file file_;
    std::atomic<std::size_t> rows_written_{0};
};

}  // namespace sluice::io
