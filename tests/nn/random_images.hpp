// SPDX-License-Identifier: Apache-2.0
// Networks of images at random, with what stretches are made of.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::test_support {

using lengths = std::vector<std::size_t>;

// Numbers between -1 and 1, the same in each run.
inline any_tensor pixels(const lengths& shape) {
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(0.7f * static_cast<float>(i));
    return any_tensor(made, shape);
}

// How large the network is.
struct image_limits {
    struct range {
        std::size_t least, most;
    };
    range images{1, 2}, channels{1, 40}, pixels{1, 15};  // of the input; pixels of a row and a column
    range filters{1, 70};                                // of a convolution
    std::size_t joined_channels = 200;                   // of a concatenation, at most
    std::size_t steps = 12;                              // at most, after the first four
    bool for_gpu = false;                                // also with what only stretches on a GPU have
    bool are_rows = false;                               // images of one dimension
    bool for_cpu = true;                                 // also with what only stretches on a CPU have
};

// Writes a network of images at random.
class random_images {
public:
    explicit random_images(unsigned seed, const image_limits& limits = {}) : random_(seed), limits_(limits) {
        made_.path = "made.onnx";
        made_.opsets = {{"", 14}};
        lengths shape{in(limits.images), in(limits.channels), in(limits.pixels), in(limits.pixels)};
        if (limits.are_rows) shape.pop_back();
        std::vector<dimension> dimensions;
        for (const std::size_t each : shape) dimensions.push_back(of(each));
        made_.body.inputs = {f32("x", dimensions)};
        values_.push_back({"x", shape});
        input_ = shape;
    }

    model make() {
        const std::size_t steps = 3 + up_to(limits_.steps);
        add_convolution();
        for (std::size_t i = 0; i < steps; ++i) add_step();
        std::vector<std::string> outputs{values_.back().name};
        if (chance(3)) outputs.push_back(values_[1].name);
        if (outputs.size() == 2 && outputs[0] == outputs[1]) outputs.pop_back();
        for (const std::string& each : outputs)
            made_.body.outputs.push_back(f32(each, std::vector<dimension>(input_.size(), named(""))));
        return made_;
    }
    const lengths& input() const noexcept { return input_; }

private:
    struct value {
        std::string name;
        lengths shape;
    };

