// SPDX-License-Identifier: Apache-2.0
// `sluice inspect --passes`: what each pass makes of a network.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <vector>

#include "sluice/nn/network.hpp"
#include "sluice/nn/pass_report.hpp"

namespace sluice::app {

// The steps of the network that are left: those of the front first, where there is one. `passes` are not empty.
std::vector<nn::network_step> steps_after(const std::vector<nn::pass_report>& passes);

nlohmann::json to_json(const std::vector<nn::pass_report>& passes);

// A table with a line a pass.
void write_passes(const std::vector<nn::pass_report>& passes, std::ostream& out);

}  // namespace sluice::app
