// SPDX-License-Identifier: Apache-2.0
// The image of recurrent.hpp.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/recurrent/recurrent_layout.hpp"
#include "kernels/rounded_layers/quantized_product.hpp"

namespace sluice::kernels {
namespace {

// Some gates of a matrix [gates * hidden, inner], and of their biases, which may be null.
struct gate_rows {
    const float *weights, *biases;
    std::size_t first, count;  // gates
};

void pack_panel(const recurrent_form& form, const gate_rows& from, std::size_t inner, std::size_t panel, float* to) {
    float* const biases = to + panels_of(form.hidden) * from.count * panel_columns * inner;
    const std::size_t first = panel * panel_columns, units = std::min(panel_columns, form.hidden - first);
    for (std::size_t g = 0; g < from.count; ++g) {
        const std::size_t at = panel * from.count + g, row = (from.first + g) * form.hidden + first;
        float* const weights = to + at * inner * panel_columns;
        if (units != panel_columns) std::fill_n(weights, inner * panel_columns, 0.0f);
        for (std::size_t u = 0; u < units; ++u)
            for (std::size_t k = 0; k < inner; ++k)
                weights[k * panel_columns + u] = from.weights[(row + u) * inner + k];
        for (std::size_t u = 0; u < panel_columns; ++u)
            biases[at * panel_columns + u] = u < units && from.biases != nullptr ? from.biases[row + u] : 0;
    }
}

// Of a panel of units, which may be null.
void pack_peepholes(const recurrent_form& form, const float* from, std::size_t direction, std::size_t panel,
                    float* to) {
    const std::size_t width = panels_of(form.hidden) * panel_columns;
    for (std::size_t g = 0; g < 3; ++g) {
        for (std::size_t u = panel * panel_columns; u < (panel + 1) * panel_columns; ++u) {
            const bool is_there = from != nullptr && u < form.hidden;
            to[g * width + u] = is_there ? from[(direction * 3 + g) * form.hidden + u] : 0;
        }
    }
}

// A matrix of one direction, [inner, gates * hidden], as a layer with the columns of an image.
struct integer_columns {
    const std::int8_t* weights;
    const float *steps, *biases;  // biases may be null
};
integer_layer layer_of(const recurrent_form& form, const integer_columns& from, std::size_t inner) {
    const std::size_t gates = gates_of(form.kind), given = gates * form.hidden,
                      columns = gates * panels_of(form.hidden) * panel_columns;
    integer_layer made{.in_features = inner,
                       .out_features = columns,
                       .weight = std::vector<std::int8_t>(columns * inner),
                       .steps = std::vector<float>(columns),
                       .bias = std::vector<float>(columns)};
    for (std::size_t column = 0; column < given; ++column) {
        const std::size_t gate = column / form.hidden, unit = column % form.hidden;
        const std::size_t to = (unit / panel_columns * gates + gate) * panel_columns + unit % panel_columns;
        for (std::size_t k = 0; k < inner; ++k) made.weight[to * inner + k] = from.weights[k * given + column];
        made.steps[to] = from.steps[column];
        if (from.biases != nullptr) made.bias[to] = from.biases[column];
    }
    return made;
}

}  // namespace

std::size_t recurrent_image_floats(const recurrent_form& form) noexcept {
    return form.directions * recurrent_layout(form).floats;
}

void pack_units(const recurrent_form& form, const recurrent_weights& from, std::size_t direction, std::size_t panel,
                float* image) {
    const recurrent_layout layout(form);
    const std::size_t gates = gates_of(form.kind), rows = gates * form.hidden;
    const float* const biases = from.biases != nullptr ? from.biases + direction * 2 * rows : nullptr;
    const float* const of_state = from.of_state + direction * rows * form.hidden;
    float* const to = image + direction * layout.floats;
    pack_panel(form, {from.of_inputs + direction * rows * form.inputs, biases, 0, gates}, form.inputs, panel, to);
    const float* const state_biases = biases != nullptr ? biases + rows : nullptr;
    pack_panel(form, {of_state, state_biases, 0, layout.gates_of_state}, form.hidden, panel, to + layout.of_state);
    if (layout.gates_of_state != gates)
        pack_panel(form, {of_state, state_biases, 2, 1}, form.hidden, panel, to + layout.of_reset_state);
    if (form.kind == recurrent_kind::lstm)
        pack_peepholes(form, from.peepholes, direction, panel, to + layout.peepholes);
}

void pack_recurrent(const recurrent_form& form, const recurrent_weights& from, float* image) {
    for (std::size_t d = 0; d < form.directions; ++d)
        for (std::size_t p = 0; p < panels_of(form.hidden); ++p) pack_units(form, from, d, p, image);
}

std::vector<std::byte> recurrent_integer_image(const recurrent_form& form, const recurrent_integers& from) {
    const recurrent_integer_layout layout(form);
    const std::size_t rows = gates_of(form.kind) * form.hidden;
    std::vector<std::byte> image(form.directions * aligned_bytes(layout.bytes));
    for (std::size_t d = 0; d < form.directions; ++d) {
        const float* const biases = from.biases != nullptr ? from.biases + d * 2 * rows : nullptr;
        const float* const state_biases = biases != nullptr ? biases + rows : nullptr;
        const integer_columns of_inputs{from.of_inputs.data() + d * form.inputs * rows,
                                        from.input_steps.data() + d * rows, biases};
        const integer_columns of_state{from.of_state.data() + d * form.hidden * rows,
                                       from.state_steps.data() + d * rows, state_biases};
        const std::vector<std::byte> both =
            integer_image({layer_of(form, of_inputs, form.inputs), layer_of(form, of_state, form.hidden)});
        std::byte* const to = image.data() + d * aligned_bytes(layout.bytes);
        std::memcpy(to, both.data(), both.size());
        std::vector<float> peepholes(3 * panels_of(form.hidden) * panel_columns);
        for (std::size_t p = 0; p < panels_of(form.hidden); ++p)
            pack_peepholes(form, from.peepholes, d, p, peepholes.data());
        std::memcpy(to + layout.peepholes, peepholes.data(), peepholes.size() * sizeof(float));
    }
    return image;
}

}  // namespace sluice::kernels
