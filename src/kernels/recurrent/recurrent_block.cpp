// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/recurrent_block.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace sluice::kernels {
namespace {

// The products of the inputs are of this number of rows, if there are as many.
constexpr std::size_t rows_at_once = rows_of_cpu_block;

bool resets_first(const recurrent_form& form) { return form.kind == recurrent_kind::gru_reset_first; }

std::size_t padded_units(const recurrent_form& form) { return panels_of(form.hidden) * panel_columns; }

std::size_t length_of(const recurrent_call& call, std::size_t sequence) {
    if (call.lengths == nullptr) return call.form.steps;
    const std::int64_t given = call.lengths[sequence];
    return given < 0 ? 0 : std::min(static_cast<std::size_t>(given), call.form.steps);
}
std::size_t longest_of(const recurrent_call& call) {
    std::size_t longest = 0;
    for (std::size_t s = 0; s < call.form.batch; ++s) longest = std::max(longest, length_of(call, s));
    return longest;
}

// A row has few numbers for a kernel with tiles.
const rounded_kernel& integer_kernel() {
    static const rounded_kernel& best = *std::ranges::find_if(
        rounded_kernels(rounded_type::int8), [](const rounded_kernel& each) { return !each.has_tiles; });
    return best;
}
std::size_t bytes_of_row(std::size_t inner) { return padded_inputs(rounded_type::int8, inner); }

// Rows of bytes with one quantity, times some panels of a layer.
struct integer_rows {
    const std::byte* rows;
    std::size_t inner, count;
    row_quantity quantity;
    const std::byte* layer;
    rounded_layer_places places;
    panel_range panels;
    float* out;  // of the layer's first column
    std::size_t out_stride;
};
void multiply_integers(const integer_rows& of) {
    const std::size_t row_bytes = bytes_of_row(of.inner), column = of.panels.first * rounded_panel;
    std::array<row_quantity, rounded_block> quantities;
    quantities.fill(of.quantity);
    for (std::size_t row = 0; row < of.count; row += rounded_block) {
        integer_kernel().multiply({
            .rows = of.rows + row * row_bytes,
            .row_bytes = row_bytes,
            .count = std::min(rounded_block, of.count - row),
            .weights = of.layer + column * row_bytes,
            .groups = row_bytes / group_of(rounded_type::int8),
            .panels = of.panels.last - of.panels.first,
            .biases = reinterpret_cast<const float*>(of.layer + of.places.biases) + column,
            .steps = reinterpret_cast<const float*>(of.layer + of.places.steps) + column,
            .column_sums = reinterpret_cast<const std::int32_t*>(of.layer + of.places.column_sums) + column,
            .quantities = quantities.data(),
            .after = activation::none,
            .out = of.out + row * of.out_stride + column,
            .out_stride = of.out_stride,
        });
    }
}

}  // namespace

std::vector<const recurrent_units*> known_recurrent_units() {
    std::vector<const recurrent_units*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) known.push_back(&recurrent_units_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&recurrent_units_avx2);
#endif
    known.push_back(&recurrent_units_baseline);
    return known;
}

const recurrent_units& best_recurrent_units() {
    static const recurrent_units& best = *known_recurrent_units().front();
    return best;
}

std::size_t recurrent_block::steps_at_once(const recurrent_form& form, std::size_t sequences) noexcept {
    return std::min(form.steps, std::max<std::size_t>(1, rows_at_once / sequences));
}

std::size_t recurrent_block::scratch_floats(const recurrent_form& form, std::size_t sequences) noexcept {
    const std::size_t units = padded_units(form), state = cpu_stride(form.hidden);
    // Fewer sequences may have more rows at once.
    const std::size_t rows = std::min(form.steps * sequences, std::max(rows_at_once, sequences));
    return rows * (form.inputs + cpu_stride(gates_of(form.kind) * units)) +
           sequences * (cpu_stride(recurrent_layout(form).gates_of_state * units) + 6 * state) + 4 * units;
}

std::size_t recurrent_block::room_bytes(const recurrent_form& form, std::size_t sequences) noexcept {
    return aligned_bytes(std::min(sequences, rounded_block) * bytes_of_row(form.hidden));
}

