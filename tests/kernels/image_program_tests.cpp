// SPDX-License-Identifier: Apache-2.0
// The loops of image programs, for each vector unit that this processor has, against sums written down plainly.
// (Networks, with all kinds of steps: tests/nn/image_stretches_tests.cpp.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kernels/channels_last/image_loops.hpp"
#include "kernels/channels_last/image_program.hpp"

namespace sluice::kernels::image_program_tests {
namespace {

std::vector<float> wave(std::size_t count, float phase) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(phase + 0.37f * static_cast<float>(i));
    return made;
}

// One value in memory of its own, with the border.
image_place place_at(std::size_t first, const image_size& of, const image_border& border) {
    const std::size_t row = (border.left + of.width + border.right) * of.channels;
    return {.first = first + border.top * row + border.left * of.channels, .row = row, .pixel = of.channels};
}
std::size_t floats_of(const image_size& of, const image_border& border) {
    return (border.top + of.height + border.bottom) * (border.left + of.width + border.right) * of.channels;
}

// Enters the images, carries out one step, and leaves.
std::vector<float> run_step(const image_loops& with, image_step step, std::size_t images, std::vector<float> x,
                            const image_border& border, const image_numbers& numbers) {
    step.from = place_at(0, step.in, border);
    step.to = place_at(floats_of(step.in, border), step.out, {});
    step.also = step.to;
    image_step enter{}, leave{};
    enter.what = image_work::enter;
    enter.in = enter.out = step.in;
    enter.to = step.from;
    enter.border = border;
    leave.what = image_work::leave;
    leave.outside = 1;
    leave.in = leave.out = step.out;
    leave.from = step.to;
    const std::vector<image_step> steps{enter, step, leave};
    const std::size_t floats = floats_of(step.in, border) + floats_of(step.out, {}) + image_slack;
    std::vector<float> scratch(most_at_once(images) * floats, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> out(images * step.out.elements());
    image_call call{.steps = steps.data(),
                    .count = steps.size(),
                    .numbers = numbers.all().data(),
                    .scratch = scratch.data(),
                    .images = images,
                    .scratch_floats = floats};
    call.outside[0] = x.data();
    call.outside[1] = out.data();
    run_image_program(call, with);
    return out;
}

struct convolution_case {
    std::size_t images;
    image_size in;
    std::size_t filters, groups, window, stride, padding;
};

std::vector<float> convolved(const convolution_case& of, const image_size& out, const std::vector<float>& x,
                             const std::vector<float>& filters, const std::vector<float>& bias) {
    const std::size_t channels = of.in.channels / of.groups, k = of.window;
    std::vector<float> made;
    for (std::size_t n = 0; n < of.images; ++n)
        for (std::size_t f = 0; f < of.filters; ++f)
            for (std::size_t y = 0; y < out.height; ++y)
                for (std::size_t c = 0; c < out.width; ++c) {
                    double sum = bias[f];
                    for (std::size_t i = 0; i < channels * k * k; ++i) {
                        const std::size_t channel = f / (of.filters / of.groups) * channels + i / (k * k);
                        const std::size_t row = y * of.stride + i / k % k, column = c * of.stride + i % k;
                        if (row < of.padding || row >= of.padding + of.in.height || column < of.padding ||
                            column >= of.padding + of.in.width)
                            continue;
                        sum += static_cast<double>(filters[f * channels * k * k + i]) *
                               static_cast<double>(
                                   x[((n * of.in.channels + channel) * of.in.height + row - of.padding) * of.in.width +
                                     column - of.padding]);
                    }
                    made.push_back(std::max(0.0f, static_cast<float>(sum)));
                }
    return made;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-4f) << "element " << i;
}

}  // namespace

