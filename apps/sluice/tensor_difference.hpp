// SPDX-License-Identifier: Apache-2.0
// How two tensors of one shape differ.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sluice/nn/any_tensor.hpp"

namespace sluice::app {

struct tensor_difference {
    // |a - b|, and |a - b| / max(|a|, |b|): the largest of all elements, each for itself. NaN when one of two numbers
    // is NaN; equal infinities do not differ.
    double absolute = 0, relative = 0;
    // Where the largest absolute difference is; empty when no element differs. And the numbers there.
    std::vector<std::size_t> place;
    long double a = 0, b = 0;
    std::size_t differing = 0;  // elements
    // Of floating-point tensors [rows, classes], with at least two classes: the rows whose largest number is at the
    // same place. A row with a NaN agrees with none.
    std::optional<std::size_t> agreeing_rows;
};

// Both in host memory, of the same shape; their types may differ.
tensor_difference difference_of(const nn::any_tensor& a, const nn::any_tensor& b);

}  // namespace sluice::app
