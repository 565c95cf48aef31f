// SPDX-License-Identifier: Apache-2.0
// Where the parts of one direction's image are (recurrent.hpp).
#pragma once

#include <cstddef>

#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "kernels/recurrent/recurrent.hpp"

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

// A panel of units of one direction, with all gates.
void pack_units(const recurrent_form& form, const recurrent_weights& from, std::size_t direction, std::size_t panel,
                float* image);

}  // namespace sluice::kernels
