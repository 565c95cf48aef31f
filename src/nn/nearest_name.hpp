// SPDX-License-Identifier: Apache-2.0
// The name that somebody has probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::nn::detail {

// Of these names the one with the fewest letters to add, leave out or replace; upper and lower case are alike. Empty
// where there are no names. The first one of several.
std::string nearest_name(std::string_view to, const std::vector<std::string>& among);

}  // namespace sluice::nn::detail
