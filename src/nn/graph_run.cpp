// SPDX-License-Identifier: Apache-2.0
#include "nn/graph_run.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "nn/device_constants.hpp"
#include "nn/inference_check.hpp"
#include "nn/joined_steps.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/op/detail/runtime_hooks.hpp"

namespace sluice::nn::detail {

using operators::node_call;
using operators::place;
using operators::run_environment;

namespace {

// Commands keep the name's address, and outlive networks.
std::string_view command_name(const operators::definition& of) { return of.own != nullptr ? "own operator" : of.name; }

// A value that all its readers round, and that passes left in 16 bits: the nodes themselves give f32.
bool stays_narrow(const step& by, const any_tensor& given, const any_tensor& inferred) {
    return (by.stretch != nullptr || by.layers != nullptr) && inferred && inferred.type() == io::dtype::f32 &&
           (given.type() == io::dtype::f16 || given.type() == io::dtype::bf16) &&
           std::ranges::equal(given.shape(), inferred.shape());
}

}  // namespace

std::vector<any_tensor> graph_run::operator()(const prepared_graph& body, std::vector<any_tensor> inputs,
                                              std::vector<any_tensor>* outside, place where) const {
    if (inputs.size() != body.inputs.size()) {
        throw error(errc::bad_file, "an inner graph with " + std::to_string(body.inputs.size()) + " inputs is given " +
                                        std::to_string(inputs.size()));
    }
    run_guard::check();  // also of a graph without steps, which a Loop may run for ever
    std::vector<any_tensor> slots(body.slots);
    operators::held_slots held(memory_, body.slots);
    left_values left;
    for (const auto& [at, value] : body.constants) slots[at] = value;
    for (std::size_t i = 0; i < inputs.size(); ++i) slots[body.inputs[i]] = std::move(inputs[i]);
    for (const auto& each : body.captures) slots[each.inside] = (*outside)[each.outside];
    for (const step& each : body.steps) {
        run_guard::check();
        carry_out(each, slots, where, &left);
        for (const slot one : each.outputs)
            if (one != no_slot) held.hold(one, slots[one]);
        for (const slot one : each.released) {
            held.drop(one);
            slots[one] = {};
            left.erase(one);
        }
    }
    std::vector<any_tensor> outputs;
    for (const slot each : body.outputs) outputs.push_back(slots[each]);
    return outputs;
}

void graph_run::carry_out(const step& each, std::vector<any_tensor>& slots, place where, left_values* left) const {
    const place here = place_of(each, slots, where);
    if (here == place::device && carry_out_ahead(each, slots)) return;
    submit(each, slots, here, left);
    if (here == place::device && is_inference_checked() && each.inner.empty()) require_as_inferred(each, slots);
}

// What follows from constants and shapes alone, such as the mask of causal attention, is computed on the host while the
// commands are submitted: of a prepared network that is once, and a run only copies the result. Says whether it was.
bool graph_run::carry_out_ahead(const step& each, std::vector<any_tensor>& slots) const {
    constexpr std::size_t most_elements = std::size_t{1} << 16;
    if (!each.may_be_ahead) return false;
    for (std::size_t i = 0; i < each.inputs.size(); ++i)
        if (each.inputs[i] != no_slot && !takes_shape_only(each, i) && !slots[each.inputs[i]].is_on_host())
            return false;
    std::vector<any_tensor> shapes(slots.size());
    for (const slot one : each.inputs)
        if (one != no_slot) shapes[one] = slots[one];
    submit(each, shapes, place::nowhere, nullptr);
    std::size_t elements = 0;
    for (const slot one : each.outputs)
        if (one != no_slot && shapes[one]) elements += shapes[one].elements();
    if (elements == 0 || elements > most_elements) return false;
    try {
        submit(each, slots, place::host, nullptr);
    } catch (const error&) {
        return false;  // it has no form for the host, or is refused when and as it would be without this
    }
    return true;
}

void graph_run::require_as_inferred(const step& each, const std::vector<any_tensor>& slots) const {
    std::vector<any_tensor> inferred(slots.size());
    for (const slot one : each.inputs) {
        if (one == no_slot) continue;
        inferred[one] = slots[one];
        if (!slots[one].is_on_device()) continue;
        inferred[one] = slots[one].is_on_host() ? slots[one].with_memory({})
                                                : any_tensor::of_shape(slots[one].type(), slots[one].shape());
    }
    graph_run(model_, nullptr, nullptr).submit(each, inferred, place::nowhere, nullptr);
    for (const slot one : each.outputs) {
        if (one == no_slot || !slots[one]) continue;
        const auto text_of = [](const any_tensor& what) {
            return what ? std::string(io::to_string(what.type())) + " " + to_string(std::span(what.shape()))
                        : std::string("nothing");
        };
        if (text_of(slots[one]) == text_of(inferred[one]) || stays_narrow(each, slots[one], inferred[one])) continue;
        throw error(errc::shape_mismatch, model_.path.string() + ": " + each.label + " gives " + text_of(slots[one]) +
                                              ", and inference says " + text_of(inferred[one]));
    }
}

void graph_run::submit(const step& each, std::vector<any_tensor>& slots, place here, left_values* left) const {
    const operators::run_memory::node_scope charged(memory_);
    std::vector<any_tensor> inputs, outputs(each.outputs.size());
    std::vector<std::shared_ptr<const operators::expression_part>> left_to_it;
    inputs.reserve(each.inputs.size());
    for (std::size_t i = 0; i < each.inputs.size(); ++i) {
        const slot at = each.inputs[i];
        if (at == no_slot) {
            inputs.emplace_back();
            continue;
        }
        if (left != nullptr && left->contains(at)) {
            left_to_it.resize(each.inputs.size());
            left_to_it[i] = left->at(at);
        } else if (here == place::device && !takes_on_host(each, i) && !takes_shape_only(each, i) &&
                   !slots[at].is_on_device() && each.inner.empty()) {
            slots[at] = uploaded(*context_, slots[at]);
        }
        inputs.push_back(slots[at]);
    }
    if (here == place::device) {
        for (const slot one : each.read_inside)
            if (slots[one] && !slots[one].is_on_device()) slots[one] = uploaded(*context_, slots[one]);
    }
    if (each.stretch != nullptr) return carry_out(*each.stretch, each, std::move(inputs), slots, here);
    run_environment environment{.path = &model_.path,
                                .command_name = command_name(*each.what),
                                .context = context_,
                                .run_graph = {},
                                .layers = each.layers.get(),
                                .checks = checks_,
                                .own = each.what->own,
                                .declared = each.declared};
    environment.run_graph = [&](const graph& body, std::vector<any_tensor> given) {
        return (*this)(*each.inner.at(&body), std::move(given), &slots, here);
    };
    std::shared_ptr<const operators::expression_part> left_by_it;
    environment.left_to_us = left_to_it;
    if (left != nullptr && here == place::device && each.leaves_to_next) environment.leave_to_next = &left_by_it;
    node_call call(environment, *each.from, each.position, each.opset, here, inputs, outputs);
    std::optional<sluice::detail::name_scope> name;
    if (here == place::device) name.emplace(*context_, each.label);
    each.what->run(call);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (each.outputs[i] == no_slot) continue;
        if (!outputs[i] && call.wants_output(i)) call.refuse("does not give its output " + std::to_string(i));
        slots[each.outputs[i]] = std::move(outputs[i]);
    }
    if (left_by_it != nullptr) left->emplace(each.outputs[0], std::move(left_by_it));
}

