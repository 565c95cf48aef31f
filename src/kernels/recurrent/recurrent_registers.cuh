// SPDX-License-Identifier: Apache-2.0
// All steps of a recurrent layer as one kernel whose warps keep the weights of the state in registers. A cluster of
// blocks, or one block, has some rows of one direction; each warp has tiles of units, with all gates, and the states of
// these stay in its registers. The block's shared memory has the states of all units, for the step and for the next
// one.
//
// What a warp computes it sends into the shared memory of all blocks of the cluster. Each such store is counted by a
// barrier there, and a step begins when the bytes of all units have come: no block waits for its own stores, as the
// barrier of a cluster would. The two states change places. A block that sends the states after a step has received
// those before it from all warps of all blocks, and each of these had then read what the new ones overwrite.
//
// A tile gives each unit four values, the slots: the sums of an LSTM's gates; of a GRU those of update and reset, of
// the hidden gate's state, and, of nothing but the input, the hidden gate's other part. Of an RNN the slots are four
// units. For nvcc; before sm_90 the code is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/recurrent/recurrent_layer.hpp"
#include "kernels/tensor_cores/short_numbers.cuh"
#include "sluice/base/half.hpp"
#include "sluice/kernels/detail/mma.hpp"
#include "sluice/kernels/mbarrier.hpp"

namespace sluice::kernels {

inline constexpr unsigned recurrent_register_warps = 8, recurrent_register_threads = 32 * recurrent_register_warps;
inline constexpr unsigned recurrent_slot_count = 4;

// --- what the kernels are ------------------------------------------------------------------------------------------

// A group has `Rows`; `Lanes` have a unit together.
template <typename T, int Rows, int Lanes>
struct recurrent_register_shape {
    using number = T;
    static constexpr int rows = Rows, lanes = Lanes;
    static constexpr bool is_by_mma = sizeof(T) == 2;
    // The numbers of a row in a chunk: each lane of a unit reads 16 bytes of it. Of a row's weights the first chunks
    // are in registers; others, if there may be any, in shared memory.
    static constexpr std::size_t chunk = Lanes * 16 / sizeof(T);
    static constexpr int chunks = 8;
    static constexpr bool may_have_more = is_by_mma;
    static constexpr std::size_t most_hidden = may_have_more ? std::size_t{1} << 16 : chunks * chunk;
    static constexpr int units = 32 / Lanes;  // of a tile of a gated layer
    // Lanes have all slots of two rows; or, of all rows, one slot.
    static constexpr bool has_all_slots = is_by_mma && Rows == 8;
    static constexpr int lane_slots = has_all_slots ? 4 : 1, lane_rows = has_all_slots ? 2 : Rows;
    static_assert(is_by_mma ? Lanes == 4 && (Rows == 1 || Rows == 8) : Rows <= 4);
    // Products with the inputs of this many steps are on their way: a step of few units takes less time than one
    // needs to come from the second cache.
    static constexpr int ahead = Rows == 1 ? 4 : 2;

    // From one row of states to the next one: whole tiles, of which each is at most 32 numbers; all chunks that are
    // read; and, where eight rows are read at once, an odd number of 64 bytes.
    __host__ __device__ static constexpr std::size_t pitch(std::size_t hidden) {
        constexpr std::size_t half = chunks / 2 * chunk, all = chunks * chunk;
        const std::size_t read = hidden <= half ? half : hidden <= all ? all : hidden;
        const std::size_t at_least = (read + 31) / 32 * 32;
        return has_all_slots && at_least % 64 == 0 ? at_least + 32 : at_least;
    }
    __host__ __device__ static constexpr std::size_t chunks_of(std::size_t hidden) {
        return (hidden + chunk - 1) / chunk;
    }
    __host__ __device__ static constexpr std::size_t tiles_of(std::size_t hidden, bool is_rnn) {
        const std::size_t of_tile = std::size_t{units} * (is_rnn ? recurrent_slot_count : 1);
        return (hidden + of_tile - 1) / of_tile;
    }
    __host__ __device__ static constexpr std::size_t shared_bytes(std::size_t hidden) {
        const std::size_t of_row = chunks_of(hidden), kept = of_row > chunks ? of_row - chunks : 0;
        return 16 + 2 * Rows * pitch(hidden) * sizeof(T) +
               recurrent_register_warps * kept * recurrent_slot_count * 32 * 16;
    }
};

// --- numbers -------------------------------------------------------------------------------------------------------

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ inline float recurrent_reciprocal(float x) {
    float made;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(x));
    return made;
}

