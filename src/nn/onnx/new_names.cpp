// SPDX-License-Identifier: Apache-2.0
#include "new_names.hpp"

#include <memory>
#include <variant>

namespace sluice::nn::detail {

void new_names::add(const graph& of) {
    for (const value_info& each : of.inputs) taken_.insert(each.name);
    for (const auto& [name, value] : of.constants) taken_.insert(name);
    for (const node& each : of.nodes) {
        taken_.insert(each.inputs.begin(), each.inputs.end());
        taken_.insert(each.outputs.begin(), each.outputs.end());
        for (const auto& [name, value] : each.attributes)
            if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value)) add(**inner);
    }
}

}  // namespace sluice::nn::detail
