// SPDX-License-Identifier: Apache-2.0
// recurrent_block: some sequences of one direction, and the memory that they need on their way through the steps.
#pragma once

#include <cstddef>

#include "kernels/recurrent/recurrent_layout.hpp"
#include "kernels/recurrent/recurrent_units.hpp"
#include "kernels/rounded_layers/rounded_layers.hpp"

namespace sluice::kernels {

struct panel_range {
    std::size_t first, last;
};

class recurrent_block {
public:
    // The memory of a block with this number of sequences, or fewer.
    static std::size_t scratch_floats(const recurrent_form& form, std::size_t sequences) noexcept;
    // With weights of 8 bits, what each thread that computes units of such a block needs besides: room for states.
    static std::size_t room_bytes(const recurrent_form& form, std::size_t sequences) noexcept;
    // Of how many steps the inputs are multiplied at once.
    static std::size_t steps_at_once(const recurrent_form& form, std::size_t sequences) noexcept;

    // Of a call with weights of 8 bits, `image` is null, and `of_x` says how its inputs are quantized; other calls have
    // no `room`.
    recurrent_block(const recurrent_call& call, const float* image, row_quantity of_x, std::size_t direction,
                    std::size_t first_sequence, std::size_t sequences, float* scratch, std::byte* room) noexcept;

    // The inputs of some steps, from `first` on, are brought together.
    void gather(std::size_t first) const noexcept;
    // Their products with the weights; and the states before the first step.
    void multiply_inputs(std::size_t first, const panel_range& of) const noexcept;
    // One step: of all but a GRU whose reset comes first all of it, of that the gates.
    void step(std::size_t step, const panel_range& of) const noexcept;
    // The rest of it.
    void finish_step(std::size_t step, const panel_range& of) const noexcept;

private:
    struct turn {
        std::size_t position;
        bool is_over;  // the sequence ended before
    };
    turn turn_of(std::size_t sequence, std::size_t step) const noexcept;
    const float* h_before(std::size_t step) const noexcept { return h_[step % 2]; }
    float* h_after(std::size_t step) const noexcept { return h_[(step + 1) % 2]; }
    void multiply_state(const float* x, bool is_zero, const float* image, std::size_t gates, const panel_range& of,
                        float* out, std::size_t stride) const noexcept;
    void quantize_inputs(std::size_t first) const noexcept;
    // Whether the state of the sequence before the step counts.
    bool has_state(std::size_t sequence, std::size_t step) const noexcept {
        return step == 0 || !turn_of(sequence, step - 1).is_over;
    }
    row_quantity quantity_of_states(std::size_t step) const noexcept;
    // Some states before the step, into the room; rows of padded_inputs(hidden) bytes.
    void quantize_states(std::size_t step, row_quantity by, std::size_t first, std::size_t count) const noexcept;
    void multiply_integer_state(std::size_t step, const panel_range& of) const noexcept;
    unit_row row_of(std::size_t sequence, std::size_t step, const panel_range& of) const noexcept;
    void run_units(recurrent_units::function run, std::size_t step, const panel_range& of,
                   bool gives_state) const noexcept;
    void give(std::size_t sequence, std::size_t step, const turn& at, const panel_range& of) const noexcept;

    const recurrent_call& call_;
    const recurrent_layout layout_;
    const float* const image_;         // of the direction
    const std::byte* const integers_;  // likewise; or null
    const row_quantity of_x_;
    const float* const peepholes_;  // or null
    const std::size_t direction_, first_, sequences_, at_once_, gates_;
    // Strides of rows.
    const std::size_t units_, state_, input_products_, state_products_;
    float *x_, *of_inputs_, *of_state_, *of_reset_, *h_[2], *c_, *update_, *reset_h_, *unit_room_;
    std::byte* const room_;  // or null
};

// How a call with weights of 8 bits quantizes its inputs.
row_quantity quantity_of_inputs(const recurrent_call& call) noexcept;

// The functions for this processor.
const recurrent_units& best_recurrent_units();

}  // namespace sluice::kernels