// tanh or sigmoid, without branches. Of 16-bit numbers the exponential has an error of some 1e-6. Near 0 the difference
// of two numbers close to each other loses digits: there tanh is a series.
template <typename T>
__device__ inline float recurrent_gate(float x, bool is_tanh) {
    constexpr bool is_short = sizeof(T) == 2;
    const float size = is_tanh ? 2 * fabsf(x) : x;
    const float e = is_short ? __expf(-size) : expf(-size);
    const float d = recurrent_reciprocal(1 + e), square = x * x;
    const float longer = is_short ? 0 : square * fmaf(square, 62.0f / 2835, -17.0f / 315);
    const float series = x * fmaf(square, fmaf(square, 2.0f / 15 + longer, -1.0f / 3), 1.0f);
    const float tanh = fabsf(x) < (is_short ? 0.1f : 0.25f) ? series : copysignf((1 - e) * d, x);
    return is_tanh ? tanh : d;
}

// The compiler does not compute the number again.
template <typename Number>
__device__ inline void recurrent_keep(Number& x) {
    if constexpr (sizeof(Number) == 8)
        asm volatile("" : "+l"(x));
    else
        asm volatile("" : "+r"(x));
}

template <typename T>
__device__ inline T recurrent_shuffled(T x, unsigned mask) {
    const unsigned given = __builtin_bit_cast(std::uint16_t, x);
    return __builtin_bit_cast(T, static_cast<std::uint16_t>(__shfl_xor_sync(~0u, given, mask)));
}

struct alignas(16) recurrent_words {
    std::uint32_t at[4];
};

// By an address in shared memory that is in a register: from a pointer the compiler would find it again at each step.
__device__ inline recurrent_words recurrent_shared_words(std::uint32_t at) {
    recurrent_words made;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(made.at[0]), "=r"(made.at[1]), "=r"(made.at[2]), "=r"(made.at[3])
                 : "r"(at)
                 : "memory");
    return made;
}

// --- the warp ------------------------------------------------------------------------------------------------------

template <typename Shape, recurrent_kind Kind>
class recurrent_register_warp {
    using T = typename Shape::number;
    static constexpr int chunks = Shape::chunks, slots = Shape::lane_slots, rows = Shape::lane_rows,
                         lanes = Shape::lanes, ahead = Shape::ahead;
    static constexpr bool is_by_mma = Shape::is_by_mma, has_all_slots = Shape::has_all_slots,
                          is_rnn = Kind == recurrent_kind::rnn, is_lstm = Kind == recurrent_kind::lstm,
                          is_gru = !is_rnn && !is_lstm;
    static constexpr unsigned gates = is_rnn ? 1 : is_lstm ? 4 : 3;
    static constexpr unsigned units_of_tile = Shape::units * (is_rnn ? recurrent_slot_count : 1);
    static constexpr int own_states = is_rnn ? slots : 1;  // of a row

public:
    __device__ recurrent_register_warp(const recurrent_clusters& of, unsigned char* shared, unsigned rank)
        : call_(of.call),
          blocks_(static_cast<unsigned>(of.registers.blocks)),
          hidden_(static_cast<unsigned>(of.call.hidden)),
          steps_(static_cast<unsigned>(of.call.steps)),
          lane_(threadIdx.x % 32),
          member_(lane_ % lanes),
          has_y_(of.call.y != nullptr) {
        const recurrent_register_division& by = of.registers;
        const unsigned cluster = blockIdx.x / blocks_, groups = static_cast<unsigned>(by.groups),
                       warp = threadIdx.x / 32;
        direction_ = cluster / groups;
        first_row_ = cluster % groups * Shape::rows;
        is_reversed_ = static_cast<unsigned>(call_.reversed >> direction_ & 1);
        chunks_of_row_ = static_cast<unsigned>(Shape::chunks_of(hidden_));
        pitch_ = static_cast<unsigned>(Shape::pitch(hidden_));
        barriers_ = reinterpret_cast<mbarrier*>(shared);
        shared_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
        of_states_ = Shape::rows * pitch_ * static_cast<unsigned>(sizeof(T));
        recurrent_keep(shared_);
        recurrent_keep(of_states_);
        recurrent_keep(lane_);
        recurrent_keep(member_);
        recurrent_keep(is_reversed_);
        is_relu_ = is_rnn && of.call.f[direction_].what == recurrent_curve::relu;
        states_ = reinterpret_cast<T*>(shared + 16);
        kept_ = reinterpret_cast<recurrent_words*>(states_ + 2 * Shape::rows * pitch_) +
                warp * kept_chunks() * recurrent_slot_count * 32 + lane_;
        tile_ = rank * recurrent_register_warps + warp;
    }

