// SPDX-License-Identifier: Apache-2.0
// state_values: what a model's configuration and the names of its inputs and outputs say about its state.
#pragma once

#include <span>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/serve/engine.hpp"
#include "sluice/serve/model_config.hpp"
#include "sluice/serve/sequence.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

// Throws error (invalid_argument) for a configuration that names inputs and outputs that do not fit together, or a
// shape that an input of the state cannot have. Names that say nothing are no error: then there is no state.
state_values find_state_values(const loaded_model& network, const model_config& config);

// The shapes of the state before the first step, in the order of state.all. `inputs`: the step's. Throws refusal
// (bad_request) where a length is said nowhere.
std::vector<tensor_shape> first_shapes(const loaded_model& network, const model_config& config,
                                       const state_values& state, std::span<const tensor_view> inputs);

}  // namespace sluice::serve
