// SPDX-License-Identifier: Apache-2.0
// The rows of shapes: all dimensions except the first form one row. For operations that split or join tensors by rows.
#pragma once

#include <cstddef>
#include <span>

#include "sluice/base/source_location.hpp"
#include "sluice/runtime/shape.hpp"

namespace sluice::detail {

// The rows of part `number` of `parts`.
struct row_range {
    std::size_t first, count;
};
row_range part_of_rows(std::size_t rows, std::size_t number, std::size_t parts);
// Throws errc::shape_mismatch for a shape without dimensions.
std::size_t rows_to_split(const shape& whole, const source_location& location);
shape with_rows(const shape& like, std::size_t rows);
// The shape of all parts together. Throws errc::shape_mismatch for no parts, or when they differ in more than the
// number of rows.
shape gathered_shape(std::span<const shape> parts, const source_location& location);

}  // namespace sluice::detail
