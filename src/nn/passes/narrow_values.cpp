// SPDX-License-Identifier: Apache-2.0
// Values between products in 16 bits. What a product or attention gives was rounded to 16 bits, or is rounded by what
// reads it; then nothing widens it in between.
#include "nn/passes/narrow_values.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "nn/attention/attention_step.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/recurrent_from_zeros.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "nn/residual/residual_norm_step.hpp"

namespace sluice::nn::detail {
namespace {

const attention_step* attention_of(const step& of) { return dynamic_cast<const attention_step*>(of.stretch.get()); }

bool is_narrowed_recurrent(const step& of) {
    return of.stretch == nullptr &&
           (of.what == &operators::narrowed_recurrent() || of.what == &operators::narrowed_recurrent_from_zeros());
}
bool is_narrowed(const step& of) {
    return of.stretch == nullptr && (of.what == &operators::narrowed_layer() ||
                                     of.what == &operators::narrowed_operator() || is_narrowed_recurrent(of));
}

// What the step gives has the type of its first input, whichever it is.
bool only_moves(const step& of) {
    static constexpr std::array<std::string_view, 9> known{"Reshape",   "Flatten", "Squeeze", "Unsqueeze", "Identity",
                                                           "Transpose", "Split",   "Gather",  "Slice"};
    return !of.is_on_host && of.stretch == nullptr && of.layers == nullptr &&
           std::ranges::any_of(known, [&](std::string_view op) { return is(of, op); });
}

}  // namespace

narrow_readers::narrow_readers(const prepared_graph& in) : in_(in), readers_(in.slots), is_outside_(in.slots, false) {
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        for (const slot each : in.steps[i].inputs)
            if (each != no_slot && (readers_[each].empty() || readers_[each].back() != i)) readers_[each].push_back(i);
        for (const auto& [from, inner] : in.steps[i].inner)
            for (const auto& one : inner->captures) is_outside_[one.outside] = true;
    }
    for (const slot each : in.outputs) is_outside_[each] = true;
}

bool narrow_readers::round(slot value, bool was_rounded) const {
    if (is_outside_[value] || in_.needed_on_host[value] || readers_[value].empty()) return false;
    return std::ranges::all_of(readers_[value], [&](std::size_t reader) {
        const step& by = in_.steps[reader];
        for (std::size_t i = 0; i < by.inputs.size(); ++i)
            if (by.inputs[i] == value && !rounds(reader, i, was_rounded)) return false;
        return true;
    });
}

bool narrow_readers::rounds(std::size_t reader, std::size_t input, bool was_rounded) const {
    const step& by = in_.steps[reader];
    if (by.gives_shape_only || takes_shape_only(by, input)) return true;
    if (const attention_step* const attention = attention_of(by)) return attention->rounds_input(input);
    if (const auto* const norm = dynamic_cast<const residual_norm_step*>(by.stretch.get()))
        return was_rounded && norm->is_addend(input);
    if (input != 0) return false;
    if (is_narrowed(by)) return true;
    return only_moves(by) && std::ranges::all_of(by.outputs, [&](slot each) {
               return each == no_slot || (readers_[each].empty() && !is_outside_[each]) || round(each, was_rounded);
           });
}

void keep_values_narrow(prepared_graph& in) {
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) keep_values_narrow(*inner);
    const narrow_readers readers(in);
    std::vector<bool> is_narrow(in.slots, false);
    for (step& each : in.steps) {
        const attention_step* const attention = attention_of(each);
        const bool may = attention != nullptr ? attention->rounds() : is_narrowed(each);
        const bool is_one = each.outputs.size() == 1 ||
                            (is_narrowed_recurrent(each) && !each.outputs.empty() && each.outputs[0] != no_slot);
        const bool gives = may && is_one && readers.round(each.outputs[0], attention == nullptr);
        const bool moves = only_moves(each) && !each.inputs.empty() && is_narrow[each.inputs[0]];
        for (const slot one : each.outputs)
            if (one != no_slot) is_narrow[one] = (gives && one == each.outputs[0]) || moves;
        if (attention != nullptr) {
            std::vector<bool> inputs;
            for (const slot one : each.inputs) inputs.push_back(is_narrow[one]);
            if (gives || std::ranges::find(inputs, true) != inputs.end()) {
                const auto made = attention->narrowed(std::move(inputs), gives);
                each.what = &made->definition();
                each.stretch = made;
            }
        } else if (gives) {
            auto made = std::make_shared<operators::dense_layers>(*each.layers);
            made->rounded->stays_narrow = true;
            each.layers = std::move(made);
        }
        if (const auto* const norm = dynamic_cast<const residual_norm_step*>(each.stretch.get())) {
            // What a norm gives in 16 bits has no other name.
            if (norm->gives_narrow()) is_narrow[each.outputs.back()] = true;
            std::vector<bool> inputs;
            for (const slot one : each.inputs) inputs.push_back(is_narrow[one]);
            if (std::ranges::find(inputs, true) == inputs.end()) continue;
            const auto made = norm->narrowed(std::move(inputs));
            each.what = &made->definition();
            each.stretch = made;
        }
    }
}

}  // namespace sluice::nn::detail
