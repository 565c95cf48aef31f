// SPDX-License-Identifier: Apache-2.0
// A perceptron that stays on its device for requests of a few rows, and the network for all others. Which of the two
// answers a number of rows is measured when it is made.
#pragma once

#include <memory>

#include "sluice/nn/model.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/nn/resident.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/serve/engine.hpp"

namespace sluice::serve {

// `network`: the same model on `on`, with one input and one output of f32. Throws what nn::resident_network throws, and
// errc::invalid_argument for int8, which it does not have.
std::shared_ptr<const loaded_model> make_resident(std::shared_ptr<const loaded_model> network, device& on,
                                                  const nn::model& from, nn::precision precision,
                                                  const nn::resident_options& options);

}  // namespace sluice::serve