row_quantity quantity_of_inputs(const recurrent_call& call) noexcept {
    number_range range;
    integer_kernel().widen(range, call.x, longest_of(call) * call.form.batch * call.form.inputs);
    return quantity_of(range);
}

namespace {

const float* peepholes_of(const recurrent_call& call, const float* image, const std::byte* integers) {
    if (call.has_peepholes == 0) return nullptr;
    if (integers == nullptr) return image + recurrent_layout(call.form).peepholes;
    return reinterpret_cast<const float*>(integers + recurrent_integer_layout(call.form).peepholes);
}

}  // namespace

recurrent_block::recurrent_block(const recurrent_call& call, const float* image, row_quantity of_x,
                                 std::size_t direction, std::size_t first_sequence, std::size_t sequences,
                                 float* scratch, std::byte* room) noexcept
    : call_(call),
      layout_(call.form),
      image_(image != nullptr ? image + direction * layout_.floats : nullptr),
      integers_(call.integers != nullptr
                    ? call.integers + direction * aligned_bytes(recurrent_integer_layout(call.form).bytes)
                    : nullptr),
      of_x_(of_x),
      peepholes_(peepholes_of(call, image_, integers_)),
      direction_(direction),
      first_(first_sequence),
      sequences_(sequences),
      at_once_(steps_at_once(call.form, sequences)),
      gates_(gates_of(call.form.kind)),
      units_(padded_units(call.form)),
      state_(cpu_stride(call.form.hidden)),
      input_products_(cpu_stride(gates_ * units_)),
      state_products_(cpu_stride(layout_.gates_of_state * units_)),
      room_(room) {
    const auto take = [&](std::size_t count) {
        float* const taken = scratch;
        scratch += count;
        return taken;
    };
    of_inputs_ = take(at_once_ * sequences * input_products_);
    of_state_ = take(sequences * state_products_);
    of_reset_ = take(sequences * state_);
    h_[0] = take(sequences * state_);
    h_[1] = take(sequences * state_);
    c_ = take(sequences * state_);
    update_ = take(sequences * state_);
    reset_h_ = take(sequences * state_);
    unit_room_ = take(4 * units_);
    x_ = take(at_once_ * sequences * call.form.inputs);
}

recurrent_block::turn recurrent_block::turn_of(std::size_t sequence, std::size_t step) const noexcept {
    const std::size_t length = length_of(call_, first_ + sequence);
    const bool is_over = step >= length, is_reversed = (call_.reversed >> direction_ & 1) != 0;
    return {!is_over && is_reversed ? length - 1 - step : step, is_over};
}

// What no sequence reads is 0.
void recurrent_block::quantize_inputs(std::size_t first) const noexcept {
    const std::size_t last = std::min(first + at_once_, call_.form.steps), inputs = call_.form.inputs;
    const std::size_t row_bytes = bytes_of_row(inputs);
    auto* to = reinterpret_cast<std::byte*>(x_);
    for (std::size_t t = first; t < last; ++t) {
        for (std::size_t s = 0; s < sequences_; ++s, to += row_bytes) {
            const turn at = turn_of(s, t);
            std::memset(to, 0, row_bytes);
            if (at.is_over) continue;
            const float* const from =
                call_.x + at.position * call_.x_strides.of_step + (first_ + s) * call_.x_strides.of_batch;
            integer_kernel().quantize(from, inputs, of_x_, to);
        }
    }
}

row_quantity recurrent_block::quantity_of_states(std::size_t step) const noexcept {
    number_range range;
    for (std::size_t s = 0; s < sequences_; ++s)
        if (has_state(s, step)) integer_kernel().widen(range, h_before(step) + s * state_, call_.form.hidden);
    return quantity_of(range);
}

void recurrent_block::quantize_states(std::size_t step, row_quantity by, std::size_t first,
                                      std::size_t count) const noexcept {
    const std::size_t hidden = call_.form.hidden, row_bytes = bytes_of_row(hidden);
    std::byte* to = room_;
    for (std::size_t s = first; s < first + count; ++s, to += row_bytes) {
        std::memset(to, 0, row_bytes);
        if (has_state(s, step)) integer_kernel().quantize(h_before(step) + s * state_, hidden, by, to);
    }
}

