// SPDX-License-Identifier: Apache-2.0
// The exact GELU as exporters write it where the operator set has none: x * (1 + erf(x / sqrt(2))) * 0.5.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

// The steps that compute it of x and of which nothing else reads a value, nor x; the last one gives the result. Empty
// where there are none. `only`: what only_readers gives.
std::vector<std::size_t> gelu_nodes_of(const prepared_graph& in, std::span<const std::size_t> only, slot x);

}  // namespace sluice::nn::detail
