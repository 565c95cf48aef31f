// SPDX-License-Identifier: Apache-2.0
// Where the parts of one direction's image are (recurrent.hpp).
#pragma once

#include <cstddef>

#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "kernels/recurrent/recurrent.hpp"
#include "kernels/rounded_layers/rounded_layers.hpp"

namespace sluice::kernels {

struct recurrent_layout {
    explicit recurrent_layout(const recurrent_form& form) noexcept
        : gates_of_state(form.kind == recurrent_kind::gru_reset_first ? 2 : gates_of(form.kind)) {
        const std::size_t units = panels_of(form.hidden) * panel_columns, gates = gates_of(form.kind);
        of_state = units * gates * (form.inputs + 1);
        of_reset_state = of_state + units * gates_of_state * (form.hidden + 1);
        peepholes = of_reset_state + units * (gates - gates_of_state) * (form.hidden + 1);
        floats = peepholes + (form.kind == recurrent_kind::lstm ? 3 * units : 0);
    }

    std::size_t gates_of_state;  // whose products with the state come first
    std::size_t of_state, of_reset_state, peepholes, floats;
};

// The same of weights of 8 bits, in bytes.
struct recurrent_integer_layout {
    explicit recurrent_integer_layout(const recurrent_form& form)
        : columns(gates_of(form.kind) * panels_of(form.hidden) * panel_columns),
          of_inputs(places_of(rounded_type::int8, form.inputs, columns)),
          of_state(places_of(rounded_type::int8, form.hidden, columns)),
          state(of_inputs.end),
          peepholes(state + of_state.end),
          bytes(peepholes + 3 * panels_of(form.hidden) * panel_columns * sizeof(float)) {}

    std::size_t columns;
    rounded_layer_places of_inputs, of_state;  // from the begin of each
    std::size_t state, peepholes, bytes;
};

// A panel of units of one direction, with all gates.
void pack_units(const recurrent_form& form, const recurrent_weights& from, std::size_t direction, std::size_t panel,
                float* image);

}  // namespace sluice::kernels
