// SPDX-License-Identifier: Apache-2.0
// Numbers that are computed from shapes. Exporters compute the shape for a Reshape or an Expand with ordinary operators
// on small tensors: Shape, Gather, Concat, Mul. Here they are computed with amounts in the place of numbers.
#pragma once

#include <optional>
#include <span>

#include "nn/rows/followed.hpp"
#include "nn/tried_shapes.hpp"

namespace sluice::nn::rows {

// The elements of a small tensor, if they are known.
std::optional<amounts> elements_of(const followed& value);

// The only output of Shape, of Size, and of a node of which an input's elements are amounts. None where it is another
// node, or where its output is not a product of lengths. Throws cannot_follow like the arithmetic of amounts.
std::optional<followed> compute_numbers(const detail::node_to_try& which, std::span<const followed* const> inputs,
                                        symbol_table& symbols);

}  // namespace sluice::nn::rows
