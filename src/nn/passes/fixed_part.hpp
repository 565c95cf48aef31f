// SPDX-License-Identifier: Apache-2.0
// The part of a network that comes before shapes depend on numbers.
#pragma once

#include <optional>

#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

// Takes out of `in` the steps whose numbers the host needs, directly or for others, while their shapes follow from
// those of the inputs: what comes before a NonZero, for example. The outputs of the graph that this gives are further
// inputs of `in` then, in this order. None where there is no such step that computes with the numbers of an input.
//
// What is taken out has shapes that are known before it runs. So it can be prepared, compiled and kept as any network.
std::optional<prepared_graph> take_fixed_part(prepared_graph& in);

}  // namespace sluice::nn::detail
