// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/recurrent.hpp"

#include <algorithm>
#include <bit>

#include "kernels/recurrent/recurrent_block.hpp"
#include "runtime/parallel_parts.hpp"
#include "runtime/parallel_phases.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::range_of_part;

// As those of fused_mlp on a CPU, which were measured: products of a part of a phase, which threads take by one atomic
// operation, and of a part that goes through all steps.
constexpr std::size_t products_of_part = std::size_t{128} * 1024;
constexpr std::size_t products_of_long_part = std::size_t{512} * 1024;
// With fewer, some 10 µs, no sleeping thread is worth its wake-up.
constexpr std::size_t products_of_wake_up = 1'300'000;
// A weight that comes from a far cache takes as long as this many products.
constexpr std::size_t products_of_far_weight = 5;
// Above these numbers the weights of the state do not fit into the second cache of a core; and no core reads them all.
constexpr std::size_t many_weights = std::size_t{512} * 1024, too_many_weights = std::size_t{2} * 1024 * 1024;
// Sequences that make up for reading all weights: a few; of many parts each; where the weights are far away.
constexpr std::size_t few_sequences = 4, more_sequences = 12, most_sequences = 24;
constexpr std::size_t few_parts = 4;

std::size_t weights_of_state(const recurrent_form& form) { return gates_of(form.kind) * form.hidden * form.hidden; }
std::size_t products_of_sequence(const recurrent_form& form) {
    return form.steps * (weights_of_state(form) + gates_of(form.kind) * form.hidden * form.inputs);
}

// How the work is divided: into sequences of each direction; or into units, of each direction too.
struct recurrent_division {
    bool by_sequences;
    std::size_t parts;      // of a direction
    std::size_t sequences;  // of a block, at most
};
// Products of 8-bit integers that take as long as one of f32, and so do their weights.
constexpr std::size_t integers_of_product = 4;

// With weights of 8 bits, states of all sequences are quantized together: a direction is one block.
recurrent_division division_of_integers(const recurrent_form& form) noexcept {
    const std::size_t weights = weights_of_state(form) / integers_of_product;
    if (form.directions == 1 || weights >= too_many_weights) {
        const std::size_t by_units = std::bit_floor(sluice::detail::parts_for(
            std::max(form.batch, products_of_far_weight) * weights, products_of_part, panels_of(form.hidden)));
        if (by_units > 1) return {false, by_units, form.batch};
    }
    return {true, 1, form.batch};
}

recurrent_division division_of(const recurrent_form& form, bool has_integers) noexcept {
    if (has_integers) return division_of_integers(form);
    const std::size_t weights = weights_of_state(form), work = form.batch * products_of_sequence(form);
    const auto parts_of = [&](std::size_t least) {
        return std::bit_floor(sluice::detail::parts_for(work, products_of_long_part, form.batch / least));
    };
    const std::size_t parts = weights >= too_many_weights ? 1
                              : weights >= many_weights
                                  ? parts_of(most_sequences)
                                  : std::max(std::min(few_parts, parts_of(few_sequences)), parts_of(more_sequences));
    if (parts * form.directions == 1 || weights >= too_many_weights) {
        const std::size_t by_units = std::bit_floor(sluice::detail::parts_for(
            std::max(form.batch, products_of_far_weight) * weights, products_of_part, panels_of(form.hidden)));
        if (by_units > 1) return {false, by_units, form.batch};
    }
    return {true, parts, (form.batch + parts - 1) / parts};
}

sluice::detail::team_wakes wakes_of(const recurrent_call& call) {
    const recurrent_form& form = call.form;
    const std::size_t products = form.batch * form.directions * products_of_sequence(form) /
                                 (call.integers != nullptr ? integers_of_product : 1);
    return products < products_of_wake_up ? sluice::detail::team_wakes::now_and_then
                                          : sluice::detail::team_wakes::always;
}

// Of all blocks. The rooms of the parts come after it, at a line of the cache.
std::size_t floats_of_blocks(const recurrent_form& form, const recurrent_division& how) {
    constexpr std::size_t floats_of_line = 16;
    const std::size_t blocks = form.directions * (how.by_sequences ? how.parts : 1);
    const std::size_t floats = blocks * recurrent_block::scratch_floats(form, how.sequences);
    return (floats + floats_of_line - 1) / floats_of_line * floats_of_line;
}

// The weights are packed first: a part is a panel of units of a direction.
class packed_first : public sluice::detail::phased_work {
public:
    packed_first(const recurrent_call& call, const recurrent_division& how)
        : call_(call),
          how_(how),
          of_block_(recurrent_block::scratch_floats(call.form, how.sequences)),
          image_(call.integers != nullptr ? nullptr
                 : call.image != nullptr  ? call.image
                                          : call.scratch),
          scratch_(is_packed() ? call.scratch : call.scratch + recurrent_image_floats(call.form)),
          of_x_(call.integers != nullptr ? quantity_of_inputs(call) : row_quantity{}) {}

