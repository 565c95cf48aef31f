// SPDX-License-Identifier: Apache-2.0
// Stretches of convolutions on a CPU: random networks compute what they compute step by step.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::image_stretches_tests {
namespace {

using namespace test_support;
using ::testing::HasSubstr;

using lengths = std::vector<std::size_t>;

// Writes a network of images at random.
class random_images {
public:
    explicit random_images(unsigned seed) : random_(seed) {
        made_.path = "made.onnx";
        made_.opsets = {{"", 13}};
        const lengths shape{up_to(2), up_to(40), up_to(15), up_to(15)};
        made_.body.inputs = {f32("x", {of(shape[0]), of(shape[1]), of(shape[2]), of(shape[3])})};
        values_.push_back({"x", shape});
        input_ = shape;
    }

    model make() {
        const std::size_t steps = 3 + up_to(12);
        add_convolution();
        for (std::size_t i = 0; i < steps; ++i) add_step();
        std::vector<std::string> outputs{values_.back().name};
        if (chance(3)) outputs.push_back(values_[1].name);
        if (outputs.size() == 2 && outputs[0] == outputs[1]) outputs.pop_back();
        for (const std::string& each : outputs)
            made_.body.outputs.push_back(f32(each, std::vector<dimension>(4, named(""))));
        return made_;
    }
    const lengths& input() const noexcept { return input_; }

private:
    struct value {
        std::string name;
        lengths shape;
    };

    std::size_t up_to(std::size_t most) { return 1 + random_() % most; }
    bool chance(unsigned of) { return random_() % of == 0; }
    const value& any() { return values_[chance(3) ? random_() % values_.size() : values_.size() - 1]; }

    std::string constant_of(lengths shape, float offset = 0) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        std::vector<float> numbers(count);
        for (float& each : numbers) each = offset + static_cast<float>(random_() % 2001) * 0.0005f - 0.5f;
        const std::string name = "c" + std::to_string(made_.body.constants.size());
        made_.body.constants.emplace(name, tensor_of(numbers, std::move(shape)));
        return name;
    }
    node& add(std::string op, std::vector<std::string> inputs, lengths shape) {
        values_.push_back({"v" + std::to_string(values_.size()), std::move(shape)});
        made_.body.nodes.push_back(make_node(std::move(op), std::move(inputs), {values_.back().name}));
        return made_.body.nodes.back();
    }

