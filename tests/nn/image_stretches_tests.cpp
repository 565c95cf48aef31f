// SPDX-License-Identifier: Apache-2.0
// Stretches of convolutions on a CPU: random networks compute what they compute step by step.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "nn/random_images.hpp"
#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::image_stretches_tests {
namespace {

using namespace test_support;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class image_stretches : public ::testing::Test {
protected:
    std::vector<any_tensor> run(const model& from, const std::vector<any_tensor>& inputs) {
        return sync(sync(make_network(from), pool).run(inputs), pool);
    }
    // Where constants are inputs, there is no stretch.
    std::vector<any_tensor> step_by_step(model from, const any_tensor& x) {
        std::vector<any_tensor> inputs{x};
        for (auto at = from.body.constants.begin(); at != from.body.constants.end();) {
            const auto& [name, value] = *at;
            if (value.type != io::dtype::f32 || value.shape.empty()) {
                ++at;
                continue;
            }
            std::vector<dimension> shape;
            for (const std::size_t each : value.shape) shape.push_back(of(each));
            from.body.inputs.push_back(f32(name, std::move(shape)));
            inputs.emplace_back(value);
            at = from.body.constants.erase(at);
        }
        return run(from, inputs);
    }
    static void expect_near(const any_tensor& got, const any_tensor& expected) {
        ASSERT_EQ(got.shape(), expected.shape());
        const auto a = got.values<float>(), b = expected.values<float>();
        float largest = 1;
        for (const float each : b) largest = std::max(largest, std::abs(each));
        for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4f * largest) << "element " << i;
    }

