// SPDX-License-Identifier: Apache-2.0
// The functions of recurrent_units.hpp, for a file that is compiled for one kind of vector unit and includes this once.
// The rules of vector_math_loops.hpp hold here too.
#pragma once

#include <cstddef>

#include "kernels/add_product.hpp"
#include "kernels/elementwise/vector_math_loops.hpp"
#include "kernels/recurrent/recurrent_units.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t panel_units = 16;
static_assert(panel_units % lane_numbers == 0);

[[gnu::always_inline]] inline void load(const float* from, number_lane& to) {
    to = *reinterpret_cast<const loose_number_lane*>(from);
}
[[gnu::always_inline]] inline void store(const number_lane& from, float* to) {
    *reinterpret_cast<loose_number_lane*>(to) = from;
}

// --- activations -------------------------------------------------------------------------------------------------

// exp(x) - 1 for x <= 0, from tanh(x / 2), so that nothing is lost near 0.
[[gnu::always_inline]] inline void exponential_less_one(const number_lane& x, number_lane& to) {
    number_lane half;
    hyperbolic_tangent(x * 0.5f, half);
    to = 2.0f * half / (1.0f - half);
}

// log(1 + u) for 0 <= u <= 1: 2 artanh(s) with s = u / (2 + u), whose series ends with s^15, off by 3e-9.
[[gnu::always_inline]] inline void logarithm_of_one_more(const number_lane& u, number_lane& to) {
    constexpr float series[] = {2.0f, 2.0f / 3, 2.0f / 5, 2.0f / 7, 2.0f / 9, 2.0f / 11, 2.0f / 13, 2.0f / 15};
    const number_lane s = u / (2.0f + u);
    number_lane factor;
    polynomial(series, s * s, factor);
    to = s * factor;
}

[[gnu::always_inline]] inline void softplus(const number_lane& x, number_lane& to) {
    number_lane size, falling, rest;
    set_magnitude(size, x);
    exponential(-size, falling);
    logarithm_of_one_more(falling, rest);
    to = (x > 0.0f ? x : number_lane{}) + rest;
}

[[gnu::always_inline]] inline void hard_sigmoid(const number_lane& x, float alpha, float beta, number_lane& to) {
    number_lane line = number_lane{} + beta;
    add_product(line, alpha, x);
    const number_lane zero = {}, one = zero + 1.0f;
    line = line < zero ? zero : line;
    to = line > one ? one : line;
}

template <typename Curve>
[[gnu::always_inline]] inline void over_units(const recurrent_activation& what, float* x, std::size_t count,
                                              const Curve& curve) {
    const number_lane high = number_lane{} + (what.clip > 0 ? what.clip : __builtin_inff());
    for (std::size_t i = 0; i < count; i += lane_numbers) {
        number_lane each, made;
        load(x + i, each);
        each = each < -high ? -high : each;
        each = each > high ? high : each;  // NaN stays
        curve(each, made);
        store(made, x + i);
    }
}

#define SLUICE_CURVE [=](const number_lane& u, number_lane& to) __attribute__((always_inline))
void activate_units(const recurrent_activation& what, float* x, std::size_t count) noexcept {
    const float a = what.alpha, b = what.beta;
    const number_lane zero = {};
    switch (what.what) {
        case recurrent_curve::relu: return over_units(what, x, count, SLUICE_CURVE { to = u < zero ? zero : u; });
        case recurrent_curve::tanh: return over_units(what, x, count, SLUICE_CURVE { hyperbolic_tangent(u, to); });
        case recurrent_curve::sigmoid: return over_units(what, x, count, SLUICE_CURVE { sigmoid(u, to); });
        case recurrent_curve::affine: return over_units(what, x, count, SLUICE_CURVE { to = a * u + b; });
        case recurrent_curve::leaky_relu:
            return over_units(what, x, count, SLUICE_CURVE { to = u < zero ? a * u : u; });
        case recurrent_curve::thresholded_relu:
            return over_units(what, x, count, SLUICE_CURVE { to = u < a ? zero : u; });
        case recurrent_curve::scaled_tanh:
            return over_units(
                what, x, count, SLUICE_CURVE {
                    hyperbolic_tangent(b * u, to);
                    to *= a;
                });
        case recurrent_curve::hard_sigmoid:
            return over_units(what, x, count, SLUICE_CURVE { hard_sigmoid(u, a, b, to); });
        case recurrent_curve::elu:
            return over_units(
                what, x, count, SLUICE_CURVE {
                    number_lane falling;
                    exponential_less_one(u, falling);
                    to = u < zero ? a * falling : u;
                });
        case recurrent_curve::softsign:
            return over_units(what, x, count, SLUICE_CURVE { to = u / (1.0f + (u < zero ? -u : u)); });
        case recurrent_curve::softplus: return over_units(what, x, count, SLUICE_CURVE { softplus(u, to); });
    }
}
#undef SLUICE_CURVE

// --- gates -------------------------------------------------------------------------------------------------------

// Some panels of a row, a vector after the other: the body gets the place in `gates`, and of a state.
template <typename Body>
[[gnu::always_inline]] inline void for_units(const unit_row& what, const Body& body) {
    const std::size_t end = (what.last - what.first) * panel_units;
    for (std::size_t i = 0; i < end; i += lane_numbers) body(i, what.first * panel_units + i);
}

