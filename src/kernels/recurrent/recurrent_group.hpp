// SPDX-License-Identifier: Apache-2.0
// Rows of one direction of a recurrent layer, and what one warp does for one unit of them in one step. On a CPU lane 0
// does what all lanes of the warp do on a GPU, with the same sums in the same order.
//
// A pass gives each row of a unit a few values: the slots. Lanes add up the products of all rows and gates, each for
// its part of the state. Then each lane has one value (row * slots + slot), to which it adds the input's part, and of
// which it computes the activation. Last, each lane has one row (lane % Rows), for which it puts the values together.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/recurrent/recurrent_layer.hpp"

#include "sluice/base/kernel.hpp"

namespace sluice::kernels {

inline constexpr unsigned lanes_of_warp = 32;

// nvcc keeps an array in registers only where all loops over it are unrolled.
#if defined(__CUDA_ARCH__)
#define SLUICE_RECURRENT_UNROLL _Pragma("unroll")
#else
#define SLUICE_RECURRENT_UNROLL
#endif

// --- numbers -------------------------------------------------------------------------------------------------------

// As a state of this type is kept.
template <typename T>
SLUICE_KERNEL float recurrent_rounded(float x) {
    return float(T(x));
}

// Four numbers that are read at once.
template <typename T>
struct alignas(4 * sizeof(T)) recurrent_four {
    T at[4];
};

// The frequent activations here, the others in a function of their own, so that a kernel stays short.
[[gnu::noinline]] SLUICE_KERNEL inline float recurrent_other_curve(recurrent_activation of, float x) { return of(x); }
SLUICE_KERNEL inline float recurrent_curve_of(const recurrent_activation& of, float x) {
    const bool is_sigmoid = of.what == recurrent_curve::sigmoid;
    if (!is_sigmoid && of.what != recurrent_curve::tanh) return recurrent_other_curve(of, x);
    if (of.clip > 0) x = x < -of.clip ? -of.clip : x > of.clip ? of.clip : x;
    return is_sigmoid ? 1 / (1 + std::exp(-x)) : std::tanh(x);
}

// --- sums over the lanes of a warp ---------------------------------------------------------------------------------

// Each value is ((lane + lane ^ 16) + ...) ^ 8, 4, 2, 1, whatever the number of values.
#if defined(__CUDA_ARCH__)
// Lane l gets the sum of the value l / (32 / Count).
template <unsigned Count, unsigned Mask = lanes_of_warp / 2>
__device__ float recurrent_sum(const float (&values)[Count], unsigned lane) {
    if constexpr (Mask == 0) {
        return values[0];
    } else if constexpr (Count == 1) {
        const float both[1] = {values[0] + __shfl_xor_sync(~0u, values[0], Mask)};
        return recurrent_sum<1, Mask / 2>(both, lane);
    } else {
        const bool is_upper = (lane & Mask) != 0;
        float half_of_them[Count / 2];
        SLUICE_RECURRENT_UNROLL
        for (unsigned i = 0; i < Count / 2; ++i) {
            const float given = is_upper ? values[i] : values[i + Count / 2];
            const float kept = is_upper ? values[i + Count / 2] : values[i];
            half_of_them[i] = kept + __shfl_xor_sync(~0u, given, Mask);
        }
        return recurrent_sum<Count / 2, Mask / 2>(half_of_them, lane);
    }
}
#else
inline float recurrent_sum(float (&lanes)[lanes_of_warp]) {
    for (unsigned mask = lanes_of_warp / 2; mask > 0; mask /= 2)
        for (unsigned l = 0; l < mask; ++l) lanes[l] += lanes[l + mask];
    return lanes[0];
}
#endif

// --- passes --------------------------------------------------------------------------------------------------------

template <std::size_t First, std::size_t Gates, std::size_t Slots>
struct recurrent_slots {
    static constexpr std::size_t first = First, gates = Gates, slots = Slots;  // the first gate, and how many
};
template <recurrent_kind Kind, unsigned Pass>
struct recurrent_pass;
template <>
struct recurrent_pass<recurrent_kind::rnn, 0> : recurrent_slots<0, 1, 1> {};
template <>
struct recurrent_pass<recurrent_kind::lstm, 0> : recurrent_slots<0, 4, 4> {};
// The last slot has the input's part of the hidden gate, which the reset gate leaves alone.
template <>
struct recurrent_pass<recurrent_kind::gru_reset_last, 0> : recurrent_slots<0, 3, 4> {};
template <>
struct recurrent_pass<recurrent_kind::gru_reset_first, 0> : recurrent_slots<0, 2, 2> {};
template <>
struct recurrent_pass<recurrent_kind::gru_reset_first, 1> : recurrent_slots<2, 1, 1> {};

// --- the group -----------------------------------------------------------------------------------------------------

// A row of a unit before a step: its state; and its cell state (LSTM) or update gate (GRU).
struct recurrent_before {
    float h, own;
};

// What a value has besides the products with the state, as the memory has it: it is read long before it is needed, and
// the first arithmetic waits for it.
template <typename T>
struct recurrent_input {
    T product, input_bias, state_bias;

