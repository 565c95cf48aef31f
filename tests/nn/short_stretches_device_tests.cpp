// SPDX-License-Identifier: Apache-2.0
// Networks of convolutions in f16 and bf16 on the default device, a GPU where there is one: at random, and with the
// sizes of ordinary networks, for which libraries have kernels of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/image_batch/image_batch.hpp"
#include "nn/prepared_network.hpp"
#include "nn/random_images.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/precision_choice.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::short_stretches_device_tests {
namespace {

using namespace test_support;

class device_short_stretches : public ::testing::Test {
protected:
    // `at_least`: the stretches of convolutions that a network has on a GPU.
    void expect_near_f32(const model& made, const any_tensor& x, std::ptrdiff_t at_least) {
        const auto exact = sync(sync(make_network(made), host).run({x}), host);
        for (const auto& [what, bound] : {std::pair{precision::f16, 0.01}, {precision::bf16, 0.08}}) {
            SCOPED_TRACE(to_string(what));
            const network rounded = sync(make_network(made, {.precision = what}), pool);
            if (kernels::has_image_batches(machine.default_device())) {
                EXPECT_GE(std::ranges::count_if(rounded.inside().body().steps,
                                                [](const auto& each) { return each.stretch != nullptr; }),
                          at_least);
            }
            EXPECT_LE(difference_of(exact, sync(rounded.run({x}), pool)).relative, bound);
            const auto fast = compile(pool, [&] { return rounded.run({x}); });
            EXPECT_LE(difference_of(exact, sync(fast(), pool)).relative, bound);
        }
    }

    runtime machine;
    round_robin pool{machine.default_device(), 2}, host{machine.find("cpu:0"), 1};
};

// Writes convolutions with weights at random.
class network_maker {
public:
    explicit network_maker(const lengths& input) {
        made_.path = "made.onnx";
        made_.opsets = {{"", 13}};
        made_.body.inputs = {f32("x", {of(input[0]), of(input[1]), of(input[2]), of(input[3])})};
        channels_["x"] = input[1];
    }

    std::string convolve(const std::string& from, std::size_t filters, std::int64_t window, std::int64_t stride,
                         std::size_t groups = 1) {
        const std::size_t taps = static_cast<std::size_t>(window * window), each = channels_[from] / groups;
        const std::string name = "c" + std::to_string(++count_);
        const float scale = std::sqrt(2.0f / static_cast<float>(each * taps));
        made_.body.constants.emplace(
            name + "f",
            numbers({filters, each, static_cast<std::size_t>(window), static_cast<std::size_t>(window)}, scale));
        made_.body.constants.emplace(name + "b", numbers({filters}, 0.1f));
        node convolution = make_node("Conv", {from, name + "f", name + "b"}, {name});
        convolution.attributes["pads"] = std::vector<std::int64_t>(4, window / 2);
        convolution.attributes["strides"] = std::vector<std::int64_t>{stride, stride};
        convolution.attributes["group"] = static_cast<std::int64_t>(groups);
        made_.body.nodes.push_back(convolution);
        channels_[name] = filters;
        return name;
    }
    // Of windows of 2 x 2, or of 3 x 3 where the size stays.
    std::string transpose(const std::string& from, std::size_t filters, std::int64_t stride) {
        const std::size_t window = stride == 1 ? 3 : 2;
        const std::string name = "t" + std::to_string(++count_);
        made_.body.constants.emplace(name + "f", numbers({channels_[from], filters, window, window}, 0.2f));
        node convolution = make_node("ConvTranspose", {from, name + "f"}, {name});
        convolution.attributes["pads"] = std::vector<std::int64_t>(4, stride == 1 ? 1 : 0);
        convolution.attributes["strides"] = std::vector<std::int64_t>{stride, stride};
        made_.body.nodes.push_back(convolution);
        channels_[name] = filters;
        return name;
    }
    node& last() { return made_.body.nodes.back(); }
    std::string add(std::string op, std::vector<std::string> inputs) {
        const std::string name = "v" + std::to_string(++count_);
        std::size_t channels = 0;
        for (const std::string& each : inputs) channels += channels_[each];
        channels_[name] = op == "Concat" ? channels : channels_[inputs[0]];
        node made = make_node(op, std::move(inputs), {name});
        if (op == "Concat") made.attributes["axis"] = std::int64_t{1};
        made_.body.nodes.push_back(made);
        return name;
    }
    std::string relu(const std::string& from) { return add("Relu", {from}); }

    model give(const std::string& output) {
        made_.body.outputs = {f32(output, std::vector<dimension>(4, named("")))};
        return made_;
    }

private:
    constant numbers(const lengths& shape, float scale) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        std::vector<float> made(count);
        std::normal_distribution<float> any(0, scale);
        for (float& each : made) each = any(random_);
        return tensor_of(made, shape);
    }

    model made_;
    std::map<std::string, std::size_t> channels_;
    std::size_t count_ = 0;
    std::minstd_rand random_{5};
};

}  // namespace

TEST_F(device_short_stretches, random_networks_stay_near_f32) {
    for (unsigned seed = 0; seed < 12; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_images images(seed, {.for_gpu = seed % 2 != 0, .for_cpu = false});
        const model made = images.make();
        ASSERT_NO_FATAL_FAILURE(expect_near_f32(made, pixels(images.input()), 0));
    }
}