void recurrent_block::gather(std::size_t first) const noexcept {
    if (integers_ != nullptr) return quantize_inputs(first);
    const std::size_t last = std::min(first + at_once_, call_.form.steps);
    float* to = x_;
    for (std::size_t t = first; t < last; ++t) {
        for (std::size_t s = 0; s < sequences_; ++s, to += call_.form.inputs) {
            const float* const from =
                call_.x + turn_of(s, t).position * call_.x_strides.of_step + (first_ + s) * call_.x_strides.of_batch;
            std::copy_n(from, call_.form.inputs, to);
        }
    }
}

void recurrent_block::multiply_inputs(std::size_t first, const panel_range& of) const noexcept {
    const std::size_t steps = std::min(at_once_, call_.form.steps - first);
    if (integers_ != nullptr) {
        multiply_integers({.rows = reinterpret_cast<const std::byte*>(x_),
                           .inner = call_.form.inputs,
                           .count = steps * sequences_,
                           .quantity = of_x_,
                           .layer = integers_,
                           .places = recurrent_integer_layout(call_.form).of_inputs,
                           .panels = {of.first * gates_, of.last * gates_},
                           .out = of_inputs_,
                           .out_stride = input_products_});
    } else {
        best_cpu_loops().panels({.x = x_,
                                 .x_stride = call_.form.inputs,
                                 .rows = steps * sequences_,
                                 .image = image_,
                                 .in = call_.form.inputs,
                                 .columns = gates_ * units_,
                                 .after = activation::none,
                                 .out = of_inputs_,
                                 .out_stride = input_products_,
                                 .first_panel = of.first * gates_,
                                 .last_panel = of.last * gates_});
    }
    if (first != 0) return;
    const std::size_t begin = of.first * panel_columns, end = of.last * panel_columns;
    const std::size_t given = std::min(end, call_.form.hidden);
    for (std::size_t s = 0; s < sequences_; ++s) {
        const auto begin_with = [&](const float* initial, float* to) {
            std::fill(to + s * state_ + begin, to + s * state_ + end, 0.0f);
            if (initial == nullptr) return;
            initial += direction_ * call_.state_strides.of_direction + (first_ + s) * call_.state_strides.of_batch;
            std::copy(initial + begin, initial + given, to + s * state_ + begin);
        };
        begin_with(call_.initial_h, h_[0]);
        if (call_.form.kind == recurrent_kind::lstm) begin_with(call_.initial_c, c_);
    }
}

// A state that is not given is 0, also where it is multiplied by weights that are not finite: the biases are left.
void recurrent_block::multiply_state(const float* x, bool is_zero, const float* image, std::size_t gates,
                                     const panel_range& of, float* out, std::size_t stride) const noexcept {
    const std::size_t inner = call_.form.hidden;
    best_cpu_loops().panels({.x = x,
                             .x_stride = state_,
                             .rows = sequences_,
                             .image = is_zero ? image + gates * units_ * inner : image,
                             .in = is_zero ? 0 : inner,
                             .columns = gates * units_,
                             .after = activation::none,
                             .out = out,
                             .out_stride = stride,
                             .first_panel = of.first * gates,
                             .last_panel = of.last * gates});
}

// Every part of a step quantizes all states: that is little next to the product.
void recurrent_block::multiply_integer_state(std::size_t step, const panel_range& of) const noexcept {
    const recurrent_integer_layout layout(call_.form);
    const row_quantity quantity = quantity_of_states(step);
    for (std::size_t first = 0; first < sequences_; first += rounded_block) {
        const std::size_t count = std::min(rounded_block, sequences_ - first);
        quantize_states(step, quantity, first, count);
        multiply_integers({.rows = room_,
                           .inner = call_.form.hidden,
                           .count = count,
                           .quantity = quantity,
                           .layer = integers_ + layout.state,
                           .places = layout.of_state,
                           .panels = {of.first * gates_, of.last * gates_},
                           .out = of_state_ + first * state_products_,
                           .out_stride = state_products_});
    }
}

