// SPDX-License-Identifier: Apache-2.0
#include "nn/sessions/session_on_device.hpp"

#include <algorithm>
#include <utility>

#include "nn/prepared_call.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::detail {
namespace {

constexpr std::size_t repeats_before_graph = 2;

}  // namespace

void device_steps::run(std::span<const input_view> inputs, std::span<any_tensor* const> states,
                       const deliver_outputs& deliver) {
    of_.on().throw_if_refusing();
    sluice::detail::require_may_wait(of_.on(), "session");
    if (graph_ == nullptr || !graph_->fits(inputs, states)) note(inputs, states);
    if (graph_ == nullptr || !graph_->fits(inputs, states)) return submit(inputs, states, deliver);
    latest_.clear();
    graph_->run(inputs, states, deliver);
}

// Makes a graph where the same shapes come again and again. Where that fails, the step says what is wrong, if anything
// is.
void device_steps::note(std::span<const input_view> inputs, std::span<any_tensor* const> states) {
    const auto is_large = [](const any_tensor* each) { return each->shape().size() > view_form::most_dimensions; };
    if (std::ranges::any_of(states, is_large)) return;
    std::vector<view_form> forms = forms_of(inputs, states);
    if (forms != latest_) {
        latest_ = std::move(forms);
        repeats_ = 0;
        return;
    }
    if (++repeats_ != repeats_before_graph || !why_not_prepared(of_, prepared_inputs(forms)).empty()) return;
    try {
        auto made = std::make_unique<step_graph>(of_, std::move(forms), states_);
        if (made->memory_bytes() <= most_bytes_) graph_ = std::move(made);
    } catch (const error&) {  // NOLINT(bugprone-empty-catch): said above
    }
}

std::vector<view_form> device_steps::forms_of(std::span<const input_view> inputs,
                                              std::span<any_tensor* const> states) const {
    std::vector<view_form> made;
    std::size_t next = 0;
    for (std::size_t i = 0; i < of_.from().body.inputs.size(); ++i) {
        const auto its = std::ranges::find(states_, i, &step_state::input);
        if (its == states_.end()) {
            made.push_back(inputs[next++].form());
        } else {
            const any_tensor& state = *states[static_cast<std::size_t>(its - states_.begin())];
            made.emplace_back(state.type(), state.shape());
        }
    }
    return made;
}

void device_steps::submit(std::span<const input_view> inputs, std::span<any_tensor* const> states,
                          const deliver_outputs& deliver) {
    std::vector<any_tensor> given(of_.from().body.inputs.size());
    for (std::size_t k = 0; k < states_.size(); ++k) given[states_[k].input] = *states[k];
    std::size_t next = 0;
    for (any_tensor& each : given)
        if (!each) each = host_copy(inputs[next++]);
    const stream_lease on(of_.on());
    std::vector<any_tensor> made;
    landed_outputs landed;
    auto submitted = with_context([&](execution_context& context) {
        std::vector<operators::device_check> checks;
        made = of_.run(&context, operators::place::device, std::move(given), &checks);
        std::vector<any_tensor> brought;
        for (std::size_t o = 0; o < made.size(); ++o)
            if (std::ranges::find(states_, o, &step_state::output) == states_.end()) brought.push_back(made[o]);
        landed = submit_landing(of_, context, std::move(brought), std::move(checks));
    });
    sync_on(std::move(submitted), *on);
    landed.require_passed_checks();
    deliver(landed);
    for (std::size_t k = 0; k < states_.size(); ++k) *states[k] = std::move(made[states_[k].output]);
}

std::vector<any_tensor> bring_to_host(const prepared_network& of, std::vector<any_tensor> values) {
    of.on().throw_if_refusing();
    sluice::detail::require_may_wait(of.on(), "session");
    const stream_lease on(of.on());
    landed_outputs landed;
    auto submitted =
        with_context([&](execution_context& context) { landed = submit_landing(of, context, std::move(values), {}); });
    sync_on(std::move(submitted), *on);
    return landed();
}

}  // namespace sluice::nn::detail
