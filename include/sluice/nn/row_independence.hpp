// SPDX-License-Identifier: Apache-2.0
// row_independence: whether the rows of a batch are computed independently of each other, as the graph shows it.
//
//     const nn::row_independence found = nn::find_row_independence(nn::load_onnx("digits.onnx"));
//     if (!found.is_proven) std::cerr << found.text() << '\n';   // node "max" (ReduceMax) computes one number from ...
//
// Each input has an axis along which its rows lie. The axis is followed through the graph: each operator has a rule
// that says along which axis of its outputs the rows lie then, and where rows mix. An operator without a rule mixes.
// Where all outputs have the rows along an axis, with one element of it for each row, the outputs of a row are the same
// in any company: the network computes the same for it alone as in a batch, except for the order in which sums are
// added.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/nn/model.hpp"
#include "sluice/nn/own_operator.hpp"

namespace sluice::nn {

struct row_independence {
    bool is_proven = false;  // all outputs have the rows along an axis, each computed by itself
    // Of each input and output, in the model's order, the axis of the rows. Empty where it is not proven.
    std::vector<std::size_t> input_axes = {}, output_axes = {};
    // What is in the way. The node as messages call it, e.g. `node "max" (ReduceMax)`; empty where an input or an
    // output of the network is. Its operator, and a sentence without its subject, which the node is.
    std::string node = {}, op = {}, why = {};

    // Whether it is proven, and all axes are the first ones. Costs O(inputs and outputs).
    bool is_along_first_axes() const noexcept;
    // For people, in one line: "proven", with the axes where they are not the first ones, or what is in the way. Costs
    // O(bytes of the text).
    std::string text() const;
};

// Follows the rows through the model. Which axis they have in each input is tried: of those whose length is known when
// the network runs. Needs no device. Throws what check_operators throws. Costs O(nodes), and the computation of small
// constants.
row_independence find_row_independence(const model& of, const own_operators& own = {});

}  // namespace sluice::nn
