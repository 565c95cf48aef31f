// SPDX-License-Identifier: Apache-2.0
// followed: what is known of a value of a network about the rows of its batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/rows/amount.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn::rows {

// Where rows were lost, and why.
struct obstacle {
    std::string node;  // as messages call it; empty: no node, but an input or an output of the network
    std::string op;    // its operator
    std::string why;   // the rest of the sentence
};

enum class company : unsigned char {
    // The value is the same whatever rows there are, and however many.
    alike,
    // Dimension `axis` has the rows, one after the other; each has as many elements of it. What belongs to a row is the
    // same in any company.
    rows,
    // Small numbers that are computed from the number of rows. They are known as `elements`.
    counts,
    // Rows may depend on each other.
    mixed,
};

struct followed {
    company what = company::alike;
    io::dtype type = io::dtype::f32;
    std::optional<amounts> shape = {};  // none: not even the number of dimensions is known
    std::size_t axis = 0;               // of rows
    amount runs = 1;  // of rows: they lie along the axis this many times, one after the other, with a part of each row
    any_tensor known = {};                 // the elements, if they are known as numbers
    std::optional<amounts> elements = {};  // small ones, if they are known as amounts
    // Each element is the number of the row that it belongs to: 0, 1, ...; or the elements of these columns of the last
    // dimension are.
    bool is_row_number = false;
    std::vector<bool> row_number_columns = {};
    std::shared_ptr<const obstacle> because = {};  // of mixed

    bool is_alike() const noexcept { return what == company::alike; }
    bool has_rows() const noexcept { return what == company::rows; }
    bool has_row_numbers() const noexcept { return is_row_number || !row_number_columns.empty(); }
};

}  // namespace sluice::nn::rows