    __device__ void run() {
        prepare();
        if (!has_tile()) return;
        for (unsigned first = 0; first < steps_; first += ahead) {
#pragma unroll
            for (int turn = 0; turn < ahead; ++turn) {
                if (first + turn >= steps_) break;
                make_step(first + turn, ahead_[turn]);
            }
        }
        write(steps_ - 1);
        give_last();
    }

private:
    __device__ void make_step(unsigned step, T (&inputs)[rows][slots]) {
        wait(step);
        float sums[rows][slots];
        if (step == 0 && call_.first_h == nullptr)
            clear(sums);  // there is no state: an infinite weight does not count
        else
            multiply(states_at(step), sums);
        if (step > 0) write(step - 1);  // while the tensor cores multiply
        finish(step, sums, inputs);
        if (step + 1 < steps_) send(step);
        if (blocks_ == 1) wait_for_block();
    }
    // For all warps of the only block that have tiles.
    __device__ void wait_for_block() const {
        if (tile_count() >= recurrent_register_warps)
            __syncthreads();
        else
            asm volatile("bar.sync 1, %0;" ::"r"(tile_count() * 32) : "memory");
    }

    __device__ unsigned kept_chunks() const {
        return Shape::may_have_more && chunks_of_row_ > chunks ? chunks_of_row_ - chunks : 0;
    }
    __device__ unsigned tile_count() const { return (hidden_ + units_of_tile - 1) / units_of_tile; }
    __device__ bool has_tile() const { return tile_ < tile_count(); }
    // The slot that the lane has, where it has one.
    __device__ unsigned own_slot() const { return member_ / (lanes / recurrent_slot_count); }
    __device__ unsigned slot_of(int s) const { return has_all_slots ? s : own_slot(); }
    __device__ unsigned unit_at(unsigned slot) const {
        const unsigned place = lane_ / lanes;
        return tile_ * units_of_tile + (is_rnn ? recurrent_slot_count * place + slot : place);
    }
    __device__ unsigned row_at(int row) const { return has_all_slots ? 2 * member_ + row : row; }
    static __device__ const T* typed(const void* at) { return static_cast<const T*>(at); }

    // In shared memory, before this step.
    __device__ std::uint32_t states_at(unsigned step) const { return shared_ + 16 + (step % 2 != 0 ? of_states_ : 0); }

    // --- before the first step ---

