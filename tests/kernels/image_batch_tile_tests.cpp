// SPDX-License-Identifier: Apache-2.0
// Which tiles convolutions of image batches may have. (What they compute is tested on a GPU: image_batch_device_tests.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/image_batch/image_batch_kernels.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels::image_batch_tile_tests {
namespace {

using testing::HasSubstr;

image_step convolution_of(std::size_t channels, std::size_t groups) {
    image_step step{};
    step.what = image_work::convolve;
    step.in = {channels, 7, 7};
    step.out = {32, 7, 7};
    step.groups = groups;
    step.from = {.first = 0, .row = 7 * channels, .pixel = channels, .image = 7 * 7 * channels};
    step.to = {.first = 4096, .row = 7 * 32, .pixel = 32, .image = 7 * 7 * 32};
    return step;
}

std::string refusal(const image_step& step, const convolution_tile& tile) {
    batch_closure closure;
    // Addresses only: nothing is launched.
    static std::vector<std::byte> numbers(1 << 20), scratch(1 << 16);
    try {
        const batch_call call{.steps = &step, .count = 1, .numbers = numbers.data(), .scratch = scratch.data()};
        static_cast<void>(batch_convolution_command(call, step, tile, closure));
        return "";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::invalid_argument);
        return refused.what();
    }
}

}  // namespace

TEST(image_batch_tiles, are_those_that_kernels_have) {
    const image_step step = convolution_of(64, 1);
    const auto tiles = convolution_tiles_for(step);
    ASSERT_EQ(tiles.size(), 6u);
    for (const convolution_tile& each : tiles) EXPECT_EQ(refusal(step, each), "");
    const std::string why = refusal(step, {32, 64, true});
    EXPECT_THAT(why, HasSubstr("no kernel has tiles of 32 x 64"));
    for (const convolution_tile& each : tiles) EXPECT_THAT(why, HasSubstr(each.text()));
}

TEST(image_batch_tiles, are_none_for_a_step_that_they_do_not_fit) {
    for (const image_step& step : {convolution_of(20, 1), convolution_of(64, 2)}) {
        EXPECT_TRUE(convolution_tiles_for(step).empty());
        EXPECT_THAT(refusal(step, {16, 32, true}), HasSubstr("batch_command carries out all steps"));
    }
}

}  // namespace sluice::kernels::image_batch_tile_tests
