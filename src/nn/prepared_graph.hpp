// SPDX-License-Identifier: Apache-2.0
// prepared_graph: the nodes of a graph as steps, in order, with their operators; values have numbers. Passes change it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nn/operators/table.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// The values of a graph are numbered: slots.
using slot = std::uint32_t;
inline constexpr slot no_slot = ~slot{0};

class joined_steps;
class prepared_graph;

struct step {
    const operators::definition* what;
    const node* from;
    std::size_t position;
    std::int64_t opset;
    std::string label;  // of its commands
    std::vector<slot> inputs, outputs;
    std::vector<slot> released;  // values that nothing after this step uses
    std::map<const graph*, std::shared_ptr<prepared_graph>> inner = {};
    std::vector<slot> read_inside = {};                          // values that steps of inner graphs read on a device
    bool is_on_host = false;                                     // its outputs are needed there
    bool leaves_to_next = false;                                 // its output is left to the next expression
    std::shared_ptr<const operators::dense_layers> layers = {};  // which are this step
    std::shared_ptr<const joined_steps> stretch = {};            // the same
    std::vector<const value_info*> declared = {};                // outputs of an own operator: run_environment
    std::vector<const node*> also = {};                          // nodes after `from` that passes made a part of it
    bool gives_shape_only = false;                               // nothing reads the elements of its outputs
    bool may_be_ahead = false;  // an operator of constants and shapes alone, none of whose outputs the graph gives
};

class prepared_graph {
public:
    // A value of the graph around this one that this one uses.
    struct capture {
        slot outside, inside;
    };

    std::vector<step> steps;
    std::vector<slot> inputs, outputs;
    std::vector<capture> captures;
    std::unordered_map<slot, any_tensor> constants;
    std::unordered_set<slot> computed;  // those constants that were computed from others
    std::vector<bool> needed_on_host;   // for each slot
    std::size_t slots = 0;
    std::vector<std::string> names;  // of the values, by slot; those that passes add have none
};

// Whether a step is meant, of the graph or of those inside its steps.
template <typename Predicate>
bool has_step(const prepared_graph& in, const Predicate& is_meant) {
    return std::ranges::any_of(in.steps, [&](const step& each) {
        return is_meant(each) ||
               std::ranges::any_of(each.inner, [&](const auto& inner) { return has_step(*inner.second, is_meant); });
    });
}

}  // namespace sluice::nn::detail
