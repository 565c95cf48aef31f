// SPDX-License-Identifier: Apache-2.0
// network_of_bytes: each sequence of bytes is a small network, made of the operators that the passes look for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/precision.hpp"

namespace sluice::nn::fuzz {

// A byte for each decision. After the last one, all are 0.
class byte_choices {
public:
    explicit byte_choices(std::span<const std::byte> from) : left_(from) {}

    bool is_at_end() const noexcept { return left_.empty(); }
    std::size_t below(std::size_t count) {
        if (left_.empty()) return 0;
        const auto next = std::to_integer<std::size_t>(left_.front());
        left_ = left_.subspan(1);
        return next % count;
    }
    std::size_t up_to(std::size_t most) { return 1 + below(most); }
    // Whether the byte is one of few: 0 is not.
    bool chance(std::size_t of) { return below(of) == of - 1; }

private:
    std::span<const std::byte> left_;
};

class network_of_bytes {
public:
    using lengths = std::vector<std::size_t>;

    explicit network_of_bytes(std::span<const std::byte> from) : choose_(from) {
        made_.path = "fuzz.onnx";
        made_.opsets = {{"", static_cast<std::int64_t>(13 + choose_.below(8))}};
        precision_ = static_cast<nn::precision>(choose_.below(4));
        lengths shape{choose_.up_to(3), choose_.up_to(12)};
        if (choose_.chance(2)) shape = {choose_.up_to(2), choose_.up_to(20), choose_.up_to(7), choose_.up_to(7)};
        if (choose_.chance(8)) shape.insert(shape.begin() + 1, choose_.up_to(3));
        std::vector<dimension> declared;
        for (const std::size_t each : shape)
            declared.push_back(choose_.chance(4) ? test_support::named("") : test_support::of(each));
        made_.body.inputs = {test_support::f32("x", std::move(declared))};
        input_ = shape;
        values_.push_back({"x", std::move(shape)});
        for (std::size_t i = 0; i < most_steps && !choose_.is_at_end(); ++i) add_step(made_.body);
        made_.body.outputs.push_back(test_support::f32(values_.back().name, {}));
        const std::string other = values_[choose_.below(values_.size())].name;
        if (other != values_.back().name && choose_.chance(2))
            made_.body.outputs.push_back(test_support::f32(other, {}));
        for (value_info& each : made_.body.outputs) each.shape.reset();
    }

    const model& made() const noexcept { return made_; }
    const lengths& input() const noexcept { return input_; }
    nn::precision precision() const noexcept { return precision_; }
    // Whether numbers are rounded to integers on the way: then the last bit of one may become a whole step.
    bool is_quantized() const noexcept { return is_quantized_; }

private:
    static constexpr std::size_t most_steps = 12, most_elements = 4096;

    struct value {
        std::string name;
        lengths shape;
    };

    const value& any() {
        const std::size_t back = choose_.below(4);
        return values_[values_.size() - 1 - std::min(back, values_.size() - 1)];
    }
    static std::size_t count_of(const lengths& shape) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        return count;
    }
    std::string new_constant(constant made) {
        const std::string name = "c" + std::to_string(made_.body.constants.size());
        made_.body.constants.emplace(name, std::move(made));
        return name;
    }
    std::string floats(lengths shape, float offset = 0, float factor = 0.5f) {
        std::vector<float> numbers(count_of(shape));
        const auto phase = static_cast<float>(choose_.below(8));
        for (std::size_t i = 0; i < numbers.size(); ++i)
            numbers[i] = offset + factor * std::sin(phase + 0.7f * static_cast<float>(i));
        return new_constant(test_support::tensor_of(numbers, std::move(shape)));
    }
    std::string numbers(const lengths& of) {
        const std::vector<std::int64_t> list(of.begin(), of.end());
        return new_constant(test_support::tensor_of(list, {list.size()}));
    }
    // The shape that fits; sometimes another one, which is refused or broadcast.
    lengths perhaps_other(lengths shape) {
        if (!choose_.chance(64)) return shape;
        switch (choose_.below(4)) {
            case 0: shape.insert(shape.begin(), 1); break;
            case 1: shape = {1}; break;
            case 2: shape.back() += 1; break;
            default: shape.back() = 0;
        }
        return shape;
    }

