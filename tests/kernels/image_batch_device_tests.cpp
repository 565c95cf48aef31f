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
    image_curve curve = {};
    bool has_gate = false, is_transposed = false;
};

// A convolution, perhaps after a multiplication by one pixel of each image; its numbers, and values: x, then the
// addend, then the output, of more channels than are convolved.
class case_of {
public:
    case_of(const sizes& of, short_type type) : of_(of), numbers_(type), random_(3) {
        const std::size_t taps = of.window.size.height * of.window.size.width;
        step_.what = of.is_transposed ? image_work::convolve_transposed : image_work::convolve;
        step_.in = {of.channels, of.height, of.width};
        const auto length = of.is_transposed ? &spread : &outputs;
        step_.out = {of.filters,
                     length(of.height, of.window.size.height, of.window.stride.height, of.window.dilation.height,
                            of.window.before.height, of.window.after.height),
                     length(of.width, of.window.size.width, of.window.stride.width, of.window.dilation.width,
                            of.window.before.width, of.window.after.width)};
        step_.window = of.window;
        step_.has_also = of.has_also;
        step_.has_bounds = of.has_bounds;
        step_.curve = of.curve;
        step_.most = std::numeric_limits<float>::infinity();
        const float scale = std::sqrt(2.0f / static_cast<float>(of.channels * taps));
        const std::vector<float> filters = noise(of.filters * of.channels * taps, scale), bias = noise(of.filters, 1);
        step_.numbers = of.is_transposed
                            ? numbers_.add_transposed_filters(filters, bias, of.window.size, of.window.stride)
                            : numbers_.add_filters(filters, bias, 1, of.channels, of.window.size);
        step_.from = place(step_.in, 16);
        step_.also = place(step_.out, 0);
        if (of.has_gate) {
            image_step multiply = step_;
            multiply.what = image_work::multiply;
            multiply.out = step_.in;
            multiply.has_also = true;
            multiply.has_bounds = false;
            multiply.curve = {};
            multiply.also_spread = image_spread::pixels;
            multiply.also = place({of.channels, 1, 1}, 8);
            multiply.also.row = multiply.also.pixel = 0;
            multiply.to = place(step_.in, 8);
            steps_.push_back(multiply);
            step_.from = multiply.to;
        }
        step_.to = place(step_.out, 8);
        steps_.push_back(step_);
        const std::vector<float> values = noise(elements_, 1);
        for (const float each : values)
            bits_.push_back(type == short_type::f16 ? half(each).bits() : bfloat16(each).bits());
    }

