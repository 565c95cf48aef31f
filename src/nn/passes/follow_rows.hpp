// SPDX-License-Identifier: Apache-2.0
// follow_rows: what find_row_independence calls (sluice/nn/row_independence.hpp). It changes nothing.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "nn/operators/own.hpp"
#include "nn/rows/rule.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/row_independence.hpp"

namespace sluice::nn::detail {

// What is known of each value of the network, by its name, where the rows are at these axes of the inputs.
std::map<std::string, rows::followed, std::less<>> follow_rows(const model& of,
                                                               const operators::known_to_network& known,
                                                               const rows::rule_table& rules,
                                                               const std::vector<std::size_t>& input_axes);

// The same as nn::find_row_independence, with other rules.
row_independence find_row_independence(const model& of, const own_operators& own, const rows::rule_table& rules);
// The same of a model that was checked before. A constant without bytes is one whose numbers are not known.
row_independence row_independence_of_checked(const model& of, const operators::known_to_network& known,
                                             const rows::rule_table& rules);

}  // namespace sluice::nn::detail
