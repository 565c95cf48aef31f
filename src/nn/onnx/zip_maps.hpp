// SPDX-License-Identifier: Apache-2.0
// ZipMap of ai.onnx.ml, with which skl2onnx ends classifiers: it makes a map from labels to scores of each row.
// Networks have no maps: here the node gives the scores themselves, [rows, labels], in the order of its labels.
#pragma once

#include <optional>
#include <string>

#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// The output of the graph as the node gives it. None: no ZipMap gives it.
std::optional<value_info> zipped_output(const graph& of, const std::string& name);

// The node that takes what a ZipMap gives: it takes maps. Null: there is none.
const node* taker_of_maps(const graph& of);

}  // namespace sluice::nn::detail
