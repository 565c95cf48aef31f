// SPDX-License-Identifier: Apache-2.0
// nearest_name: of some names the one that is most like a name that does not exist, for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::nn::detail {

// Of these names the one with the fewest letters to add, leave out or replace; upper and lower case are alike. Empty
// where there are no names. The first one of several.
std::string nearest_name(std::string_view to, const std::vector<std::string>& among);

}  // namespace sluice::nn::detail