    __device__ recurrent_words weights_at(unsigned slot, unsigned chunk) const {
        constexpr unsigned of_lane = 16 / sizeof(T);
        recurrent_words made{};
        const unsigned unit = unit_at(slot), k = chunk * static_cast<unsigned>(Shape::chunk) + member_ * of_lane;
        const unsigned gate = is_rnn ? 0 : slot;
        if (unit >= hidden_ || gate >= gates || k >= hidden_) return made;
        const T* const from =
            typed(call_.r) + ((std::size_t{direction_} * gates + gate) * hidden_ + unit) * hidden_ + k;
        if (k + of_lane <= hidden_ && reinterpret_cast<std::uintptr_t>(from) % 16 == 0)
            return *reinterpret_cast<const recurrent_words*>(from);
        T* const to = reinterpret_cast<T*>(&made);
#pragma unroll
        for (unsigned j = 0; j < of_lane; ++j)
            if (k + j < hidden_) to[j] = from[j];
        return made;
    }
    __device__ float bias_at(unsigned unit, unsigned gate, unsigned side) const {
        if (call_.bias == nullptr || unit >= hidden_) return 0;
        return float(typed(call_.bias)[((std::size_t{direction_} * 2 + side) * gates + gate) * hidden_ + unit]);
    }
    __device__ float bias_of(unsigned slot) const {
        const unsigned unit = unit_at(slot);
        if (is_gru && slot >= 2) return bias_at(unit, 2, slot == 2 ? 1 : 0);
        return bias_at(unit, is_rnn ? 0 : slot, 0) + bias_at(unit, is_rnn ? 0 : slot, 1);
    }
    __device__ std::size_t state_place(unsigned row, unsigned unit) const {
        return direction_ * call_.state_of_direction + (first_row_ + row) * call_.state_of_batch + unit;
    }
    __device__ float state_at(const void* from, unsigned row, unsigned unit) const {
        if (from == nullptr || first_row_ + row >= call_.batch || unit >= hidden_) return 0;
        return float(typed(from)[state_place(row, unit)]);
    }
    __device__ unsigned length_of(int row) const {
        if (first_row_ + row_at(row) >= call_.batch) return 0;
        if (call_.sequence_lengths == nullptr) return steps_;
        const std::int64_t given = call_.sequence_lengths[first_row_ + row_at(row)];
        return given < 0 ? 0 : static_cast<unsigned>(min(static_cast<std::size_t>(given), call_.steps));
    }