    SLUICE_KERNEL static recurrent_input none() { return {T(0.0f), T(0.0f), T(0.0f)}; }
    SLUICE_KERNEL float sum() const { return float(product) + (float(input_bias) + float(state_bias)); }
};

template <typename T, recurrent_kind Kind, unsigned Rows>
struct recurrent_group {
    using kind = recurrent_kind;
    template <unsigned Pass>
    using pass = recurrent_pass<Kind, Pass>;
    static constexpr std::size_t gates = gates_of(Kind);

    const recurrent_layer& call;
    recurrent_floats floats;
    float* states;  // `floats` of them
    const T* kept;  // weights [kept_units, gates, padded]
    std::size_t direction, first_row, first_unit, kept_units;

    SLUICE_KERNEL const T* typed(const void* at) const { return static_cast<const T*>(at); }

    // --- before the first step; by `count` threads ---

    SLUICE_KERNEL float state_at(const void* from, std::size_t row, std::size_t unit) const {
        if (from == nullptr || first_row + row >= call.batch || unit >= call.hidden) return 0;
        return float(typed(from)[direction * call.state_of_direction + (first_row + row) * call.state_of_batch + unit]);
    }
    SLUICE_KERNEL std::uint32_t length_at(std::size_t row) const {
        if (first_row + row >= call.batch) return 0;
        if (call.sequence_lengths == nullptr) return static_cast<std::uint32_t>(call.steps);
        const std::int64_t given = call.sequence_lengths[first_row + row];
        if (given < 0) return 0;
        return static_cast<std::uint32_t>(static_cast<std::size_t>(given) > call.steps ? call.steps : given);
    }
    SLUICE_KERNEL void fill(std::size_t thread, std::size_t count) const {
        const std::size_t numbers = Rows * floats.padded;
        for (std::size_t i = thread; i < numbers; i += count) {
            states[floats.h(0) + i] = state_at(call.first_h, i / floats.padded, i % floats.padded);
            states[floats.h(1) + i] = 0;
            if (floats.has_reset != 0) states[floats.reset() + i] = 0;
        }
        for (std::size_t i = thread; i < floats.units * Rows; i += count)
            states[floats.own() + i] =
                Kind == kind::lstm ? state_at(call.first_c, i % Rows, first_unit + i / Rows) : 0.0f;
        for (std::size_t i = thread; i < Rows; i += count) lengths()[i] = length_at(i);
    }
    SLUICE_KERNEL void keep_weights(T* to, std::size_t thread, std::size_t count) const {
        const std::size_t fours = floats.padded / 4;
        for (std::size_t i = thread; i < kept_units * gates * fours; i += count) {
            const std::size_t k = i % fours * 4, row = i / fours;
            const T* const from = weights_at(row / gates, row % gates);
            recurrent_four<T> four;
            for (std::size_t j = 0; j < 4; ++j) four.at[j] = k + j < call.hidden ? from[k + j] : T(0.0f);
            *reinterpret_cast<recurrent_four<T>*>(to + i * 4) = four;
        }
    }

    // --- where things lie ---

