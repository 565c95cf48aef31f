// SPDX-License-Identifier: Apache-2.0
// The boxes of a network that stays on a GPU, with this program in the kernel's place: it reads and writes the words as
// resident_layout.hpp says.
#include "kernels/resident/resident_lanes.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/resident/resident_plan.hpp"

namespace sluice::kernels::resident_lanes_tests {
namespace {

using elements = std::vector<std::uint16_t>;

resident_layout layout_of(std::size_t in, std::size_t out, std::uint32_t blocks, std::uint32_t rows) {
    mlp_layer layer;
    layer.in_features = in;
    layer.out_features = out;
    layer.weight.resize(in * out);
    return plan_resident({layer}, blocks, rows);
}

std::uint32_t flag_of(const resident_word& word) { return static_cast<std::uint32_t>(word.high >> 48); }
std::uint16_t element_of(const resident_word& word, std::size_t i) {
    return static_cast<std::uint16_t>((i < 4 ? word.low >> 16 * i : word.high >> 16 * (i - 4)) & 0xffff);
}

// One lane, and what the kernel sees of it.
struct lane {
    explicit lane(const resident_layout& of)
        : layout(of),
          memory(resident_lanes::bytes(of, 1) / sizeof(resident_word)),
          boxes(of, 1, memory.data()),
          call(boxes.call(0, nullptr)) {}

    // The rows and the inputs of the request with this number, if all its words are there.
    std::optional<elements> read(std::uint32_t number, std::size_t slot) const {
        const resident_word* const entry = call.inbox + slot * layout.input_words();
        const std::uint32_t columns = layout.layer[0].inputs, flag = flag_of(entry[0]);
        if (flag >> 4 != number) return std::nullopt;
        const std::size_t rows = flag % 16 + 1;
        elements made(rows * columns);
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t i = 0; i < columns; ++i) {
                const std::size_t word = i / resident_word_elements, block = word / layout.words;
                const resident_word& from =
                    entry[block * layout.input_pitch() + row * layout.words + word % layout.words];
                if (flag_of(from) != flag) return std::nullopt;
                made[row * columns + i] = element_of(from, i % resident_word_elements);
            }
        }
        return made;
    }
    // Whether any word of the entry has this number.
    bool has(std::uint32_t number, std::size_t slot) const {
        for (std::uint32_t i = 0; i < layout.input_words(); ++i)
            if (flag_of(call.inbox[slot * layout.input_words() + i]) >> 4 == number) return true;
        for (std::uint32_t i = 0; i < layout.output_words(); ++i)
            if (flag_of(call.outbox[slot * layout.output_words() + i]) >> 4 == number) return true;
        return false;
    }
    void answer(const elements& values, std::uint32_t flag, std::size_t slot) const {
        for (std::size_t i = 0; i < values.size(); i += resident_word_elements) {
            std::uint64_t halves[2] = {};
            std::memcpy(halves, &values[i], std::min<std::size_t>(resident_word_elements, values.size() - i) * 2);
            call.outbox[slot * layout.output_words() + i / resident_word_elements] = {
                halves[0], halves[1] | std::uint64_t{flag} << 48};
        }
    }

    resident_layout layout;
    std::vector<resident_word> memory;
    resident_lanes boxes;
    resident_call call;
};

elements counted_from(std::size_t first, std::size_t count) {
    elements made(count);
    std::iota(made.begin(), made.end(), static_cast<std::uint16_t>(first));
    return made;
}

}  // namespace

TEST(resident_lanes, carry_requests_and_answers_of_every_width) {
    for (const std::uint32_t blocks : {1u, 4u, 8u, 16u}) {
        for (const std::size_t in : {1, 6, 7, 8, 13, 20, 64, 100, 784}) {
            for (const std::size_t out : {1, 3, 7, 10, 50}) {
                lane one(layout_of(in, out, blocks, 8));
                for (std::uint32_t number = 1, rows = 1; rows <= 8; ++number, ++rows) {
                    SCOPED_TRACE(::testing::Message()
                                 << blocks << " blocks, " << in << " to " << out << ", " << rows << " rows");
                    // No more than it is given: a sanitizer sees reads after the end.
                    const elements inputs = counted_from(number, rows * in);
                    EXPECT_EQ(one.read(number, (number + 1) % 2), std::nullopt);
                    one.boxes.ask(0, inputs.data(), rows);
                    EXPECT_EQ(one.read(number, (number + 1) % 2), inputs);
                    elements outputs(rows * out);
                    EXPECT_FALSE(one.boxes.take(0, outputs.data()));
                    const elements sent = counted_from(100 * number, rows * out);
                    one.answer(sent, number << 4 | (rows - 1), (number + 1) % 2);
                    EXPECT_TRUE(one.boxes.take(0, outputs.data()));
                    EXPECT_EQ(outputs, sent);
                }
            }
        }
    }
}

TEST(resident_lanes, have_no_word_of_a_number_that_comes_again) {
    lane one(layout_of(20, 3, 4, 8));
    const elements inputs = counted_from(5, std::size_t{8} * 20), sent = counted_from(7, std::size_t{8} * 3);
    elements outputs(sent.size());
    std::uint32_t number = 0;
    std::size_t slot = 1;
    for (std::size_t i = 0; i < 5 * last_resident_number; ++i) {
        number = next_resident_number(number);
        slot = 1 - slot;
        // While the kernel waits for it: of the words of eight rows no one is old.
        ASSERT_FALSE(one.has(number, slot)) << i;
        if (i % 1000 == 17) {
            one.boxes.ask_to_reload(0);
            ASSERT_FALSE(one.boxes.take(0, nullptr));
            one.answer({0}, number << 4 | resident_reload, slot);
            ASSERT_TRUE(one.boxes.take(0, nullptr));
            continue;
        }
        const std::uint32_t rows = i % 700 == 3 ? 8 : 1;
        one.boxes.ask(0, inputs.data(), rows);
        // The entry before is there for blocks that have not looked yet.
        if (i > 0) {
            ASSERT_TRUE(one.has(number == 1 ? last_resident_number : number - 1, 1 - slot)) << i;
        }
        ASSERT_EQ(one.read(number, slot), elements(inputs.begin(), inputs.begin() + rows * 20)) << i;
        ASSERT_FALSE(one.boxes.take(0, outputs.data())) << i;
        one.answer({sent.begin(), sent.begin() + rows * 3}, number << 4 | (rows - 1), slot);
        ASSERT_TRUE(one.boxes.take(0, outputs.data())) << i;
    }
}

}  // namespace sluice::kernels::resident_lanes_tests
