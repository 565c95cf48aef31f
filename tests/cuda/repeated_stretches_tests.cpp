// SPDX-License-Identifier: Apache-2.0
#include "cuda/repeated_stretches.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace sluice::cuda {
namespace {

// A kernel for each letter.
constexpr char kernels[128] = {};
repeated_step step(char letter, unsigned blocks = 1) {
    return {.kernel = &kernels[static_cast<int>(letter)], .grid = {blocks, 1, 1}, .closure_bytes = 16};
}

class stretches : public ::testing::Test {
protected:
    // Adds the steps; returns how many at the front were kept until the end.
    std::size_t add(std::string_view letters) {
        std::size_t kept = 0;
        bool is_keeping = true;
        for (const char each : letters) {
            const bool keeps = all_.add(step(each));
            EXPECT_TRUE(is_keeping || !keeps) << "kept after one that was not kept";
            is_keeping = keeps;
            kept = keeps ? kept + 1 : 0;
        }
        return kept;
    }
    // The whole stretch until it is ready.
    std::size_t learn(std::string_view letters) {
        for (unsigned i = 1; i < repeated_stretches::enough_sightings; ++i) {
            EXPECT_EQ(add(letters), 0u);
            const auto end = all_.end();
            EXPECT_FALSE(end.replay || end.build);
        }
        EXPECT_EQ(add(letters), 0u);
        const auto end = all_.end();
        EXPECT_FALSE(end.replay);
        EXPECT_TRUE(end.build);
        all_.set_ready(end.build.value());
        return *end.build;
    }

    repeated_stretches all_;
};

TEST_F(stretches, are_kept_and_replayed_from_the_fourth_time_on) {
    const std::size_t known = learn("abc");
    EXPECT_EQ(all_.of(known), (repeated_stretches::steps{step('a'), step('b'), step('c')}));
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(add("abc"), 3u);
        const auto end = all_.end();
        EXPECT_EQ(end.replay, known);
        EXPECT_FALSE(end.build);
    }
}

TEST_F(stretches, with_another_command_are_enqueued_from_there_on) {
    learn("abc");
    EXPECT_EQ(add("ab"), 2u);
    EXPECT_FALSE(all_.add(step('d')));
    EXPECT_FALSE(all_.add(step('c')));
    const auto end = all_.end();
    EXPECT_FALSE(end.replay || end.build);
}

TEST_F(stretches, that_end_early_are_not_replayed) {
    learn("abc");
    EXPECT_EQ(add("ab"), 2u);
    EXPECT_FALSE(all_.end().replay);
    EXPECT_EQ(add("abc"), 3u);
    EXPECT_TRUE(all_.end().replay);
}

TEST_F(stretches, that_begin_like_others_are_told_apart_at_their_ends) {
    const std::size_t longer = learn("abcd");
    // Its commands are kept meanwhile, since they might become the longer one.
    std::optional<std::size_t> shorter;
    for (unsigned i = 0; i < repeated_stretches::enough_sightings; ++i) {
        EXPECT_EQ(add("ab"), 2u);
        const auto end = all_.end();
        EXPECT_FALSE(end.replay);
        shorter = end.build;
    }
    ASSERT_TRUE(shorter);
    all_.set_ready(*shorter);
    EXPECT_EQ(add("ab"), 2u);
    EXPECT_EQ(all_.end().replay, shorter);
    EXPECT_EQ(add("abcd"), 4u);
    EXPECT_EQ(all_.end().replay, longer);
    EXPECT_EQ(add("abd"), 0u);
    EXPECT_FALSE(all_.end().replay);
}

TEST_F(stretches, of_another_size_are_others) {
    learn("ab");
    EXPECT_TRUE(all_.add(step('a')));
    EXPECT_FALSE(all_.add(step('b', 2)));
    EXPECT_FALSE(all_.end().replay);
    repeated_step early = step('a');
    early.starts_early = true;
    EXPECT_FALSE(all_.add(early));
    static_cast<void>(all_.end());
    repeated_step with_more_arguments = step('a');
    with_more_arguments.closure_bytes = 32;
    EXPECT_FALSE(all_.add(with_more_arguments));
}

TEST_F(stretches, that_are_refused_are_not_built_again) {
    for (unsigned i = 0; i < repeated_stretches::enough_sightings; ++i) {
        add("ab");
        if (const auto end = all_.end(); end.build) {
            all_.refuse(*end.build);
        }
    }
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(add("ab"), 0u);
        const auto end = all_.end();
        EXPECT_FALSE(end.build || end.replay);
    }
}

TEST_F(stretches, that_are_refused_at_a_replay_are_enqueued_from_then_on) {
    const std::size_t known = learn("ab");
    EXPECT_EQ(add("ab"), 2u);
    ASSERT_EQ(all_.end().replay, known);
    all_.refuse(known);
    EXPECT_EQ(add("ab"), 0u);
    const auto end = all_.end();
    EXPECT_FALSE(end.build || end.replay);
}

TEST_F(stretches, replace_the_one_that_was_not_seen_for_the_longest_time) {
    const std::size_t first = learn("ab");
    const std::size_t second = learn("cd");
    for (std::size_t i = 2; i < repeated_stretches::most_known; ++i) {
        EXPECT_FALSE(all_.add(step('e', static_cast<unsigned>(i))));
        EXPECT_FALSE(all_.end().replaced);
    }
    EXPECT_EQ(add("ab"), 2u);
    EXPECT_EQ(all_.end().replay, first);
    add("x");
    EXPECT_EQ(all_.end().replaced, second);
    EXPECT_EQ(add("cd"), 0u);
    EXPECT_FALSE(all_.end().replay);
    EXPECT_EQ(add("ab"), 2u);
    EXPECT_EQ(all_.end().replay, first);
}

TEST_F(stretches, are_full_after_so_many_steps) {
    for (std::size_t i = 0; i < repeated_stretches::most_steps; ++i) {
        EXPECT_FALSE(all_.is_full());
        all_.add(step('a'));
    }
    EXPECT_TRUE(all_.is_full());
    static_cast<void>(all_.end());
    EXPECT_FALSE(all_.is_full());
}

TEST_F(stretches, without_commands_are_none) {
    const auto end = all_.end();
    EXPECT_FALSE(end.replay || end.build || end.replaced);
}

}  // namespace
}  // namespace sluice::cuda