// Where the products of a gate have the unit.
[[gnu::always_inline]] inline std::size_t in_products(std::size_t unit, std::size_t gate, std::size_t gates) {
    return (unit / panel_units * gates + gate) * panel_units + unit % panel_units;
}

[[gnu::always_inline]] inline std::size_t units_of(const unit_row& what) {
    return (what.last - what.first) * panel_units;
}

// `Used` gates' arguments but for peepholes, one gate after the other; of the products with the inputs there are `All`.
template <std::size_t All, std::size_t Used>
[[gnu::always_inline]] inline void add_products(const unit_row& what) {
    const std::size_t count = units_of(what);
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        for (std::size_t g = 0; g < Used; ++g) {
            number_lane x, h;
            load(what.of_inputs + in_products(unit, g, All), x);
            load(what.of_state + in_products(unit, g, Used), h);
            store(x + h, what.gates + g * count + i);
        }
    });
}

void rnn_row(const unit_row& what) noexcept {
    add_products<1, 1>(what);
    activate_units(what.activations[0], what.gates, units_of(what));
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane made;
        load(what.gates + i, made);
        store(made, what.next_h + unit);
    });
}

// What peepholes of a gate see of the cell.
[[gnu::always_inline]] inline void add_peepholes(const unit_row& what, std::size_t gate, float* to) {
    if (what.peepholes == nullptr) return;
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane sum, p, c;
        load(to + i, sum);
        load(what.peepholes + gate * what.peepholes_of_gate + unit, p);
        load(what.c + unit, c);
        add_product(sum, p, c);
        store(sum, to + i);
    });
}

void lstm_row(const unit_row& what) noexcept {
    const std::size_t count = units_of(what);
    float *const input = what.gates, *const output = input + count, *const forget = output + count,
                 *const cell = forget + count;
    add_products<4, 4>(what);
    add_peepholes(what, 0, input);
    activate_units(what.activations[0], input, count);
    if (!what.is_coupled) {
        add_peepholes(what, 2, forget);
        activate_units(what.activations[0], forget, count);
    }
    activate_units(what.activations[1], cell, count);
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane in, keep, new_cell, c;
        load(input + i, in);
        load(forget + i, keep);
        load(cell + i, new_cell);
        load(what.c + unit, c);
        if (what.is_coupled) keep = 1.0f - in;
        number_lane made = in * new_cell;
        add_product(made, keep, c);
        store(made, what.c + unit);
        store(made, cell + i);
    });
    add_peepholes(what, 1, output);
    activate_units(what.activations[0], output, count);
    activate_units(what.activations[2], cell, count);
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane out, c;
        load(output + i, out);
        load(cell + i, c);
        store(out * c, what.next_h + unit);
    });
}

// (1 - update) * hidden + update * h
[[gnu::always_inline]] inline void mix(const number_lane& update, const number_lane& hidden, const number_lane& h,
                                       float* to) {
    number_lane made = (1.0f - update) * hidden;
    add_product(made, update, h);
    store(made, to);
}

void gru_reset_last_row(const unit_row& what) noexcept {
    const std::size_t count = units_of(what);
    float *const update = what.gates, *const reset = update + count, *const hidden = reset + count;
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        for (std::size_t g = 0; g < 2; ++g) {
            number_lane x, h;
            load(what.of_inputs + in_products(unit, g, 3), x);
            load(what.of_state + in_products(unit, g, 3), h);
            store(x + h, what.gates + g * count + i);
        }
    });
    activate_units(what.activations[0], update, 2 * count);
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane x, h, r;
        load(what.of_inputs + in_products(unit, 2, 3), x);
        load(what.of_state + in_products(unit, 2, 3), h);
        load(reset + i, r);
        add_product(x, r, h);
        store(x, hidden + i);
    });
    activate_units(what.activations[1], hidden, count);
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane z, n, h;
        load(update + i, z);
        load(hidden + i, n);
        load(what.h + unit, h);
        mix(z, n, h, what.next_h + unit);
    });
}

void gru_gates_row(const unit_row& what) noexcept {
    const std::size_t count = units_of(what);
    add_products<3, 2>(what);
    activate_units(what.activations[0], what.gates, 2 * count);
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane z, r, h;
        load(what.gates + i, z);
        load(what.gates + count + i, r);
        load(what.h + unit, h);
        store(z, what.update + unit);
        store(r * h, what.reset_h + unit);
    });
}

void gru_reset_first_row(const unit_row& what) noexcept {
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane x, h;
        load(what.of_inputs + in_products(unit, 2, 3), x);
        load(what.of_reset_state + unit, h);
        store(x + h, what.gates + i);
    });
    activate_units(what.activations[1], what.gates, units_of(what));
    for_units(what, [&](std::size_t i, std::size_t unit) __attribute__((always_inline)) {
        number_lane z, n, h;
        load(what.update + unit, z);
        load(what.gates + i, n);
        load(what.h + unit, h);
        mix(z, n, h, what.next_h + unit);
    });
}

constexpr recurrent_units recurrent_units_of_this_unit = {
    &rnn_row, &lstm_row, &gru_reset_last_row, &gru_gates_row, &gru_reset_first_row, &activate_units};

}  // namespace
}  // namespace sluice::kernels