    SLUICE_KERNEL std::uint32_t* lengths() const { return reinterpret_cast<std::uint32_t*>(states + floats.lengths()); }
    // The units are counted from first_unit.
    SLUICE_KERNEL const T* weights_at(std::size_t unit, std::size_t gate) const {
        return typed(call.r) + ((direction * gates + gate) * call.hidden + first_unit + unit) * call.hidden;
    }
    SLUICE_KERNEL float& own_at(std::size_t unit, std::size_t row) const {
        return states[floats.own() + unit * Rows + row];
    }
    SLUICE_KERNEL bool is_over(std::size_t row, std::size_t step) const { return step >= lengths()[row]; }
    SLUICE_KERNEL std::size_t position_of(std::size_t row, std::size_t step) const {
        return !is_over(row, step) && (call.reversed >> direction & 1) != 0 ? lengths()[row] - 1 - step : step;
    }
    // Of the input's product (side 0) or the state's (side 1).
    SLUICE_KERNEL T bias_at(std::size_t unit, std::size_t gate, std::size_t side) const {
        if (call.bias == nullptr) return T(0.0f);
        return typed(call.bias)[((direction * 2 + side) * gates + gate) * call.hidden + first_unit + unit];
    }
    SLUICE_KERNEL float peephole_at(std::size_t unit, std::size_t gate) const {
        return float(typed(call.peepholes)[(direction * 3 + gate) * call.hidden + first_unit + unit]);
    }

    // --- a pass ---

    template <unsigned Pass>
    SLUICE_KERNEL recurrent_input<T> input_of(std::size_t unit, std::size_t row, std::size_t slot,
                                              std::size_t step) const {
        recurrent_input<T> made = recurrent_input<T>::none();
        if (is_over(row, step)) return made;
        const bool is_of_state = Kind == kind::gru_reset_last && slot == 2,
                   is_alone = Kind == kind::gru_reset_last && slot == 3;
        const std::size_t gate = is_alone ? 2 : pass<Pass>::first + slot;
        if (!is_alone) made.state_bias = bias_at(unit, gate, 1);
        if (is_of_state) return made;
        made.input_bias = bias_at(unit, gate, 0);
        const std::size_t line = position_of(row, step) * call.row_of_step + (first_row + row) * call.row_of_batch;
        made.product = typed(
            call.products)[((line * call.directions + direction) * gates + gate) * call.hidden + first_unit + unit];
        return made;
    }

    // The products of all rows and gates, of the numbers of the state that are this lane's.
    template <unsigned Pass, typename Load>
    SLUICE_KERNEL void multiply(const Load& weights, const float* state, unsigned lane,
                                float (&sums)[Rows * pass<Pass>::slots]) const {
        constexpr std::size_t slots = pass<Pass>::slots;
        for (std::size_t k = std::size_t{4} * lane; k < floats.padded; k += std::size_t{4} * lanes_of_warp) {
            recurrent_four<float> four[Rows];
            SLUICE_RECURRENT_UNROLL
            for (unsigned row = 0; row < Rows; ++row)
                four[row] = *reinterpret_cast<const recurrent_four<float>*>(state + row * floats.padded + k);
            SLUICE_RECURRENT_UNROLL
            for (std::size_t gate = 0; gate < pass<Pass>::gates; ++gate) {
                const recurrent_four<T> weight = weights(gate, k);
                SLUICE_RECURRENT_UNROLL
                for (unsigned i = 0; i < Rows * 4; ++i) {
                    float& sum = sums[i / 4 * slots + gate];
                    sum = std::fma(float(weight.at[i % 4]), four[i / 4].at[i % 4], sum);
                }
            }
        }
    }
    template <unsigned Pass>
    SLUICE_KERNEL void multiply(std::size_t unit, std::size_t step, unsigned lane,
                                float (&sums)[Rows * pass<Pass>::slots]) const {
        if (Pass == 0 && step == 0 && call.first_h == nullptr) return;  // there is no state
        const float* const state = states + (Pass == 0 ? floats.h(step) : floats.reset());
        if (unit < kept_units) {
            const T* const from = kept + (unit * gates + pass<Pass>::first) * floats.padded;
            return multiply<Pass>(
                [&](std::size_t gate, std::size_t k) {
                    return *reinterpret_cast<const recurrent_four<T>*>(from + gate * floats.padded + k);
                },
                state, lane, sums);
        }
        const T* const from = weights_at(unit, pass<Pass>::first);
        const std::size_t of_gate = call.hidden * call.hidden;
        if (floats.padded == call.hidden && reinterpret_cast<std::uintptr_t>(from) % sizeof(recurrent_four<T>) == 0) {
            return multiply<Pass>(
                [&](std::size_t gate, std::size_t k) {
                    return *reinterpret_cast<const recurrent_four<T>*>(from + gate * of_gate + k);
                },
                state, lane, sums);
        }
        multiply<Pass>(
            [&](std::size_t gate, std::size_t k) {
                recurrent_four<T> made;
                SLUICE_RECURRENT_UNROLL
                for (std::size_t j = 0; j < 4; ++j)
                    made.at[j] = k + j < call.hidden ? from[gate * of_gate + k + j] : T(0.0f);
                return made;
            },
            state, lane, sums);
    }

