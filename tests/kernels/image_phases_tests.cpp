// SPDX-License-Identifier: Apache-2.0
// Steps of image programs that are carried out side by side or band by band, on several workers: bit for bit what they
// compute one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kernels/channels_last/image_extents.hpp"
#include "kernels/channels_last/image_program.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::kernels::image_phases_tests {
namespace {

std::vector<float> wave(std::size_t count, float phase) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(phase + 0.37f * static_cast<float>(i));
    return made;
}

constexpr image_border border{1, 1, 1, 1};
constexpr image_window three_by_three{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};

// Lays values out one after the other.
class memory_plan {
public:
    // With `rows` of memory, if they are not those of the image.
    image_place add(const image_size& of, const image_border& around = {}, std::size_t rows = 0) {
        const std::size_t row = (around.left + of.width + around.right) * of.channels;
        const image_place made{
            .first = floats_ + around.top * row + around.left * of.channels, .row = row, .pixel = of.channels};
        floats_ += row * (rows != 0 ? rows : around.top + of.height + around.bottom);
        return made;
    }
    std::size_t floats() const { return floats_ + image_slack; }

private:
    std::size_t floats_ = 0;
};

class image_phases : public testing::Test {
protected:
    image_step entering(const image_size& of, const image_place& to) {
        image_step made{};
        made.what = image_work::enter;
        made.in = made.out = of;
        made.to = to;
        made.border = border;
        return made;
    }
    image_step leaving(const image_size& of, const image_place& from) {
        image_step made{};
        made.what = image_work::leave;
        made.outside = 1;
        made.in = made.out = of;
        made.from = from;
        return made;
    }
    image_step convolving(const image_size& in, const image_place& from, const image_size& out, const image_place& to,
                          float phase) {
        image_step made{};
        made.what = image_work::convolve;
        made.in = in;
        made.from = from;
        made.out = out;
        made.to = to;
        made.window = three_by_three;
        made.has_bounds = true;
        made.most = std::numeric_limits<float>::infinity();
        const auto filters = wave(out.channels * in.channels * 9, phase), bias = wave(out.channels, phase + 1);
        made.numbers = numbers.add_filters(filters.data(), bias.data(), out.channels, 1, in.channels, {3, 3});
        return made;
    }
    // On three workers.
    std::vector<float> run(const std::vector<image_step>& steps, std::size_t images, std::size_t floats) {
        std::vector<float> x = wave(images * steps.front().out.elements(), 0);
        std::vector<float> scratch(most_at_once(images) * floats, std::numeric_limits<float>::quiet_NaN());
        std::vector<float> out(images * steps.back().out.elements());
        image_call call{.steps = steps.data(),
                        .count = steps.size(),
                        .numbers = numbers.all().data(),
                        .scratch = scratch.data(),
                        .images = images,
                        .scratch_floats = floats,
                        .tail = tail};
        call.outside[0] = x.data();
        call.outside[1] = out.data();
        sync(host_call([&] { run_image_program(call); }), policy);
        return out;
    }

    runtime owner{{.cpu_workers = 3, .cuda = false}};
    single_stream policy{owner.find("cpu:0")};
    image_numbers numbers;
    image_tail tail;  // of what run() is given
};

}  // namespace

