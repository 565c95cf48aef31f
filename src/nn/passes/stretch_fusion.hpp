// SPDX-License-Identifier: Apache-2.0
// One step stands for the steps of a stretch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "nn/joined_steps.hpp"
#include "nn/passes/steps.hpp"
#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

// Replaces each stretch, the numbers of its steps in order, for which make_stretch(body) makes one; a later stretch has
// later steps only. Not those with more inputs and outputs than `most_outside`. Gives the step to `note`.
template <typename Make, typename Note>
void fuse_stretches(prepared_graph& in, const std::vector<std::vector<std::size_t>>& stretches,
                    std::size_t most_outside, const Make& make_stretch, const Note& note) {
    std::vector<step> steps;
    std::size_t copied = 0;
    for (const std::vector<std::size_t>& found : stretches) {
        prepared_graph body = part_of(in, found);
        if (body.inputs.size() + body.outputs.size() > most_outside) continue;
        step whole = in.steps[found.front()];
        for (std::size_t i = 1; i < found.size(); ++i) note_joined(in.steps[found[i]], whole);
        if (found.size() > 1) whole.label += " to " + in.steps[found.back()].label;
        whole.inputs = body.inputs;
        whole.outputs = body.outputs;
        whole.stretch = make_stretch(std::move(body));
        if (whole.stretch == nullptr) continue;
        note(whole);
        // Steps in between that depend on the stretch come after it, the others before.
        std::vector<bool> depends(in.slots, false);
        for (const slot each : whole.outputs) depends[each] = true;
        std::vector<step> after;
        std::size_t next = 0;
        for (; copied <= found.back(); ++copied) {
            if (next < found.size() && found[next] == copied) {
                ++next;
                continue;
            }
            step& each = in.steps[copied];
            bool is_after = std::ranges::any_of(each.inputs, [&](slot one) { return one != no_slot && depends[one]; });
            for (const auto& [from, inner] : each.inner)
                for (const auto& one : inner->captures) is_after = is_after || depends[one.outside];
            if (is_after)
                for (const slot one : each.outputs)
                    if (one != no_slot) depends[one] = true;
            (is_after ? after : steps).push_back(std::move(each));
        }
        steps.push_back(std::move(whole));
        std::ranges::move(after, std::back_inserter(steps));
    }
    std::move(in.steps.begin() + static_cast<std::ptrdiff_t>(copied), in.steps.end(), std::back_inserter(steps));
    in.steps = std::move(steps);
}

}  // namespace sluice::nn::detail