    node& add(graph& to, std::string op, std::vector<std::string> inputs, lengths shape) {
        const std::string name = "v" + std::to_string(next_name_++);
        to.nodes.push_back(test_support::make_node(std::move(op), std::move(inputs), {name}));
        values_.push_back({name, std::move(shape)});
        if (choose_.chance(128)) to.nodes.back().outputs.emplace_back();
        return to.nodes.back();
    }
    node& add_same(graph& to, std::string op, std::vector<std::string> inputs, const value& from) {
        return add(to, std::move(op), std::move(inputs), lengths(from.shape));
    }

    static constexpr std::size_t kinds = 20;
    void add_step(graph& to) {
        const value from = any();
        if (count_of(from.shape) > most_elements) return;
        const bool is_image = from.shape.size() >= 3;
        const lengths by_channel = is_image ? lengths{from.shape[1], 1, 1} : lengths{from.shape.back()};
        switch (choose_.below(kinds)) {
            case 0:
            case 1: return is_image ? add_convolution(to, from) : add_gemm(to, from);
            case 2: return add_product(to, from);
            case 3: return is_image ? add_pooling(to, from) : add_gemm(to, from);
            case 4: return add_normalization(to, from);
            case 5: add_same(to, "Relu", {from.name}, from); return;
            case 6: add_same(to, "Clip", {from.name, floats({}, -0.4f, 0.1f), floats({}, 0.6f, 0.1f)}, from); return;
            case 7: add_same(to, "Mul", {from.name, floats(perhaps_other(by_channel), 0.8f)}, from); return;
            case 8: add_same(to, "Add", {floats(perhaps_other(by_channel)), from.name}, from); return;
            case 9: add_same(to, "Add", {from.name, floats(perhaps_other(by_channel))}, from); return;
            case 10: return add_pair(to, from);
            case 11: return add_concatenation(to, from);
            case 12: return add_shuffle(to, from);
            case 13: add_same(to, choose_.chance(2) ? "Tanh" : "Sigmoid", {from.name}, from); return;
            case 14: return add_end(to, from);
            case 15: return add_flat(to, from);
            case 16:
            case 17: return add_quantized(to, from);
            case 18: return add_branches(to);
            default: add_same(to, choose_.chance(2) ? "Dropout" : "Identity", {from.name}, from);
        }
    }

    // --- images ---

    struct window {
        std::size_t size = 1, stride = 1, dilation = 1, before = 0, after = 0, output = 1;
    };
    window window_over(std::size_t length, bool dilates) {
        window made{choose_.up_to(3), choose_.up_to(2), dilates ? choose_.up_to(2) : 1, 0, 0, 1};
        made.before = choose_.below(made.size);
        made.after = choose_.below(made.size);
        const std::size_t reach = (made.size - 1) * made.dilation + 1, padded = length + made.before + made.after;
        if (padded < reach) return {};  // a window that fits
        made.output = (padded - reach) / made.stride + 1;
        return made;
    }
    std::vector<window> windows_over(const value& from, bool dilates) {
        std::vector<window> made;
        for (std::size_t d = 2; d < from.shape.size(); ++d) made.push_back(window_over(from.shape[d], dilates));
        return made;
    }
    static void set_windows(node& to, const std::vector<window>& along, bool dilates) {
        std::vector<std::int64_t> sizes, strides, dilations, pads, after;
        for (const window& each : along) {
            sizes.push_back(static_cast<std::int64_t>(each.size));
            strides.push_back(static_cast<std::int64_t>(each.stride));
            dilations.push_back(static_cast<std::int64_t>(each.dilation));
            pads.push_back(static_cast<std::int64_t>(each.before));
            after.push_back(static_cast<std::int64_t>(each.after));
        }
        pads.insert(pads.end(), after.begin(), after.end());
        to.attributes["kernel_shape"] = sizes;
        to.attributes["strides"] = strides;
        to.attributes["pads"] = pads;
        if (dilates) to.attributes["dilations"] = dilations;
    }
    static lengths shape_over(const value& from, std::size_t channels, const std::vector<window>& along) {
        lengths shape{from.shape[0], channels};
        for (const window& each : along) shape.push_back(each.output);
        return shape;
    }