    runtime machine{runtime_options{.cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

}  // namespace

TEST_F(image_stretches, random_networks_compute_what_their_steps_compute) {
    for (unsigned seed = 0; seed < 600; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        image_limits limits;
        limits.are_rows = seed % 3 == 0;
        // Rows that several workers share: with more pixels than a part has.
        if (limits.are_rows && seed % 2 == 0) limits.pixels = {60, 300};
        random_images images(seed, limits);
        const model made = images.make();
        const any_tensor x = pixels(images.input());
        const auto got = run(made, {x}), expected = step_by_step(made, x);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NO_FATAL_FAILURE(expect_near(got[i], expected[i]));
    }
}

// Some of the channels of a value are it without a copy, and one number for all elements is part of what is before it.
TEST_F(image_stretches, divisions_and_numbers_are_part_of_the_command) {
    model made;
    made.path = "made.onnx";
    made.opsets = {{"", 17}};
    const bool are_rows[] = {false, true};
    for (const bool is_row : are_rows) {
        made.body = {};
        const auto shaped = [&](std::size_t a, std::size_t b, std::size_t window) {
            return is_row ? lengths{a, b, window} : lengths{a, b, window, window};
        };
        const auto add = [&](const std::string& name, const lengths& of) {
            std::size_t count = 1;
            for (const std::size_t each : of) count *= each;
            std::vector<float> numbers(count);
            for (std::size_t i = 0; i < count; ++i) numbers[i] = std::sin(0.3f * static_cast<float>(i));
            made.body.constants.emplace(name, tensor_of(numbers, of));
        };
        add("first", shaped(24, 3, 1));
        add("second", shaped(8, 8, 3));
        made.body.constants.emplace("sizes", tensor_of(std::vector<std::int64_t>{8, 16}, {2}));
        made.body.constants.emplace("four", tensor_of(std::vector<std::int64_t>{4}, {1}));
        made.body.constants.emplace("twelve", tensor_of(std::vector<std::int64_t>{12}, {1}));
        made.body.constants.emplace("one", tensor_of(std::vector<std::int64_t>{1}, {1}));
        made.body.constants.emplace("number", tensor_of(std::vector<float>{0.75f}, {1}));
        node split = make_node("Split", {"d", "sizes"}, {"left", "right"}),
             convolution = make_node("Conv", {"left", "second"}, {"e"}),
             joined = make_node("Concat", {"e", "some", "left"}, {"y"});
        split.attributes["axis"] = std::int64_t{1};
        convolution.attributes["pads"] = std::vector<std::int64_t>(is_row ? 2 : 4, 1);
        joined.attributes["axis"] = std::int64_t{1};
        made.body.nodes = {make_node("Conv", {"x", "first"}, {"a"}),
                           make_node("Mul", {"a", "number"}, {"b"}),
                           make_node("HardSwish", {"b"}, {"c"}),
                           make_node("Add", {"number", "c"}, {"d"}),
                           split,
                           convolution,
                           make_node("Slice", {"right", "four", "twelve", "one"}, {"some"}),
                           joined};
        const lengths input = is_row ? lengths{2, 3, 90} : lengths{2, 3, 9, 7};
        made.body.inputs = {f32("x", std::vector<dimension>(input.size(), named("")))};
        made.body.outputs = {f32("y", std::vector<dimension>(input.size(), named("")))};
        const any_tensor x = pixels(input);
        const auto got = run(made, {x}), expected = step_by_step(made, x);
        ASSERT_NO_FATAL_FAILURE(expect_near(got[0], expected[0]));
        const network all = sync(make_network(made), pool);
        EXPECT_EQ(commands_of<float>(all, pool, is_row ? shape{2, 3, 90} : shape{2, 3, 9, 7}), 2) << is_row;
    }
}

// Operator sets 6 to 10 have bounds where none are given, also after a convolution.
TEST_F(image_stretches, infinite_pixels_have_the_bounds_of_the_operator_set) {
    for (const std::int64_t opset : {6, 10, 13}) {
        model made;
        made.path = "made.onnx";
        made.opsets = {{"", opset}};
        made.body.constants.emplace("filters", tensor_of(std::vector<float>{1}, {1, 1, 1, 1}));
        made.body.nodes = {make_node("Conv", {"x", "filters"}, {"c"}), make_node("Clip", {"c"}, {"y"})};
        made.body.inputs = {f32("x", std::vector<dimension>(4, named("")))};
        made.body.outputs = {f32("y", std::vector<dimension>(4, named("")))};
        const float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
        const auto got = run(made, {any_tensor(std::vector<float>{infinity, -infinity, 3}, {1, 1, 1, 3})});
        const float bound = opset < 11 ? most : infinity;
        const auto y = got[0].values<float>();
        EXPECT_EQ((std::vector<float>{y.begin(), y.end()}), (std::vector<float>{bound, -bound, 3})) << opset;
    }
}

// What the nodes compute is finite, is not 0, or is rounded on the way.
TEST_F(image_stretches, extreme_numbers_stay_in_the_order_of_the_nodes) {
    struct number {
        std::string op;
        float what;
    };
    const std::vector<std::pair<float, std::vector<number>>> cases{
        {0.0f, {{"Mul", 3e38f}}},
        {1e30f, {{"Relu", 0}, {"Mul", 1e-30f}, {"Mul", 1e-30f}, {"Mul", 1e30f}}},
        {1e30f, {{"Mul", 1e-30f}, {"Mul", 1e-20f}}},
        {1e25f, {{"Mul", 1e-10f}, {"Mul", 1e-30f}}},
        {1e30f, {{"Relu", 0}, {"each channel", 1e-30f}, {"each channel", 1e-20f}}},
        {0.3f, {{"Add", 12582912.0f}, {"Add", -12582912.0f}}},
        {0.3f, {{"Relu", 0}, {"Add", 12582912.0f}, {"Add", -12582912.0f}}}};
    for (const auto& [pixel, numbers] : cases) {
        model made;
        made.path = "made.onnx";
        made.opsets = {{"", 17}};
        made.body.constants.emplace("filters", tensor_of(std::vector<float>{2, 2}, {2, 1, 1, 1}));
        made.body.nodes.push_back(make_node("Conv", {"x", "filters"}, {"v0"}));
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const std::string from = "v" + std::to_string(i), to = "v" + std::to_string(i + 1),
                              name = "c" + std::to_string(i);
            const bool is_of_channels = numbers[i].op == "each channel";
            made.body.constants.emplace(name, is_of_channels
                                                  ? tensor_of(std::vector<float>(2, numbers[i].what), {2, 1, 1})
                                                  : tensor_of(std::vector<float>{numbers[i].what}, {}));
            made.body.nodes.push_back(numbers[i].op == "Relu"
                                          ? make_node("Relu", {from}, {to})
                                          : make_node(is_of_channels ? "Mul" : numbers[i].op, {from, name}, {to}));
        }
        made.body.inputs = {f32("x", std::vector<dimension>(4, named("")))};
        made.body.outputs = {f32("v" + std::to_string(numbers.size()), std::vector<dimension>(4, named("")))};
        const any_tensor x(std::vector<float>(6, pixel), {1, 1, 2, 3});
        const auto got = run(made, {x}), expected = step_by_step(made, x);
        for (std::size_t i = 0; i < expected[0].elements(); ++i)
            EXPECT_FLOAT_EQ(got[0].values<float>()[i], expected[0].values<float>()[i])
                << pixel << ", " << numbers.size() << " numbers";
    }
}

namespace {

// Conv, ReLU, MaxPool.
model small(std::vector<dimension> input) {
    model made;
    made.path = "made.onnx";
    made.opsets = {{"", 13}};
    made.body.inputs = {f32("x", std::move(input))};
    std::vector<float> filters(20 * 3 * 3 * 3);
    for (std::size_t i = 0; i < filters.size(); ++i) filters[i] = std::sin(0.3f * static_cast<float>(i));
    made.body.constants.emplace("filters", tensor_of(filters, {20, 3, 3, 3}));
    node convolution = make_node("Conv", {"x", "filters"}, {"c"}), pooling = make_node("MaxPool", {"r"}, {"y"});
    convolution.attributes["pads"] = std::vector<std::int64_t>{1, 1, 1, 1};
    pooling.attributes["kernel_shape"] = std::vector<std::int64_t>{2, 2};
    pooling.attributes["strides"] = std::vector<std::int64_t>{2, 2};
    made.body.nodes = {convolution, make_node("Relu", {"c"}, {"r"}), pooling};
    made.body.outputs = {f32("y", std::vector<dimension>(4, named("")))};
    return made;
}

}  // namespace

// The other command is the download.
TEST_F(image_stretches, a_stretch_is_one_command) {
    const network stretch = sync(make_network(small({of(2), of(3), of(8), of(8)})), pool);
    EXPECT_EQ(commands_of<float>(stretch, pool, shape{2, 3, 8, 8}), 2);
}

namespace {

using integers = std::vector<std::int64_t>;

node windowed(const std::string& op, std::vector<std::string> inputs, const std::string& output,
              const std::map<std::string, integers>& with) {
    node made = make_node(op, std::move(inputs), {output});
    for (const auto& [name, value] : with) made.attributes[name] = value;
    return made;
}

// Convolutions of all channels and of each channel, a sum and a pooling, along the rows or along the columns.
model along(bool is_column, std::size_t images, std::size_t length) {
    const auto both = [&](std::int64_t number) { return is_column ? integers{number, 1} : integers{1, number}; };
    const auto pads = [&](std::int64_t before, std::int64_t after) {
        return is_column ? integers{before, 0, after, 0} : integers{0, before, 0, after};
    };
    const auto filters = [&](std::size_t count, std::size_t channels, std::size_t taps) {
        std::vector<float> numbers(count * channels * taps);
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(0.3f * static_cast<float>(i));
        return tensor_of(numbers, {count, channels, is_column ? taps : 1, is_column ? 1 : taps});
    };
    model made;
    made.path = "made.onnx";
    made.opsets = {{"", 13}};
    made.body.inputs = {f32("x", {of(images), of(5), of(is_column ? length : 1), of(is_column ? 1 : length)})};
    made.body.constants = {{"w", filters(20, 5, 5)}, {"d", filters(20, 1, 3)}, {"e", filters(9, 20, 3)}};
    node of_channels = windowed("Conv", {"b", "d"}, "c", {{"pads", pads(2, 2)}, {"dilations", both(2)}});
    of_channels.attributes["group"] = std::int64_t{20};
    made.body.nodes = {windowed("Conv", {"x", "w"}, "a", {{"pads", pads(2, 1)}, {"strides", both(2)}}),
                       make_node("Relu", {"a"}, {"b"}),
                       of_channels,
                       make_node("Add", {"b", "c"}, {"s"}),
                       windowed("MaxPool", {"s"}, "m", {{"kernel_shape", both(3)}, {"pads", pads(1, 1)}}),
                       make_node("Conv", {"m", "e"}, {"y"})};
    made.body.outputs = {f32("y", std::vector<dimension>(4, named("")))};
    return made;
}

}  // namespace

// They are computed as images of one row.
TEST_F(image_stretches, images_of_one_column_have_the_bits_of_images_of_one_row) {
    for (const std::size_t images : {1, 3}) {
        for (const std::size_t length : {7, 40, 211}) {
            const any_tensor column = pixels({images, 5, length, 1});
            const any_tensor row = pixels({images, 5, 1, length});  // the same numbers
            const model made = along(true, images, length);
            const any_tensor got = run(made, {column}).at(0), as_row = run(along(false, images, length), {row}).at(0);
            ASSERT_NO_FATAL_FAILURE(expect_near(got, step_by_step(made, column).at(0)));
            EXPECT_EQ(got.shape(), (lengths{images, 9, as_row.shape().at(3), 1}));
            EXPECT_THAT(got.values<float>(), ElementsAreArray(as_row.values<float>()));
        }
    }
}

TEST_F(image_stretches, each_shape_has_a_layout_of_its_own) {
    const model made = small({named("n"), of(3), named("h"), named("w")});
    const network stretch = sync(make_network(made), pool);
    for (const lengths& shape : {lengths{1, 3, 8, 8}, {3, 3, 5, 17}, {1, 3, 8, 8}, {2, 3, 31, 2}}) {
        const any_tensor x = pixels(shape);
        expect_near(sync(stretch.run({x}), pool).at(0), step_by_step(made, x).at(0));
    }
}

// A network keeps the layouts of 64 combinations of shapes.
TEST_F(image_stretches, a_graph_keeps_the_layout_that_it_was_compiled_with) {
    const model made = small({of(1), of(3), named("h"), of(6)});
    const network stretch = sync(make_network(made), pool);
    const auto fast = compile(
        pool,
        [&](tensor<float> x) {
            return stretch.forward({any_tensor(std::move(x))}).and_then([](std::vector<any_tensor> values) {
                return download(values.at(0).on_device<float>());
            });
        },
        device_input<float>({1, 3, 5, 6}));
    for (std::size_t height = 6; height < 76; ++height)
        static_cast<void>(sync(stretch.run({pixels({1, 3, height, 6})}), pool));
    const any_tensor x = pixels({1, 3, 5, 6});
    const auto numbers = x.values<float>();
    const auto launch = [&](tensor<float> on) { return fast(std::move(on)); };
    const std::vector<float> got =
        sync(upload(std::vector<float>(numbers.begin(), numbers.end()), {1, 3, 5, 6}).and_then(launch), pool);
    expect_near(any_tensor(got, {1, 20, 2, 3}), step_by_step(made, x).at(0));
}

TEST_F(image_stretches, no_images_and_images_without_pixels_are_as_without_stretches) {
    const model made = small({named("n"), of(3), named("h"), named("w")});
    const network stretch = sync(make_network(made), pool);
    EXPECT_EQ(sync(stretch.run({pixels({0, 3, 8, 8})}), pool).at(0).shape(), (lengths{0, 20, 4, 4}));
    try {
        static_cast<void>(sync(stretch.run({pixels({1, 3, 0, 1})}), pool));
        ADD_FAILURE() << "pools an image of no rows";
    } catch (const error& refused) {
        EXPECT_THAT(refused.what(), HasSubstr("made.onnx"));
    }
}

TEST_F(image_stretches, images_that_are_constants_are_no_part_of_a_stretch) {
    model made = small({of(1), of(3), of(8), of(8)});
    const std::vector<float> numbers(5 * 4 * 4, 0.5f);
    made.body.constants.emplace("k", tensor_of(numbers, {1, 5, 4, 4}));
    made.body.nodes.back().outputs = {"p"};
    node concatenation = make_node("Concat", {"k", "p"}, {"y"});
    concatenation.attributes["axis"] = std::int64_t{1};
    made.body.nodes.push_back(concatenation);
    const any_tensor x = pixels({1, 3, 8, 8});
    expect_near(run(made, {x}).at(0), step_by_step(made, x).at(0));
    // A constant that is too large to be convolved before the network runs.
    made = small({of(1), of(20), of(512), of(512)});
    made.body.constants.emplace("k", tensor_of(std::vector<float>(3 * 512 * 512, 0.25f), {1, 3, 512, 512}));
    made.body.nodes = {made.body.nodes[0], make_node("Add", {"c", "x"}, {"y"})};
    made.body.nodes[0].inputs[0] = "k";
    const any_tensor large = pixels({1, 20, 512, 512});
    expect_near(run(made, {large}).at(0), step_by_step(made, large).at(0));
}

// The border of that many channels would take 34 MB.
TEST_F(image_stretches, borders_of_much_more_memory_than_the_images_are_not_made) {
    model made = small({of(1), of(3), of(1), of(1)});
    std::get<std::vector<std::int64_t>>(made.body.nodes[0].attributes["pads"]) = {40, 40, 40, 40};
    made.body.inputs[0] = f32("x", {of(1), of(1280), of(1), of(1)});
    made.body.nodes[0].attributes["group"] = std::int64_t{1280};
    std::vector<float> filters(1280 * 9);
    for (std::size_t i = 0; i < filters.size(); ++i) filters[i] = std::sin(0.3f * static_cast<float>(i));
    made.body.constants["filters"] = tensor_of(filters, {1280, 1, 3, 3});
    const any_tensor x = pixels({1, 1280, 1, 1});
    expect_near(run(made, {x}).at(0), step_by_step(made, x).at(0));
}

TEST_F(image_stretches, nan_and_infinity_stay_where_they_are) {
    const model made = small({of(1), of(3), of(8), of(8)});
    std::vector<float> numbers(3 * 8 * 8, 0.25f);
    numbers[9] = std::numeric_limits<float>::quiet_NaN();
    numbers[60] = std::numeric_limits<float>::infinity();
    const any_tensor x(numbers, {1, 3, 8, 8});
    const auto got = run(made, {x}), expected = step_by_step(made, x);
    const auto a = got.at(0).values<float>(), b = expected.at(0).values<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(std::isnan(a[i]), std::isnan(b[i])) << i;
        EXPECT_EQ(std::isinf(a[i]), std::isinf(b[i])) << i;
    }
    EXPECT_TRUE(std::ranges::any_of(a, [](float each) { return std::isnan(each); }));
}

TEST_F(image_stretches, wrong_channels_are_refused_with_the_node) {
    const network stretch = sync(make_network(small({of(1), named("c"), of(8), of(8)})), pool);
    try {
        static_cast<void>(sync(stretch.run({pixels({1, 4, 8, 8})}), pool));
        ADD_FAILURE() << "convolves 4 channels with filters of 3";
    } catch (const error& refused) {
        EXPECT_THAT(refused.what(), HasSubstr("Conv"));
    }
}

TEST_F(image_stretches, answers_at_once_are_the_same) {
    const model made = small({of(2), of(3), of(9), of(7)});
    const network stretch = sync(make_network(made), pool);
    const any_tensor x = pixels({2, 3, 9, 7});
    const auto expected = sync(stretch.run({x}), pool);
    const std::vector<input_view> views{{x.type(), x.bytes().data(), x.shape()}};
    for (int i = 0; i < 5; ++i) {
        const auto got = stretch(std::span<const input_view>(views));
        ASSERT_TRUE(std::ranges::equal(got.at(0).values<float>(), expected.at(0).values<float>()));
    }
}

}  // namespace sluice::nn::image_stretches_tests
