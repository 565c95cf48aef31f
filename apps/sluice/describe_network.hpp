// SPDX-License-Identifier: Apache-2.0
// `sluice inspect MODEL` and `sluice operators`.
#pragma once

#include <iosfwd>
#include <vector>

#include "sluice/nn/model.hpp"
#include "sluice/nn/pass_report.hpp"

namespace sluice::app {

// The inputs, outputs and nodes of a network, and whether `sluice run` runs it. With `passes` (may be empty), also what
// they make of it.
void describe_network(const nn::model& network, const std::vector<nn::pass_report>& passes, bool as_json,
                      std::ostream& out);

// `sluice operators`: nn::known_operators, as a table of Markdown or as JSON. Versions of one operator are one line.
void describe_operators(bool as_json, std::ostream& out);

}  // namespace sluice::app
