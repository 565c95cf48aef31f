// SPDX-License-Identifier: Apache-2.0
// What the stretches of convolutions of a graph are made of. Passes use them (passes.hpp); tests look at them.
#pragma once

#include <vector>

#include "nn/images/recipe.hpp"
#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

// The graph of each stretch, in order.
std::vector<prepared_graph> graphs_of_image_stretches(const prepared_graph& in, image_style style);

}  // namespace sluice::nn::detail
