// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/dense_search.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

bool set_bias(mlp_layer& to, const any_tensor* given, std::size_t most_dimensions) {
    if (given == nullptr || given->shape().empty() || given->shape().size() > most_dimensions) return false;
    if (given->shape().back() != to.out_features || given->elements() != to.out_features) return false;
    to.bias.assign(given->values<float>().begin(), given->values<float>().end());
    return true;
}

void set_weights(mlp_layer& to, std::span<const float> given, bool is_transposed) {
    if (is_transposed) {
        to.weight.assign(given.begin(), given.end());
        return;
    }
    to.weight.resize(given.size());
    for (std::size_t i = 0; i < to.in_features; ++i)
        for (std::size_t k = 0; k < to.out_features; ++k)
            to.weight[k * to.in_features + i] = given[i * to.out_features + k];
}

}  // namespace

bool is_one_node(const step& what) {
    return what.stretch == nullptr && what.layers == nullptr && !what.gives_shape_only && !what.is_on_host;
}

dense_search::dense_search(const prepared_graph& in, const dense_limits& limits)
    : in_(in), limits_(limits), readers_(only_readers(in)) {}

std::vector<found_layer> dense_search::from(std::size_t at) const {
    std::vector<found_layer> found;
    std::size_t bytes = 0;
    while (at != no_step && found.size() < limits_.most_layers) {
        auto next = layer_at(at);
        if (!next || (!found.empty() && in_.steps[at].inputs[0] != found.back().output)) break;
        // The operator refuses a product of other widths.
        if (!found.empty() && next->numbers.in_features != found.back().numbers.out_features) break;
        bytes += next->bytes();
        if (bytes > limits_.most_bytes) break;
        found.push_back(std::move(*next));
        at = reader_of(found.back().output);
    }
    return found;
}

step& dense_search::join(prepared_graph& in, const std::vector<found_layer>& layers, std::vector<bool>& is_left) {
    const std::size_t first = layers.front().steps.front(), last = layers.back().steps.back();
    step& whole = in.steps[first];
    for (const found_layer& each : layers) {
        for (const std::size_t at : each.steps) {
            is_left[at] = at == first;
            if (at != first) note_joined(in.steps[at], whole);
        }
    }
    if (last != first) whole.label += " to " + in.steps[last].label;
    whole.inputs.resize(1);
    whole.outputs = {layers.back().output};
    return whole;
}

void erase_steps(prepared_graph& in, const std::vector<bool>& is_left) {
    std::size_t next = 0;
    std::erase_if(in.steps, [&](const step&) { return !is_left[next++]; });
}

std::size_t dense_search::reader_of(slot value) const {
    const std::size_t found = readers_[value];
    return found == several_steps || in_.needed_on_host[value] ? no_step : found;
}

std::optional<found_layer> dense_search::layer_at(std::size_t at) const {
    const step& product = in_.steps[at];
    const any_tensor* const weights = constant_input(in_, product, 1);
    if (!is_one_node(product) || weights == nullptr || weights->shape().size() != 2 || weights->elements() == 0)
        return {};
    found_layer made;
    made.takes_matrix = is(product, "Gemm");
    if (!made.takes_matrix && !is(product, "MatMul")) return {};
    const bool is_transposed = made.takes_matrix && integer(product, "transB", 0) != 0;
    made.numbers.in_features = weights->shape()[is_transposed ? 1 : 0];
    made.numbers.out_features = weights->shape()[is_transposed ? 0 : 1];
    if (std::max(made.numbers.in_features, made.numbers.out_features) > limits_.widest) return {};
    if (made.takes_matrix && !take_bias_of_gemm(product, made)) return {};
    take(at, made);
    if (!made.takes_matrix) take_addition(made);
    if (const auto after = activation_of(made.output)) {
        made.numbers.after = after->what;
        take(after->step, made);
    }
    set_weights(made.numbers, weights->values<float>(), is_transposed);
    return made;
}

void dense_search::take(std::size_t at, found_layer& to) const {
    to.steps.push_back(at);
    to.output = in_.steps[at].outputs[0];
}

// Whether the product is one that a layer can do.
bool dense_search::take_bias_of_gemm(const step& product, found_layer& to) const {
    if (integer(product, "transA", 0) != 0 || real(product, "alpha", 1) != 1) return false;
    if (product.inputs.size() < 3 || product.inputs[2] == no_slot) return true;
    return real(product, "beta", 1) == 1 && set_bias(to.numbers, constant_input(in_, product, 2), 2);
}
// An addition of one number for each column.
void dense_search::take_addition(found_layer& to) const {
    const std::size_t at = next_step(to.output, "Add", 7);
    if (at == no_step) return;
    const std::size_t bias = in_.steps[at].inputs[0] == to.output ? 1 : 0;
    if (set_bias(to.numbers, constant_input(in_, in_.steps[at], bias), 1)) take(at, to);
}
std::optional<found_activation> dense_search::activation_of(slot value) const {
    constexpr std::pair<std::string_view, activation> known[] = {{"Relu", activation::relu},
                                                                 {"Sigmoid", activation::sigmoid},
                                                                 {"Tanh", activation::tanh},
                                                                 {"Gelu", activation::gelu}};
    for (const auto& [op, what] : known) {
        const std::size_t at = next_step(value, op, 6);
        if (at != no_step && text(in_.steps[at], "approximate", "none") == "none") return found_activation{at, what};
    }
    return {};
}

std::size_t dense_search::next_step(slot after, std::string_view op, std::int64_t since) const {
    const std::size_t at = reader_of(after);
    if (at == no_step) return no_step;
    const step& next = in_.steps[at];
    return is(next, op) && next.opset >= since && is_one_node(next) ? at : no_step;
}

}  // namespace sluice::nn::detail
