// SPDX-License-Identifier: Apache-2.0
// Stretches of convolutions in f16 and bf16: the steps that a GPU carries out, on a CPU by the reference's loops,
// compute what the network computes in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/image_batch/image_batch.hpp"
#include "nn/images/short_stretch.hpp"
#include "nn/passes/image_stretches.hpp"
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

// The largest difference in parts of the largest number goes to `worst`.
void expect_near(const any_tensor& got, const any_tensor& expected, float bound, float& worst) {
    ASSERT_EQ(got.shape(), expected.shape());
    const auto a = got.values<float>(), b = expected.values<float>();
    float largest = 0.01f;
    for (const float each : b) largest = std::max(largest, std::abs(each));
    for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], bound * largest) << "element " << i;
        worst = std::max(worst, std::abs(a[i] - b[i]) / largest);
    }
}

class short_stretches : public ::testing::Test {
protected:
    // The steps of the network as they were before those of a CPU's stretches were joined; constants on the host.
    static detail::prepared_graph steps_of(const network& of) {
        detail::prepared_graph made = of.inside().body();
        for (auto& [at, value] : made.constants) {
            if (value.is_on_host() || value.type() != io::dtype::f32) continue;
            const auto* const first = static_cast<const float*>(value.memory()->data());  // of a CPU
            value = any_tensor(std::vector<float>(first, first + value.elements()), value.shape());
        }
        std::vector<detail::step> steps;
        for (const detail::step& each : std::exchange(made.steps, {})) {
            if (each.stretch == nullptr) {
                steps.push_back(each);
                continue;
            }
            std::ranges::copy(each.stretch->body().steps, std::back_inserter(steps));
            for (const auto& one : each.stretch->body().constants)
                made.constants.insert_or_assign(one.first, one.second);
        }
        made.steps = std::move(steps);
        return made;
    }
    // What a GPU's one stretch of a network that is nothing else would be made of.
    static std::optional<detail::prepared_graph> only_body(const network& of) {
        const detail::prepared_graph steps = steps_of(of);
        auto bodies = detail::graphs_of_image_stretches(steps, detail::image_style::together);
        if (bodies.size() != 1 || bodies[0].steps.size() != steps.steps.size()) return {};
        return std::move(bodies[0]);
    }

    // Compares what the stretch gives with the network in f32. False where the network is more than a stretch.
    bool compare(const model& made, const any_tensor& x) {
        const network exact = sync(make_network(made), pool);
        const auto stretch = only_body(exact);
        if (!stretch || stretch->inputs.size() != 1) return false;
        const std::vector<any_tensor> expected = sync(exact.run({x}), pool);
        // The network's outputs, in the order of the stretch's.
        const auto& body = exact.inside().body();
        float worst = 0;
        for (const precision what : {precision::f16, precision::bf16}) {
            SCOPED_TRACE(to_string(what));
            // bf16 rounds eight times as much as f16; a network may enlarge that.
            const float bound = what == precision::f16 ? 0.01f : std::max(0.08f, 20 * worst);
            const std::vector<any_tensor> got = run(*stretch, what, x);
            EXPECT_EQ(got.size(), expected.size());
            for (std::size_t i = 0; i < expected.size() && i < got.size(); ++i) {
                const auto at = std::ranges::find(stretch->outputs, body.outputs[i]);
                EXPECT_NE(at, stretch->outputs.end());
                expect_near(got[static_cast<std::size_t>(at - stretch->outputs.begin())], expected[i], bound, worst);
            }
        }
        return true;
    }

    // What the stretch gives for these inputs in the order of its outputs; empty where the inputs do not fit.
    std::vector<any_tensor> run(const detail::prepared_graph& of, precision what, const any_tensor& x) {
        std::shared_ptr<detail::short_image_stretch> made;
        const auto submit = [&](execution_context& context) {
            made = std::make_shared<detail::short_image_stretch>(of, what, context);
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

}  // namespace

TEST_F(short_stretches, random_networks_stay_near_f32) {
    std::size_t compared = 0;
    for (unsigned seed = 0; seed < 300 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_images images(seed, {.for_cpu = false});
        const model made = images.make();
        compared += compare(made, pixels(images.input()));
    }
    EXPECT_GT(compared, 100u);
}

// With transposed convolutions and Resize.
TEST_F(short_stretches, networks_with_larger_outputs_stay_near_f32) {
    std::size_t compared = 0;
    for (unsigned seed = 0; seed < 200 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_images images(seed, {.for_gpu = true, .for_cpu = false});
        const model made = images.make();
        compared += compare(made, pixels(images.input()));
    }
    EXPECT_GT(compared, 60u);
}

TEST_F(short_stretches, networks_of_one_dimension_stay_near_f32) {
    for (unsigned seed = 0; seed < 100 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_sequences sequences(seed);
        const model made = sequences.make();
        EXPECT_TRUE(compare(made, pixels(sequences.input())));
    }
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