    // The value of a slot, from the sum of its products and its input.
    template <unsigned Pass>
    SLUICE_KERNEL float activated(std::size_t unit, std::size_t row, std::size_t slot, float value) const {
        if constexpr (Kind == kind::gru_reset_last) {
            return slot < 2 ? recurrent_curve_of(call.f[direction], value) : value;
        } else if constexpr (Kind == kind::lstm) {
            if (slot == 1 && call.peepholes != nullptr) return value;  // it needs the new cell state
            if (slot == 3) return recurrent_curve_of(call.g[direction], value);
            if (call.peepholes != nullptr) value = std::fma(peephole_at(unit, slot), own_at(unit, row), value);
            return recurrent_curve_of(call.f[direction], value);
        } else {
            return recurrent_curve_of(Pass == 0 ? call.f[direction] : call.g[direction], value);
        }
    }

    // The row's new state, or what the first pass of a GRU gives the second one. Renews of.own.
    template <unsigned Pass>
    SLUICE_KERNEL float finished(std::size_t unit, bool is_over, const float (&slot)[pass<Pass>::slots],
                                 recurrent_before& of) const {
        if constexpr (Kind == kind::gru_reset_first && Pass == 0) {
            of.own = slot[0];
            return is_over ? 0 : slot[1] * of.h;
        } else {
            if (is_over) return of.h;
            float h = slot[0];
            if constexpr (Kind == kind::gru_reset_first) {
                h = std::fma(of.own, of.h, (1 - of.own) * slot[0]);
            } else if constexpr (Kind == kind::gru_reset_last) {
                const float hidden = recurrent_curve_of(call.g[direction], std::fma(slot[1], slot[2], slot[3]));
                h = std::fma(slot[0], of.h, (1 - slot[0]) * hidden);
            } else if constexpr (Kind == kind::lstm) {
                const float forget = call.is_coupled != 0 ? 1 - slot[0] : slot[2];
                const float cell = std::fma(forget, of.own, slot[0] * slot[3]);
                const float output =
                    call.peepholes == nullptr
                        ? slot[1]
                        : recurrent_curve_of(call.f[direction], std::fma(peephole_at(unit, 1), cell, slot[1]));
                of.own = recurrent_rounded<T>(cell);
                h = output * recurrent_curve_of(call.out[direction], cell);
            }
            return recurrent_rounded<T>(h);
        }
    }

    // Writes what stays with the unit, and after the last step the last states.
    template <unsigned Pass>
    SLUICE_KERNEL void store(std::size_t unit, std::size_t row, std::size_t step, float value, float own) const {
        constexpr bool is_last = Kind != kind::gru_reset_first || Pass == 1;
        if (Kind == kind::lstm || (Kind == kind::gru_reset_first && Pass == 0)) own_at(unit, row) = own;
        if (!is_last || step + 1 != call.steps || first_row + row >= call.batch) return;
        const std::size_t last =
            direction * call.state_of_direction + (first_row + row) * call.state_of_batch + first_unit + unit;
        if (call.last_h != nullptr) static_cast<T*>(call.last_h)[last] = T(value);
        if (Kind == kind::lstm && call.last_c != nullptr) static_cast<T*>(call.last_c)[last] = T(own);
    }

    // Writes what a step has given for a unit to Y, by all lanes of a warp.
    SLUICE_KERNEL void write_y(std::size_t unit, std::size_t step, unsigned lane) const {
#if defined(__CUDA_ARCH__)
        const unsigned first = lane, last = lane < Rows ? lane + 1 : lane;
#else
        const unsigned first = 0, last = lane == 0 ? Rows : 0;
#endif
        if (call.y == nullptr) return;
        for (unsigned row = first; row < last && first_row + row < call.batch; ++row) {
            const std::size_t at = first_unit + unit;
            T* const to = static_cast<T*>(call.y) + position_of(row, step) * call.y_of_step +
                          direction * call.y_of_direction + (first_row + row) * call.y_of_batch + at;
            *to = is_over(row, step) ? T(0.0f) : T(states[floats.h(step + 1) + row * floats.padded + at]);
        }
    }

