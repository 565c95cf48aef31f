// SPDX-License-Identifier: Apache-2.0
// The steps of RNN, GRU and LSTM as kernels over [direction, batch, hidden]. For files that nvcc compiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nn/operators/in_word.hpp"
#include "nn/operators/numbers.hpp"
#include "nn/operators/recurrent_activation.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {
namespace {

template <typename T>
SLUICE_KERNEL computed<T> recurrent_dot(const T* a, const T* b, std::size_t count) {
    using number = computed<T>;
    number sums[4] = {0, 0, 0, 0};
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (std::size_t j = 0; j < 4; ++j) sums[j] += static_cast<number>(a[k + j]) * static_cast<number>(b[k + j]);
    for (; k < count; ++k) sums[0] += static_cast<number>(a[k]) * static_cast<number>(b[k]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Rows of x times rows of w.
template <typename T>
struct recurrent_product {
    const T *x, *w;
    T* y;
    std::size_t columns, inner;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        y[i] = static_cast<T>(recurrent_dot(x + i / columns * inner, w + i % columns * inner, inner));
    }
};

// A state of [directions, batch, hidden], in that order or another. A null address: all are 0.
template <typename T>
struct recurrent_state {
    T* at;
    std::size_t of_direction, of_batch;

    SLUICE_KERNEL T* row(std::size_t direction, std::size_t batch) const {
        return at + direction * of_direction + batch * of_batch;
    }
};

// What all steps have.
template <typename T>
struct recurrent_step {
    using number = computed<T>;

    const T* products;  // [steps, batch, directions, gates * hidden], or with steps and batch exchanged
    const T* r;         // [directions, gates * hidden, hidden]; null: `products` have the state's as well
    const T* bias;      // [directions, 2 * gates * hidden] or null
    const std::int32_t* sequence_lengths;  // or null
    T* y;
    std::size_t batch, hidden, gates, directions, steps, step;
    std::size_t row_of_step, row_of_batch;              // of products
    std::size_t y_of_step, y_of_direction, y_of_batch;  // strides
    std::uint64_t reversed;                             // bit d: direction d begins at the end
    in_word<bool> has_integers;                         // then the last states of a sequence without steps are 0

    struct place_in {
        std::size_t direction, batch, unit, position;
        bool is_over;  // the sequence ended before
    };
    SLUICE_KERNEL place_in place_of(std::size_t i) const {
        place_in at{i / hidden / batch, i / hidden % batch, i % hidden, step, false};
        std::size_t length = steps;
        if (sequence_lengths != nullptr) {
            const std::int64_t given = sequence_lengths[at.batch];
            length = given < 0 ? 0 : static_cast<std::size_t>(given) > steps ? steps : static_cast<std::size_t>(given);
        }
        at.is_over = step >= length;
        if (!at.is_over && (reversed >> at.direction & 1) != 0) at.position = length - 1 - step;
        return at;
    }
    SLUICE_KERNEL number input_product(const place_in& at, std::size_t gate) const {
        const std::size_t row = at.position * row_of_step + at.batch * row_of_batch;
        return static_cast<number>(
            products[(row * directions + at.direction) * gates * hidden + gate * hidden + at.unit]);
    }
    // Of the input's product (side 0) or the state's (side 1).
    SLUICE_KERNEL number bias_of(const place_in& at, std::size_t gate, std::size_t side) const {
        if (bias == nullptr) return 0;
        return static_cast<number>(bias[((at.direction * 2 + side) * gates + gate) * hidden + at.unit]);
    }
    SLUICE_KERNEL number state_product(const place_in& at, std::size_t gate, const recurrent_state<const T>& h) const {
        if (h.at == nullptr || r == nullptr) return 0;
        return recurrent_dot(h.row(at.direction, at.batch),
                             r + ((at.direction * gates + gate) * hidden + at.unit) * hidden, hidden);
    }
    // The argument of a gate's activation.
    SLUICE_KERNEL number sum(const place_in& at, std::size_t gate, const recurrent_state<const T>& h) const {
        return input_product(at, gate) + state_product(at, gate, h) + bias_of(at, gate, 0) + bias_of(at, gate, 1);
    }
    SLUICE_KERNEL static number value_of(const recurrent_state<const T>& state, const place_in& at) {
        return state.at != nullptr ? static_cast<number>(state.row(at.direction, at.batch)[at.unit]) : number(0);
    }
    SLUICE_KERNEL void give(const place_in& at, T value, const recurrent_state<T>& next) const {
        next.row(at.direction, at.batch)[at.unit] = value;
        if (y != nullptr) y[y_index(at)] = value;
    }
    // The output is 0 there, and the state stays.
    SLUICE_KERNEL void stay(const place_in& at, const recurrent_state<const T>& from,
                            const recurrent_state<T>& to) const {
        const number kept = has_integers && step == 0 ? number(0) : value_of(from, at);
        to.row(at.direction, at.batch)[at.unit] = static_cast<T>(kept);
    }
    SLUICE_KERNEL void give_nothing(const place_in& at) const {
        if (y != nullptr) y[y_index(at)] = T(0.0f);
    }
    SLUICE_KERNEL std::size_t y_index(const place_in& at) const {
        return at.position * y_of_step + at.direction * y_of_direction + at.batch * y_of_batch + at.unit;
    }
};

template <typename T>
struct rnn_step {
    recurrent_step<T> all;
    recurrent_state<const T> h;
    recurrent_state<T> next_h;
    recurrent_activation f[2];  // of each direction

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        if (at.is_over) {
            all.stay(at, h, next_h);
            return all.give_nothing(at);
        }
        all.give(at, static_cast<T>(f[at.direction](all.sum(at, 0, h))), next_h);
    }
};

// The gates of a GRU: update, reset, hidden.
template <typename T>
struct gru_step {
    recurrent_step<T> all;
    recurrent_state<const T> h, reset_h;  // reset_h: the state times the reset gate, where that comes first
    recurrent_state<T> next_h;
    const T* update;  // the update gate, where it is known
    recurrent_activation f[2], g[2];

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        if (at.is_over) {
            all.stay(at, h, next_h);
            return all.give_nothing(at);
        }
        using number = computed<T>;
        number z, hidden;
        if (update != nullptr) {
            z = static_cast<number>(update[i]);
            hidden = g[at.direction](all.sum(at, 2, reset_h));
        } else {
            z = f[at.direction](all.sum(at, 0, h));
            const number reset = f[at.direction](all.sum(at, 1, h));
            hidden = g[at.direction](all.input_product(at, 2) + all.bias_of(at, 2, 0) +
                                     reset * (all.state_product(at, 2, h) + all.bias_of(at, 2, 1)));
        }
        all.give(at, static_cast<T>((1 - z) * hidden + z * all.value_of(h, at)), next_h);
    }
};

