// SPDX-License-Identifier: Apache-2.0
// recurrent_units: what the units of one sequence do in one step, after the products, by a CPU's vector units.
//
// A unit's result depends on its numbers alone, not on where it is. Activations are within a few ulp: exp, sigmoid and
// tanh are those of vector_math.hpp.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/recurrent/recurrent_activation.hpp"

namespace sluice::kernels {

// Some panels of 16 units. Rows of the state are [panels][16], products [panels][gates][16] in the order of gates that
// ONNX has. All but `gates` begin with panel 0; `gates` is room for 4 numbers of each unit of these panels.
struct unit_row {
    const float *of_inputs, *of_state;  // products, with biases
    const float* of_reset_state;        // of a GRU whose reset comes first: [panels][16]; then of_state has two gates
    const float* h;
    float* next_h;
    float* c;                       // of an LSTM, in place
    float *update, *reset_h;        // of a GRU whose reset comes first
    const float* peepholes;         // of input, output, forget; or null
    std::size_t peepholes_of_gate;  // from one gate's to the next
    const recurrent_activation* activations;
    bool is_coupled;
    std::size_t first, last;  // panels
    float* gates;
};

struct recurrent_units {
    using function = void (*)(const unit_row& what) noexcept;

    function rnn, lstm;
    function gru_reset_last;
    // With the products of the state: sets update and reset_h. Then, with the product of reset_h, the state.
    function gru_gates, gru_reset_first;
    // In place. `count` is a multiple of 16.
    void (*activate)(const recurrent_activation& what, float* x, std::size_t count) noexcept;
};

extern const recurrent_units recurrent_units_baseline, recurrent_units_avx2, recurrent_units_avx512;

// Those that this processor can run, the best one first.
std::vector<const recurrent_units*> known_recurrent_units();

}  // namespace sluice::kernels
