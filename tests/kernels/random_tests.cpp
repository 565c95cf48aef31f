// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/reference.hpp"
#include "sluice/kernels/philox.hpp"

namespace sluice::conformance::random_tests {
namespace {

class random_tensors : public conformance_test {
protected:
    template <typename Operation>
    floats values_of(Operation operation) {
        return sync(std::move(operation).and_then(download), pool);
    }

    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, random_tensors, testing::ValuesIn(enrolled_backends()), backend_name);

double mean_of(const floats& values, int power) {
    double sum = 0;
    for (const float each : values) sum += std::pow(double{each}, power);
    return sum / static_cast<double>(values.size());
}

// The standard normal distribution below x.
double below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

TEST(philox, gives_the_published_words) {
    // The known answers that come with the authors' own implementation, for all zeros and all ones.
    const philox_words zeros = philox(0, 0, 0);
    EXPECT_EQ(std::vector<std::uint32_t>(zeros.word, zeros.word + 4),
              (std::vector<std::uint32_t>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
    const philox_words ones = philox(~0ull, ~0ull, ~0ull);
    EXPECT_EQ(std::vector<std::uint32_t>(ones.word, ones.word + 4),
              (std::vector<std::uint32_t>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(philox, normal_numbers_are_the_inverse_of_the_distribution) {
    for (std::uint64_t word = 0; word < 0x100000000u; word += 65'537) {
        const double p = (static_cast<double>(word) + 0.5) / 4294967296.0;
        const double x = normal_from(static_cast<std::uint32_t>(word));
        // How far off x is, from how far off its probability is and the density there.
        const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * 3.14159265358979);
        const double off = p < 0.5 ? (below(x) - p) / density : (below(-x) - (1 - p)) / density;
        ASSERT_LT(std::fabs(off), std::fabs(x) > 5.2 ? 0.005 : 2e-5) << word;
    }
    EXPECT_LT(normal_from(0), -6.1f);
    EXPECT_EQ(normal_from(0), -normal_from(0xffffffffu));
}

TEST_P(random_tensors, are_the_same_on_every_device_bit_for_bit) {
    const std::uint64_t seed = 0x123456789abcdefull;
    const floats got = values_of(uniform({3, 1001}, seed)), normal = values_of(randn({70'001}, seed));
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], uniform_from(philox(seed, 0, i / 4).word[i % 4])) << i;
    }
    for (std::size_t i = 0; i < normal.size(); ++i) {
        ASSERT_EQ(normal[i], normal_from(philox(seed, 0, i / 4).word[i % 4])) << i;
    }
}

TEST_P(random_tensors, have_the_moments_of_their_distribution) {
    const floats flat = values_of(uniform({400'000}, 1)), normal = values_of(randn({400'000}, 2));
    EXPECT_NEAR(mean_of(flat, 1), 0.5, 0.003);
    EXPECT_NEAR(mean_of(flat, 2), 1.0 / 3, 0.003);
    EXPECT_TRUE(std::ranges::all_of(flat, [](float x) { return x >= 0 && x < 1; }));
    EXPECT_NEAR(mean_of(normal, 1), 0, 0.01);
    EXPECT_NEAR(mean_of(normal, 2), 1, 0.02);
    EXPECT_NEAR(mean_of(normal, 3), 0, 0.05);
    EXPECT_NEAR(mean_of(normal, 4), 3, 0.1);
}

TEST_P(random_tensors, differ_by_seed_and_go_on_where_asked) {
    EXPECT_NE(values_of(uniform({16}, 1)), values_of(uniform({16}, 2)));
    const floats whole = values_of(uniform({100}, 9));
    auto rest = sync(zeros<float>({63}), pool);
    fill_random(home, rest, uniform_distribution{}, 9, 37);
    EXPECT_EQ(contents(std::move(rest), home), floats(whole.begin() + 37, whole.end()));
    EXPECT_TRUE(values_of(randn({0, 5}, 1)).empty());
}

TEST_P(random_tensors, have_a_mean_and_a_deviation_or_bounds) {
    const floats normal = values_of(randn({400'000}, 3, {.mean = -2, .deviation = 0.5f}));
    EXPECT_NEAR(mean_of(normal, 1), -2, 0.01);
    EXPECT_NEAR(mean_of(normal, 2), 4 + 0.25, 0.03);
    for (std::size_t i = 0; i < 1000; ++i)
        ASSERT_EQ(normal[i], std::fmaf(normal_from(philox(3, 0, i / 4).word[i % 4]), 0.5f, -2)) << i;

    const floats flat = values_of(uniform({400'000}, 4, {.low = -3, .high = 5}));
    EXPECT_NEAR(mean_of(flat, 1), 1, 0.02);
    EXPECT_TRUE(std::ranges::all_of(flat, [](float x) { return x >= -3 && x < 5; }));
    for (std::size_t i = 0; i < 1000; ++i)
        ASSERT_EQ(flat[i], std::fmaf(uniform_from(philox(4, 0, i / 4).word[i % 4]), 8, -3)) << i;

    EXPECT_EQ(values_of(randn({5}, 1, {.mean = 7, .deviation = 0})), floats(5, 7));
}

TEST_P(random_tensors, of_16_bits_are_the_floats_rounded_once) {
    const auto check = [&]<typename T>(T) {
        const auto normal = sync(randn<T>({70'001}, 5, {.deviation = 2}).and_then(download), pool);
        const auto flat = sync(uniform<T>({70'001}, 6, {.low = -1, .high = 3}).and_then(download), pool);
        ASSERT_EQ(normal.size(), 70'001u);
        for (std::size_t i = 0; i < normal.size(); ++i) {
            const T z(2 * normal_from(philox(5, 0, i / 4).word[i % 4]));
            ASSERT_EQ(normal[i].bits(), z.bits()) << i;
            const T u(std::fmaf(uniform_from(philox(6, 0, i / 4).word[i % 4]), 4, -1));
            if (float(u) < 3) {
                ASSERT_EQ(flat[i].bits(), u.bits()) << i;
            }
            ASSERT_TRUE(float(flat[i]) >= -1 && float(flat[i]) < 3) << i;
        }
    };
    check(half());
    check(bfloat16());
}

TEST_P(random_tensors, that_are_uniform_stay_inside_their_bounds_after_rounding) {
    // bfloat16 has 128 numbers from 1 to 2: one in 256 numbers would be rounded to 2.
    const auto values = sync(uniform<bfloat16>({10'000}, 8, {.low = 1.001f, .high = 2}).and_then(download), pool);
    const auto [least, most] =
        std::ranges::minmax_element(values, {}, [](const bfloat16& x) { return static_cast<float>(x); });
    EXPECT_EQ(float(*least), 1 + 1.0f / 128);
    EXPECT_EQ(float(*most), 2 - 1.0f / 128);
    // Only one half lies in these bounds.
    const auto same = sync(uniform<half>({100}, 8, {.low = -1.0001f, .high = -0.9999f}).and_then(download), pool);
    EXPECT_TRUE(std::ranges::all_of(same, [](half x) { return float(x) == -1; }));
}

TEST_P(random_tensors, without_a_given_seed_tell_the_seed_that_makes_them_again) {
    auto normal = randn({100});
    auto flat = uniform<half>({100}, {.low = 2, .high = 4});
    const std::uint64_t first = normal.seed(), second = flat.seed();
    EXPECT_NE(first, second);
    EXPECT_EQ(values_of(std::move(normal)), values_of(randn({100}, first)));
    const auto once = sync(std::move(flat).and_then(download), pool);
    const auto again = sync(uniform<half>({100}, second, {.low = 2, .high = 4}).and_then(download), pool);
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(once[i].bits(), again[i].bits());
}

TEST_P(random_tensors, in_a_graph_are_the_same_with_a_seed_and_others_without) {
    const auto fixed = compile(pool, [] { return randn({50}, 11).and_then(download); });
    const floats expected = sluice::sync(randn({50}, 11).and_then(download), pool);
    EXPECT_EQ(sluice::sync(fixed(), pool), expected);
    EXPECT_EQ(sluice::sync(fixed(), pool), expected);

    const auto fresh = compile(pool, [] { return randn({50}).and_then(download); });
    const floats first = sluice::sync(fresh(), pool);
    EXPECT_EQ(first.size(), 50u);
    EXPECT_NE(sluice::sync(fresh(), pool), first);

    const auto asked = compile(
        pool, [](std::uint64_t seed) { return randn({50}, seed).and_then(download); }, argument<std::uint64_t>(1));
    EXPECT_EQ(sluice::sync(asked(std::uint64_t{11}), pool), expected);
    EXPECT_NE(sluice::sync(asked(std::uint64_t{12}), pool), expected);
}

TEST_P(random_tensors, refuse_bounds_and_deviations_that_have_no_meaning) {
    const auto refuses = [](std::initializer_list<std::string> words, auto&& make,
                            sluice::source_location here = sluice::source_location::current()) {
        expect_refused_here(errc::invalid_argument, words, make, here);
    };
    refuses({"uniform", "low must be below high"}, [] { uniform({3}, 1, {.low = 2, .high = 2}); });
    refuses({"uniform", "finite"}, [] { uniform({3}, 1, {.low = nan, .high = 2}); });
    refuses({"uniform", "finite"}, [] { uniform({3}, 1, {.low = -3e38f, .high = 3e38f}); });
    refuses({"no number of the element type"}, [] { uniform<half>({3}, 1, {.low = 1.0001f, .high = 1.0002f}); });
    refuses({"no number of the element type"}, [] { uniform<half>({3}, 1, {.low = 65510, .high = 1e6f}); });
    refuses({"randn", "at least 0"}, [] { randn({3}, 1, {.deviation = -1}); });
    refuses({"randn", "finite"}, [] { randn({3}, 1, {.mean = infinity}); });

    auto x = sync(zeros<float>({3}), pool);
    const ticket before = home.issued();
    refuses({"low must be below high"}, [&] { fill_random(home, x, uniform_distribution{.low = 1, .high = 0}, 1); });
    EXPECT_EQ(home.issued(), before);
    tensor<float> moved;
    refuses({"moved from"}, [&] { fill_random(home, moved, normal_distribution{}, 1); });
}

TEST(fresh_seeds, differ) {
    std::vector<std::uint64_t> drawn(1000);
    std::ranges::generate(drawn, fresh_seed);
    std::ranges::sort(drawn);
    EXPECT_EQ(std::ranges::adjacent_find(drawn), drawn.end());
}

}  // namespace sluice::conformance::random_tests