    // The place in `states` that a pass writes, of this unit and row.
    template <unsigned Pass>
    SLUICE_KERNEL std::size_t target_of(std::size_t unit, std::size_t row, std::size_t step) const {
        const std::size_t part = Kind == kind::gru_reset_first && Pass == 0 ? floats.reset() : floats.h(step + 1);
        return part + row * floats.padded + first_unit + unit;
    }
    SLUICE_KERNEL recurrent_before before(std::size_t unit, std::size_t row, std::size_t step) const {
        return {states[floats.h(step) + row * floats.padded + first_unit + unit], own_at(unit, row)};
    }

    // On a GPU, the input of the lane's own value; elsewhere none.
    template <unsigned Pass>
    SLUICE_KERNEL recurrent_input<T> input_of_lane(std::size_t unit, std::size_t step, unsigned lane) const {
#if defined(__CUDA_ARCH__)
        const unsigned value = lane / (lanes_of_warp / (Rows * pass<Pass>::slots));
        return input_of<Pass>(unit, value / pass<Pass>::slots, value % pass<Pass>::slots, step);
#else
        static_cast<void>(unit), static_cast<void>(step), static_cast<void>(lane);
        return recurrent_input<T>::none();
#endif
    }

    // The whole pass for a unit, by all lanes of a warp. put(rank, place, value) writes a value of the next states to
    // the block with this rank of `ranks`.
    template <unsigned Pass, typename Put>
    SLUICE_KERNEL void run(std::size_t unit, std::size_t step, unsigned lane,
                           [[maybe_unused]] const recurrent_input<T>& input, unsigned ranks, const Put& put) const {
        constexpr unsigned slots = pass<Pass>::slots, count = Rows * slots;
#if defined(__CUDA_ARCH__)
        constexpr unsigned lanes = lanes_of_warp / count;  // of a value
        float sums[count] = {};
        multiply<Pass>(unit, step, lane, sums);
        const float sum = recurrent_sum<count>(sums, lane);
        const float mine = activated<Pass>(unit, lane / lanes / slots, lane / lanes % slots, input.sum() + sum);
        const unsigned row = lane % Rows;
        recurrent_before of = before(unit, row, step);
        float gathered[slots];
        SLUICE_RECURRENT_UNROLL
        for (unsigned s = 0; s < slots; ++s) gathered[s] = __shfl_sync(~0u, mine, (row * slots + s) * lanes);
        const float value = finished<Pass>(unit, is_over(row, step), gathered, of);
        __syncwarp();  // all lanes have read what one of them renews
        for (unsigned rank = lane / Rows; rank < ranks; rank += lanes_of_warp / Rows)
            put(rank, target_of<Pass>(unit, row, step), value);
        if (lane < Rows) store<Pass>(unit, row, step, value, of.own);
#else
        if (lane != 0) return;
        float sums[lanes_of_warp][count] = {};
        for (unsigned l = 0; l < lanes_of_warp; ++l) multiply<Pass>(unit, step, l, sums[l]);
        for (unsigned row = 0; row < Rows; ++row) {
            float gathered[slots];
            for (unsigned s = 0; s < slots; ++s) {
                float lanes[lanes_of_warp];
                for (unsigned l = 0; l < lanes_of_warp; ++l) lanes[l] = sums[l][row * slots + s];
                gathered[s] =
                    activated<Pass>(unit, row, s, input_of<Pass>(unit, row, s, step).sum() + recurrent_sum(lanes));
            }
            recurrent_before of = before(unit, row, step);
            const float value = finished<Pass>(unit, is_over(row, step), gathered, of);
            for (unsigned rank = 0; rank < ranks; ++rank) put(rank, target_of<Pass>(unit, row, step), value);
            store<Pass>(unit, row, step, value, of.own);
        }
#endif
    }
};

#undef SLUICE_RECURRENT_UNROLL

}  // namespace sluice::kernels
