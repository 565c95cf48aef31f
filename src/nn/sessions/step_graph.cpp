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

void copy_state(stream on, const any_tensor& from, storage& to) {
    sluice::detail::copy_bytes(on, {"state"}, to, *from.memory(), from.size_bytes(), copy_direction::device_to_device);
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
    for (const step_state& each : states_) {
        const view_form& form = inputs_[each.input];
        for (std::vector<any_tensor>* const to : {&from_, &to_})
            to->emplace_back(form.type(), lengths_of(form), on->allocate(form.size_bytes(), {"state"}));
    }
    core_ = std::make_unique<sluice::detail::compiled_graph>(
        of.on(), std::move(given), graph_options{.name = "session step"}, source_location::current());
    core_->compile(record_);
    if (core_->commands().has_host_calls())
        throw error(errc::graph_refused, "the network calls functions of the host", {"session", of.on().name()});
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

void step_graph::record(sluice::detail::graph_recording& recording) {
    execution_context& context = recording.context();
    std::vector<any_tensor> given(inputs_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
        if (!is_state(i))
            given[i] = any_tensor(inputs_[i].type(), lengths_of(inputs_[i]), storage_ref(recording.input(next++)[0]));
    recording.forget_inputs();
    for (std::size_t k = 0; k < states_.size(); ++k) given[states_[k].input] = from_[k];
    std::vector<operators::device_check> checks;
    std::vector<any_tensor> made = of_.run(&context, operators::place::device, std::move(given), &checks);
    for (std::size_t k = 0; k < states_.size(); ++k) {
        const any_tensor& value = made[states_[k].output];
        if (!has_form(value, inputs_[states_[k].input]) || !value.is_on_device())
            throw error(errc::graph_refused, "a state does not keep its shape", {"session", of_.on().name()});
        copy_state(context.stream(), value, *to_[k].memory());
    }
    std::vector<any_tensor> brought;
    for (std::size_t o = 0; o < made.size(); ++o)
        if (std::ranges::find(states_, o, &step_state::output) == states_.end()) brought.push_back(std::move(made[o]));
    landed_outputs landed = submit_landing(of_, context, std::move(brought), std::move(checks));
    recording.add_output(landed.block.get());
    if (recording.is_for_comparison()) return;
    landed.block = {};
    landed_ = std::move(landed);
}

void step_graph::bring(execution_context& context, const any_tensor& state, storage& to) const {
    if (!state.is_on_device()) {
        sluice::detail::upload_bytes(context.stream(), to, state.bytes().data(), state.size_bytes(), state.host_owner(),
                                     source_location::current());
    } else if (state.memory() != &to) {
        copy_state(context.stream(), state, to);
    }
}

void step_graph::run(std::span<const input_view> inputs, std::span<any_tensor* const> states,
                     const deliver_outputs& deliver) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
        std::memcpy(blocks_[i]->data(), inputs[i].data(), inputs[i].form().size_bytes());
    std::vector<any_tensor> before = from_, next = to_;               // what may fail comes first
    for (const any_tensor& each : to_) each.memory()->depend_on({});  // a step that failed does not matter any more
    const auto take = [&](std::vector<any_tensor>& values) {
        for (std::size_t k = 0; k < states_.size(); ++k) *states[k] = std::move(values[k]);
    };
    const stream_lease on(of_.on());
    bool is_launched = false;
    auto submitted = with_context([&](execution_context& context) {
        for (std::size_t k = 0; k < states_.size(); ++k) bring(context, *states[k], *from_[k].memory());
        core_->alone([&] {
            std::vector<sluice::detail::launch_input> feeds;
            feeds.reserve(blocks_.size());
            for (const storage_ref& each : blocks_) feeds.push_back({.memory = each});
            landed_.block = {};
            is_launched = true;  // submit() may fail after the launch
            landed_.block = core_->submit(context, feeds, record_).outputs[0];
            core_->forget_outputs();
        });
    });
    try {
        sync_on(std::move(submitted), *on);
        landed_.require_passed_checks();
        deliver(landed_);
    } catch (...) {
        if (is_launched) take(before);  // the launch may have written where they were
        throw;
    }
    take(next);
}

std::size_t step_graph::memory_bytes() const noexcept {
    std::size_t bytes = core_->memory_bytes();
    for (const view_form& each : inputs_) bytes += each.size_bytes();
    return bytes;
}

}  // namespace sluice::nn::detail
