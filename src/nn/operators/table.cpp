// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/table.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace sluice::nn::operators {
namespace {

using table = std::multimap<std::pair<std::string_view, std::string_view>, const definition*>;

const table& known() {
    static const table all = [] {
        table made;
        for (const auto family :
             {&attention, &control_flow, &convolutions, &detection, &elementwise, &losses, &machine_learning, &movement,
              &normalizations, &optimizers, &poolings, &products, &quantization, &random_numbers, &recurrent,
              &reductions, &resampling, &shapes, &signals}) {
            for (const definition& each : family()) made.emplace(std::pair(each.domain, each.name), &each);
        }
        return made;
    }();
    return all;
}

}  // namespace

const definition* find(std::string_view domain, std::string_view name, std::int64_t opset) {
    const auto [begin, end] = known().equal_range({domain, name});
    const auto found = std::find_if(
        begin, end, [&](const auto& each) { return each.second->since <= opset && opset <= each.second->until; });
    return found != end ? found->second : nullptr;
}

bool is_known(std::string_view domain, std::string_view name) { return known().contains({domain, name}); }

std::vector<const definition*> all_operators() {
    std::vector<const definition*> found;
    for (const auto& [name, each] : known()) found.push_back(each);
    std::ranges::sort(found, {},
                      [](const definition* each) { return std::tuple(each->domain, each->name, each->since); });
    return found;
}

}  // namespace sluice::nn::operators
