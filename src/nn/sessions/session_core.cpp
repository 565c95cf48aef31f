// SPDX-License-Identifier: Apache-2.0
#include "nn/sessions/session_core.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "nn/landed_outputs.hpp"
#include "nn/nearest_name.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"

namespace sluice::nn::detail {
namespace {

[[noreturn]] void refuse_step(errc code, const std::string& why) { throw error(code, why, {"session"}); }

std::size_t place_of(const std::string& name, const std::vector<value_info>& among, const std::string& what) {
    const auto found = std::ranges::find(among, name, &value_info::name);
    if (found != among.end()) return static_cast<std::size_t>(found - among.begin());
    std::vector<std::string> known;
    for (const value_info& each : among) known.push_back(each.name);
    const std::string nearest = known.empty() ? "" : "; is " + in_quotes(nearest_name(name, known)) + " meant?";
    refuse_step(errc::invalid_argument, "the network has no " + what + " " + in_quotes(name) + nearest);
}

}  // namespace

void host_value::copy(const view_form& form, const std::byte* from) {
    make(form);
    if (!bytes_.empty()) std::memcpy(bytes_.data(), from, bytes_.size());
}

shaped_run::shaped_run(network of) : of_(std::move(of)) {
    is_shaped_by_numbers_ = of_.inside().front() != nullptr ||
                            has_step(of_.inside().body(), [](const step& each) { return each.what->is_random; });
}

void shaped_run::operator()(std::span<const input_view> inputs, std::span<host_value* const> room) {
    if (is_shaped_by_numbers_ || !known_ || !known_->are(inputs)) {
        prepared_inputs now(of_.inside(), inputs);  // before the outputs are written: inputs may be older outputs
        const std::vector<any_tensor> made = of_(inputs);
        known_.reset();  // until all is there: a failure in between leaves nothing known
        known_made_.clear();
        for (std::size_t i = 0; i < made.size(); ++i) {
            const view_form& form = known_made_.emplace_back(made[i].type(), made[i].shape());
            room[i]->copy(form, made[i].bytes().data());
        }
        if (now.decide_all(of_.inside())) known_ = std::move(now);
        return;
    }
    to_.clear();
    for (std::size_t i = 0; i < room.size(); ++i) {
        room[i]->make(known_made_[i]);
        to_.push_back(room[i]->room());
    }
    of_(inputs, to_);
}

session_core::entry::entry(session_core& in) : in_(&in) {
    if (in.is_entered_.exchange(true, std::memory_order_acquire))
        refuse_step(errc::invalid_argument, "another thread is in this session: each session has one thread at a time");
}

session_core::session_core(network of, session_options options)
    : of_(std::move(of)),
      is_on_host_(of_.inside().on().shares_host_memory()),
      answers_(of_.outputs().size()),
      run_(of_) {
    find_pairs(options);
    find_shapes(options);
    for (std::size_t i = 0; i < of_.inputs().size(); ++i)
        if (!input_states_[i]) step_inputs_.push_back(of_.inputs()[i]);
    if (is_on_host_) return;
    std::vector<step_state> states;
    for (const state_value& each : states_) states.push_back({each.input, each.output});
    on_device_.emplace(of_.inside(), std::move(states));
    for (const state_value& each : states_) {
        if (!of_.is_host_input(each.input)) continue;
        refuse_step(errc::unsupported, "the numbers of the state " + in_quotes(info_of(each).name) +
                                           " decide about shapes, and have to be in host memory, on which " +
                                           of_.inside().on().name() + " has no state");
    }
}

void session_core::find_pairs(const session_options& options) {
    const std::vector<value_info>&inputs = of_.inputs(), &outputs = of_.outputs();
    const std::vector<state_pair> found = options.pairs.empty() ? find_state(inputs, outputs) : options.pairs;
    input_states_.resize(inputs.size());
    output_states_.resize(outputs.size());
    std::vector<std::optional<std::size_t>> outputs_of(inputs.size());
    for (const state_pair& each : found) {
        const std::size_t i = place_of(each.input, inputs, "input"), o = place_of(each.output, outputs, "output");
        if (outputs_of[i])
            refuse_step(errc::invalid_argument, "the input " + in_quotes(each.input) + " is in two pairs");
        if (std::ranges::find(outputs_of, std::optional(o)) != outputs_of.end())
            refuse_step(errc::invalid_argument, "the output " + in_quotes(each.output) + " is in two pairs");
        if (const std::string why = why_not_next(outputs[o], inputs[i]); !why.empty())
            refuse_step(errc::shape_mismatch, why);
        outputs_of[i] = o;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!outputs_of[i]) continue;
        input_states_[i] = output_states_[*outputs_of[i]] = states_.size();
        states_.push_back({.input = i, .output = *outputs_of[i]});
        pairs_.push_back({outputs[*outputs_of[i]].name, inputs[i].name});
    }
}

