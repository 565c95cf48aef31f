// SPDX-License-Identifier: Apache-2.0
// The boxes of a kernel that stays, with a host thread in the kernel's place.
#include "kernels/resident/request_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace sluice::kernels::request_ring_tests {
namespace {

// Of a size that is no multiple of a word.
struct question {
    std::array<unsigned char, 7> bytes;
};
struct reply {
    std::array<unsigned char, 5> bytes;
};

question question_of(unsigned number) {
    question made{};
    std::memcpy(made.bytes.data(), &number, sizeof(number));
    return made;
}
unsigned number_in(const reply& of) {
    unsigned made = 0;
    std::memcpy(&made, of.bytes.data(), sizeof(made));
    return made;
}

struct boxes {
    explicit boxes(std::size_t depth)
        : inbox(request_ring::inbox_words(depth, sizeof(question))),
          outbox(request_ring::outbox_words(depth, sizeof(reply))),
          ring(depth, sizeof(question), sizeof(reply), inbox.data(), outbox.data()) {}

    // Answers the next request, if there is one.
    bool serve() {
        question asked{};
        if (!ring.read_request(served, &asked)) return false;
        reply made{};
        std::memcpy(made.bytes.data(), asked.bytes.data(), sizeof(made));
        ring.write_answer(served++, &made);
        return true;
    }
    // Whether the answer to the request is there; `made` gets it.
    bool take(std::uint64_t number, reply& made) {
        std::uint32_t words_taken = 0;
        return ring.take(number, &made, words_taken);
    }
    std::uint64_t ask(unsigned number) {
        const auto claimed = ring.claim();
        EXPECT_TRUE(claimed.has_value());
        const question asked = question_of(number);
        ring.ask(*claimed, &asked);
        return *claimed;
    }

    std::vector<std::uint64_t> inbox, outbox;
    request_ring ring;
    std::uint64_t served = 0;
};

}  // namespace

TEST(request_ring, each_request_gets_its_answer_in_any_order) {
    boxes all(3);
    for (unsigned round = 0; round < 100; ++round) {
        const std::uint64_t first = all.ask(10 * round), second = all.ask(10 * round + 1);
        reply made{};
        EXPECT_FALSE(all.ring.has_answer(first));
        EXPECT_FALSE(all.take(first, made));
        EXPECT_TRUE(all.serve());
        EXPECT_TRUE(all.ring.has_answer(first));
        EXPECT_FALSE(all.take(second, made));
        EXPECT_TRUE(all.serve());
        EXPECT_FALSE(all.serve());
        EXPECT_TRUE(all.take(second, made));
        EXPECT_EQ(number_in(made), 10 * round + 1);
        EXPECT_TRUE(all.take(first, made));
        EXPECT_EQ(number_in(made), 10 * round);
    }
}

TEST(request_ring, is_bounded) {
    boxes all(2);
    const std::uint64_t first = all.ask(1), second = all.ask(2);
    EXPECT_FALSE(all.ring.claim().has_value());
    all.serve();
    all.serve();
    // Answered, but not taken: as many answers are kept as there are entries.
    const std::uint64_t third = all.ask(3), fourth = all.ask(4);
    EXPECT_FALSE(all.ring.claim().has_value());
    all.serve();
    all.serve();
    EXPECT_FALSE(all.ring.claim().has_value());
    EXPECT_TRUE(all.ring.has_answer(first));
    reply made{};
    EXPECT_TRUE(all.take(fourth, made));
    EXPECT_EQ(number_in(made), 4u);
    EXPECT_FALSE(all.ring.claim().has_value());  // the third one's entry is the next, and no room is left to keep it
    EXPECT_TRUE(all.take(first, made));
    EXPECT_EQ(number_in(made), 1u);
    const std::uint64_t fifth = all.ask(5);
    all.serve();
    EXPECT_TRUE(all.take(third, made));
    EXPECT_EQ(number_in(made), 3u);
    EXPECT_TRUE(all.take(fifth, made));
    EXPECT_EQ(number_in(made), 5u);
    EXPECT_TRUE(all.take(second, made));
    EXPECT_EQ(number_in(made), 2u);
    EXPECT_TRUE(all.ring.claim().has_value());
}

