// SPDX-License-Identifier: Apache-2.0
// Messages through hatches, with both ends in this process, and with an end that does what it must not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <variant>
#include <vector>

#include "fuzz/read_worker_hatch.hpp"
#include "serve/workers/batch_message.hpp"
#include "serve/workers/hatch_memory.hpp"
#include "serve/workers/packed.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve::hatch_tests {
namespace {

using namespace std::chrono_literals;

// The memory, mapped twice, as in two processes.
class two_ends {
    hatch_memory here_, there_;  // first, since the hatches are in it

public:
    explicit two_ends(std::size_t hatch_bytes)
        : here_(1, hatch_bytes),
          there_(io::file_descriptor(::fcntl(here_.descriptor(), F_DUPFD_CLOEXEC, 3)), 1, hatch_bytes) {}

    hatch_words& words() const { return here_.words(0); }
    hatch front{here_.words(0), here_.area(0), hatch_side::front};
    hatch worker{there_.words(0), there_.area(0), hatch_side::worker};
};

const hatch_wait forever{.spin = 10us, .look = [] {}};

nn::any_tensor numbers(std::size_t count) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<float>(i);
    return {made, {count}};
}

void expect_equal(const nn::any_tensor& a, const nn::any_tensor& b) {
    ASSERT_EQ(static_cast<bool>(a), static_cast<bool>(b));
    EXPECT_EQ(a.type(), b.type());
    EXPECT_EQ(a.shape(), b.shape());
    const auto left = a.bytes(), right = b.bytes();
    EXPECT_TRUE(std::equal(left.begin(), left.end(), right.begin(), right.end()));
}

// The worker's side gives back what it gets.
void answer_once(hatch& worker) {
    const batch_request got = read_request(worker, worker.take(forever.spin, forever.look), forever);
    EXPECT_EQ(got.model, 7U);
    write_answer(worker, forever, got.inputs);
}

TEST(hatch, a_message_of_any_length_comes_whole_through_memory_of_any_length) {
    for (const std::size_t area : {1U, 64U, 4096U}) {
        two_ends ends(area);
        for (const std::size_t count : {0U, 1U, 15U, 16U, 1023U, 5000U}) {
            if (area == 1 && count > 100) continue;  // a turn for each byte
            const std::vector<nn::any_tensor> inputs{
                numbers(count), {}, numbers(1).with_shape({}), numbers(0).with_shape({0, 3})};
            std::thread worker([&] { answer_once(ends.worker); });
            write_request(ends.front, forever, 7, inputs);
            const batch_answer got = read_answer(ends.front, ends.front.take(forever.spin, forever.look), forever);
            worker.join();
            const auto& outputs = std::get<std::vector<nn::any_tensor>>(got);
            ASSERT_EQ(outputs.size(), inputs.size());
            for (std::size_t i = 0; i < inputs.size(); ++i) expect_equal(outputs[i], inputs[i]);
        }
    }
}

TEST(hatch, a_failure_comes_as_it_was_written) {
    two_ends ends(64);
    const std::string text(1000, 'x');
    std::thread worker([&] {
        read_request(ends.worker, ends.worker.take(forever.spin, forever.look), forever);
        write_failure(ends.worker, forever, text);
    });
    write_request(ends.front, forever, 7, {});
    EXPECT_EQ(std::get<std::string>(read_answer(ends.front, ends.front.take(0ns, [] {}), forever)), text);
    worker.join();
}

TEST(hatch, a_look_ends_a_wait_and_the_answer_can_still_be_taken) {
    two_ends ends(64);
    write_request(ends.front, forever, 7, {});
    int looks = 0;
    const auto look = [&] {
        if (++looks == 3) throw error(errc::canceled, "enough");
    };
    EXPECT_THROW(ends.front.take(0ns, look), error);
    answer_once(ends.worker);
    EXPECT_TRUE(ends.front.has_piece());
    read_answer(ends.front, ends.front.take(0ns, look), forever);
    EXPECT_FALSE(ends.front.has_piece());
}

TEST(hatch, tensors_that_are_longer_than_allowed_are_refused_before_there_is_memory_for_them) {
    two_ends ends(1 << 16);
    write_request(ends.front, forever, 7, std::vector{numbers(100)});
    EXPECT_THROW(read_request(ends.worker, ends.worker.take(0ns, [] {}), forever, 399), worker_damage);
}

TEST(hatch, a_counter_or_a_length_that_is_impossible_is_an_error) {
    for (const std::uint32_t given : {2U, 17U, std::numeric_limits<std::uint32_t>::max()}) {
        two_ends ends(64);
        ends.words().worker.given = given;
        EXPECT_THROW(ends.front.has_piece(), worker_damage);
        EXPECT_THROW(ends.front.take(0ns, [] {}), worker_damage);
    }
    for (const std::uint32_t piece : {65U, 0x7fffffffU, 0x80000041U}) {
        two_ends ends(64);
        ends.words().worker.piece = piece;
        ends.words().worker.given = 1;
        EXPECT_THROW(ends.front.take(0ns, [] {}), worker_damage);
    }
}

TEST(hatch, memory_of_another_length_or_without_seals_is_refused) {
    const hatch_memory made(2, 100);
    const auto copy = [&] { return io::file_descriptor(::fcntl(made.descriptor(), F_DUPFD_CLOEXEC, 3)); };
    EXPECT_NO_THROW(hatch_memory(copy(), 2, 100));
    EXPECT_THROW(hatch_memory(copy(), 3, 100), error);
    EXPECT_THROW(hatch_memory(copy(), 2, 1 << 20), error);
    EXPECT_THROW(hatch_memory(io::file_descriptor(::open("/dev/null", O_RDWR)), 2, 100), error);
    EXPECT_NE(::ftruncate(made.descriptor(), 0), 0);  // neither side can make it shorter
    EXPECT_THROW(hatch_memory(0, 100), error);
}

// Damage in every form that a side can give it: the words, and the bytes of the area, in any turn.
TEST(hatch, a_hundred_thousand_damaged_messages_are_read_or_refused) {
    std::mt19937 random(7);
    std::array<unsigned char, 512> bytes{};
    std::size_t read = 0;
    for (int i = 0; i < 100'000; ++i) {
        const std::size_t length = random() % bytes.size();
        for (std::size_t k = 0; k < length; ++k)
            bytes[k] = static_cast<unsigned char>(random() % 4 == 0 ? random() : 0);
        read += fuzz::read_worker_hatch(std::as_bytes(std::span(bytes).first(length))) ? 1 : 0;
    }
    EXPECT_GT(read, 0U);  // some damage leaves a message
}

}  // namespace
}  // namespace sluice::serve::hatch_tests