// Those that are known are there from the beginning.
void session_core::find_shapes(const session_options& options) {
    std::vector<const input_shape*> given(of_.inputs().size());
    for (const input_shape& each : options.shapes) {
        const std::size_t i = place_of(std::string(each.name), of_.inputs(), "input");
        if (given[i] != nullptr)
            refuse_step(errc::invalid_argument, "the shape of the input " + in_quotes(each.name) + " is given twice");
        require_shape(of_.inputs()[i], each.shape);
        bind_lengths(of_.inputs()[i], each.shape, lengths_);
        given[i] = &each;
    }
    for (state_value& each : states_) {
        const input_shape* const its = given[each.input];
        each.shape = its != nullptr ? std::optional(its->shape) : bound_shape(info_of(each), lengths_);
        if (each.shape) make_zero(each, *each.shape, each.now, each.elsewhere);
    }
}

void session_core::make_zero(const state_value& which, const std::vector<std::size_t>& shape, host_value& now,
                             any_tensor& elsewhere) const {
    const io::dtype type = info_of(which).type;
    if (is_on_host_) {
        now.make(view_form(type, shape));
        const output_view room = now.room();
        if (room.form().size_bytes() != 0) std::memset(room.data(), 0, room.form().size_bytes());
    } else {
        std::byte* to = nullptr;
        elsewhere = any_tensor::make_on_host(type, shape, to);
    }
}

void session_core::forget(state_value& which) const noexcept {
    which.now.forget();
    which.elsewhere = {};
}

void session_core::require_inputs(std::span<const input_view> inputs) const {
    if (inputs.size() != step_inputs_.size()) {
        std::string names;
        for (const value_info& each : step_inputs_) names += (names.empty() ? "" : ", ") + in_quotes(each.name);
        refuse_step(errc::shape_mismatch, "a step takes " + std::to_string(step_inputs_.size()) + " inputs (" + names +
                                              "), and is given " + std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].data() == nullptr && inputs[i].form().size_bytes() != 0)
            refuse_step(errc::invalid_argument,
                        "the view of input " + in_quotes(step_inputs_[i].name) + " has no memory");
}

// Gives the states a shape that have none: the lengths are those of the inputs with the same names.
void session_core::open(std::span<const input_view> inputs) {
    if (std::ranges::all_of(states_, [&](const state_value& each) { return has_shape(each); })) return;
    bound_lengths lengths = lengths_;
    for (std::size_t i = 0; i < inputs.size(); ++i) bind_lengths(step_inputs_[i], inputs[i].form().shape(), lengths);
    for (state_value& each : states_) {
        if (has_shape(each)) continue;
        const auto shape = bound_shape(info_of(each), lengths);
        if (!shape) {
            give_up_step();
            refuse_step(errc::shape_mismatch, "neither the model nor the inputs say the whole shape of the state " +
                                                  in_quotes(info_of(each).name) + ", " + text_of(info_of(each)) +
                                                  ": give session_options::shapes");
        }
        make_zero(each, *shape, each.now, each.elsewhere);
        each.is_opened = true;
    }
}

std::span<const input_view> session_core::begin_step(std::span<const input_view> inputs) {
    require_inputs(inputs);
    open(inputs);
    given_.clear();
    std::size_t next = 0;
    for (const auto& its : input_states_) given_.push_back(its ? states_[*its].now.view() : inputs[next++]);
    return given_;
}

std::span<host_value* const> session_core::next() {
    next_.clear();
    for (std::size_t o = 0; o < answers_.size(); ++o)
        next_.push_back(output_states_[o] ? &states_[*output_states_[o]].next : &answers_[o]);
    return next_;
}

void session_core::take_next() noexcept {
    for (state_value& each : states_) {
        std::swap(each.now, each.next);
        each.is_opened = false;
    }
    has_stepped_ = true;
}

void session_core::give_up_step() noexcept {
    for (state_value& each : states_)
        if (std::exchange(each.is_opened, false)) forget(each);
}

void session_core::step(std::span<const input_view> inputs) {
    const entry alone(*this);
    try {
        if (!is_on_host_) return step_on_device(inputs);
        run_(begin_step(inputs), next());
        take_next();
    } catch (...) {
        give_up_step();
        throw;
    }
}

