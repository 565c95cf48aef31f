// SPDX-License-Identifier: Apache-2.0
// Networks that put together all that they have so far, again and again (DenseNet): each Concat reads the one before
// it.
#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {

void nest_concats(prepared_graph& in) {
    // The value that a Concat gives along an axis, by what it puts together.
    std::map<std::pair<std::int64_t, std::vector<slot>>, slot> known;
    for (step& each : in.steps) {
        for (const auto& [from, inner] : each.inner) nest_concats(*inner);
        if (!is(each, "Concat") || each.is_on_host || each.stretch != nullptr || each.outputs.size() != 1 ||
            std::ranges::find(each.inputs, no_slot) != each.inputs.end())
            continue;
        const std::int64_t axis = integer(each, "axis", each.opset < 4 ? 1 : -1);
        const std::vector<slot> all = each.inputs;
        for (std::size_t count = all.size(); count-- > 2;) {
            const auto found = known.find({axis, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)}});
            if (found == known.end()) continue;
            each.inputs.assign({found->second});
            each.inputs.insert(each.inputs.end(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
            break;
        }
        known.emplace(std::pair(axis, all), each.outputs[0]);
    }
}

}  // namespace sluice::nn::detail
