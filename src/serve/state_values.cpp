// SPDX-License-Identifier: Apache-2.0
#include "serve/state_values.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/session.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

using values = std::vector<nn::value_info>;

[[noreturn]] void refuse(const std::string& why) {
    throw error(errc::invalid_argument, "the configuration's state: " + why);
}

std::size_t place_of(const std::string& name, const values& among, const std::string& kind) {
    const auto found = std::ranges::find(among, name, &nn::value_info::name);
    if (found != among.end()) return static_cast<std::size_t>(found - among.begin());
    std::string known;
    for (const nn::value_info& each : among) known += (known.empty() ? "" : ", ") + in_quotes(each.name);
    refuse("the network has no " + kind + " " + in_quotes(name) + "; it has " + known);
}

bool are_next(const nn::value_info& output, const nn::value_info& input) {
    if (output.type != input.type || output.is_text || input.is_text) return false;
    if (!output.shape || !input.shape) return true;
    return std::ranges::equal(*output.shape, *input.shape, [](const nn::dimension& a, const nn::dimension& b) {
        return !a.length || !b.length || *a.length == *b.length;
    });
}

std::vector<nn::state_pair> named_pairs(const loaded_model& network) {
    try {
        std::vector<nn::state_pair> found = nn::find_state(network.inputs(), network.outputs());
        const bool has_texts = std::ranges::any_of(network.inputs(), &nn::value_info::is_text);
        return has_texts ? std::vector<nn::state_pair>{} : found;  // of which one may be a state
    } catch (const error&) {                                       // the names say nothing, or more than one thing
        return {};
    }
}

void add_pair(const nn::state_pair& pair, const loaded_model& network, state_values& to) {
    const std::size_t output = place_of(pair.output, network.outputs(), "output");
    const std::size_t input = place_of(pair.input, network.inputs(), "input");
    if (to.input_states[input]) refuse("the input " + in_quotes(pair.input) + " is there twice");
    if (!are_next(network.outputs()[output], network.inputs()[input])) {
        refuse("the output " + in_quotes(pair.output) + " cannot be the next input " + in_quotes(pair.input) +
               ": their types or shapes differ, or they are texts");
    }
    to.input_states[input] = to.output_states[output] = true;
    to.all.push_back({input, output});
}

std::string words_of(const state_values& state, const loaded_model& network) {
    std::string words;
    for (const auto& [input, output] : state.all) {
        words += (words.empty() ? "" : ", ") + printable(network.outputs()[output].name, 100) + " is the next " +
                 printable(network.inputs()[input].name, 100);
    }
    return words;
}

void require_shapes(const model_config& config, const loaded_model& network, const state_values& state) {
    for (const auto& [name, shape] : config.state_shapes) {
        const std::size_t input = place_of(name, network.inputs(), "input");
        if (!state.input_states[input]) refuse("'state_shapes': the input " + in_quotes(name) + " is no state");
        const auto& its = network.inputs()[input].shape;
        const bool fits = !its || std::ranges::equal(*its, shape, [](const nn::dimension& a, std::size_t b) {
            return !a.length || *a.length == b;
        });
        if (!fits || shape.size() > tensor_shape::most_dimensions)
            refuse("'state_shapes': the input " + in_quotes(name) + " cannot have this shape");
    }
}

// Lengths that a step's inputs have, by the names of their dimensions.
using named_lengths = std::map<std::string_view, std::size_t>;

named_lengths lengths_of(const values& model, const state_values& state, std::span<const tensor_view> inputs) {
    named_lengths lengths;
    for (std::size_t i = 0; i < model.size(); ++i) {
        if (state.input_states[i] || !model[i].shape || model[i].shape->size() != inputs[i].shape.rank()) continue;
        for (std::size_t d = 0; d < inputs[i].shape.rank(); ++d)
            if (const std::string& name = (*model[i].shape)[d].name; !name.empty())
                lengths.emplace(name, inputs[i].shape[d]);
    }
    return lengths;
}

std::optional<tensor_shape> bound_shape(const nn::value_info& of, const named_lengths& lengths) {
    if (!of.shape) return {};
    tensor_shape made;
    for (const nn::dimension& each : *of.shape) {
        const auto found = lengths.find(each.name);
        if (!each.length && (each.name.empty() || found == lengths.end())) return {};
        made.push_back(each.length ? *each.length : found->second);
    }
    return made;
}

}  // namespace

state_values find_state_values(const loaded_model& network, const model_config& config) {
    state_values made;
    made.input_states.resize(network.inputs().size());
    made.output_states.resize(network.outputs().size());
    std::vector<nn::state_pair> pairs;
    pairs.reserve(config.state.size());
    for (const auto& [output, input] : config.state) pairs.push_back({output, input});
    if (pairs.empty()) pairs = named_pairs(network);
    for (const nn::state_pair& each : pairs) add_pair(each, network, made);
    if (made.all.size() == network.inputs().size()) refuse("all inputs are state, and a step needs another one");
    require_shapes(config, network, made);
    std::ranges::sort(made.all, {}, [&](const state_values::value& each) { return network.inputs()[each.input].name; });
    made.words = words_of(made, network);
    if (config.max_sequences == 0) {
        made.all.clear();
        made.words = "its configuration says so (max_sequences)";
    } else if (made.all.empty()) {
        made.words =
            R"(no names say which outputs are the next inputs, and its configuration has no 'state', such as {"hn": "h0"})";
    }
    if (made.all.empty()) std::fill(made.input_states.begin(), made.input_states.end(), false);
    if (made.all.empty()) std::fill(made.output_states.begin(), made.output_states.end(), false);
    return made;
}

std::vector<tensor_shape> first_shapes(const loaded_model& network, const model_config& config,
                                       const state_values& state, std::span<const tensor_view> inputs) {
    const named_lengths lengths = lengths_of(network.inputs(), state, inputs);
    std::vector<tensor_shape> made;
    made.reserve(state.all.size());
    for (const auto& [input, output] : state.all) {
        const nn::value_info& its = network.inputs()[input];
        const auto given = config.state_shapes.find(its.name);
        const auto shape =
            given != config.state_shapes.end() ? std::optional(tensor_shape(given->second)) : bound_shape(its, lengths);
        if (!shape) {
            throw refusal(refusal_kind::bad_request,
                          "neither the model nor this step says the whole shape of the state " + in_quotes(its.name) +
                              ": the configuration's 'state_shapes' does");
        }
        made.push_back(*shape);
    }
    return made;
}

}  // namespace sluice::serve
