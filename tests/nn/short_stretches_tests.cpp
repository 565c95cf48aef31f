// SPDX-License-Identifier: Apache-2.0
// Stretches of convolutions in f16 and bf16: the steps that a GPU carries out, on a CPU by the reference's loops,
// compute what the network computes in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/image_batch/image_batch.hpp"
#include "nn/images/short_stretch.hpp"
#include "nn/prepared_network.hpp"
#include "nn/random_images.hpp"
#include "sluice/base/half.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::short_stretches_tests {
namespace {

using namespace test_support;

class short_stretches : public ::testing::Test {
protected:
    // The one stretch of a network that is nothing else; null where it has other steps too.
    static const detail::image_stretch* only_stretch(const network& of) {
        const auto& steps = of.prepared().body().steps;
        return steps.size() == 1 ? steps.front().stretch.get() : nullptr;
    }

    // What the stretch gives for these inputs in the order of its outputs; empty where the inputs do not fit.
    std::vector<any_tensor> run(const detail::image_stretch& of, precision what, const any_tensor& x) {
        std::shared_ptr<detail::short_image_stretch> made;
        const auto submit = [&](execution_context& context) {
            made = std::make_shared<detail::short_image_stretch>(of.body(), what, context);
            const any_tensor on_device(
                upload(std::vector<float>(x.values<float>().begin(), x.values<float>().end()), {x.elements()})
                    .submit(context));
            const std::vector<any_tensor> inputs{on_device.with_shape(x.shape())};
            return made->submit("made.onnx", context, inputs);
        };
        const auto outputs = sync(with_context(submit), pool);
        std::vector<any_tensor> all;
        if (!outputs) return all;
        for (const any_tensor& each : *outputs) {
            const auto flat = each.with_shape({each.elements()});
            all.emplace_back(sync(download(flat.on_device<float>()), pool), each.shape());
        }
        return all;
    }

    runtime machine{runtime_options{.cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

void expect_near(const any_tensor& got, const any_tensor& expected, float bound) {
    ASSERT_EQ(got.shape(), expected.shape());
    const auto a = got.values<float>(), b = expected.values<float>();
    float largest = 0.01f;
    for (const float each : b) largest = std::max(largest, std::abs(each));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound * largest) << "element " << i;
}

}  // namespace

TEST_F(short_stretches, random_networks_stay_near_f32) {
    std::size_t compared = 0;
    for (unsigned seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_images images(seed);
        const model made = images.make();
        const any_tensor x = pixels(images.input());
        const network exact = sync(make_network(made), pool);
        const detail::image_stretch* const stretch = only_stretch(exact);
        if (stretch == nullptr || stretch->body().inputs.size() != 1) continue;
        const std::vector<any_tensor> expected = sync(exact.run({x}), pool);
        // The network's outputs, in the order of the stretch's.
        const auto& body = exact.prepared().body();
        for (const auto& [what, bound] : {std::pair{precision::f16, 0.01f}, {precision::bf16, 0.08f}}) {
            SCOPED_TRACE(to_string(what));
            const std::vector<any_tensor> got = run(*stretch, what, x);
            ASSERT_EQ(got.size(), expected.size());
            for (std::size_t i = 0; i < expected.size(); ++i) {
                const auto at = std::ranges::find(stretch->body().outputs, body.outputs[i]);
                ASSERT_NE(at, stretch->body().outputs.end());
                const auto place = static_cast<std::size_t>(at - stretch->body().outputs.begin());
                ASSERT_NO_FATAL_FAILURE(expect_near(got[place], expected[i], bound));
            }
        }
        ++compared;
    }
    EXPECT_GT(compared, 100u);
}

// 70,000 is more than f16 has.
TEST_F(short_stretches, weights_that_the_type_does_not_have_are_noticed) {
    kernels::batch_numbers f16(kernels::short_type::f16), bf16(kernels::short_type::bf16);
    for (kernels::batch_numbers* const each : {&f16, &bf16}) each->add_filters({70'000, 1}, {0, 0}, 1, 1, {1, 1});
    EXPECT_FALSE(f16.are_finite());
    EXPECT_TRUE(bf16.are_finite());
}

// A filter of the second group has zeros for the channels of the first one.
TEST_F(short_stretches, filters_of_few_groups_are_written_as_those_of_one) {
    kernels::batch_numbers made(kernels::short_type::f16);
    ASSERT_TRUE(kernels::joins_groups(2, 2, 1));
    ASSERT_FALSE(kernels::joins_groups(32, 256, 8));
    const std::size_t place = made.add_filters({3, 5}, {7, 9}, 2, 1, {1, 1});
    const auto number = [&](std::size_t byte) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, made.all().data() + byte, sizeof(bits));
        return float{half::from_bits(bits)};
    };
    const std::vector<float> expected{3, 0, 0, 0, 0, 5, 0, 0};
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(number(place + 2 * i), expected[i]) << i;
    kernels::image_step step{};
    step.in = {.channels = 4, .height = 1, .width = 1};
    step.out = step.in;
    const std::size_t bias = place + kernels::filter_form_of(step).bias;
    EXPECT_EQ(number(bias), 7);
    EXPECT_EQ(number(bias + 2), 9);
    EXPECT_EQ(number(bias + 4), 0);
}

}  // namespace sluice::nn::short_stretches_tests