    std::size_t up_to(std::size_t most) { return 1 + random_() % most; }
    std::size_t in(const image_limits::range& of) { return of.least - 1 + up_to(of.most - of.least + 1); }
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
    // The window down the columns of an image, which has none if it is a row.
    window window_down(const lengths& shape, bool rounds_up, bool dilates) {
        return limits_.are_rows ? window{1, 1, 1, 0, 0, 1} : window_over(shape[2], rounds_up, dilates);
    }
    lengths shape_with(const lengths& like, std::size_t channels, std::size_t height, std::size_t width) const {
        return limits_.are_rows ? lengths{like[0], channels, width} : lengths{like[0], channels, height, width};
    }
    void set_windows(node& to, const window& down, const window& across) {
        set_two_windows(to, down, across);
        if (!limits_.are_rows) return;
        for (const char* const each : {"kernel_shape", "strides", "dilations", "pads"}) {
            auto& list = std::get<std::vector<std::int64_t>>(to.attributes[each]);
            list = list.size() == 4 ? std::vector<std::int64_t>{list[1], list[3]} : std::vector<std::int64_t>{list[1]};
        }
    }
    static void set_two_windows(node& to, const window& down, const window& across) {
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
        const window down = window_down(from.shape, false, true), across = window_over(from.shape.back(), false, true);
        std::size_t groups = 1, filters = in(limits_.filters);
        if (chance(3)) {
            groups = filters = channels;  // each channel by itself
        } else if (chance(3)) {
            while (groups < 4 && channels % (groups + 1) == 0) ++groups;
            filters = groups * up_to(40);
        }
        lengths filter{filters, channels / groups, down.size, across.size};
        if (limits_.are_rows) filter.erase(filter.begin() + 2);
        std::vector<std::string> inputs{from.name, constant_of(filter)};
        if (chance(2)) inputs.push_back(constant_of({filters}));
        node& made = add("Conv", std::move(inputs), shape_with(from.shape, filters, down.output, across.output));
        set_windows(made, down, across);
        made.attributes["group"] = static_cast<std::int64_t>(groups);
    }
    void add_pooling() {
        const value from = any();
        const bool is_maximum = chance(2), rounds_up = chance(3);
        const window down = window_down(from.shape, rounds_up, false),
                     across = window_over(from.shape.back(), rounds_up, false);
        node& made = add(is_maximum ? "MaxPool" : "AveragePool", {from.name},
                         shape_with(from.shape, from.shape[1], down.output, across.output));
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
            lengths others = each.shape;
            others[1] = from.shape[1];
            const bool fits = others == from.shape;
            if (!fits || parts.size() == 4 || chance(2)) continue;
            parts.push_back(each.name);
            channels += each.shape[1];
        }
        if (channels > limits_.joined_channels) return;
        lengths shape = from.shape;
        shape[1] = channels;
        node& made = add("Concat", std::move(parts), shape);
        made.attributes["axis"] = std::int64_t{1};
    }
    // Some of a value's channels.
    void add_division() {
        const value from = any();
        const std::size_t channels = from.shape[1];
        if (channels < 2) return;
        const auto list = [&](const std::vector<std::int64_t>& numbers) {
            const std::string name = "s" + std::to_string(made_.body.constants.size());
            made_.body.constants.emplace(name, tensor_of(numbers, {numbers.size()}));
            return name;
        };
        const std::size_t first = up_to(channels - 1), rest = channels - first;
        const auto shape_of = [&](std::size_t some) {
            lengths shape = from.shape;
            shape[1] = some;
            return shape;
        };
        if (chance(3)) {
            const std::size_t last = first + up_to(rest);
            std::vector<std::string> inputs{from.name, list({static_cast<std::int64_t>(first)}),
                                            list({static_cast<std::int64_t>(last)}), list({1})};
            if (chance(2)) inputs.push_back(list({1}));
            add("Slice", std::move(inputs), shape_of(last - first));
            return;
        }
        const std::string second = "split" + std::to_string(values_.size());
        node& made = add("Split", {from.name}, shape_of(first));
        if (channels % 2 == 0 && chance(2)) {
            values_.back().shape[1] = channels / 2;
        } else {
            made.inputs.push_back(list({static_cast<std::int64_t>(first), static_cast<std::int64_t>(rest)}));
        }
        made.attributes["axis"] = std::int64_t{1};
        made.outputs.push_back(second);
        values_.push_back({second, shape_of(channels - values_.back().shape[1])});
    }
    // A convolution whose output is added to each pixel or each channel of a value.
    void add_repeated() {
        const value from = any();
        value repeated = from;
        if (chance(2)) {
            repeated.shape = shape_with(from.shape, from.shape[1], 1, 1);
            add("GlobalAveragePool", {from.name}, repeated.shape);
            repeated.name = values_.back().name;
        }
        lengths filter{repeated.name == from.name ? 1 : from.shape[1], from.shape[1]};
        filter.resize(from.shape.size(), 1);
        lengths shape = repeated.shape;
        shape[1] = filter[0];
        add("Conv", {repeated.name, constant_of(filter)}, shape);
        std::vector<std::string> both{from.name, values_.back().name};
        if (chance(2)) std::swap(both[0], both[1]);
        add(chance(2) ? "Add" : "Sum", both, from.shape);
    }
    void add_number() {
        const value from = any();
        std::vector<std::string> inputs{from.name, constant_of(chance(2) ? lengths{1} : lengths{}, 1.0f)};
        if (chance(2)) std::swap(inputs[0], inputs[1]);
        add(chance(2) ? "Mul" : "Add", inputs, from.shape);
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
    void add_curve() {
        const value from = any();
        static const std::vector<std::string> ops{"Sigmoid", "HardSigmoid", "HardSwish", "LeakyRelu", "Tanh", "Gelu"};
        const std::string op = ops[random_() % ops.size()];
        if (op == "Gelu") return add_gelu(from);
        node& made = add(op, {from.name}, from.shape);
        if (op == "HardSigmoid" && chance(2)) {
            made.attributes["alpha"] = 1.0f / 6;
            made.attributes["beta"] = 0.4f;
        }
        if (op == "LeakyRelu" && chance(2)) made.attributes["alpha"] = 0.3f;
        if ((op == "Sigmoid" || op == "HardSigmoid") && chance(2))  // SiLU, hard-swish
            add("Mul", {from.name, values_.back().name}, from.shape);
    }
    // As nodes: operator set 14 has no Gelu.
    void add_gelu(const value& from) {
        const auto number = [&](const std::string& name, float what) {
            made_.body.constants.insert_or_assign(name, tensor_of<float>({what}, {}));
            return name;
        };
        const auto next = [&](const std::string& op, const std::vector<std::string>& inputs) {
            add(op, inputs, from.shape);
            return values_.back().name;
        };
        const std::string erf = next("Erf", {next("Div", {from.name, number("root", std::sqrt(2.0f))})});
        next("Mul", {next("Mul", {from.name, next("Add", {erf, number("one", 1)})}), number("half", 0.5f)});
    }
    // A value times numbers between -1 and 1, one for each element, each channel or each pixel.
    void add_gate() {
        const value from = any();
        value by = from;
        if (chance(2)) {
            const lengths pixel{from.shape[0], from.shape[1], 1, 1};
            if (chance(2)) {
                add("GlobalAveragePool", {from.name}, pixel);
            } else {
                node& mean = add("ReduceMean", {from.name}, pixel);
                mean.attributes["axes"] = std::vector<std::int64_t>{-2, -1};
                if (chance(2)) mean.attributes["axes"] = std::vector<std::int64_t>{2, 3};
            }
            const std::size_t squeezed = up_to(20);
            add("Conv", {values_.back().name, constant_of({squeezed, from.shape[1], 1, 1}), constant_of({squeezed})},
                {from.shape[0], squeezed, 1, 1});
            add(chance(2) ? "Relu" : "HardSwish", {values_.back().name}, values_.back().shape);
            add("Conv", {values_.back().name, constant_of({from.shape[1], squeezed, 1, 1})}, pixel);
            by = values_.back();
        } else if (chance(2)) {
            const lengths plane{from.shape[0], 1, from.shape[2], from.shape[3]};
            add("Conv", {from.name, constant_of({1, from.shape[1], 1, 1})}, plane);
            by = values_.back();
        }
        add(chance(2) ? "Sigmoid" : chance(2) ? "HardSigmoid" : "Tanh", {by.name}, by.shape);
        const std::string gate = values_.back().name;
        std::vector<std::string> both{from.name, gate};
        if (chance(2)) std::swap(both[0], both[1]);
        add(chance(4) ? "Add" : "Mul", both, from.shape);
    }
    void add_transposed() {
        const value from = any();
        const std::size_t filters = in(limits_.filters) / 2 + 1;
        const auto spread = [&](std::size_t length) {
            for (;;) {
                window w{up_to(4), up_to(3), 1, 0, 0, 0};
                w.before = random_() % w.size;
                w.after = random_() % w.size;
                const std::size_t more = random_() % w.stride, all = w.stride * (length - 1) + more + w.size;
                if (all <= w.before + w.after) continue;
                w.output = all - w.before - w.after;
                w.dilation = more;  // of the output: its padding
                return w;
            }
        };
        window down = spread(from.shape[2]), across = spread(from.shape[3]);
        if (down.output * across.output > most_pixels) return;
        const std::vector<std::int64_t> more{static_cast<std::int64_t>(down.dilation),
                                             static_cast<std::int64_t>(across.dilation)};
        down.dilation = across.dilation = 1;
        std::vector<std::string> inputs{from.name, constant_of({from.shape[1], filters, down.size, across.size})};
        if (chance(2)) inputs.push_back(constant_of({filters}));
        node& made = add("ConvTranspose", std::move(inputs), {from.shape[0], filters, down.output, across.output});
        set_windows(made, down, across);
        made.attributes["output_padding"] = more;
    }
    void add_resampling() {
        const value from = any();
        static const std::vector<float> scales{0.5f, 1, 1.5f, 2, 3};
        static const std::vector<std::string> places{"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"},
            roundings{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
        const float down = scales[random_() % scales.size()], across = scales[random_() % scales.size()];
        const auto length = [](std::size_t of, float by) {
            return static_cast<std::size_t>(static_cast<float>(of) * by);
        };
        const lengths shape{from.shape[0], from.shape[1], length(from.shape[2], down), length(from.shape[3], across)};
        if (shape[2] == 0 || shape[3] == 0 || shape[2] * shape[3] > most_pixels) return;
        const std::string name = "r" + std::to_string(made_.body.constants.size());
        std::vector<std::string> inputs{from.name, "", name};
        if (chance(3)) {
            made_.body.constants.emplace(name, tensor_of(std::vector<std::int64_t>(shape.begin(), shape.end()), {4}));
            inputs.insert(inputs.begin() + 2, "");
        } else {
            made_.body.constants.emplace(name, tensor_of(std::vector<float>{1, 1, down, across}, {4}));
        }
        node& made = add("Resize", std::move(inputs), shape);
        made.attributes["mode"] = std::string(chance(2) ? "nearest" : "linear");
        made.attributes["coordinate_transformation_mode"] = places[random_() % places.size()];
        made.attributes["nearest_mode"] = roundings[random_() % roundings.size()];
    }
    void add_step() {
        if (limits_.for_gpu && chance(5)) return chance(2) ? add_transposed() : add_resampling();
        const value from = any();
        lengths by_channel{from.shape[1], 1, 1};
        if (limits_.are_rows) by_channel.pop_back();
        switch (random_() % 19) {
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
            case 11:
                if (!limits_.are_rows) add_shuffle();
                return;
            case 12: add("Softplus", {from.name}, from.shape); return;  // no part of a stretch
            case 13: return add_curve();
            case 14:
                if (!limits_.are_rows) add_gate();
                return;
            case 15: return limits_.for_cpu ? add_division() : add_convolution();
            case 16: return limits_.for_cpu ? add_number() : add_pooling();
            case 17: return add_repeated();
            default:
                add(chance(2) ? "Identity" : chance(2) ? "GlobalAveragePool" : "Dropout", {from.name}, from.shape);
                if (made_.body.nodes.back().op == "GlobalAveragePool")
                    values_.back().shape = shape_with(from.shape, from.shape[1], 1, 1);
        }
    }

    static constexpr std::size_t most_pixels = 900;  // of what becomes larger

    std::mt19937 random_;
    const image_limits limits_;
    model made_;
    std::vector<value> values_;
    lengths input_;
};

// Writes a network of images with one dimension, as those of sounds are: convolutions with dilation, also of each
// channel by itself and with padding on one side, curves, gates, residual additions, normalizations.
class random_sequences {
public:
    explicit random_sequences(unsigned seed) : random_(seed) {
        made_.path = "made.onnx";
        made_.opsets = {{"", 14}};
        input_ = {up_to(2), up_to(12), 8 + up_to(40)};
        made_.body.inputs = {f32("x", {of(input_[0]), of(input_[1]), of(input_[2])})};
    }
    const lengths& input() const noexcept { return input_; }

    model make() {
        const std::size_t channels = up_to(40);
        std::string at = convolve("x", input_[1], channels, 1);
        for (std::size_t i = 0, blocks = up_to(3); i < blocks; ++i) {
            const std::string inner = convolve(at, channels, channels, chance(2) ? channels : 1);
            const std::string turned = add("Tanh", {inner}),
                              gate = add("Sigmoid", {convolve(at, channels, channels, 1)});
            std::string next = convolve(add("Mul", {turned, gate}), channels, channels, 1);
            if (chance(2))
                next = add("Mul", {next, constant_of(chance(2) ? lengths{channels, 1} : lengths{1, channels, 1})});
            next = add(chance(2) ? "Relu" : "LeakyRelu", {next});
            at = add("Add", {at, next});
            if (chance(3)) at = pool(at);
        }
        if (chance(2)) at = add("GlobalAveragePool", {at});
        made_.body.outputs = {f32(at, std::vector<dimension>(3, named("")))};
        return made_;
    }

private:
    std::size_t up_to(std::size_t most) { return 1 + random_() % most; }
    bool chance(unsigned of) { return random_() % of == 0; }
    std::string constant_of(lengths shape) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        std::vector<float> numbers(count);
        for (float& each : numbers) each = static_cast<float>(random_() % 2001) * 0.0005f - 0.5f;
        const std::string name = "c" + std::to_string(made_.body.constants.size());
        made_.body.constants.emplace(name, tensor_of(numbers, std::move(shape)));
        return name;
    }
    std::string add(std::string op, std::vector<std::string> inputs) {
        const std::string name = "v" + std::to_string(made_.body.nodes.size());
        made_.body.nodes.push_back(make_node(std::move(op), std::move(inputs), {name}));
        return name;
    }
    // Of the same length.
    std::string convolve(const std::string& from, std::size_t channels, std::size_t filters, std::size_t groups) {
        const std::size_t window = up_to(5), dilation = up_to(4), reach = (window - 1) * dilation;
        const std::size_t before = chance(2) ? reach : reach / 2;
        const std::string name =
            add("Conv", {from, constant_of({filters, channels / groups, window}), constant_of({filters})});
        node& made = made_.body.nodes.back();
        made.attributes["dilations"] = std::vector<std::int64_t>{static_cast<std::int64_t>(dilation)};
        made.attributes["pads"] =
            std::vector<std::int64_t>{static_cast<std::int64_t>(before), static_cast<std::int64_t>(reach - before)};
        made.attributes["group"] = static_cast<std::int64_t>(groups);
        return name;
    }
    std::string pool(const std::string& from) {
        const std::string name = add(chance(2) ? "MaxPool" : "AveragePool", {from});
        made_.body.nodes.back().attributes["kernel_shape"] = std::vector<std::int64_t>{2};
        return name;
    }

    std::mt19937 random_;
    model made_;
    lengths input_;
};

}  // namespace sluice::nn::test_support
