// SPDX-License-Identifier: Apache-2.0
// Pictures of networks: a box for each input, node and output, and an arrow from what gives a value to what takes it.
// Constants are words in the boxes that take them; graphs of If, Loop and Scan are boxes inside.
#pragma once

#include <vector>

#include "sluice/drawing/flow_chart.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/pass_report.hpp"

namespace sluice::app {

// As the file has it.
flow_chart picture_of(const nn::model& network);
// As a pass leaves it. `after` is of the same network.
flow_chart picture_of(const nn::model& network, const nn::pass_report& after);

}  // namespace sluice::app