TEST(image_program, each_vector_unit_convolves) {
    const std::vector<convolution_case> cases{{1, {3, 9, 31}, 17, 1, 3, 1, 1}, {2, {20, 5, 14}, 50, 1, 1, 1, 0},
                                              {1, {8, 7, 7}, 96, 2, 3, 2, 1},  {1, {64, 13, 13}, 33, 1, 1, 2, 0},
                                              {1, {6, 11, 40}, 6, 2, 5, 1, 2}, {1, {40, 9, 10}, 40, 40, 3, 1, 1},
                                              {40, {5, 12, 9}, 5, 5, 3, 2, 1}};
    for (const image_loops* const with : known_image_loops()) {
        for (std::size_t i = 0; i < cases.size(); ++i) {
            SCOPED_TRACE("case " + std::to_string(i));
            const convolution_case& each = cases[i];
            const std::size_t channels = each.in.channels / each.groups, k = each.window;
            const auto reach = [&](std::size_t length) { return (length + 2 * each.padding - k) / each.stride + 1; };
            image_step step{};
            step.in = each.in;
            step.out = {each.filters, reach(each.in.height), reach(each.in.width)};
            step.window = {{k, k}, {each.stride, each.stride}, {1, 1}, {each.padding, each.padding}, {}};
            step.groups = each.groups;
            step.has_bounds = true;
            step.most = std::numeric_limits<float>::infinity();
            const auto x = wave(each.images * each.in.elements(), 0),
                       filters = wave(each.filters * channels * k * k, 1), bias = wave(each.filters, 2);
            image_numbers numbers;
            const bool is_by_channels = each.groups == each.filters && channels == 1;
            step.what = is_by_channels ? image_work::convolve_channels : image_work::convolve;
            step.numbers =
                is_by_channels
                    ? numbers.add_channel_filters(filters.data(), bias.data(), each.filters, {k, k})
                    : numbers.add_filters(filters.data(), bias.data(), each.filters, each.groups, channels, {k, k});
            const image_border border{each.padding, each.padding, each.padding + k, each.padding + k};
            ASSERT_NO_FATAL_FAILURE(expect_near(run_step(*with, step, each.images, x, border, numbers),
                                                convolved(each, step.out, x, filters, bias)));
        }
    }
}

TEST(image_program, each_vector_unit_scales_and_exchanges_channels) {
    for (const image_loops* const with : known_image_loops()) {
        for (const std::size_t channels : {4, 12, 32, 34, 72}) {
            SCOPED_TRACE(channels);
            image_step step{};
            step.in = step.out = {channels, 3, 5};
            const auto x = wave(step.in.elements(), 0);
            image_numbers numbers;
            step.what = image_work::scale;
            const auto factors = wave(channels, 3), addends = wave(channels, 4);
            step.numbers = numbers.add_factors(factors, addends);
            std::vector<float> expected;
            for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] * factors[i / 15] + addends[i / 15]);
            ASSERT_NO_FATAL_FAILURE(expect_near(run_step(*with, step, 1, x, {}, numbers), expected));
            step.what = image_work::shuffle;
            for (const std::size_t groups : {2, 4}) {
                if (channels % groups != 0) continue;
                step.groups = groups;
                const auto made = run_step(*with, step, 1, x, {}, numbers);
                for (std::size_t c = 0; c < channels; ++c) {
                    const std::size_t to = c % (channels / groups) * groups + c / (channels / groups);
                    ASSERT_TRUE(std::equal(&x[c * 15], &x[c * 15] + 15, &made[to * 15])) << c;
                }
            }
        }
    }
}

TEST(image_program, each_vector_unit_pools) {
    for (const image_loops* const with : known_image_loops()) {
        for (const std::size_t channels : {3, 16, 21}) {
            image_step step{};
            step.in = {channels, 6, 6};
            step.out = {channels, 3, 3};
            step.window = {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
            const auto x = wave(step.in.elements(), 0);
            for (const bool is_maximum : {true, false}) {
                step.what = is_maximum ? image_work::maximum : image_work::average;
                std::vector<float> expected;
                for (std::size_t c = 0; c < channels; ++c)
                    for (std::size_t i = 0; i < 9; ++i) {
                        const float* const corner = &x[c * 36 + i / 3 * 12 + i % 3 * 2];
                        const float window[4] = {corner[0], corner[1], corner[6], corner[7]};
                        expected.push_back(is_maximum ? *std::max_element(window, window + 4)
                                                      : (window[0] + window[1] + window[2] + window[3]) / 4);
                    }
                ASSERT_NO_FATAL_FAILURE(expect_near(run_step(*with, step, 1, x, {}, {}), expected));
            }
        }
    }
}

}  // namespace sluice::kernels::image_program_tests