TEST(request_ring, a_kept_answer_that_is_not_wanted_leaves_its_room) {
    boxes all(1);
    for (unsigned round = 0; round < 10; ++round) {
        const std::uint64_t first = all.ask(round);
        all.serve();
        const std::uint64_t second = all.ask(100 + round);  // the first one's answer is kept
        all.serve();
        EXPECT_FALSE(all.ring.claim().has_value());
        all.ring.abandon(first);
        const std::uint64_t third = all.ask(200 + round);
        all.serve();
        reply made{};
        EXPECT_TRUE(all.take(second, made));
        EXPECT_EQ(number_in(made), 100 + round);
        EXPECT_TRUE(all.take(third, made));
        EXPECT_EQ(number_in(made), 200 + round);
    }
}

TEST(request_ring, an_answer_that_is_not_wanted_frees_its_entry_when_it_comes) {
    boxes all(1);
    for (unsigned round = 0; round < 10; ++round) {
        all.ring.abandon(all.ask(round));
        EXPECT_FALSE(all.ring.claim().has_value());  // the kernel may still read the request
        all.serve();
        const std::uint64_t next = all.ask(100 + round);
        all.serve();
        all.ring.abandon(next);  // after its answer
        reply made{};
        const std::uint64_t last = all.ask(200 + round);
        all.serve();
        EXPECT_TRUE(all.take(last, made));
        EXPECT_EQ(number_in(made), 200 + round);
    }
}

TEST(request_ring, serves_many_threads) {
    constexpr unsigned threads = 4, rounds = 500;
    boxes all(3);
    std::atomic<bool> is_over{false};
    std::jthread kernel([&] {
        while (!is_over)
            if (!all.serve()) std::this_thread::yield();
    });
    std::atomic<unsigned> wrong{0};
    {
        std::vector<std::jthread> askers;
        for (unsigned i = 0; i < threads; ++i) {
            askers.emplace_back([&, i] {
                for (unsigned round = 0; round < rounds; ++round) {
                    std::optional<std::uint64_t> number;
                    while (!(number = all.ring.claim())) std::this_thread::yield();
                    const question asked = question_of(i * rounds + round);
                    all.ring.ask(*number, &asked);
                    if (round % 5 == i) {
                        all.ring.abandon(*number);
                        continue;
                    }
                    reply made{};
                    while (!all.take(*number, made)) std::this_thread::yield();
                    if (number_in(made) != i * rounds + round) ++wrong;
                }
            });
        }
    }
    is_over = true;
    EXPECT_EQ(wrong, 0u);
}

// Each thread asks while it has answers to take. With entries that wait to be taken in turn, all would wait for ever.
TEST(request_ring, threads_that_have_answers_to_take_do_not_stop_each_other) {
    constexpr unsigned threads = 4, at_once = 2, rounds = 2000;
    boxes all(threads * at_once);
    std::atomic<bool> is_over{false};
    std::jthread kernel([&] {
        while (!is_over)
            if (!all.serve()) std::this_thread::yield();
    });
    std::atomic<unsigned> wrong{0};
    {
        std::vector<std::jthread> askers;
        for (unsigned i = 0; i < threads; ++i) {
            askers.emplace_back([&, i] {
                for (unsigned round = 0; round < rounds; ++round) {
                    std::array<std::uint64_t, at_once> numbers{};
                    for (unsigned k = 0; k < at_once; ++k) {
                        std::optional<std::uint64_t> number;
                        while (!(number = all.ring.claim())) std::this_thread::yield();
                        const question asked = question_of((i * rounds + round) * at_once + k);
                        all.ring.ask(*number, &asked);
                        numbers[k] = *number;
                        if (round % 16 == 4 * i) std::this_thread::yield();
                    }
                    if (round % 32 == i) std::this_thread::sleep_for(std::chrono::microseconds(50));
                    for (unsigned k = at_once; k-- > 0;) {
                        if (round % 7 == 3) {
                            all.ring.abandon(numbers[k]);
                            continue;
                        }
                        reply made{};
                        std::uint32_t words_taken = 0;
                        while (!all.ring.take(numbers[k], &made, words_taken)) std::this_thread::yield();
                        if (number_in(made) != (i * rounds + round) * at_once + k) ++wrong;
                    }
                }
            });
        }
    }
    is_over = true;
    EXPECT_EQ(wrong, 0u);
}

}  // namespace sluice::kernels::request_ring_tests