unit_row recurrent_block::row_of(std::size_t s, std::size_t step, const panel_range& of) const noexcept {
    return {.of_inputs = of_inputs_ + (step % at_once_ * sequences_ + s) * input_products_,
            .of_state = of_state_ + s * state_products_,
            .of_reset_state = of_reset_ + s * state_,
            .h = h_before(step) + s * state_,
            .next_h = h_after(step) + s * state_,
            .c = c_ + s * state_,
            .update = update_ + s * state_,
            .reset_h = reset_h_ + s * state_,
            .peepholes = peepholes_,
            .peepholes_of_gate = units_,
            .activations = call_.activations[direction_],
            .is_coupled = call_.is_coupled != 0,
            .first = of.first,
            .last = of.last,
            .gates = unit_room_ + 4 * of.first * panel_columns};
}

void recurrent_block::give(std::size_t s, std::size_t step, const turn& at, const panel_range& of) const noexcept {
    const std::size_t begin = of.first * panel_columns, end = std::min(of.last * panel_columns, call_.form.hidden);
    const float* const made = h_after(step) + s * state_;
    if (call_.y != nullptr) {
        float* const to = call_.y + at.position * call_.y_strides.of_step + direction_ * call_.y_strides.of_direction +
                          (first_ + s) * call_.y_strides.of_batch;
        if (at.is_over) {
            std::fill(to + begin, to + end, 0.0f);
        } else {
            std::copy(made + begin, made + end, to + begin);
        }
    }
    if (step + 1 != call_.form.steps) return;
    const std::size_t state =
        direction_ * call_.state_strides.of_direction + (first_ + s) * call_.state_strides.of_batch;
    if (call_.last_h != nullptr) std::copy(made + begin, made + end, call_.last_h + state + begin);
    if (call_.last_c != nullptr)
        std::copy(c_ + s * state_ + begin, c_ + s * state_ + end, call_.last_c + state + begin);
}

void recurrent_block::run_units(recurrent_units::function run, std::size_t step, const panel_range& of,
                                bool gives_state) const noexcept {
    for (std::size_t s = 0; s < sequences_; ++s) {
        const turn at = turn_of(s, step);
        const unit_row row = row_of(s, step, of);
        if (!at.is_over) {
            run(row);
        } else if (integers_ != nullptr && step == 0) {  // a sequence without steps
            std::fill(row.next_h + of.first * panel_columns, row.next_h + of.last * panel_columns, 0.0f);
            std::fill(row.c + of.first * panel_columns, row.c + of.last * panel_columns, 0.0f);
        } else {  // the state stays
            const std::size_t begin = of.first * panel_columns, end = of.last * panel_columns;
            float* const to = gives_state ? row.next_h : row.reset_h;
            std::copy(row.h + begin, row.h + end, to + begin);
        }
        if (gives_state) give(s, step, at, of);
    }
}

void recurrent_block::step(std::size_t step, const panel_range& of) const noexcept {
    const recurrent_units& units = best_recurrent_units();
    const bool is_zero = step == 0 && call_.initial_h == nullptr;
    if (integers_ != nullptr) {
        multiply_integer_state(step, of);
    } else {
        multiply_state(h_before(step), is_zero, image_ + layout_.of_state, layout_.gates_of_state, of, of_state_,
                       state_products_);
    }
    switch (call_.form.kind) {
        case recurrent_kind::rnn: return run_units(units.rnn, step, of, true);
        case recurrent_kind::lstm: return run_units(units.lstm, step, of, true);
        case recurrent_kind::gru_reset_last: return run_units(units.gru_reset_last, step, of, true);
        case recurrent_kind::gru_reset_first: return run_units(units.gru_gates, step, of, false);
    }
}

void recurrent_block::finish_step(std::size_t step, const panel_range& of) const noexcept {
    if (!resets_first(call_.form)) return;
    multiply_state(reset_h_, false, image_ + layout_.of_reset_state, 1, of, of_reset_, state_);
    run_units(best_recurrent_units().gru_reset_first, step, of, true);
}

}  // namespace sluice::kernels
