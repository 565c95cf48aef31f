// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/random.hpp"

#include <algorithm>
#include <numeric>

#include "conformance/backend.hpp"
#include "kernels/reference.hpp"
#include "sluice/kernels/philox.hpp"

namespace sluice::conformance {
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
    fill_random(home, rest, distribution::uniform, 9, 37);
    EXPECT_EQ(contents(std::move(rest), home), floats(whole.begin() + 37, whole.end()));
    EXPECT_TRUE(values_of(randn({0, 5}, 1)).empty());
}

}  // namespace sluice::conformance
