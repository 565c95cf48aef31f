// SPDX-License-Identifier: Apache-2.0
// The steps of a prepared graph, as users see them.
#pragma once

#include <vector>

#include "nn/prepared_graph.hpp"
#include "sluice/nn/network.hpp"

namespace sluice::nn::detail {

std::vector<network_step> steps_of(const prepared_graph& in);

}  // namespace sluice::nn::detail
