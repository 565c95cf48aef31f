// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy_writer.hpp"

#include <string>
#include <utility>

#include "npy_header.hpp"
#include "sluice/base/error.hpp"

namespace sluice::io {
namespace {

// Checked before the temporary file is created.
std::vector<std::size_t> checked_shape(std::vector<std::size_t> shape, dtype type) {
    if (shape.size() > npy_most_dimensions) {
        throw error(errc::invalid_argument, "an array of " + std::to_string(shape.size()) + " dimensions");
    }
    if (!byte_count(shape, type)) throw error(errc::invalid_argument, "the size of the array overflows");
    return shape;
}

}  // namespace

npy_writer::npy_writer(std::filesystem::path target, std::vector<std::size_t> shape, dtype type)
    : shape_(checked_shape(std::move(shape), type)),
      type_(type),
      rows_(shape_.empty() ? 1 : shape_.front()),
      row_bytes_(byte_count(std::span(shape_).subspan(shape_.empty() ? 0 : 1), type).value()),
      header_(make_npy_header(type_, shape_)),
      file_(std::move(target)) {
    file_.write_at(0, std::as_bytes(std::span(header_)));
    file_.resize(header_.size() + rows_ * row_bytes_);
}

void npy_writer::write_rows(std::size_t first_row, std::span<const float> values) {
    if (type_ != dtype::f32) {
        throw error(errc::shape_mismatch,
                    file_.target().string() + " holds " + std::string(to_string(type_)) + " elements, not f32");
    }
    write_row_bytes(first_row, std::as_bytes(values));
}

void npy_writer::write_row_bytes(std::size_t first_row, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (row_bytes_ == 0 || bytes.size() % row_bytes_ != 0) {
        throw error(errc::shape_mismatch, std::to_string(bytes.size()) + " bytes are not whole rows of " +
                                              std::to_string(row_bytes_) + " in " + file_.target().string());
    }
    const std::size_t count = bytes.size() / row_bytes_;
    if (first_row > rows_ || count > rows_ - first_row) {
        throw error(errc::invalid_argument, file_.target().string() + " has " + std::to_string(rows_) + " rows, not " +
                                                std::to_string(count) + " from row " + std::to_string(first_row));
    }
    file_.write_at(header_.size() + first_row * row_bytes_, bytes);
    // Relaxed: a count. The caller of commit() has already waited for the threads that write.
    rows_written_.fetch_add(count, std::memory_order_relaxed);
}

void npy_writer::count_rows_of_others(std::size_t rows) noexcept {
    rows_written_.fetch_add(rows, std::memory_order_relaxed);
}

void npy_writer::commit() {
    const std::size_t written = rows_written_.load(std::memory_order_relaxed);
    if (row_bytes_ != 0 && written != rows_) {
        throw error(errc::invalid_argument, std::to_string(written) + " rows were written to " +
                                                file_.target().string() + ", which has " + std::to_string(rows_));
    }
    file_.commit();
}

}  // namespace sluice::io