void session_core::step_on_device(std::span<const input_view> inputs) {
    require_inputs(inputs);
    open(inputs);
    std::vector<any_tensor*> states;
    for (state_value& each : states_) states.push_back(&each.elsewhere);
    on_device_->run(inputs, states, [&](const landed_outputs& landed) {
        std::size_t next = 0;
        for (std::size_t o = 0; o < answers_.size(); ++o) {
            if (output_states_[o]) continue;
            const any_tensor& its = landed.outputs[next];
            answers_[o].copy(view_form(its.type(), its.shape()), landed.elements_of(next++));
        }
    });
    for (state_value& each : states_) each.is_opened = false;
    has_stepped_ = true;
}

input_view session_core::output(std::size_t index) const {
    if (index >= answers_.size()) {
        refuse_step(errc::invalid_argument,
                    "there is no output " + std::to_string(index) + "; there are " + std::to_string(answers_.size()));
    }
    if (!has_stepped_) refuse_step(errc::invalid_argument, "there are no outputs before the first step");
    const auto its = output_states_[index];
    if (its && !is_on_host_)
        refuse_step(errc::unsupported, "the output " + in_quotes(of_.outputs()[index].name) + " is state on " +
                                           of_.inside().on().name() + ": state() brings it");
    return its ? states_[*its].now.view() : answers_[index].view();
}

session_state session_core::state() {
    const entry alone(*this);
    std::vector<any_tensor> held;
    for (const state_value& each : states_) {
        if (!has_shape(each)) {
            refuse_step(errc::invalid_argument, "the shape of the state " + in_quotes(info_of(each).name) +
                                                    " is not known before the first step");
        }
        held.push_back(is_on_host_ ? host_copy(each.now.view()) : each.elsewhere);
    }
    if (!is_on_host_) held = bring_to_host(of_.inside(), std::move(held));
    session_state made;
    for (std::size_t i = 0; i < states_.size(); ++i) made.emplace(pairs_[i].input, std::move(held[i]));
    return made;
}

void session_core::set_state(const session_state& state) {
    const entry alone(*this);
    for (const auto& [name, value] : state) {
        const auto its = std::ranges::find(pairs_, name, &state_pair::input);
        if (its == pairs_.end()) refuse_step(errc::invalid_argument, "the session has no state " + in_quotes(name));
        const value_info& info = info_of(states_[static_cast<std::size_t>(its - pairs_.begin())]);
        if (!value || !value.is_on_host())
            refuse_step(errc::invalid_argument, "the state " + in_quotes(name) + " is not in host memory");
        if (value.type() != info.type) {
            refuse_step(errc::shape_mismatch,
                        "the state " + in_quotes(name) + " is " + text_of(info) + ", and is given " + to_string(value));
        }
        require_shape(info, value.shape());
    }
    std::vector<host_value> next(states_.size());
    std::vector<any_tensor> elsewhere(states_.size());
    for (std::size_t i = 0; i < states_.size(); ++i) {
        const auto found = state.find(pairs_[i].input);
        if (found == state.end()) refuse_step(errc::invalid_argument, "the state lacks " + in_quotes(pairs_[i].input));
        const any_tensor& value = found->second;
        if (is_on_host_)
            next[i].copy(view_form(value.type(), value.shape()), value.bytes().data());
        else
            elsewhere[i] = value.with_memory({});
    }
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (is_on_host_)
            states_[i].now = std::move(next[i]);
        else
            states_[i].elsewhere = std::move(elsewhere[i]);
    }
    has_stepped_ = false;
}

void session_core::reset() {
    const entry alone(*this);
    // What may fail comes first.
    std::vector<any_tensor> elsewhere(states_.size());
    for (std::size_t i = 0; i < states_.size(); ++i)
        if (states_[i].shape) make_zero(states_[i], *states_[i].shape, states_[i].next, elsewhere[i]);
    for (std::size_t i = 0; i < states_.size(); ++i) {
        std::swap(states_[i].now, states_[i].next);
        states_[i].elsewhere = std::move(elsewhere[i]);
        if (!states_[i].shape) forget(states_[i]);
    }
    has_stepped_ = false;
}

std::size_t session_core::memory_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const state_value& each : states_)
        bytes += each.now.size_bytes() + each.next.size_bytes() + (each.elsewhere ? each.elsewhere.size_bytes() : 0);
    for (const host_value& each : answers_) bytes += each.size_bytes();
    return bytes + (on_device_ ? on_device_->memory_bytes() : 0);
}

}  // namespace sluice::nn::detail