void graph_run::carry_out(const joined_steps& stretch, const step& of, std::vector<any_tensor> inputs,
                          std::vector<any_tensor>& slots, place where) const {
    std::optional<std::vector<any_tensor>> outputs;
    if (where == place::device) {
        const sluice::detail::name_scope name(*context_, of.label);
        outputs = stretch.submit(model_.path, *context_, inputs);
    }
    if (!outputs) {
        stretch.widen(model_.path, where == place::device ? context_ : nullptr, inputs);
        outputs = (*this)(stretch.body(), std::move(inputs), nullptr, where);
    }
    for (std::size_t i = 0; i < of.outputs.size(); ++i) slots[of.outputs[i]] = std::move((*outputs)[i]);
}

// On the host where the outputs are needed there. For shape inference too: numbers that shapes depend on are
// computed.
place graph_run::place_of(const step& each, const std::vector<any_tensor>& slots, place where) const {
    const auto is_there = [&](std::size_t i) {
        const slot at = each.inputs[i];
        return at == no_slot || takes_shape_only(each, i) || slots[at].is_on_host() || !slots[at];
    };
    if (each.gives_shape_only) return place::nowhere;
    if (where == place::host) return place::host;
    if (!each.is_on_host) return where;
    for (std::size_t i = 0; i < each.inputs.size(); ++i) {
        if (!is_there(i)) return where;  // the operator refuses it
    }
    return place::host;
}

}  // namespace sluice::nn::detail
