// SPDX-License-Identifier: Apache-2.0
#include "nn/sessions/step_graph.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nn/prepared_call.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::detail {
namespace {

bool has_form(const any_tensor& value, const view_form& form) {
    return value && value.type() == form.type() && std::ranges::equal(value.shape(), form.shape());
}

}  // namespace

step_graph::step_graph(const prepared_network& of, std::vector<view_form> inputs, std::vector<step_state> states)
    : of_(of), inputs_(std::move(inputs)), states_(std::move(states)) {
    const stream_lease on(of.on());
    std::vector<sluice::detail::graph_input> given;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (is_state(i)) continue;
        given.push_back({.bytes = inputs_[i].size_bytes(), .is_from_host = true});
        blocks_.push_back(on->allocate_host(inputs_[i].size_bytes(), {"input"}));
    }
    for (way& each : ways_)
        for (const step_state& one : states_)
            each.from.push_back(on->allocate(inputs_[one.input].size_bytes(), {"state"}));
    for (std::size_t from = 0; from < ways_.size(); ++from) {
        way& each = ways_[from];
        each.record = [this, from](sluice::detail::graph_recording& recording) { record(from, recording); };
        each.core = std::make_unique<sluice::detail::compiled_graph>(
            of.on(), given, graph_options{.name = "session step"}, source_location::current());
        each.core->compile(each.record);
        if (each.core->commands().has_host_calls())
            throw error(errc::graph_refused, "the network calls functions of the host", {"session", of.on().name()});
    }
}

bool step_graph::is_state(std::size_t input) const noexcept {
    return std::ranges::find(states_, input, &step_state::input) != states_.end();
}

bool step_graph::fits(std::span<const input_view> inputs, std::span<any_tensor* const> states) const noexcept {
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
        if (!is_state(i) && !(inputs[next++].form() == inputs_[i])) return false;
    for (std::size_t k = 0; k < states_.size(); ++k)
        if (!has_form(*states[k], inputs_[states_[k].input])) return false;
    return true;
}

void step_graph::record(std::size_t from, sluice::detail::graph_recording& recording) {
    std::vector<any_tensor> given(inputs_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
        if (!is_state(i))
            given[i] = any_tensor(inputs_[i].type(), lengths_of(inputs_[i]), storage_ref(recording.input(next++)[0]));
    for (std::size_t k = 0; k < states_.size(); ++k) {
        const view_form& form = inputs_[states_[k].input];
        given[states_[k].input] = any_tensor(form.type(), lengths_of(form), ways_[from].from[k]);
    }
    recording.forget_inputs();
    execution_context& context = recording.context();
    std::vector<operators::device_check> checks;
    std::vector<any_tensor> made = of_.run(&context, operators::place::device, std::move(given), &checks);
    // No command reads a state once its next value is written: the values lie in the other place.
    for (std::size_t k = 0; k < states_.size(); ++k) {
        any_tensor& value = made[states_[k].output];
        if (!has_form(value, inputs_[states_[k].input]) || !value.is_on_device())
            throw error(errc::graph_refused, "a state does not keep its shape", {"session", of_.on().name()});
        sluice::detail::copy_bytes(context.stream(), {"state"}, *ways_[1 - from].from[k], *value.memory(),
                                   value.size_bytes(), copy_direction::device_to_device);
    }
    std::vector<any_tensor> brought;
    for (std::size_t o = 0; o < made.size(); ++o)
        if (std::ranges::find(states_, o, &step_state::output) == states_.end()) brought.push_back(std::move(made[o]));
    landed_outputs landed = submit_landing(of_, context, std::move(brought), std::move(checks));
    recording.add_output(landed.block.get());
    if (recording.is_for_comparison()) return;
    landed.block = {};
    ways_[from].landed = std::move(landed);
}

void step_graph::bring(execution_context& context, const any_tensor& state, storage& to) const {
    if (state.size_bytes() == 0) return;
    if (state.is_on_device()) {
        if (state.memory() != &to)
            sluice::detail::copy_bytes(context.stream(), {"state"}, to, *state.memory(), state.size_bytes(),
                                       copy_direction::device_to_device);
    } else {
        sluice::detail::upload_bytes(context.stream(), to, state.bytes().data(), state.size_bytes(), state.host_owner(),
                                     source_location::current());
    }
}

void step_graph::run(std::span<const input_view> inputs, std::span<any_tensor* const> states,
                     const deliver_outputs& deliver) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].form().size_bytes() != 0)
            std::memcpy(blocks_[i]->data(), inputs[i].data(), inputs[i].form().size_bytes());
    way &its = ways_[now_], &other = ways_[1 - now_];
    std::vector<any_tensor> next;
    for (std::size_t k = 0; k < states_.size(); ++k) {
        const view_form& form = inputs_[states_[k].input];
        next.emplace_back(form.type(), lengths_of(form), other.from[k]);
        other.from[k]->depend_on({});  // a step that failed does not matter any more
    }
    const stream_lease on(of_.on());
    auto submitted = with_context([&](execution_context& context) {
        for (std::size_t k = 0; k < states_.size(); ++k) bring(context, *states[k], *its.from[k]);
        its.core->alone([&] {
            std::vector<sluice::detail::launch_input> feeds;
            feeds.reserve(blocks_.size());
            for (const storage_ref& each : blocks_) feeds.push_back({.memory = each});
            its.landed.block = {};
            its.landed.block = its.core->submit(context, feeds, its.record).outputs[0];
            its.core->forget_outputs();
        });
    });
    sync_on(std::move(submitted), *on);
    its.landed.require_passed_checks();
    deliver(its.landed);
    now_ = 1 - now_;
    for (std::size_t k = 0; k < states_.size(); ++k) *states[k] = std::move(next[k]);
}

std::size_t step_graph::memory_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const way& each : ways_) bytes += each.core->memory_bytes();
    for (const view_form& each : inputs_) bytes += each.size_bytes();
    return bytes;
}

}  // namespace sluice::nn::detail