template <typename T>
struct gru_gates {
    recurrent_step<T> all;
    recurrent_state<const T> h;
    T *reset_h, *update;
    recurrent_activation f[2];

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        using number = computed<T>;
        const number z = at.is_over ? number(0) : f[at.direction](all.sum(at, 0, h));
        const number reset = at.is_over ? number(0) : f[at.direction](all.sum(at, 1, h));
        update[i] = static_cast<T>(z);
        reset_h[i] = static_cast<T>(reset * all.value_of(h, at));
    }
};

// The gates of an LSTM: input, output, forget, cell.
template <typename T>
struct lstm_step {
    recurrent_step<T> all;
    recurrent_state<const T> h, c;
    recurrent_state<T> next_h, next_c;
    const T* peepholes;        // of input, output, forget; or null
    in_word<bool> is_coupled;  // the forget gate is 1 less the input gate
    recurrent_activation f[2], g[2], out[2];

    SLUICE_KERNEL computed<T> peephole(const typename recurrent_step<T>::place_in& at, std::size_t gate) const {
        if (peepholes == nullptr) return 0;
        return static_cast<computed<T>>(peepholes[(at.direction * 3 + gate) * all.hidden + at.unit]);
    }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        if (at.is_over) {
            all.stay(at, h, next_h);
            all.stay(at, c, next_c);
            return all.give_nothing(at);
        }
        using number = computed<T>;
        const number before = all.value_of(c, at);
        const number input = f[at.direction](all.sum(at, 0, h) + peephole(at, 0) * before);
        const number forget = is_coupled ? 1 - input : f[at.direction](all.sum(at, 2, h) + peephole(at, 2) * before);
        const number cell = forget * before + input * g[at.direction](all.sum(at, 3, h));
        const number output = f[at.direction](all.sum(at, 1, h) + peephole(at, 1) * cell);
        next_c.row(at.direction, at.batch)[at.unit] = static_cast<T>(cell);
        all.give(at, static_cast<T>(output * out[at.direction](cell)), next_h);
    }
};

}  // namespace
}  // namespace sluice::nn::operators