    struct filters {
        std::size_t count, groups;
        lengths shape;
    };
    filters filters_of(const value& from, const std::vector<window>& along) {
        const std::size_t channels = from.shape[1];
        filters made{choose_.up_to(24), 1, {}};
        if (choose_.chance(3)) {
            made.count = made.groups = channels;
        } else if (choose_.chance(3) && channels % 2 == 0) {
            made.groups = 2;
            made.count *= 2;
        }
        made.shape = {made.count, channels / made.groups};
        for (const window& each : along) made.shape.push_back(each.size);
        return made;
    }
    void add_convolution(graph& to, const value& from) {
        const std::vector<window> along = windows_over(from, true);
        const filters with = filters_of(from, along);
        std::vector<std::string> inputs{from.name, floats(perhaps_other(with.shape))};
        if (choose_.chance(2)) inputs.push_back(floats(perhaps_other({with.count})));
        node& made = add(to, "Conv", std::move(inputs), shape_over(from, with.count, along));
        set_windows(made, along, true);
        made.attributes["group"] = static_cast<std::int64_t>(with.groups);
    }
    void add_pooling(graph& to, const value& from) {
        const std::vector<window> along = windows_over(from, false);
        const bool is_maximum = choose_.chance(2);
        node& made =
            add(to, is_maximum ? "MaxPool" : "AveragePool", {from.name}, shape_over(from, from.shape[1], along));
        set_windows(made, along, false);
        if (!is_maximum) made.attributes["count_include_pad"] = static_cast<std::int64_t>(choose_.below(2));
    }
    void add_end(graph& to, const value& from) {
        if (from.shape.size() < 3) return;
        lengths shape{from.shape[0], from.shape[1]};
        shape.resize(from.shape.size(), 1);
        add(to, choose_.chance(2) ? "GlobalMaxPool" : "GlobalAveragePool", {from.name}, std::move(shape));
    }
    void add_shuffle(graph& to, const value& from) {
        if (from.shape.size() != 4 || from.shape[1] % 2 != 0) return;
        const auto add_step_of = [&](const char* op, std::vector<std::string> inputs, lengths shape) -> node& {
            return add(to, op, std::move(inputs), std::move(shape));
        };
        const lengths& s = from.shape;
        add_step_of("Reshape", {from.name, numbers({s[0], 2, s[1] / 2, s[2], s[3]})}, {s[0], 2, s[1] / 2, s[2], s[3]});
        node& turned = add_step_of("Transpose", {values_.back().name}, {s[0], s[1] / 2, 2, s[2], s[3]});
        turned.attributes["perm"] = std::vector<std::int64_t>{0, 2, 1, 3, 4};
        add_step_of("Reshape", {values_.back().name, numbers(s)}, s);
    }

    // --- rows ---