    __device__ void prepare() {
        const unsigned of_states = Shape::rows * pitch_;
        for (unsigned i = threadIdx.x; i < of_states; i += recurrent_register_threads) {
            states_[i] = T(state_at(call_.first_h, i / pitch_, i % pitch_));
            states_[of_states + i] = T(0.0f);
        }
        if (threadIdx.x == 0 && blocks_ > 1) {
            for (int i = 0; i < 2; ++i) barriers_[i].init(1);
            mbarrier::publish_inits();
        }
        __syncthreads();
        if (threadIdx.x == 0 && blocks_ > 1)
            for (int i = 0; i < 2; ++i) barriers_[i].arrive_expecting(sent_bytes());
        prepare_rows();
        prepare_tile();
        // No block sends to another one that has not come so far.
        if (blocks_ > 1)
            asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                             : "memory");
    }
    __device__ void prepare_rows() {
        const std::ptrdiff_t sign = is_reversed_ != 0 ? -1 : 1, row_size = call_.directions * gates * hidden_;
        input_step_ = sign * static_cast<std::ptrdiff_t>(call_.row_of_step) * row_size;
        y_step_ = sign * static_cast<std::ptrdiff_t>(call_.y_of_step);
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            lengths_[row] = length_of(row);
            const std::size_t number = first_row_ + row_at(row),
                              first = is_reversed_ != 0 && lengths_[row] > 0 ? lengths_[row] - 1 : 0;
            const std::size_t line = first * call_.row_of_step + number * call_.row_of_batch;
            inputs_[row] = typed(call_.products) + (line * call_.directions + direction_) * gates * hidden_ +
                           unit_at(is_rnn ? slot_of(0) : 0);
            if (!is_rnn && !has_all_slots) inputs_[row] += gate_of_slot(own_slot()) * hidden_;
            y_[row] = static_cast<T*>(call_.y) + first * call_.y_of_step + direction_ * call_.y_of_direction +
                      number * call_.y_of_batch + unit_at(slot_of(0));
            // Of a sequence that begins at its end: what comes after that is written by steps.
            ends_[row] = y_[row] - first * call_.y_of_step;
            has_row_[row] = number < call_.batch;
        }
        recurrent_keep(input_step_);
        recurrent_keep(y_step_);
    }
    // Of a GRU the last slot is the input's part of the hidden gate.
    static __device__ unsigned gate_of_slot(unsigned slot) { return is_rnn ? 0 : is_gru && slot == 3 ? 2 : slot; }
    // Where a slot's input is, from inputs_[row] on.
    __device__ unsigned input_place(int s) const {
        return has_all_slots ? (is_rnn ? s : gate_of_slot(s) * hidden_) : 0;
    }
    __device__ void prepare_tile() {
        const bool is_there = has_tile();
#pragma unroll
        for (int chunk = 0; chunk < chunks; ++chunk)
#pragma unroll
            for (unsigned slot = 0; slot < recurrent_slot_count; ++slot)
                weights_[chunk][slot] = is_there ? weights_at(slot, chunk) : recurrent_words{};
        for (unsigned chunk = 0; chunk < kept_chunks(); ++chunk)
            for (unsigned slot = 0; slot < recurrent_slot_count; ++slot)
                kept_[(chunk * recurrent_slot_count + slot) * 32] =
                    is_there ? weights_at(slot, chunks + chunk) : recurrent_words{};
#pragma unroll
        for (int s = 0; s < slots; ++s) {
            const unsigned slot = slot_of(s), unit = unit_at(slot);
            bias_[s] = bias_of(slot);
            has_input_[s] = unit < hidden_ && !(is_gru && slot == 2);
#pragma unroll
            for (int row = 0; row < rows; ++row) {
#pragma unroll
                for (int turn = 0; turn < ahead; ++turn) {
                    ahead_[turn][row][s] = T(0.0f);
                    if (has_input_[s] && static_cast<unsigned>(turn) < lengths_[row])
                        ahead_[turn][row][s] = inputs_[row][input_place(s) + turn * input_step_];
                }
            }
        }
#pragma unroll
        for (int s = 0; s < own_states; ++s) is_unit_[s] = unit_at(slot_of(s)) < hidden_;
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            inputs_[row] += ahead * input_step_;
#pragma unroll
            for (int s = 0; s < own_states; ++s)
                h_[row][s] = T(state_at(call_.first_h, row_at(row), unit_at(slot_of(s))));
            c_[row] = is_lstm ? state_at(call_.first_c, row_at(row), unit_at(0)) : 0;
        }
    }

    // --- the products ---

    // use(chunk of the row, its weights).
    template <typename Use>
    __device__ void each_chunk(const Use& use) const {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            if (part == 1 && chunks_of_row_ <= chunks / 2) break;  // the others are zeros
#pragma unroll
            for (int i = 0; i < chunks / 2; ++i) {
                const int chunk = part * chunks / 2 + i;
                use(chunk, weights_[chunk]);
            }
        }
        if constexpr (Shape::may_have_more) {
#pragma unroll 1
            for (unsigned chunk = 0; chunk < kept_chunks(); ++chunk) {
                recurrent_words read[recurrent_slot_count];
#pragma unroll
                for (unsigned slot = 0; slot < recurrent_slot_count; ++slot)
                    read[slot] = kept_[(chunk * recurrent_slot_count + slot) * 32];
                use(chunks + chunk, read);
            }
        }
    }

    static __device__ void clear(float (&sums)[rows][slots]) {
#pragma unroll
        for (int row = 0; row < rows; ++row)
#pragma unroll
            for (int s = 0; s < slots; ++s) sums[row][s] = 0;
    }
    __device__ void multiply(std::uint32_t h, float (&sums)[rows][slots]) const {
        if constexpr (is_by_mma) {
            float parts[2][2][4] = {};  // of the slots 0 and 1, 2 and 3; of each half of a chunk
            // Where a lane has one slot, all columns are the one row.
            const std::uint32_t from = h + (has_all_slots ? lane_ / 4 * pitch_ * 2 : 0) + member_ * 16;
            each_chunk([&](int chunk, const recurrent_words(&w)[recurrent_slot_count]) {
                const recurrent_words x = recurrent_shared_words(from + chunk * 64);
#pragma unroll
                for (int m = 0; m < 2; ++m) {
                    const recurrent_words &low = w[2 * m], &high = w[2 * m + 1];
                    const std::uint32_t first[4] = {low.at[0], high.at[0], low.at[1], high.at[1]},
                                        second[4] = {low.at[2], high.at[2], low.at[3], high.at[3]};
                    mma<T>(parts[m][0], first, x.at[0], x.at[1]);
                    mma<T>(parts[m][1], second, x.at[2], x.at[3]);
                }
            });
#pragma unroll
            for (int row = 0; row < rows; ++row) {
                float all[recurrent_slot_count];
#pragma unroll
                for (int slot = 0; slot < 4; ++slot)
                    all[slot] = parts[slot / 2][0][slot % 2 * 2 + row] + parts[slot / 2][1][slot % 2 * 2 + row];
                if constexpr (has_all_slots) {
#pragma unroll
                    for (int slot = 0; slot < 4; ++slot) sums[row][slot] = all[slot];
                } else {
                    const unsigned slot = own_slot();
                    const float lower = slot % 2 == 0 ? all[0] : all[1], upper = slot % 2 == 0 ? all[2] : all[3];
                    sums[row][0] = slot < 2 ? lower : upper;
                }
            }
        } else {
            float parts[rows][recurrent_slot_count] = {};
            const std::uint32_t from = h + member_ * 16;
            each_chunk([&](int chunk, const recurrent_words(&w)[recurrent_slot_count]) {
#pragma unroll
                for (int row = 0; row < rows; ++row) {
                    const recurrent_words x = recurrent_shared_words(from + row * pitch_ * 4 + chunk * lanes * 16);
#pragma unroll
                    for (unsigned slot = 0; slot < recurrent_slot_count; ++slot) {
                        float& sum = parts[row][slot];
                        sum = fmaf(__uint_as_float(w[slot].at[0]), __uint_as_float(x.at[0]), sum);
                        sum = fmaf(__uint_as_float(w[slot].at[1]), __uint_as_float(x.at[1]), sum);
                        sum = fmaf(__uint_as_float(w[slot].at[2]), __uint_as_float(x.at[2]), sum);
                        sum = fmaf(__uint_as_float(w[slot].at[3]), __uint_as_float(x.at[3]), sum);
                    }
                }
            });
#pragma unroll
            for (int row = 0; row < rows; ++row) sums[row][0] = sum_of_own_slot(parts[row]);
        }
    }
    // Each lane of a unit gets the sum of its slot.
    __device__ float sum_of_own_slot(const float (&parts)[recurrent_slot_count]) const {
        const bool is_upper = (member_ & lanes / 2) != 0, is_odd = (member_ & lanes / 4) != 0;
        float two[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
            two[i] = (is_upper ? parts[2 + i] : parts[i]) +
                     __shfl_xor_sync(~0u, is_upper ? parts[i] : parts[2 + i], lanes / 2);
        float sum = (is_odd ? two[1] : two[0]) + __shfl_xor_sync(~0u, is_odd ? two[0] : two[1], lanes / 4);
#pragma unroll
        for (int mask = lanes / 8; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
        return sum;
    }

    // --- gates and states ---

    __device__ float activated(int s, float value) const {
        if constexpr (is_rnn) {
            const float relu = value < 0 ? 0 : value, tanh = recurrent_gate<T>(value, true);
            return is_relu_ ? relu : tanh;
        } else if constexpr (is_lstm) {
            return recurrent_gate<T>(value, slot_of(s) == 3);
        } else {
            const float gate = recurrent_gate<T>(value, false);
            return slot_of(s) >= 2 ? value : gate;
        }
    }

    __device__ void finish(unsigned step, float (&sums)[rows][slots], T (&inputs)[rows][slots]) {
#pragma unroll
        for (int row = 0; row < rows; ++row) {
#pragma unroll
            for (int s = 0; s < slots; ++s) {
                const float input = float(inputs[row][s]) + bias_[s];
                if (has_input_[s] && step + ahead < lengths_[row]) inputs[row][s] = inputs_[row][input_place(s)];
                // The slot without a product: 0 times an infinite state is no number.
                const float product = is_gru && slot_of(s) == 3 ? 0.0f : sums[row][s];
                sums[row][s] = activated(s, product + input);
            }
            inputs_[row] += input_step_;
        }
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const bool is_over = step >= lengths_[row];
            if constexpr (is_rnn) {
#pragma unroll
                for (int s = 0; s < slots; ++s)
                    if (!is_over && is_unit_[s]) h_[row][s] = short_number<T>(sums[row][s]);
            } else {
                finish_gated(row, is_over || !is_unit_[0], sums[row]);
            }
        }
    }
    // A state that stays is one of a sequence that is over, or of a unit that is not there: that is 0.
    __device__ void finish_gated(int row, bool stays, const float (&own)[slots]) {
        float all[recurrent_slot_count];
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            if constexpr (has_all_slots)
                all[s] = own[s];
            else
                all[s] = __shfl_sync(~0u, own[0], s * (lanes / 4), lanes);
        }
        float h = 0, c = c_[row];
        if constexpr (is_lstm) {
            const float forget = call_.is_coupled != 0 ? 1 - all[0] : all[2];
            const float cell = fmaf(forget, c, all[0] * all[3]);
            c = float(short_number<T>(cell));
            h = all[1] * recurrent_gate<T>(cell, true);
        } else {
            h = fmaf(all[0], float(h_[row][0]), (1 - all[0]) * recurrent_gate<T>(fmaf(all[1], all[2], all[3]), true));
        }
        if (!stays) h_[row][0] = short_number<T>(h);
        if (!stays) c_[row] = c;
    }

    // Of lanes with the same state, one has it to give.
    __device__ bool gives(int s) const {
        return is_rnn ? has_all_slots || member_ % (lanes / 4) == 0 : has_all_slots ? s == 0 : member_ == 0;
    }
    __device__ void write(unsigned step) {
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const bool is_over = step >= lengths_[row];
            T* const to = is_over && is_reversed_ != 0 ? ends_[row] : y_[row];
#pragma unroll
            for (int s = 0; s < own_states; ++s)
                if (has_y_ && has_row_[row] && gives(s) && is_unit_[s]) to[s] = is_over ? T(0.0f) : h_[row][s];
            y_[row] += y_step_;
            if (is_reversed_ != 0) ends_[row] -= y_step_;
        }
    }
    __device__ void give_last() const {
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            if (!has_row_[row]) continue;
#pragma unroll
            for (int s = 0; s < own_states; ++s) {
                const unsigned unit = unit_at(slot_of(s));
                if (!gives(s) || unit >= hidden_) continue;
                const std::size_t place = state_place(row_at(row), unit);
                if (call_.last_h != nullptr) static_cast<T*>(call_.last_h)[place] = h_[row][s];
                if (is_lstm && call_.last_c != nullptr) static_cast<T*>(call_.last_c)[place] = T(c_[row]);
            }
        }
    }

    // --- from one step to the next ---

    // What comes to each block in a step: the tiles that are there, whole.
    __device__ unsigned sent_bytes() const {
        return tile_count() * units_of_tile * Shape::rows * static_cast<unsigned>(sizeof(T));
    }
    __device__ void wait(unsigned step) {
        if (blocks_ == 1 || step == 0) return;
        mbarrier& arrived = barriers_[step % 2];
        arrived.wait_for_cluster((step - 1) / 2 % 2);
        if (threadIdx.x == 0) arrived.arrive_expecting(sent_bytes());
    }
    // A word at `place` of the next states; `equals` lanes have the same one, and this is the lane `index` of them.
    __device__ void put(unsigned step, unsigned place, std::uint32_t word, unsigned index, unsigned equals) const {
        const std::uint32_t here = states_at(step + 1) + place * static_cast<unsigned>(sizeof(T)),
                            barrier = shared_ + (step + 1) % 2 * 8;
        if (blocks_ == 1) {
            if (index == 0) asm volatile("st.shared.b32 [%0], %1;" ::"r"(here), "r"(word) : "memory");
            return;
        }
        for (unsigned rank = index; rank < blocks_; rank += equals) {
            asm volatile(
                "{\n"
                ".reg .b32 there, counted;\n"
                "mapa.shared::cluster.u32 there, %0, %3;\n"
                "mapa.shared::cluster.u32 counted, %1, %3;\n"
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %2, [counted];\n"
                "}\n" ::"r"(here),
                "r"(barrier), "r"(word), "r"(rank)
                : "memory");
        }
    }
    __device__ void send(unsigned step) const {
        if (!has_tile()) return;
        if constexpr (!is_by_mma) {
            constexpr unsigned equals = is_rnn ? lanes / 4 : lanes;
#pragma unroll
            for (int row = 0; row < rows; ++row)
                put(step, row * pitch_ + unit_at(own_slot()), __float_as_uint(h_[row][0]), member_ % equals, equals);
        } else if constexpr (!has_all_slots) {
            constexpr unsigned mask = is_rnn ? 1 : lanes;  // the lane with the other unit of the word
            const T mine = h_[0][0], other = recurrent_shuffled(mine, mask);
            const bool is_second = (lane_ & mask) != 0;
            const std::uint32_t word = is_second ? short_pair(other, mine) : short_pair(mine, other);
            const unsigned index = is_rnn ? is_second : member_ + (is_second ? lanes : 0);
            put(step, unit_at(own_slot()) & ~1u, word, index, is_rnn ? 2 : 2 * lanes);
        } else if constexpr (is_rnn) {
#pragma unroll
            for (int row = 0; row < rows; ++row)
#pragma unroll
                for (int s = 0; s < 4; s += 2)
                    put(step, row_at(row) * pitch_ + unit_at(s), short_pair(h_[row][s], h_[row][s + 1]), 0, 1);
        } else {
            // Of two lanes with neighbouring units the first one sends one row, the second one the other.
            const bool is_second = (lane_ & lanes) != 0;
            const T first = h_[0][0], second = h_[1][0];
            const T kept = is_second ? second : first, other = recurrent_shuffled(is_second ? first : second, lanes);
            put(step, row_at(is_second ? 1 : 0) * pitch_ + (unit_at(0) & ~1u),
                is_second ? short_pair(other, kept) : short_pair(kept, other), 0, 1);
        }
    }

    const recurrent_layer& call_;
    const unsigned blocks_, hidden_, steps_;
    unsigned lane_, member_, direction_, first_row_, chunks_of_row_, pitch_, tile_;
    unsigned is_reversed_;  // 0 or 1
    bool is_relu_;
    const bool has_y_;
    std::uint32_t shared_, of_states_;  // an address, and bytes
    mbarrier* barriers_;
    T* states_;
    recurrent_words* kept_;
    const T* inputs_[rows];  // of the step that is `ahead` steps on
    T *y_[rows], *ends_[rows];
    std::ptrdiff_t input_step_, y_step_;
    unsigned lengths_[rows];
    bool has_row_[rows], has_input_[slots], is_unit_[own_states];
    recurrent_words weights_[chunks][recurrent_slot_count];
    float bias_[slots], c_[rows];
    T ahead_[ahead][rows][slots], h_[rows][own_states];
};

#endif

template <typename Shape, recurrent_kind Kind>
__global__ void __launch_bounds__(recurrent_register_threads, 1)
    recurrent_registers_on_device([[maybe_unused]] const __grid_constant__ recurrent_clusters closure) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) unsigned char sluice_recurrent_memory[];
    recurrent_register_warp<Shape, Kind>(closure, sluice_recurrent_memory,
                                         blockIdx.x % static_cast<unsigned>(closure.registers.blocks))
        .run();
#endif
}

}  // namespace sluice::kernels