TEST_F(image_phases, bands_of_a_convolution_and_a_pooling) {
    const image_size in{3, 64, 61}, between{40, 64, 61};
    const std::vector<image_window> windows{{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
                                            {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
                                            {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
                                            {{2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}},
                                            {{2, 2}, {2, 2}, {2, 2}, {1, 1}, {1, 1}}};
    for (const image_window& window : windows) {
        for (const image_work what : {image_work::maximum, image_work::average}) {
            SCOPED_TRACE("window " + std::to_string(&window - windows.data()));
            const auto reach = [](std::size_t length, std::size_t size, std::size_t stride, std::size_t dilation,
                                  std::size_t padding) {
                return (length + 2 * padding - (size - 1) * dilation - 1) / stride + 1;
            };
            const image_size out{40,
                                 reach(between.height, window.size.height, window.stride.height, window.dilation.height,
                                       window.before.height),
                                 reach(between.width, window.size.width, window.stride.width, window.dilation.width,
                                       window.before.width)};
            numbers = {};
            memory_plan memory;
            const image_place entered = memory.add(in, border);
            image_step pooling{};
            pooling.what = what;
            pooling.in = between;
            pooling.out = out;
            pooling.window = window;
            image_step convolution = convolving(in, entered, between, {}, 1);
            const image_bands bands = bands_of(convolution, pooling, between.width * between.channels);
            ASSERT_GT(bands.count, 1u);
            convolution.to = pooling.from = memory.add(between, {}, std::max(bands.count * bands.rows, between.height));
            pooling.to = memory.add(out);
            std::vector<image_step> steps{entering(in, entered), convolution, pooling, leaving(out, pooling.to)};
            for (const std::size_t images : {1, 3}) {
                const auto expected = run(steps, images, memory.floats());
                steps[1].has_bands = true;
                for (int repeat = 0; repeat < 10; ++repeat)
                    ASSERT_EQ(run(steps, images, memory.floats()), expected) << images << " images";
                steps[1].has_bands = false;
            }
        }
    }
}

TEST_F(image_phases, bands_are_not_for_few_rows_and_for_windows_that_read_much_again) {
    image_step convolution{}, pooling{};
    convolution.what = image_work::convolve;
    convolution.in = {16, 112, 112};
    convolution.out = pooling.in = {64, 112, 112};
    convolution.window = three_by_three;
    pooling.what = image_work::maximum;
    pooling.out = {64, 56, 56};
    pooling.window = {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
    EXPECT_EQ(bands_of(convolution, pooling, 112 * 64).count, 8u);
    EXPECT_EQ(bands_of(convolution, pooling, 112 * 64).rows, 15u);
    image_step of_all = pooling;  // a global pooling
    of_all.out = {64, 1, 1};
    of_all.window = {{112, 112}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
    EXPECT_EQ(bands_of(convolution, of_all, 112 * 64).count, 0u);
    image_step of_many = pooling;
    of_many.out = {64, 102, 102};
    of_many.window = {{11, 11}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
    EXPECT_EQ(bands_of(convolution, of_many, 112 * 64).count, 0u);
}

// Both write channels of one value, as the inputs of a concatenation do.
TEST_F(image_phases, convolutions_side_by_side) {
    const image_size in{24, 40, 41}, half{48, 40, 41}, both{96, 40, 41};
    memory_plan memory;
    const image_place entered = memory.add(in, border), joined = memory.add(both);
    image_place second = joined;
    second.first += half.channels;
    std::vector<image_step> steps{entering(in, entered), convolving(in, entered, half, joined, 1),
                                  convolving(in, entered, half, second, 3), leaving(both, joined)};
    const auto expected = run(steps, 1, memory.floats());
    steps[2].is_side_by_side = true;
    for (int repeat = 0; repeat < 50; ++repeat) ASSERT_EQ(run(steps, 1, memory.floats()), expected);
}

// The last three convolutions have more weights than their inputs have numbers; the second of them adds what the first
// of them reads.
TEST_F(image_phases, several_images_take_the_tail_together) {
    const image_size in{8, 23, 21}, wide{160, 5, 4}, last{200, 5, 4};
    memory_plan memory;
    const image_place entered = memory.add(in, border), first = memory.add({16, 23, 21}, border),
                      pooled = memory.add({16, 5, 4}, border), a = memory.add(wide, border),
                      b = memory.add(wide, border), c = memory.add(wide, border), end = memory.add(last);
    image_step pooling{};
    pooling.what = image_work::maximum;
    pooling.in = {16, 23, 21};
    pooling.out = {16, 5, 4};
    pooling.from = first;
    pooling.to = pooled;
    pooling.border = border;
    pooling.window = {{5, 5}, {4, 4}, {1, 1}, {0, 0}, {0, 0}};
    std::vector<image_step> steps{entering(in, entered),
                                  convolving(in, entered, {16, 23, 21}, first, 1),
                                  pooling,
                                  convolving({16, 5, 4}, pooled, wide, a, 2),
                                  convolving(wide, a, wide, b, 3),
                                  convolving(wide, b, wide, c, 4),
                                  convolving(wide, c, last, end, 5),
                                  leaving(last, end)};
    for (const std::size_t i : {1, 3, 4, 5}) steps[i].border = border;
    steps[5].has_also = true;
    steps[5].also = a;
    const image_tail found = tail_of(steps);
    ASSERT_EQ(found.first, 2u);  // the pooling has no weights: it reads the first value, a small one
    EXPECT_LE(found.begin, first.first);
    EXPECT_GE(found.end, first.first + std::size_t{16} * 23 * 21);
    for (const std::size_t images : {2, 3, 5, 8, 13, 40}) {
        tail = {};
        const auto expected = run(steps, images, memory.floats());
        for (const std::size_t begin : {found.first, std::size_t{3}, std::size_t{4}}) {
            tail = begin == found.first ? found : image_tail{begin, 0, memory.floats()};  // of all values: right, too
            for (int repeat = 0; repeat < 5; ++repeat)
                ASSERT_EQ(run(steps, images, memory.floats()), expected) << images << " images from step " << begin;
        }
    }
}

// With a stride of 2 the last window ends within the image. So its value has no border at the bottom and on the right,
// and what follows it in memory is another image's.
TEST_F(image_phases, the_tail_of_an_image_is_within_its_memory) {
    const image_border above{1, 1, 0, 0};
    const image_size wide{128, 12, 12}, last{240, 6, 6};
    memory_plan memory;
    const image_place end = memory.add(last), entered = memory.add(wide, above);
    std::vector<image_step> steps{entering(wide, entered), convolving(wide, entered, last, end, 2), leaving(last, end)};
    steps[0].border = above;
    steps[1].window.stride = {2, 2};
    for (const std::size_t images : {2, 4, 9}) {
        tail = {};
        const auto expected = run(steps, images, memory.floats());
        tail = tail_of(steps);
        ASSERT_EQ(tail.first, 1u);
        ASSERT_TRUE(stays_within(steps, tail, memory.floats() - image_slack)) << tail.begin << " to " << tail.end;
        for (int repeat = 0; repeat < 20; ++repeat)
            ASSERT_EQ(run(steps, images, memory.floats()), expected) << images << " images";
    }
}

TEST_F(image_phases, a_program_that_exceeds_its_memory_is_found) {
    const image_size in{24, 12, 12}, last{32, 12, 12};
    memory_plan memory;
    const image_place entered = memory.add(in, border), end = memory.add(last);
    const std::vector<image_step> steps{entering(in, entered), convolving(in, entered, last, end, 1),
                                        leaving(last, end)};
    const std::size_t floats = memory.floats() - image_slack;
    EXPECT_TRUE(stays_within(steps, {}, floats));
    EXPECT_FALSE(stays_within(steps, {}, floats - 1));
    EXPECT_FALSE(stays_within(steps, {1, 0, floats + 1}, floats));
    auto before = steps;
    before[0].border.top = before[0].to.first / before[0].to.row + 1;  // rows before the first float
    EXPECT_FALSE(stays_within(before, {}, floats));
    auto wider = steps;
    wider[1].window.size = {5, 5};  // a border of 2, where there is one of 1: beyond the last row of the value
    wider[1].window.before = {2, 2};
    EXPECT_FALSE(stays_within(wider, {}, end.first));
}

TEST_F(image_phases, there_is_no_tail_without_many_weights) {
    const image_size in{8, 40, 41}, out{24, 40, 41};
    memory_plan memory;
    const image_place entered = memory.add(in, border), end = memory.add(out);
    const std::vector<image_step> steps{entering(in, entered), convolving(in, entered, out, end, 1), leaving(out, end)};
    EXPECT_EQ(tail_of(steps).first, steps.size());
}

}  // namespace sluice::kernels::image_phases_tests
