// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "npy_header.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::io {

npy_view::npy_view(std::span<const std::byte> file, std::filesystem::path label) : path_(std::move(label)) {
    npy_header header = parse_npy_header(file, path_);
    if (header.text) throw file_error(path_, header.descr_at, "descr", "has texts as elements, and must have numbers");
    if (header.fortran_order && header.shape.size() > 1) {
        throw file_error(path_, header.fortran_order_at, "fortran_order",
                         "column-major arrays are not supported: save numpy.ascontiguousarray(a)");
    }
    const auto wanted = byte_count(header.shape, header.type);
    if (!wanted) throw file_error(path_, header.shape_at, "shape", "the size in bytes overflows");
    const std::size_t left = file.size() - static_cast<std::size_t>(header.data_offset);
    const std::string sizes = std::to_string(left) + " bytes of data, the shape takes " + std::to_string(*wanted);
    if (left < *wanted) throw file_error(path_, file.size(), "data", "truncated: " + sizes);
    if (left > *wanted) throw file_error(path_, header.data_offset + *wanted, "data", "too long: " + sizes);

    type_ = header.type;
    descr_offset_ = header.descr_at;
    shape_ = std::move(header.shape);
    data_offset_ = header.data_offset;
    data_ = file.subspan(static_cast<std::size_t>(data_offset_));
    // byte_count() has shown that the other dimensions multiply without overflow even when there are no rows.
    row_elements_ = element_count(std::span(shape_).subspan(shape_.empty() ? 0 : 1)).value();
}

std::span<const std::byte> npy_view::row_range(std::size_t first_row, std::size_t count) const {
    if (first_row > rows() || count > rows() - first_row) {
        throw error(errc::invalid_argument, path_.string() + " has " + std::to_string(rows()) + " rows, not " +
                                                std::to_string(count) + " from row " + std::to_string(first_row));
    }
    return data_.subspan(first_row * row_bytes(), count * row_bytes());
}

void npy_view::read_rows(std::size_t first_row, std::span<float> target) const {
    if (row_elements_ == 0 ? !target.empty() : target.size() % row_elements_ != 0) {
        throw error(errc::shape_mismatch, std::to_string(target.size()) + " floats are not whole rows of " +
                                              std::to_string(row_elements_) + " in " + path_.string());
    }
    const std::size_t count = row_elements_ == 0 ? 0 : target.size() / row_elements_;
    convert_to_float(type_, row_range(first_row, count), target);
}

void npy_view::copy_as(dtype wanted, std::span<std::byte> target) const {
    if (wanted != type_) {
        throw file_error(
            path_, descr_offset_, "descr",
            "the elements are " + std::string(to_string(type_)) + ", not " + std::string(to_string(wanted)));
    }
    if (!target.empty()) std::memcpy(target.data(), data_.data(), target.size());
}

void npy_file::forget_rows(std::size_t first_row, std::size_t count) const noexcept {
    const std::size_t rows = view_.rows();
    if (first_row >= rows) return;
    const std::size_t row_bytes = view_.row_bytes();
    file_.forget(static_cast<std::size_t>(view_.data_offset()) + first_row * row_bytes,
                 std::min(count, rows - first_row) * row_bytes);
}

}  // namespace sluice::io