    std::size_t first() const noexcept { return is_packed() ? 1 : 0; }

protected:
    ~packed_first() = default;
    bool is_packed() const noexcept { return call_.image != nullptr || call_.integers != nullptr; }
    std::size_t panels() const noexcept { return panels_of(call_.form.hidden); }
    std::size_t parts_of_packing() const noexcept {
        return std::min<std::size_t>(call_.form.directions * panels(), 32);
    }
    void pack(std::size_t part) const noexcept {
        const auto range = range_of_part(call_.form.directions * panels(), parts_of_packing(), part);
        for (std::size_t i = range.first; i < range.last; ++i)
            pack_units(call_.form, call_.weights, i / panels(), i % panels(), call_.scratch);
    }
    // Of a part that computes.
    recurrent_block block(std::size_t direction, std::size_t first, std::size_t sequences, std::size_t place,
                          std::size_t part) const noexcept {
        return {call_, image_, of_x_, direction, first, sequences, scratch_ + place * of_block_, room(part)};
    }

    const recurrent_call& call_;
    const recurrent_division how_;

private:
    std::byte* room(std::size_t part) const noexcept {
        if (call_.integers == nullptr) return nullptr;
        return reinterpret_cast<std::byte*>(scratch_ + floats_of_blocks(call_.form, how_)) +
               part * recurrent_block::room_bytes(call_.form, how_.sequences);
    }

    const std::size_t of_block_;
    const float* const image_;
    float* const scratch_;
    const row_quantity of_x_;
};

// Each part takes some sequences of a direction through all steps.
class shared_sequences final : public packed_first {
public:
    using packed_first::packed_first;

    std::size_t parts(std::size_t phase) const noexcept override {
        return phase == 0 ? parts_of_packing() : how_.parts * call_.form.directions;
    }
    std::size_t after(std::size_t phase) const noexcept override { return phase + 1; }
    void run(std::size_t phase, std::size_t part) const noexcept override {
        if (phase == 0) return pack(part);
        const auto range = range_of_part(call_.form.batch, how_.parts, part % how_.parts);
        const recurrent_block some = block(part / how_.parts, range.first, range.last - range.first, part, part);
        const std::size_t at_once = recurrent_block::steps_at_once(call_.form, range.last - range.first);
        const panel_range all{0, panels()};
        for (std::size_t t = 0; t < call_.form.steps; ++t) {
            if (t % at_once == 0) {
                some.gather(t);
                some.multiply_inputs(t, all);
            }
            some.step(t, all);
            some.finish_step(t, all);
        }
    }
    static constexpr std::size_t end = 2;
};

// All sequences of a direction are a block. Its steps are phases, whose parts are some units: for some steps at once
// the inputs, their products, and then each step, which is two phases where a GRU's reset comes first.
class shared_units final : public packed_first {
public:
    shared_units(const recurrent_call& call, const recurrent_division& how)
        : packed_first(call, how),
          at_once_(recurrent_block::steps_at_once(call.form, call.form.batch)),
          of_step_(call.form.kind == recurrent_kind::gru_reset_first ? 2 : 1),
          of_steps_(2 + at_once_ * of_step_) {}

    std::size_t end() const noexcept {
        const std::size_t steps = call_.form.steps;
        return 1 + steps / at_once_ * of_steps_ + (steps % at_once_ != 0 ? 2 + steps % at_once_ * of_step_ : 0);
    }
    std::size_t parts(std::size_t phase) const noexcept override {
        if (phase == 0) return parts_of_packing();
        return (phase - 1) % of_steps_ == 0 ? call_.form.directions : how_.parts * call_.form.directions;
    }
    std::size_t after(std::size_t phase) const noexcept override { return phase + 1; }
    void run(std::size_t phase, std::size_t part) const noexcept override {
        if (phase == 0) return pack(part);
        const std::size_t first = (phase - 1) / of_steps_ * at_once_, within = (phase - 1) % of_steps_;
        if (within == 0) return whole(part, part).gather(first);
        const auto range = range_of_part(panels(), how_.parts, part % how_.parts);
        const panel_range units{range.first, range.last};
        const recurrent_block of = whole(part / how_.parts, part);
        if (within == 1) return of.multiply_inputs(first, units);
        const std::size_t step = first + (within - 2) / of_step_;
        if ((within - 2) % of_step_ == 0) return of.step(step, units);
        of.finish_step(step, units);
    }

private:
    recurrent_block whole(std::size_t direction, std::size_t part) const noexcept {
        return block(direction, 0, call_.form.batch, direction, part);
    }

    const std::size_t at_once_, of_step_, of_steps_;
};

}  // namespace

std::size_t recurrent_scratch_floats(const recurrent_form& form, recurrent_image image) noexcept {
    const recurrent_division how = division_of(form, image == recurrent_image::integers);
    const std::size_t rooms = image == recurrent_image::integers
                                  ? form.directions * how.parts * recurrent_block::room_bytes(form, how.sequences)
                                  : 0;
    return floats_of_blocks(form, how) + rooms / sizeof(float) +
           (image == recurrent_image::none ? recurrent_image_floats(form) : 0);
}

void recurrent_on_cpu(const recurrent_call& call) {
    const recurrent_division how = division_of(call.form, call.integers != nullptr);
    if (how.by_sequences) {
        const shared_sequences work(call, how);
        sluice::detail::run_phases(work, work.first(), shared_sequences::end, wakes_of(call));
    } else {
        const shared_units work(call, how);
        sluice::detail::run_phases(work, work.first(), work.end(), wakes_of(call));
    }
}

}  // namespace sluice::kernels