    void add_flat(graph& to, const value& from) {
        if (from.shape.size() < 3) return;
        const std::size_t rows = from.shape[0];
        add(to, "Flatten", {from.name}, {rows, count_of(from.shape) / std::max<std::size_t>(rows, 1)});
    }
    void add_gemm(graph& to, const value& from) {
        if (from.shape.size() != 2) return;
        const std::size_t inner = from.shape[1], columns = choose_.up_to(20);
        const bool is_transposed = choose_.chance(2);
        std::vector<std::string> inputs{
            from.name, floats(perhaps_other(is_transposed ? lengths{columns, inner} : lengths{inner, columns}))};
        switch (choose_.below(4)) {
            case 0: break;
            case 1: inputs.push_back(floats(perhaps_other({columns}))); break;
            case 2: inputs.push_back(floats(perhaps_other({1, columns}))); break;
            default: inputs.push_back(floats(perhaps_other({from.shape[0], 1})));
        }
        node& made = add(to, "Gemm", std::move(inputs), {from.shape[0], columns});
        made.attributes["transB"] = std::int64_t{is_transposed};
        if (choose_.chance(8)) made.attributes["alpha"] = 0.5f;
        if (choose_.chance(8)) made.attributes["beta"] = 2.0f;
    }
    void add_product(graph& to, const value& from) {
        lengths shape = from.shape;
        const std::size_t inner = shape.back(), columns = choose_.up_to(20);
        lengths weights{inner, columns};
        if (choose_.chance(8) && shape.size() > 2) weights.insert(weights.begin(), 1);
        shape.back() = columns;
        add(to, "MatMul", {from.name, floats(perhaps_other(std::move(weights)))}, std::move(shape));
    }

    // --- both ---

    void add_normalization(graph& to, const value& from) {
        const lengths channels = perhaps_other({from.shape[1]});
        const std::string scale = floats(channels, 1.0f), shift = floats(channels), mean = floats(channels);
        add_same(to, "BatchNormalization", {from.name, scale, shift, mean, floats(channels, 1.0f)}, from);
    }
    void add_pair(graph& to, const value& from) {
        std::vector<std::string> same;
        for (const value& each : values_)
            if (each.shape == from.shape) same.push_back(each.name);
        const std::string other = same[choose_.below(same.size())];
        add_same(to, choose_.chance(2) ? "Sum" : "Add", {from.name, other}, from);
    }
    void add_concatenation(graph& to, const value& from) {
        std::vector<std::string> parts{from.name};
        lengths shape = from.shape;
        for (const value& each : values_) {
            if (each.shape.size() != shape.size() || parts.size() == 3 || choose_.chance(2)) continue;
            lengths like = each.shape;
            like[1] = from.shape[1];
            if (like != from.shape) continue;
            parts.push_back(each.name);
            shape[1] += each.shape[1];
        }
        node& made = add(to, "Concat", std::move(parts), std::move(shape));
        made.attributes["axis"] = std::int64_t{1};
    }