// Many channels in many pixels, which enter and leave by tiles: numbers of channels that no tile has, odd ones too.
TEST_F(device_short_stretches, tiles_of_any_size_stay_near_f32) {
    for (const auto& [images, channels, height, width] :
         {std::array<std::size_t, 4>{5, 58, 41, 37}, {3, 64, 48, 64}, {2, 131, 33, 65}, {300, 33, 9, 7}}) {
        SCOPED_TRACE(channels);
        network_maker network({images, channels, height, width});
        const std::string wide = network.convolve("x", channels, 3, 1, channels);
        const model made = network.give(network.relu(network.convolve(wide, channels + 1, 1, 1)));
        ASSERT_NO_FATAL_FAILURE(expect_near_f32(made, pixels({images, channels, height, width}), 1));
    }
}

TEST_F(device_short_stretches, networks_of_one_dimension_stay_near_f32) {
    for (unsigned seed = 0; seed < 6; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_sequences sequences(seed);
        const model made = sequences.make();
        ASSERT_NO_FATAL_FAILURE(expect_near_f32(made, pixels(sequences.input()), 1));
    }
}

TEST_F(device_short_stretches, residual_blocks_stay_near_f32) {
    network_maker make({3, 3, 32, 32});
    const std::string stem = make.relu(make.convolve("x", 64, 7, 2));
    const std::string inner = make.relu(make.convolve(make.relu(make.convolve(stem, 64, 1, 1)), 64, 3, 1));
    const std::string block =
        make.relu(make.add("Add", {make.convolve(inner, 256, 1, 1), make.convolve(stem, 256, 1, 1)}));
    const std::string next = make.relu(make.convolve(make.relu(make.convolve(block, 128, 1, 1)), 128, 3, 2));
    const std::string last =
        make.relu(make.add("Add", {make.convolve(block, 512, 1, 2), make.convolve(next, 512, 1, 1)}));
    expect_near_f32(make.give(make.add("GlobalAveragePool", {last})), pixels({3, 3, 32, 32}), 1);
}

TEST_F(device_short_stretches, concatenations_and_groups_stay_near_f32) {
    network_maker make({2, 16, 14, 14});
    const std::string squeezed = make.relu(make.convolve("x", 24, 1, 1));
    const std::string fire = make.add(
        "Concat", {make.relu(make.convolve(squeezed, 64, 1, 1)), make.relu(make.convolve(squeezed, 64, 3, 1))});
    const std::string grouped = make.relu(make.convolve(fire, 128, 1, 1, 4));
    const std::string by_channels = make.convolve(grouped, 128, 3, 1, 128);
    const std::string many = make.relu(make.convolve(by_channels, 128, 3, 1, 16));
    expect_near_f32(make.give(make.add("Concat", {fire, many})), pixels({2, 16, 14, 14}), 1);
}

// The convolution reads what the gate gives, and adds it: then both kernels are needed.
TEST_F(device_short_stretches, gates_whose_reader_adds_them_stay_near_f32) {
    for (const std::size_t side : {7u, 28u}) {
        network_maker make({2, 64, side, side});
        const std::string x = make.relu(make.convolve("x", 64, 1, 1));
        const std::string gate = make.add("Sigmoid", {make.add("GlobalAveragePool", {x})});
        const std::string gated = make.add("Mul", {x, gate});
        const std::string sum = make.add("Add", {make.convolve(gated, 64, 1, 1), gated});
        expect_near_f32(make.give(make.relu(sum)), pixels({2, 64, side, side}), 1);
    }
}

// Steps of the same sizes that are carried out in other ways: transposed, and where tiles do not fit their places.
TEST_F(device_short_stretches, steps_that_look_alike_stay_near_f32) {
    for (const std::int64_t stride : {1, 2}) {
        network_maker make({2, 16, 14, 14});
        const std::string up = make.relu(make.transpose("x", 16, stride));
        const std::string part = make.relu(make.convolve(up, 12, 3, 1));
        const std::string same = make.relu(make.convolve(up, 16, 3, 1));
        const std::string joined = make.add("Concat", {up, part, same});
        const std::string again = make.relu(make.transpose(same, 16, 1));
        const std::string parts = make.add("Concat", {make.relu(make.convolve(again, 12, 3, 1)), again});
        expect_near_f32(make.give(make.add("Concat", {joined, parts})), pixels({2, 16, 14, 14}), 1);
    }
    network_maker make({2, 8, 14, 14});
    const auto few = [&](const std::string& from, std::size_t channels) {
        return make.relu(make.convolve(from, channels, 3, 1));
    };
    const std::string p = few("x", 8), r = few("x", 8);
    const std::string first = make.add("Concat", {p, few("x", 4), r});
    const std::string s = few(p, 8), t = few(r, 8);
    const std::string second = make.add("Concat", {few("x", 4), s, t});
    expect_near_f32(make.give(make.add("Add", {first, second})), pixels({2, 8, 14, 14}), 1);
}

// The window is in the padding: the result is the bias.
TEST_F(device_short_stretches, convolutions_of_padding_stay_near_f32) {
    network_maker make({2, 16, 14, 14});
    const std::string mean = make.add("GlobalAveragePool", {make.relu(make.convolve("x", 16, 1, 1))});
    const std::string padded = make.convolve(mean, 16, 1, 3);
    make.last().attributes["pads"] = std::vector<std::int64_t>(4, 1);
    expect_near_f32(make.give(make.relu(padded)), pixels({2, 16, 14, 14}), 1);
}

}  // namespace sluice::nn::short_stretches_device_tests
