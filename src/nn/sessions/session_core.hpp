// SPDX-License-Identifier: Apache-2.0
// session_core: what nn::session is, and what nn::session_batch steps: the state, the outputs, and the way between.
//
// Invariant: the state changes only in take_next, reset and set_state, which fail before they change anything.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nn/prepared_call.hpp"
#include "nn/sessions/session_on_device.hpp"
#include "nn/sessions/state_shapes.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/session.hpp"

namespace sluice::nn::detail {

// Elements in host memory, of a type and a shape that may change.
class host_value {
public:
    bool is_known() const noexcept { return form_.has_value(); }
    const view_form& form() const { return *form_; }
    std::size_t size_bytes() const noexcept { return bytes_.size(); }

    // Elements of this form, with any contents. Allocates where it has never been as large.
    void make(const view_form& form) {
        bytes_.resize(form.size_bytes());
        form_ = form;
    }
    void copy(const view_form& form, const std::byte* from);
    void forget() noexcept { form_.reset(); }  // the memory stays

    input_view view() const { return {form_->type(), bytes_.data(), form_->shape()}; }
    output_view room() { return {form_->type(), bytes_.data(), form_->shape()}; }

private:
    std::optional<view_form> form_;
    std::vector<std::byte> bytes_;
};

// Runs a network and remembers the shapes that its outputs had, so that the next run with inputs of the same shapes
// writes them where they belong.
class shaped_run {
public:
    explicit shaped_run(network of);

    // `room` gets the outputs. After an error its elements have no meaning.
    void operator()(std::span<const input_view> inputs, std::span<host_value* const> room);

private:
    network of_;
    bool is_shaped_by_numbers_;             // shapes of outputs follow from what a front gives, or from chance
    std::optional<prepared_inputs> known_;  // inputs of the latest run
    std::vector<view_form> known_made_;     // its outputs
    std::vector<output_view> to_;
};

class session_core {
public:
    // Until its end no other thread enters the session.
    class entry {
    public:
        // Throws errc::invalid_argument while another thread is in.
        explicit entry(session_core& in);
        entry(entry&& from) noexcept : in_(std::exchange(from.in_, nullptr)) {}
        entry& operator=(entry&&) = delete;  // it is given back at its own end
        ~entry() {
            if (in_ != nullptr) in_->is_entered_.store(false, std::memory_order_release);
        }

    private:
        session_core* in_;
    };

    session_core(network of, session_options options);
    session_core(const session_core&) = delete;  // another thread may be in it
    session_core& operator=(const session_core&) = delete;

    const network& of() const noexcept { return of_; }
    const std::vector<state_pair>& pairs() const noexcept { return pairs_; }
    const std::vector<value_info>& step_inputs() const noexcept { return step_inputs_; }
    // Of a network's input the number of its state, and of an output; none: it is not part of the state.
    std::optional<std::size_t> state_of_input(std::size_t input) const { return input_states_[input]; }
    std::optional<std::size_t> state_of_output(std::size_t output) const { return output_states_[output]; }

    void step(std::span<const input_view> inputs);
    input_view output(std::size_t index) const;
    session_state state();
    void set_state(const session_state& state);
    void reset();
    std::size_t memory_bytes() const noexcept;

    // A step in parts, on a CPU: all inputs of the network, the places of its outputs, and the change to the next
    // state. The views are valid until then.
    std::span<const input_view> begin_step(std::span<const input_view> inputs);
    std::span<host_value* const> next();
    void take_next() noexcept;
    // Instead of take_next: states that the inputs have given a shape do not keep it.
    void give_up_step() noexcept;

private:
    struct state_value {
        std::size_t input = 0, output = 0;
        std::optional<std::vector<std::size_t>> shape = {};  // at first; none: the first step's inputs say it
        host_value now = {}, next = {};
        any_tensor elsewhere = {};  // instead of them, where the device does not share the host's memory
        bool is_opened = false;     // by the step that has begun
    };

    void find_pairs(const session_options& options);
    void find_shapes(const session_options& options);
    // Zeros of the state's type, where states of this device are.
    void make_zero(const state_value& which, const std::vector<std::size_t>& shape, host_value& now,
                   any_tensor& elsewhere) const;
    bool has_shape(const state_value& which) const {
        return is_on_host_ ? which.now.is_known() : bool(which.elsewhere);
    }
    void forget(state_value& which) const noexcept;
    void open(std::span<const input_view> inputs);
    void require_inputs(std::span<const input_view> inputs) const;
    void step_on_device(std::span<const input_view> inputs);
    const value_info& info_of(const state_value& which) const { return of_.inputs()[which.input]; }

    const network of_;
    const bool is_on_host_;                  // the state
    std::optional<device_steps> on_device_;  // where it is not
    std::vector<state_pair> pairs_;
    std::vector<value_info> step_inputs_;
    std::vector<std::optional<std::size_t>> input_states_, output_states_;
    std::vector<state_value> states_;
    bound_lengths lengths_;            // that the options say
    std::vector<host_value> answers_;  // of each output that is no state
    bool has_stepped_ = false;         // since the state was set
    shaped_run run_;
    std::vector<input_view> given_;
    std::vector<host_value*> next_;
    std::atomic<bool> is_entered_{false};
};

}  // namespace sluice::nn::detail