    // QuantizeLinear, DequantizeLinear, a product with dequantized weights, perhaps ReLU, QuantizeLinear and
    // DequantizeLinear.
    void add_quantized(graph& to, const value& from) {
        is_quantized_ = true;
        const std::string x = quantized(to, from);
        const bool is_image = from.shape.size() >= 3, is_gemm = !is_image && choose_.chance(2);
        std::vector<window> along;
        std::size_t outputs = choose_.up_to(16), groups = 1, axis = 1;
        lengths weights{from.shape.back(), outputs}, shape = from.shape;
        shape.back() = outputs;
        if (is_image) {
            along = windows_over(from, true);
            const filters with = filters_of(from, along);
            weights = with.shape;
            outputs = with.count;
            groups = with.groups;
            axis = 0;
            shape = shape_over(from, outputs, along);
        }
        std::vector<std::string> inputs{x, dequantized_weights(to, perhaps_other(weights), outputs, axis)};
        if ((is_image || is_gemm) && choose_.chance(2))
            inputs.push_back(choose_.chance(2) ? floats(perhaps_other({outputs})) : dequantized_bias(to, outputs));
        node& made = add(to, is_image ? "Conv" : is_gemm ? "Gemm" : "MatMul", std::move(inputs), std::move(shape));
        if (is_image) {
            set_windows(made, along, true);
            made.attributes["group"] = static_cast<std::int64_t>(groups);
        }
        if (choose_.chance(2)) add_same(to, "Relu", {values_.back().name}, value(values_.back()));
        if (choose_.chance(2)) {
            const value product = values_.back();
            values_.push_back({quantized(to, product), product.shape});
        }
    }
    // The name of the value, quantized and dequantized.
    std::string quantized(graph& to, const value& from) {
        const bool is_signed = choose_.chance(2);
        const int offset = static_cast<int>(choose_.below(64));
        const std::string scale = new_constant(test_support::tensor_of<float>({0.02f}, {}));
        const std::string zero =
            is_signed ? new_constant(test_support::tensor_of<std::int8_t>({static_cast<std::int8_t>(offset)}, {}))
                      : new_constant(test_support::tensor_of<std::uint8_t>({static_cast<std::uint8_t>(offset)}, {}));
        const std::string narrow = "q" + std::to_string(next_name_++), wide = "d" + std::to_string(next_name_++);
        to.nodes.push_back(test_support::make_node("QuantizeLinear", {from.name, scale, zero}, {narrow}));
        to.nodes.push_back(test_support::make_node("DequantizeLinear", {narrow, scale, zero}, {wide}));
        return wide;
    }
    std::string dequantized_weights(graph& to, const lengths& shape, std::size_t outputs, std::size_t axis) {
        std::vector<std::int8_t> list(count_of(shape));
        for (std::size_t i = 0; i < list.size(); ++i) list[i] = static_cast<std::int8_t>(37 * i);
        const bool is_by_output = choose_.chance(2);
        std::vector<std::string> inputs{new_constant(test_support::tensor_of(list, shape)),
                                        is_by_output ? floats(perhaps_other({outputs}), 0.01f, 0.005f)
                                                     : new_constant(test_support::tensor_of<float>({0.01f}, {}))};
        if (choose_.chance(2)) {
            inputs.push_back(is_by_output
                                 ? new_constant(test_support::tensor_of(std::vector<std::int8_t>(outputs), {outputs}))
                                 : new_constant(test_support::tensor_of<std::int8_t>({0}, {})));
        }
        const std::string made = "d" + std::to_string(next_name_++);
        to.nodes.push_back(test_support::make_node("DequantizeLinear", std::move(inputs), {made}));
        to.nodes.back().attributes["axis"] = static_cast<std::int64_t>(axis);
        return made;
    }
    std::string dequantized_bias(graph& to, std::size_t outputs) {
        std::vector<std::int32_t> list(outputs);
        for (std::size_t i = 0; i < outputs; ++i) list[i] = static_cast<std::int32_t>(i * 100);
        const std::string made = "d" + std::to_string(next_name_++);
        to.nodes.push_back(test_support::make_node("DequantizeLinear",
                                                   {new_constant(test_support::tensor_of(list, {outputs})),
                                                    new_constant(test_support::tensor_of<float>({0.0002f}, {}))},
                                                   {made}));
        return made;
    }

    // Steps inside If, which use values and constants from outside.
    void add_branches(graph& to) {
        if (&to != &made_.body) return;
        auto inside = std::make_shared<graph>();
        const std::vector<value> before = values_;
        const std::size_t steps = choose_.up_to(3);
        for (std::size_t i = 0; i < steps; ++i) add_step(*inside);
        if (inside->nodes.empty()) return;
        const value last = values_.back();
        values_ = before;
        inside->outputs = {value_info{last.name, io::dtype::f32, {}}};
        const std::string condition =
            new_constant({io::dtype::boolean, {}, std::make_shared<const std::string>(1, '\1')});
        node& made = add(to, "If", {condition}, last.shape);
        made.attributes["then_branch"] = std::shared_ptr<const graph>(inside);
        made.attributes["else_branch"] = std::shared_ptr<const graph>(inside);
    }

    byte_choices choose_;
    model made_;
    lengths input_;
    std::vector<value> values_;
    std::size_t next_name_ = 0;
    nn::precision precision_ = nn::precision::f32;
    bool is_quantized_ = false;
};

}  // namespace sluice::nn::fuzz
