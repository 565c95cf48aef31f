// SPDX-License-Identifier: Apache-2.0
// stretch_values: what a search for stretches knows of each value, while one stretch is open.
#pragma once

#include <algorithm>
#include <vector>

#include "nn/passes/steps.hpp"
#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

class stretch_values {
public:
    // Whether the open stretch gives a value, or a step that is not of the stretch and depends on it.
    enum class state : unsigned char { before, inside, after };

    explicit stretch_values(const prepared_graph& in) : states_(in.slots, state::before) {}

    state operator[](slot value) const { return states_[value]; }
    // Of the values that the step reads, in its inner graphs too.
    bool has_input(const step& of, state what) const {
        return std::ranges::any_of(of.inputs, [&](slot each) { return each != no_slot && states_[each] == what; }) ||
               std::ranges::any_of(of.inner, [&](const auto& inner) {
                   return std::ranges::any_of(inner.second->captures,
                                              [&](const auto& each) { return states_[each.outside] == what; });
               });
    }
    // The values that the step gives.
    void mark(const step& of, state what) {
        for (const slot each : of.outputs)
            if (each != no_slot) states_[each] = what;
    }
    void close() { std::ranges::fill(states_, state::before); }

private:
    std::vector<state> states_;
};

}  // namespace sluice::nn::detail
