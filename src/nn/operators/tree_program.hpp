// SPDX-License-Identifier: Apache-2.0
// The tables of trees in one piece, and how a CPU computes with them.
#pragma once

#include <cstddef>

#include "nn/operators/trees.hpp"

namespace sluice::nn::operators {

// Where a step has the piece that a pass has made of its attributes (passes/trees.cpp), as a constant.
inline constexpr std::size_t packed_trees_input = 1;

// The tables as bytes (u8) in host memory. With what a CPU walks through, where it can: all tests order f32 numbers.
any_tensor pack_trees(const tree_tables& from, bool for_cpu);
// What is said of the two classes of a classifier with one score.
other_score other_of_packed(const any_tensor& image);

// The f64 [rows, targets] scores. The image is in host memory and, for a call on a device, there too. Refuses rows that
// do not have a feature which a node tests.
//
// A row's sum is added up in the order of the trees, whatever the way in which their leaves are found.
any_tensor score_packed(node_call& in, const feature_matrix& of, const any_tensor& image);

}  // namespace sluice::nn::operators
