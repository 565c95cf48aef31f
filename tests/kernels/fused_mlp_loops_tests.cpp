// SPDX-License-Identifier: Apache-2.0
// The loops of fused_mlp for each kind of vector unit that this processor has: they agree with sums in double
// precision, each row is the same in every batch, and nothing is read or written outside.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fused_mlp/fused_mlp_cpu.hpp"

namespace sluice::kernels::fused_mlp_loops_tests {
namespace {

std::vector<std::pair<std::string, const cpu_loops*>> loops_of_this_processor() {
    std::vector<std::pair<std::string, const cpu_loops*>> made{{"baseline", &fused_mlp_baseline}};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) made.emplace_back("avx2", &fused_mlp_avx2);
    if (__builtin_cpu_supports("avx512f")) made.emplace_back("avx512", &fused_mlp_avx512);
#endif
    return made;
}

std::vector<float> numbers(std::size_t count) {
    std::vector<float> made(count);
    auto state = static_cast<std::uint32_t>(count);
    for (float& each : made) {
        state = state * 1664525u + 1013904223u;
        each = static_cast<float>(state >> 8) / 8388608.0f - 1;
    }
    return made;
}

// A layer of random numbers with its image.
struct layer {
    layer(std::size_t its_in, std::size_t its_out)
        : in(its_in), out(its_out), weight(numbers(in * out)), bias(numbers(out)), image(cpu_layer_floats(in, out)) {
        const bool is_single = has_single_columns(in, out);
        for (std::size_t c = 0; c < out; ++c) {
            for (std::size_t k = 0; k < in; ++k) {
                const std::size_t at =
                    is_single ? c * single_column_floats(in) + k
                              : c / panel_columns * in * panel_columns + k * panel_columns + c % panel_columns;
                image[at] = weight[c * in + k];
            }
            image[image.size() - panels_of(out) * panel_columns + c] = bias[c];
        }
    }

    std::vector<float> run(const cpu_loops& by, const std::vector<float>& x, activation after) const {
        std::vector<float> made(x.size() / in * out);
        by.layer({x.data(), in, x.size() / in, image.data(), in, out, after, made.data(), out, 0, panels_of(out)});
        return made;
    }

    double expected(const float* x, std::size_t column) const {
        double sum = bias[column];
        for (std::size_t k = 0; k < in; ++k) sum += double{x[k]} * double{weight[column * in + k]};
        return sum;
    }

    std::size_t in, out;
    std::vector<float> weight, bias, image;
};

void expect_right(const cpu_loops& loops, const layer& one, std::size_t rows) {
    const std::vector<float> x = numbers(rows * one.in);
    const std::vector<float> got = one.run(loops, x, activation::none), raised = one.run(loops, x, activation::relu);
    for (std::size_t r = 0; r < rows; ++r) {
        const auto begin = x.begin() + static_cast<std::ptrdiff_t>(r * one.in);
        const std::vector<float> row(begin, begin + static_cast<std::ptrdiff_t>(one.in));
        for (std::size_t c = 0; c < one.out; ++c) {
            const float each = got[r * one.out + c];
            ASSERT_NEAR(each, one.expected(row.data(), c), 1e-6 * static_cast<double>(one.in)) << r << ", " << c;
            ASSERT_EQ(raised[r * one.out + c], each < 0 ? 0 : each);
        }
        const std::vector<float> by_itself = one.run(loops, row, activation::none);
        ASSERT_EQ(std::memcmp(by_itself.data(), got.data() + r * one.out, one.out * sizeof(float)), 0) << r;
    }
}

}  // namespace

TEST(fused_mlp_loops, agree_with_sums_in_double_precision) {
    std::size_t single = 0, in_panels = 0;
    for (const auto& [name, loops] : loops_of_this_processor()) {
        for (const std::size_t in : {1, 7, 8, 9, 15, 16, 17, 32, 33, 100, 256, 700}) {
            for (const std::size_t out : {1, 2, 3, 4, 5, 7, 10, 15, 16, 17, 33, 70}) {
                const layer one(in, out);
                ++(has_single_columns(in, out) ? single : in_panels);
                for (const std::size_t rows : {1, 2, 3, 5, 6, 7, 12, 13, 31}) {
                    SCOPED_TRACE(name + ": " + std::to_string(in) + " to " + std::to_string(out) + ", " +
                                 std::to_string(rows) + " rows");
                    expect_right(*loops, one, rows);
                }
            }
        }
    }
    EXPECT_GT(single, 0U);
    EXPECT_GT(in_panels, 0U);
}

// Also those that a floor of 0 would hide.
TEST(fused_mlp_loops, keep_numbers_that_are_none_in_their_rows) {
    for (const auto& [name, loops] : loops_of_this_processor()) {
        for (const std::size_t out : {1, 3, 20}) {
            const layer one(100, out);
            for (const std::size_t k : {0, 50, 99}) {
                std::vector<float> x = numbers(5 * one.in);
                x[2 * one.in + k] = std::nanf("");
                const std::vector<float> got = one.run(*loops, x, activation::relu);
                for (std::size_t i = 0; i < got.size(); ++i)
                    EXPECT_EQ(std::isnan(got[i]), i / out == 2) << name << " " << out << " " << i;
            }
        }
    }
}

}  // namespace sluice::kernels::fused_mlp_loops_tests
