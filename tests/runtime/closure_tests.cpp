// SPDX-License-Identifier: Apache-2.0
// What is copied byte by byte keeps its values, whatever its type looks like.
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/graph/detail/same_value.hpp"
#include "sluice/sluice.hpp"

namespace sluice::runtime_tests::closure_tests {
namespace {

// An array of classes that is longer than 64 bytes: g++ 12 takes the first one's members for padding.
struct step {
    std::uint8_t what;
    std::uint32_t value;
};
struct program {
    std::uint8_t steps;
    std::array<step, 9> code;
    double factor;
};

program counting() {
    program made{9, {}, 0.5};
    for (std::uint32_t i = 0; i < 9; ++i) made.code[i] = {static_cast<std::uint8_t>(i + 1), i + 1};
    return made;
}

struct sum_of_steps {
    program all;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<double> x) const {
        double* const element = x.at(at);
        if (element == nullptr) return;
        for (const step& each : all.code) *element += each.what + 100.0 * each.value;
        *element *= all.factor;
    }
};
struct sum_of_argument {
    SLUICE_KERNEL void operator()(index_1d at, const program& all, disjoint_view<double> x) const {
        sum_of_steps{all}(at, x);
    }
};
constexpr double sum = 0.5 * 101 * 45;

TEST(closures, keep_the_members_of_a_kernel_with_an_array_of_classes) {
    runtime machine(runtime_options{.cuda = false});
    single_stream pool(machine.default_device());
    const std::vector<double> of_kernel =
        sync(zeros<double>({3})
                 .and_then([](auto x) { return launch(sum_of_steps{counting()}, each_of(x), std::move(x)); })
                 .and_then(download),
             pool);
    EXPECT_EQ(of_kernel, std::vector<double>(3, sum));
    const std::vector<double> of_argument =
        sync(zeros<double>({3})
                 .and_then([](auto x) { return launch(sum_of_argument{}, each_of(x), counting(), std::move(x)); })
                 .and_then(download),
             pool);
    EXPECT_EQ(of_argument, std::vector<double>(3, sum));
}

TEST(closures, keep_every_member_when_padding_is_cleared) {
    program one = counting();
    detail::clear_padding(one);
    const program expected = counting();
    EXPECT_EQ(one.steps, expected.steps);
    EXPECT_EQ(one.factor, expected.factor);
    for (std::size_t i = 0; i < 9; ++i) {
        EXPECT_EQ(one.code[i].what, expected.code[i].what);
        EXPECT_EQ(one.code[i].value, expected.code[i].value);
    }
}

TEST(closures, are_cleared_of_padding_where_the_compiler_can) {
    struct padded {
        std::uint8_t small;
        std::uint64_t large;
    };
    padded a, b;
    std::memset(&a, 0xaa, sizeof(a));
    std::memset(&b, 0x55, sizeof(b));
    a.small = b.small = 1;
    a.large = b.large = 2;
    detail::clear_padding(a);
    detail::clear_padding(b);
    if constexpr (detail::can_clear_padding<padded>) {
        EXPECT_EQ(std::memcmp(&a, &b, sizeof(a)), 0);
    }
    EXPECT_EQ(a.small, 1);
    EXPECT_EQ(a.large, 2u);
}

TEST(same_values, differ_in_any_element_of_an_array_of_classes) {
    for (std::size_t i = 0; i < 9; ++i) {
        program before, now;
        std::memset(static_cast<void*>(&before), 0, sizeof(before));
        before = counting();
        std::memcpy(static_cast<void*>(&now), &before, sizeof(now));
        EXPECT_TRUE(detail::is_same_value(before, now));
        now.code[i].value += 1;
        EXPECT_FALSE(detail::is_same_value(before, now)) << i;
    }
}

}  // namespace
}  // namespace sluice::runtime_tests::closure_tests
