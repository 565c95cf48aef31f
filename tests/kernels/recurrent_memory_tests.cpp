// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM on a CPU write their outputs and the scratch memory that they ask for, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "kernels/recurrent/recurrent.hpp"

namespace sluice::kernels::recurrent_memory_tests {
namespace {

constexpr float untouched = -123.25f;
constexpr std::size_t guard = 4'096;  // floats after the memory

// Numbers with a guard after them.
class guarded_memory {
public:
    explicit guarded_memory(std::size_t count) : count_(count), all_(count + guard, untouched) {}
    float* data() { return all_.data(); }
    bool is_whole() const {
        return std::all_of(all_.begin() + static_cast<std::ptrdiff_t>(count_), all_.end(),
                           [](float each) { return each == untouched; });
    }

private:
    std::size_t count_;
    std::vector<float> all_;
};

void expect_no_write_outside(const recurrent_form& form, bool is_packed) {
    const std::size_t gates = gates_of(form.kind), states = form.directions * form.batch * form.hidden;
    const std::vector<float> of_inputs(form.directions * gates * form.hidden * form.inputs, 0.01f),
        of_state(form.directions * gates * form.hidden * form.hidden, 0.01f),
        x(form.steps * form.batch * form.inputs, 0.5f);
    guarded_memory image(recurrent_image_floats(form)),
        scratch(recurrent_scratch_floats(form, is_packed ? recurrent_image::floats : recurrent_image::none)),
        y(form.steps * states), last_h(states), last_c(states);
    recurrent_call call{};
    call.form = form;
    call.weights = {of_inputs.data(), of_state.data(), nullptr, nullptr};
    if (is_packed) {
        pack_recurrent(form, call.weights, image.data());
        call.image = image.data();
    }
    call.x = x.data();
    call.y = y.data();
    call.last_h = last_h.data();
    call.last_c = form.kind == recurrent_kind::lstm ? last_c.data() : nullptr;
    call.scratch = scratch.data();
    call.x_strides = {form.batch * form.inputs, 0, form.inputs};
    call.y_strides = {states, form.batch * form.hidden, form.hidden};
    call.state_strides = {0, form.batch * form.hidden, form.hidden};
    recurrent_on_cpu(call);
    EXPECT_TRUE(image.is_whole());
    EXPECT_TRUE(scratch.is_whole());
    EXPECT_TRUE(y.is_whole());
    EXPECT_TRUE(last_h.is_whole());
    EXPECT_TRUE(last_c.is_whole());
}

TEST(recurrent_memory, nothing_is_written_outside) {
    std::mt19937 numbers(3);
    const auto any = [&](std::size_t low, std::size_t high) { return low + numbers() % (high - low + 1); };
    constexpr std::size_t hidden[] = {1, 7, 16, 17, 100, 130};
    for (int round = 0; round < 300; ++round) {
        const recurrent_form form{static_cast<recurrent_kind>(any(0, 3)), any(1, 2), any(1, 30), any(1, 30), any(0, 20),
                                  hidden[any(0, std::size(hidden) - 1)]};
        SCOPED_TRACE(::testing::Message()
                     << form.steps << " steps, " << form.batch << " sequences, " << form.hidden << " units");
        expect_no_write_outside(form, any(0, 1) == 1);
        if (::testing::Test::HasFailure()) return;
    }
}

// Also the room where states are quantized: no thread takes memory at a step, where no caller can receive the error of
// a shortage.
TEST(recurrent_memory, weights_of_8_bits_have_room_for_states) {
    for (const std::size_t directions : {1, 2}) {
        for (const std::size_t batch : {1, 47, 48, 49, 100}) {
            for (const std::size_t hidden : {7, 130}) {
                SCOPED_TRACE(::testing::Message() << batch << " sequences, " << hidden << " units");
                const recurrent_form form{recurrent_kind::lstm, directions, 3, batch, 5, hidden};
                const std::size_t columns = directions * 4 * hidden, states = directions * batch * hidden;
                const std::vector<std::byte> image = recurrent_integer_image(
                    form,
                    {std::vector<std::int8_t>(columns * form.inputs, 3), std::vector<std::int8_t>(columns * hidden, -2),
                     std::vector<float>(columns, 0.01f), std::vector<float>(columns, 0.01f), nullptr, nullptr});
                const std::vector<float> x(form.steps * batch * form.inputs, 0.5f);
                const std::size_t floats = recurrent_scratch_floats(form, recurrent_image::integers);
                guarded_memory scratch(floats), y(form.steps * states);
                recurrent_call call{};
                call.form = form;
                call.integers = image.data();
                call.x = x.data();
                call.y = y.data();
                call.scratch = scratch.data();
                call.x_strides = {batch * form.inputs, 0, form.inputs};
                call.y_strides = {states, batch * hidden, hidden};
                call.state_strides = {0, batch * hidden, hidden};
                recurrent_on_cpu(call);
                EXPECT_TRUE(scratch.is_whole());
                EXPECT_TRUE(y.is_whole());
            }
        }
    }
}

}  // namespace
}  // namespace sluice::kernels::recurrent_memory_tests
