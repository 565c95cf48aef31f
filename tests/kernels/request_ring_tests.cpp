// SPDX-License-Identifier: Apache-2.0
// The boxes of a kernel that stays, with a host thread in the kernel's place.
#include "kernels/resident/request_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
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
        EXPECT_FALSE(all.ring.take(first, &made));
        EXPECT_TRUE(all.serve());
        EXPECT_TRUE(all.ring.has_answer(first));
        EXPECT_FALSE(all.ring.take(second, &made));
        EXPECT_TRUE(all.serve());
        EXPECT_FALSE(all.serve());
        EXPECT_TRUE(all.ring.take(second, &made));
        EXPECT_EQ(number_in(made), 10 * round + 1);
        EXPECT_TRUE(all.ring.take(first, &made));
        EXPECT_EQ(number_in(made), 10 * round);
    }
}

TEST(request_ring, is_bounded) {
    boxes all(2);
    const std::uint64_t first = all.ask(1), second = all.ask(2);
    EXPECT_FALSE(all.ring.claim().has_value());
    all.serve();
    EXPECT_FALSE(all.ring.claim().has_value());  // answered, but not taken
    reply made{};
    EXPECT_TRUE(all.ring.take(first, &made));
    const std::uint64_t third = all.ask(3);
    EXPECT_FALSE(all.ring.claim().has_value());
    all.serve();
    all.serve();
    // The third one's entry is not the next: the second one's is.
    EXPECT_TRUE(all.ring.take(third, &made));
    EXPECT_EQ(number_in(made), 3u);
    EXPECT_FALSE(all.ring.claim().has_value());
    EXPECT_TRUE(all.ring.take(second, &made));
    EXPECT_EQ(number_in(made), 2u);
    EXPECT_TRUE(all.ring.claim().has_value());
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
        EXPECT_TRUE(all.ring.take(last, &made));
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
                    while (!all.ring.take(*number, &made)) std::this_thread::yield();
                    if (number_in(made) != i * rounds + round) ++wrong;
                }
            });
        }
    }
    is_over = true;
    EXPECT_EQ(wrong, 0u);
}

}  // namespace sluice::kernels::request_ring_tests
