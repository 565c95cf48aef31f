// SPDX-License-Identifier: Apache-2.0
// The convolutions of image batches on tensor cores, each tile by itself, against the reference on the host. (Which
// tile a network uses depends on trials.) On the default device, where it is a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/image_batch/image_batch.hpp"
#include "kernels/image_batch/image_batch_kernels.hpp"
#include "sluice/base/half.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::kernels::image_batch_device_tests {
namespace {

struct sizes {
    std::size_t images, channels, height, width, filters;
    image_window window;
    bool has_also, has_bounds;
};

// A convolution, its numbers, and values: x, then the addend, then the output, of more channels than are convolved.
class case_of {
public:
    case_of(const sizes& of, short_type type) : of_(of), numbers_(type), random_(3) {
        const std::size_t taps = of.window.size.height * of.window.size.width;
        step_.what = image_work::convolve;
        step_.in = {of.channels, of.height, of.width};
        step_.out = {of.filters,
                     outputs(of.height, of.window.size.height, of.window.stride.height, of.window.dilation.height,
                             of.window.before.height, of.window.after.height),
                     outputs(of.width, of.window.size.width, of.window.stride.width, of.window.dilation.width,
                             of.window.before.width, of.window.after.width)};
        step_.window = of.window;
        step_.has_also = of.has_also;
        step_.has_bounds = of.has_bounds;
        step_.most = std::numeric_limits<float>::infinity();
        const float scale = std::sqrt(2.0f / static_cast<float>(of.channels * taps));
        step_.numbers = numbers_.add_filters(noise(of.filters * of.channels * taps, scale), noise(of.filters, 1), 1,
                                             of.channels, of.window.size);
        step_.from = place(step_.in, 16);
        step_.also = place(step_.out, 0);
        step_.to = place(step_.out, 8);
        const std::vector<float> values = noise(elements_, 1);
        for (const float each : values)
            bits_.push_back(type == short_type::f16 ? half(each).bits() : bfloat16(each).bits());
    }

    const image_step& step() const { return step_; }
    const std::vector<std::uint16_t>& values() const { return bits_; }
    const std::vector<std::byte>& numbers() const { return numbers_.all(); }
    batch_call call(std::byte* values, const std::byte* numbers) const {
        return {.steps = &step_,
                .count = 1,
                .numbers = numbers,
                .scratch = values,
                .images = of_.images,
                .type = numbers_.type()};
    }

private:
    static std::size_t outputs(std::size_t size, std::size_t window, std::size_t stride, std::size_t dilation,
                               std::size_t before, std::size_t after) {
        return (size + before + after - dilation * (window - 1) - 1) / stride + 1;
    }
    std::vector<float> noise(std::size_t count, float scale) {
        std::normal_distribution<float> any(0, scale);
        std::vector<float> made(count);
        for (float& each : made) each = any(random_);
        return made;
    }
    // Some channels of a value that has 8 more on both sides.
    image_place place(const image_size& of, std::size_t channel) {
        image_place made;
        made.pixel = of.channels + 24;
        made.row = of.width * made.pixel;
        made.image = of.height * made.row;
        made.first = elements_ + channel;
        elements_ += (of_.images * made.image + 63) / 64 * 64;
        return made;
    }

    sizes of_;
    batch_numbers numbers_;
    std::minstd_rand random_;
    image_step step_{};
    std::size_t elements_ = 0;
    std::vector<std::uint16_t> bits_;
};

float number(std::uint16_t bits, short_type type) {
    return type == short_type::f16 ? float{half::from_bits(bits)} : float{bfloat16::from_bits(bits)};
}

}  // namespace

TEST(image_batch_tiles, compute_what_the_reference_computes) {
    runtime machine;
    device& on = machine.default_device();
    if (on.kind() != device_kind::cuda) GTEST_SKIP() << "there is no GPU here";
    single_stream pool(on);
    const image_window three{.size = {3, 3}, .before = {1, 1}, .after = {1, 1}}, one{};
    const image_window odd{.size = {2, 5}, .stride = {2, 1}, .dilation = {1, 2}, .before = {0, 3}, .after = {1, 2}};
    const std::array<sizes, 6> all{{{1, 128, 7, 7, 32, three, false, true},
                                    {2, 16, 13, 11, 64, three, true, true},
                                    {3, 48, 9, 9, 40, three, true, false},
                                    {1, 256, 14, 14, 72, one, true, true},
                                    {2, 32, 12, 10, 24, odd, false, false},
                                    {5, 64, 1, 1, 136, one, false, true}}};
    for (const sizes& of : all) {
        for (const short_type type : {short_type::f16, short_type::bf16}) {
            const case_of made(of, type);
            std::vector<std::uint16_t> expected = made.values();
            run_image_batch_on_host(made.call(reinterpret_cast<std::byte*>(expected.data()), made.numbers().data()));
            const auto numbers = sync(upload(made.numbers(), {made.numbers().size()}), pool);
            const std::vector<convolution_tile> tiles = convolution_tiles_for(made.step());
            ASSERT_FALSE(tiles.empty());
            for (const convolution_tile& tile : tiles) {
                SCOPED_TRACE(std::to_string(of.channels) + " channels, tile of " + std::to_string(tile.pixels) + " x " +
                             std::to_string(tile.filters) + (type == short_type::f16 ? ", f16" : ", bf16"));
                auto values = sync(upload(made.values(), {made.values().size()}), pool);
                batch_closure closure;
                const std::array<memory_access, 2> accesses{memory_access{values.memory(), access_mode::write},
                                                            memory_access{numbers.memory(), access_mode::read}};
                pool.next().launch(
                    {"convolve", accesses, {}},
                    batch_convolution_command(
                        made.call(reinterpret_cast<std::byte*>(values.device_data()), numbers.device_data()),
                        made.step(), tile, closure));
                const std::vector<std::uint16_t> got = sync(download(std::move(values)), pool);
                const float bound = type == short_type::f16 ? 0.005f : 0.04f;
                for (std::size_t i = 0; i < got.size(); ++i)
                    ASSERT_NEAR(number(got[i], type), number(expected[i], type), bound * 4) << "element " << i;
            }
        }
    }
}

}  // namespace sluice::kernels::image_batch_device_tests
