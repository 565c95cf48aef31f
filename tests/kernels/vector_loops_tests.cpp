// SPDX-License-Identifier: Apache-2.0
// The loops that are compiled for each kind of vector unit give a row, or a pixel, the same bits with any number of
// others: they compute tiles of several sizes, and each rounds alike. All rows of these tests are in the same place in
// memory. fused_mlp_loops_tests.cpp does this for the loops of fused_mlp.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/channels_last/image_loops.hpp"
#include "kernels/rounded_layers/rounded_tables.hpp"

namespace sluice::kernels::vector_loops_tests {
namespace {

std::vector<float> numbers(std::size_t count) {
    std::vector<float> made(count);
    auto state = static_cast<std::uint32_t>(count);
    for (float& each : made) {
        state = state * 1664525u + 1013904223u;
        each = static_cast<float>(state >> 8) / 8388608.0f - 1;
    }
    return made;
}

struct unit {
    std::string name;
    const image_loops* images;
    rounded_table rounded;
};
std::vector<unit> units_of_this_processor() {
    std::vector<unit> made{{"baseline", &image_loops_baseline, rounded_baseline()}};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
        made.push_back({"avx2", &image_loops_avx2, rounded_avx2()});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        made.push_back({"avx512", &image_loops_avx512, rounded_avx512()});
#endif
    return made;
}

void expect_rows_like_the_first(const std::vector<float>& rows, std::size_t width, const std::vector<float>& alone) {
    for (std::size_t r = 0; r < rows.size() / width; ++r)
        ASSERT_EQ(std::memcmp(alone.data(), rows.data() + r * width, width * sizeof(float)), 0) << "row " << r;
}

// `pixels` times the same window, which has 3 runs of `length`.
std::vector<float> convolved(void (*loop)(const convolved_row&), std::size_t pixels, std::size_t filters,
                             std::size_t length, std::size_t run) {
    const std::size_t columns = image_lanes(filters) * image_lane;
    const auto x = numbers(3 * run), weights = numbers(3 * length * columns), bias = numbers(columns);
    std::vector<float> out(pixels * filters);
    loop({x.data(), pixels, 0, {1, 0, 3, run, length}, weights.data(), bias.data(), out.data(), filters, filters, {}});
    return out;
}

// The weights are 16 bits each, from 0.5 to 1.
std::vector<float> multiplied(const rounded_kernel& by, rounded_type type, std::size_t rows, std::size_t panels) {
    constexpr std::size_t groups = 37;
    const std::size_t in = groups * group_of(type), columns = panels * rounded_panel;
    const auto x = numbers(in), biases = numbers(columns);
    std::vector<std::uint16_t> weights(in * columns);
    for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = static_cast<std::uint16_t>((type == rounded_type::f16 ? 0x3800u : 0x3f00u) + i * 37 % 128);
    std::vector<float> out(rows * columns);
    rounded_part part{};
    part.rows = reinterpret_cast<const std::byte*>(x.data());
    part.count = rows;
    part.weights = reinterpret_cast<const std::byte*>(weights.data());
    part.groups = groups;
    part.panels = panels;
    part.biases = biases.data();
    part.after = activation::none;
    part.out = out.data();
    part.out_stride = columns;
    by.multiply(part);
    return out;
}

}  // namespace

TEST(vector_loops, convolve_a_pixel_alike_in_every_tile) {
    for (const unit& each : units_of_this_processor()) {
        for (std::size_t lanes = 1; lanes <= most_panel_lanes; ++lanes) {
            const auto loop = each.images->convolve[lanes - 1];
            for (const std::size_t filters : {lanes * image_lane - 5, lanes * image_lane}) {
                const auto alone = convolved(loop, 1, filters, 19, 19);
                for (std::size_t pixels = 2; pixels < 40; ++pixels) {
                    SCOPED_TRACE(each.name + ": " + std::to_string(filters) + " of " + std::to_string(pixels));
                    expect_rows_like_the_first(convolved(loop, pixels, filters, 19, 19), filters, alone);
                }
            }
        }
    }
}

TEST(vector_loops, convolve_channels_of_a_pixel_alike_in_every_tile) {
    for (const unit& each : units_of_this_processor()) {
        for (const std::size_t channels : {3, 16, 21, 40}) {
            const auto alone = convolved(each.images->convolve_channels, 1, channels, 1, channels);
            for (std::size_t pixels = 2; pixels < 24; ++pixels) {
                SCOPED_TRACE(each.name + ": " + std::to_string(channels) + " of " + std::to_string(pixels));
                const auto many = convolved(each.images->convolve_channels, pixels, channels, 1, channels);
                expect_rows_like_the_first(many, channels, alone);
            }
        }
    }
}

TEST(vector_loops, multiply_a_rounded_row_alike_in_every_tile) {
    for (const unit& each : units_of_this_processor()) {
        for (const rounded_type type : {rounded_type::bf16, rounded_type::f16}) {
            for (const std::size_t panels : {1, 2, 3, 4, 8, 9}) {
                const auto alone = multiplied(each.rounded[type], type, 1, panels);
                for (std::size_t rows = 2; rows < 30; ++rows) {
                    SCOPED_TRACE(each.name + ": " + std::to_string(panels) + " of " + std::to_string(rows));
                    const auto many = multiplied(each.rounded[type], type, rows, panels);
                    expect_rows_like_the_first(many, panels * rounded_panel, alone);
                }
            }
        }
    }
}

}  // namespace sluice::kernels::vector_loops_tests