    const image_step& step() const { return steps_.back(); }
    const image_step* gate() const { return of_.has_gate ? steps_.data() : nullptr; }
    const std::vector<std::uint16_t>& values() const { return bits_; }
    const std::vector<std::byte>& numbers() const { return numbers_.all(); }
    batch_call call(std::byte* values, const std::byte* numbers) const {
        return {.steps = steps_.data(),
                .count = steps_.size(),
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
    static std::size_t spread(std::size_t size, std::size_t window, std::size_t stride, std::size_t, std::size_t before,
                              std::size_t after) {
        return (size - 1) * stride + window - before - after;
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
    std::vector<image_step> steps_;
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
    const image_window two{.size = {2, 2}, .stride = {2, 2}},
        four{.size = {4, 3}, .stride = {2, 2}, .before = {1, 0}, .after = {1, 2}},
        stem{.size = {3, 3}, .stride = {2, 2}, .before = {1, 1}, .after = {1, 1}},
        wide{.size = {2, 7}, .before = {0, 3}, .after = {1, 3}};
    const image_curve hard{.kind = image_curve_kind::hard_sigmoid, .times_input = true, .slope = 0.2f, .offset = 0.4f},
        silu{.kind = image_curve_kind::sigmoid, .times_input = true};
    const std::array<sizes, 14> all{{{1, 128, 7, 7, 32, three, false, true},
                                     {2, 16, 13, 11, 64, three, true, true},
                                     {3, 48, 9, 9, 40, three, true, false},
                                     {1, 256, 14, 14, 72, one, true, true},
                                     {2, 32, 12, 10, 24, odd, false, false},
                                     {5, 64, 1, 1, 136, one, false, true},
                                     {3, 24, 9, 10, 20 * 4, one, true, false, hard},
                                     {2, 40, 11, 9, 24, three, false, true, silu},
                                     {2, 72, 7, 9, 40, one, true, false, {}, true},
                                     {3, 16, 12, 5, 24, one, false, false, silu, true},
                                     {2, 4, 17, 15, 16, stem, false, false, hard},
                                     {1, 4, 9, 20, 40, wide, true, true},
                                     {2, 32, 9, 7, 24, two, true, true, {}, false, true},
                                     {3, 40, 6, 7, 16, four, false, false, silu, false, true}}};
    for (const sizes& of : all) {
        for (const short_type type : {short_type::f16, short_type::bf16}) {
            const case_of made(of, type);
            SCOPED_TRACE(type == short_type::f16 ? "f16" : "bf16");
            std::vector<std::uint16_t> expected = made.values();
            run_image_batch_on_host(made.call(reinterpret_cast<std::byte*>(expected.data()), made.numbers().data()));
            const auto numbers = sync(upload(made.numbers(), {made.numbers().size()}), pool);
            const std::vector<convolution_tile> tiles = convolution_tiles_for(made.step());
            ASSERT_FALSE(tiles.empty());
            for (const convolution_tile& tile : tiles) {
                SCOPED_TRACE(std::to_string(of.channels) + " channels, tile of " + tile.text());
                auto values = sync(upload(made.values(), {made.values().size()}), pool);
                batch_closure closure;
                const std::array<memory_access, 2> accesses{memory_access{values.memory(), access_mode::write},
                                                            memory_access{numbers.memory(), access_mode::read}};
                pool.next().launch(
                    {"convolve", accesses, {}},
                    batch_convolution_command(
                        made.call(reinterpret_cast<std::byte*>(values.device_data()), numbers.device_data()),
                        made.step(), tile, closure, made.gate()));
                const std::vector<std::uint16_t> got = sync(download(std::move(values)), pool);
                const float bound = type == short_type::f16 ? 0.005f : 0.04f;
                // (What a gate multiplies is in no memory then.)
                for (std::size_t i = made.step().to.first - 8; i < got.size(); ++i)
                    ASSERT_NEAR(number(got[i], type), number(expected[i], type), bound * 4) << "element " << i;
            }
        }
    }
}

// Means of images and two small convolutions of them, as one kernel and step by step.
TEST(image_batch_squeezes, compute_what_the_reference_computes) {
    runtime machine;
    device& on = machine.default_device();
    if (on.kind() != device_kind::cuda) GTEST_SKIP() << "there is no GPU here";
    single_stream pool(on);
    struct squeeze {
        std::size_t images, channels, height, width, squeezed;
    };
    for (const squeeze& of : {squeeze{1, 16, 56, 56, 8}, squeeze{3, 72, 5, 7, 24}, squeeze{2, 576, 7, 7, 144},
                              squeeze{5, 1152, 3, 1, 48}, squeeze{2, 2048, 1, 1, 64}}) {
        for (const short_type type : {short_type::f16, short_type::bf16}) {
            SCOPED_TRACE(std::to_string(of.channels) + (type == short_type::f16 ? " channels, f16" : ", bf16"));
            std::minstd_rand random(7);
            const auto noise = [&](std::size_t count, float scale) {
                std::normal_distribution<float> any(0, scale);
                std::vector<float> made(count);
                for (float& each : made) each = any(random);
                return made;
            };
            std::size_t elements = 0;
            const auto place = [&](const image_size& size) {
                image_place made;
                made.first = elements;
                made.pixel = size.channels + 8;
                made.row = size.width * made.pixel;
                made.image = size.height * made.row;
                elements += of.images * made.image;
                return made;
            };
            batch_numbers numbers(type);
            std::vector<image_step> steps(3);
            const image_size x{of.channels, of.height, of.width}, wide{of.channels, 1, 1}, narrow{of.squeezed, 1, 1};
            steps[0].what = image_work::average;
            steps[0].in = x;
            steps[0].window.size = {of.height, of.width};
            steps[0].from = place(x);
            steps[0].out = wide;
            for (std::size_t i = 1; i < 3; ++i) {
                steps[i].what = image_work::convolve;
                steps[i].in = i == 1 ? wide : narrow;
                steps[i].out = i == 1 ? narrow : wide;
                const std::size_t in = steps[i].in.channels, out = steps[i].out.channels;
                steps[i].numbers = numbers.add_filters(noise(in * out, std::sqrt(2.0f / static_cast<float>(in))),
                                                       noise(out, 1), 1, in, {1, 1});
            }
            steps[1].has_bounds = true;
            steps[1].most = std::numeric_limits<float>::infinity();
            steps[2].curve = {.kind = image_curve_kind::sigmoid};
            for (std::size_t i = 0; i < 3; ++i) {
                steps[i].to = place(steps[i].out);
                if (i < 2) steps[i + 1].from = steps[i].to;
            }
            ASSERT_EQ(squeezed_steps(steps.data(), steps.size()), 3u);
            std::vector<std::uint16_t> values;
            for (const float each : noise(elements, 1))
                values.push_back(type == short_type::f16 ? half(each).bits() : bfloat16(each).bits());
            batch_call call{.steps = steps.data(), .count = steps.size(), .images = of.images, .type = type};
            std::vector<std::uint16_t> expected = values;
            call.numbers = numbers.all().data();
            call.scratch = reinterpret_cast<std::byte*>(expected.data());
            run_image_batch_on_host(call);
            const auto on_device = sync(upload(numbers.all(), {numbers.all().size()}), pool);
            for (const std::size_t blocks : {std::size_t{1}, std::size_t{blocks_of_cluster}}) {
                if (blocks > 1 && on.properties().compute_capability < 90) continue;
                auto all = sync(upload(values, {values.size()}), pool);
                call.numbers = on_device.device_data();
                call.scratch = reinterpret_cast<std::byte*>(all.device_data());
                batch_closure closure;
                const std::array<memory_access, 2> accesses{memory_access{all.memory(), access_mode::write},
                                                            memory_access{on_device.memory(), access_mode::read}};
                pool.next().launch({"squeeze", accesses, {}}, squeeze_command(call, steps.data(), 3, blocks, closure));
                const std::vector<std::uint16_t> got = sync(download(std::move(all)), pool);
                for (std::size_t i = 0; i < got.size(); ++i)
                    ASSERT_NEAR(number(got[i], type), number(expected[i], type), type == short_type::f16 ? 0.02f : 0.1f)
                        << "element " << i << ", " << blocks << " blocks";
            }
        }
    }
}

}  // namespace sluice::kernels::image_batch_device_tests