    // A window along one dimension that fits: sets the output's length.
    struct window {
        std::size_t size, stride, dilation, before, after, output;
    };
    window window_over(std::size_t length, bool rounds_up, bool dilates) {
        for (;;) {
            window w{up_to(4), up_to(3), dilates && chance(3) ? 2u : 1u, 0, 0, 0};
            w.before = random_() % w.size;
            w.after = random_() % w.size;
            const std::size_t reach = (w.size - 1) * w.dilation + 1, padded = length + w.before + w.after;
            if (padded < reach) continue;
            w.output = (padded - reach) / w.stride + 1;
            if (rounds_up && (padded - reach) % w.stride != 0 && w.output * w.stride < length + w.before) ++w.output;
            return w;
        }
    }
    static void set_windows(node& to, const window& down, const window& across) {
        const auto pair = [](std::size_t a, std::size_t b) {
            return std::vector<std::int64_t>{static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)};
        };
        to.attributes["kernel_shape"] = pair(down.size, across.size);
        to.attributes["strides"] = pair(down.stride, across.stride);
        to.attributes["dilations"] = pair(down.dilation, across.dilation);
        std::vector<std::int64_t> pads = pair(down.before, across.before), after = pair(down.after, across.after);
        pads.insert(pads.end(), after.begin(), after.end());
        to.attributes["pads"] = pads;
    }

    void add_convolution() {
        const value from = any();
        const std::size_t channels = from.shape[1];
        const window down = window_over(from.shape[2], false, true), across = window_over(from.shape[3], false, true);
        std::size_t groups = 1, filters = up_to(70);
        if (chance(3)) {
            groups = filters = channels;  // each channel by itself
        } else if (chance(3)) {
            while (groups < 4 && channels % (groups + 1) == 0) ++groups;
            filters = groups * up_to(40);
        }
        std::vector<std::string> inputs{from.name, constant_of({filters, channels / groups, down.size, across.size})};
        if (chance(2)) inputs.push_back(constant_of({filters}));
        node& made = add("Conv", std::move(inputs), {from.shape[0], filters, down.output, across.output});
        set_windows(made, down, across);
        made.attributes["group"] = static_cast<std::int64_t>(groups);
    }
    void add_pooling() {
        const value from = any();
        const bool is_maximum = chance(2), rounds_up = chance(3);
        const window down = window_over(from.shape[2], rounds_up, false),
                     across = window_over(from.shape[3], rounds_up, false);
        node& made = add(is_maximum ? "MaxPool" : "AveragePool", {from.name},
                         {from.shape[0], from.shape[1], down.output, across.output});
        set_windows(made, down, across);
        made.attributes.erase("dilations");
        made.attributes["ceil_mode"] = std::int64_t{rounds_up};
        if (!is_maximum) made.attributes["count_include_pad"] = std::int64_t{chance(2)};
    }
    void add_normalization() {
        const value from = any();
        const lengths channels{from.shape[1]};
        const std::string variance = constant_of(channels, 1.0f);
        add("BatchNormalization",
            {from.name, constant_of(channels, 1.0f), constant_of(channels), constant_of(channels), variance},
            from.shape);
    }
    void add_pair() {
        const value from = any();
        std::vector<std::string> same;
        for (const value& each : values_)
            if (each.shape == from.shape) same.push_back(each.name);
        add(chance(2) ? "Add" : "Sum", {from.name, same[random_() % same.size()]}, from.shape);
    }
    void add_concatenation() {
        const value from = any();
        std::vector<std::string> parts{from.name};
        std::size_t channels = from.shape[1];
        for (const value& each : values_) {
            const bool fits =
                each.shape[0] == from.shape[0] && each.shape[2] == from.shape[2] && each.shape[3] == from.shape[3];
            if (!fits || parts.size() == 4 || chance(2)) continue;
            parts.push_back(each.name);
            channels += each.shape[1];
        }
        if (channels > 200) return;
        node& made = add("Concat", std::move(parts), {from.shape[0], channels, from.shape[2], from.shape[3]});
        made.attributes["axis"] = std::int64_t{1};
    }
    void add_shuffle() {
        const value from = any();
        std::size_t groups = 2;
        while (groups < 5 && from.shape[1] % groups != 0) ++groups;
        if (from.shape[1] % groups != 0) return;
        const auto reshape = [&](const lengths& shape) {
            const std::vector<std::int64_t> numbers(shape.begin(), shape.end());
            const std::string name = "s" + std::to_string(made_.body.constants.size());
            made_.body.constants.emplace(name, tensor_of(numbers, {numbers.size()}));
            return name;
        };
        const std::string split = "split" + std::to_string(values_.size()),
                          turned = "turned" + std::to_string(values_.size());
        made_.body.nodes.push_back(make_node(
            "Reshape",
            {from.name, reshape({from.shape[0], groups, from.shape[1] / groups, from.shape[2], from.shape[3]})},
            {split}));
        node transpose = make_node("Transpose", {split}, {turned});
        transpose.attributes["perm"] = std::vector<std::int64_t>{0, 2, 1, 3, 4};
        made_.body.nodes.push_back(transpose);
        add("Reshape", {turned, reshape(from.shape)}, from.shape);
    }
    void add_step() {
        const value from = any();
        const lengths by_channel{from.shape[1], 1, 1};
        switch (random_() % 14) {
            case 0:
            case 1:
            case 2: return add_convolution();
            case 3: return add_pooling();
            case 4: return add_normalization();
            case 5: add("Relu", {from.name}, from.shape); return;
            case 6: add("Clip", {from.name, constant_of({}, -0.1f), constant_of({}, 1.0f)}, from.shape); return;
            case 7: add("Mul", {from.name, constant_of(by_channel, 1.0f)}, from.shape); return;
            case 8: add("Add", {constant_of(by_channel), from.name}, from.shape); return;
            case 9: return add_pair();
            case 10: return add_concatenation();
            case 11: return add_shuffle();
            case 12: add("Sigmoid", {from.name}, from.shape); return;  // no part of a stretch
            default:
                add(chance(2) ? "Identity" : chance(2) ? "GlobalAveragePool" : "Dropout", {from.name}, from.shape);
                if (made_.body.nodes.back().op == "GlobalAveragePool")
                    values_.back().shape = {from.shape[0], from.shape[1], 1, 1};
        }
    }

    std::mt19937 random_;
    model made_;
    std::vector<value> values_;
    lengths input_;
};

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
    static any_tensor pixels(const lengths& shape) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        std::vector<float> made(count);
        for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(0.7f * static_cast<float>(i));
        return any_tensor(made, shape);
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
    for (unsigned seed = 0; seed < 400; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_images images(seed);
        const model made = images.make();
        const any_tensor x = pixels(images.input());
        const auto got = run(made, {x}), expected = step_by_step(made, x);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NO_FATAL_FAILURE(expect_near(got[i], expected[i]));
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
