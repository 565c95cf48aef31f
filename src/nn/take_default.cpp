// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/take_default.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn {

void take_default(model& network, std::string_view name) {
    graph& body = network.body;
    const auto found = std::ranges::find(body.defaults, name, &value_info::name);
    if (found == body.defaults.end()) {
        std::string possible;
        for (const value_info& each : body.defaults) possible += (possible.empty() ? "" : ", ") + in_quotes(each.name);
        throw error(
            errc::invalid_argument,
            in_quotes(name) + " is not an input with a default; these are: " + (possible.empty() ? "none" : possible),
            {network.path.string()});
    }
    const auto value = body.constants.find(name);
    if (value != body.constants.end()) body.constants.erase(value);
    body.inputs.push_back(std::move(*found));
    body.defaults.erase(found);
}

}  // namespace sluice::nn
