// SPDX-License-Identifier: Apache-2.0
// Convolutions, poolings and layers of bytes as one command: over shapes, windows, groups, types and zero points at
// random the command gives the bits that the nodes give one by one. All scales are powers of two, so that the nodes, in
// f32, round nothing but what is quantized.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/integer_images/integer_loops.hpp"
#include "kernels/integer_images/integer_program.hpp"
#include "nn/prepared_network.hpp"
#include "nn/support/operator_families.hpp"

namespace sluice::nn::integer_stretches_tests {
namespace {

using namespace test_support;

class integer_stretches : public operator_families {
protected:
    static constexpr float first_scale = 0x1p-5f;

    struct value {
        std::string name;
        float scale;
        int zero;
        bool is_signed;
        lengths shape;
    };

    void begin() {
        made_ = {};
        made_.path = "bytes.onnx";
        made_.opsets = {{"", 17}};
        count_ = 0;
        hidden_.clear();
        dequantized_.clear();
    }
    std::string add(constant what) {
        const std::string name = "c" + std::to_string(count_++);
        made_.body.constants.insert({name, std::move(what)});
        return name;
    }
    std::string add_scale(float scale) {
        hidden_.push_back(add(tensor_of<float>({scale}, {})));
        return hidden_.back();
    }
    std::string add_zero(int zero, bool is_signed) {
        return add(is_signed ? tensor_of<std::int8_t>({static_cast<std::int8_t>(zero)}, {})
                             : tensor_of<std::uint8_t>({static_cast<std::uint8_t>(zero)}, {}));
    }
    std::string new_name() { return "v" + std::to_string(count_++); }
    int any_zero(bool is_signed) { return static_cast<int>(any(0, 255)) - (is_signed ? 128 : 0); }

    // Of numbers named `from`.
    value quantize(const std::string& from, float scale, lengths shape) {
        value made{new_name(), scale, 0, maybe(), std::move(shape)};
        made.zero = any_zero(made.is_signed);
        made_.body.nodes.push_back(
            make_node("QuantizeLinear", {from, add_scale(scale), add_zero(made.zero, made.is_signed)}, {made.name}));
        return made;
    }
    // By a node of its own, or by one that others read too.
    std::string dequantize(const value& from) {
        const auto before = dequantized_.find(from.name);
        if (before != dequantized_.end() && maybe()) return before->second;
        const std::string to = new_name();
        dequantized_[from.name] = to;
        made_.body.nodes.push_back(make_node(
            "DequantizeLinear", {from.name, add_scale(from.scale), add_zero(from.zero, from.is_signed)}, {to}));
        return to;
    }
    // The same numbers as bytes again.
    value same(const value& of, const std::string& from, lengths shape) {
        value made = of;
        made.name = new_name();
        made.shape = std::move(shape);
        made_.body.nodes.push_back(
            make_node("QuantizeLinear", {from, add_scale(of.scale), add_zero(of.zero, of.is_signed)}, {made.name}));
        return made;
    }

    static constexpr float weight_scale = 0x1p-6f;

    std::string add_weights(const lengths& shape) {
        std::vector<std::int8_t> weights(product(shape));
        for (auto& each : weights) each = static_cast<std::int8_t>(static_cast<int>(any(0, 254)) - 127);
        const std::string to = new_name();
        made_.body.nodes.push_back(make_node(
            "DequantizeLinear", {add(tensor_of(weights, shape)), add_scale(weight_scale), add_zero(0, true)}, {to}));
        return to;
    }
    std::string add_bias(std::size_t count, float scale) {
        std::vector<float> bias(count);
        for (float& each : bias)
            each = static_cast<float>(static_cast<int>(any(0, 64)) - 32) * scale * weight_scale * 64;
        return add(tensor_of(bias, {count}));
    }
    // Such that most sums of this many products are in the range of bytes.
    static float scale_of_sums(float scale, std::size_t products) {
        return std::exp2(std::ceil(std::log2(std::sqrt(static_cast<float>(products)) * scale * weight_scale * 90)));
    }

    value convolve(const value& from) {
        const std::size_t channels = from.shape[1];
        const std::size_t kind = any(0, 3);
        const std::size_t groups = kind == 0 ? channels : kind == 1 && channels % 2 == 0 ? 2 : 1;
        const std::size_t filters = groups * (kind == 0 ? 1 : any(1, 20));
        lengths filter{filters, channels / groups}, shape{from.shape[0], filters};
        std::vector<std::int64_t> strides, dilations, before, after;
        for (std::size_t d = 2; d < from.shape.size(); ++d) {
            const std::size_t window = any(1, 3), dilation = any(1, 3) == 1 ? 2 : 1, stride = any(1, 2);
            const std::size_t reach = (window - 1) * dilation + 1;
            std::size_t pads[] = {any(0, 2), any(0, 2)};
            while (from.shape[d] + pads[0] + pads[1] < reach) ++pads[1];
            filter.push_back(window);
            strides.push_back(static_cast<std::int64_t>(stride));
            dilations.push_back(static_cast<std::int64_t>(dilation));
            before.push_back(static_cast<std::int64_t>(pads[0]));
            after.push_back(static_cast<std::int64_t>(pads[1]));
            shape.push_back((from.shape[d] + pads[0] + pads[1] - reach) / stride + 1);
        }
        before.insert(before.end(), after.begin(), after.end());
        const std::string x = dequantize(from), w = add_weights(filter);
        const std::string bias = maybe() ? add_bias(filters, from.scale) : std::string();
        std::string y = new_name();
        node only = make_node(
            "Conv", bias.empty() ? std::vector<std::string>{x, w} : std::vector<std::string>{x, w, bias}, {y});
        only.attributes["strides"] = strides;
        only.attributes["dilations"] = dilations;
        only.attributes["pads"] = before;
        only.attributes["group"] = static_cast<std::int64_t>(groups);
        made_.body.nodes.push_back(std::move(only));
        if (maybe()) {
            const std::string r = new_name();
            made_.body.nodes.push_back(make_node("Relu", {y}, {r}));
            y = r;
        }
        return quantize(y, scale_of_sums(from.scale, product(filter) / filters), shape);
    }

    // Windows over all pixels. Gives the shape of what they give.
    lengths set_windows(node& to, const value& from) {
        lengths shape{from.shape[0], from.shape[1]};
        std::vector<std::int64_t> window, strides, before, after;
        for (std::size_t d = 2; d < from.shape.size(); ++d) {
            const std::size_t size = any(1, 3), stride = any(1, 2);
            std::size_t pads[] = {any(0, size - 1), any(0, size - 1)};
            while (from.shape[d] + pads[0] + pads[1] < size) ++pads[1];
            window.push_back(static_cast<std::int64_t>(size));
            strides.push_back(static_cast<std::int64_t>(stride));
            before.push_back(static_cast<std::int64_t>(pads[0]));
            after.push_back(static_cast<std::int64_t>(pads[1]));
            shape.push_back((from.shape[d] + pads[0] + pads[1] - size) / stride + 1);
        }
        before.insert(before.end(), after.begin(), after.end());
        to.attributes["kernel_shape"] = window;
        to.attributes["strides"] = strides;
        to.attributes["pads"] = before;
        return shape;
    }
    value pool(const value& from) {
        const std::string x = dequantize(from), y = new_name();
        node only = make_node("MaxPool", {x}, {y});
        const lengths shape = set_windows(only, from);
        made_.body.nodes.push_back(std::move(only));
        return same(from, y, shape);
    }

    // --- operators between a dequantization and a quantization, which may have ReLU before it ---

    value finish(std::string from, float scale, lengths shape) {
        if (any(0, 2) == 0) {
            const std::string r = new_name();
            made_.body.nodes.push_back(make_node("Relu", {from}, {r}));
            from = r;
        }
        return quantize(from, scale, std::move(shape));
    }
    // `a` and `b` may be dequantized by one node or by two.
    value combine(const std::string& op, const value& a, const value& b, float scale) {
        const std::string y = new_name();
        std::string first = dequantize(a), second = dequantize(b);
        if (maybe()) std::swap(first, second);
        made_.body.nodes.push_back(make_node(op, {first, second}, {y}));
        return finish(y, scale, a.shape);
    }
    value change(const value& from) {
        std::string x = dequantize(from);
        for (std::size_t i = any(0, 2); i-- > 0;) {
            const std::string y = new_name();
            node made = make_node("LeakyRelu", {x}, {y});
            made.attributes["alpha"] = 0.25f;
            switch (any(0, 3)) {
                case 0: made = make_node("Relu", {x}, {y}); break;
                case 1:
                    made = make_node("HardSigmoid", {x}, {y});
                    made.attributes["alpha"] = 0.25f;
                    made.attributes["beta"] = 0.5f;
                    break;
                case 2: made = make_node(maybe() ? "Mul" : "Add", {x, add(tensor_of<float>({-2}, {1}))}, {y}); break;
                default: break;
            }
            made_.body.nodes.push_back(std::move(made));
            x = y;
        }
        return quantize(x, maybe() ? from.scale : from.scale * 2, from.shape);
    }
    value average(const value& from) {
        const std::string x = dequantize(from), y = new_name();
        lengths shape{from.shape[0], from.shape[1]};
        const std::size_t rank = from.shape.size();
        if (maybe()) {
            shape.resize(rank, 1);
            if (rank == 4 && maybe()) {
                node only = make_node("ReduceMean", {x}, {y});
                only.attributes["axes"] = maybe() ? std::vector<std::int64_t>{-1, -2} : std::vector<std::int64_t>{2, 3};
                made_.body.nodes.push_back(std::move(only));
            } else {
                made_.body.nodes.push_back(make_node("GlobalAveragePool", {x}, {y}));
            }
            return finish(y, from.scale / 2, shape);
        }
        node only = make_node("AveragePool", {x}, {y});
        shape = set_windows(only, from);
        only.attributes["count_include_pad"] = static_cast<std::int64_t>(maybe());
        made_.body.nodes.push_back(std::move(only));
        return finish(y, from.scale, shape);
    }
    value join(const std::vector<value>& parts) {
        const std::string y = new_name();
        lengths shape = parts[0].shape;
        shape[1] = 0;
        std::vector<std::string> inputs;
        for (const value& each : parts) shape[1] += each.shape[1];
        if (maybe()) {
            for (const value& each : parts) inputs.push_back(dequantize(each));
            node only = make_node("Concat", inputs, {y});
            only.attributes["axis"] = std::int64_t{1};
            made_.body.nodes.push_back(std::move(only));
            return quantize(y, parts[0].scale, shape);
        }
        // As QLinearConcat: each part is quantized, and the bytes are joined.
        value made = quantize(dequantize(parts[0]), parts[0].scale, shape);
        inputs.push_back(made.name);
        for (std::size_t i = 1; i < parts.size(); ++i) inputs.push_back(same(made, dequantize(parts[i]), shape).name);
        made.name = y;
        node only = make_node("Concat", inputs, {y});
        only.attributes["axis"] = std::int64_t{1};
        made_.body.nodes.push_back(std::move(only));
        return made;
    }
    // A network's block: the value meets another one that is computed from it.
    value block(const value& from) {
        switch (any(0, 4)) {
            case 0: return combine("Add", from, change(from), from.scale * 2);
            case 1: return combine("Mul", from, change(from), from.scale);
            case 2: {
                if (maybe()) {
                    // By one number for each pixel, of all channels.
                    const std::string y = new_name();
                    lengths filter{1, from.shape[1]}, shape = from.shape;
                    filter.resize(from.shape.size(), 1);
                    shape[1] = 1;
                    made_.body.nodes.push_back(make_node("Conv", {dequantize(from), add_weights(filter)}, {y}));
                    const value plane = quantize(y, scale_of_sums(from.scale, from.shape[1]), shape);
                    return combine(maybe() ? "Mul" : "Add", from, plane, from.scale);
                }
                // By one number for each channel, of all pixels.
                const std::string y = new_name();
                made_.body.nodes.push_back(make_node("GlobalAveragePool", {dequantize(from)}, {y}));
                lengths shape{from.shape[0], from.shape[1]};
                shape.resize(from.shape.size(), 1);
                return combine(maybe() ? "Mul" : "Add", from, quantize(y, from.scale, shape), from.scale);
            }
            case 3: return average(from);
            default: {
                std::vector<value> parts{from, change(from)};
                if (maybe()) std::swap(parts[0], parts[1]);
                if (maybe()) parts.push_back(combine("Add", from, parts[0], from.scale * 2));
                return join(parts);
            }
        }
    }

    value flatten(const value& from) {
        const std::string x = dequantize(from), y = new_name();
        made_.body.nodes.push_back(make_node("Flatten", {x}, {y}));
        return same(from, y, {from.shape[0], product(from.shape) / from.shape[0]});
    }

    value layer(const value& from) {
        const std::size_t outputs = any(1, 40);
        const std::string x = dequantize(from), w = add_weights({outputs, from.shape[1]}), y = new_name();
        node only = make_node("Gemm", {x, w, add_bias(outputs, from.scale)}, {y});
        only.attributes["transB"] = std::int64_t{1};
        made_.body.nodes.push_back(std::move(only));
        return quantize(y, scale_of_sums(from.scale, from.shape[1]), {from.shape[0], outputs});
    }

    // From numbers or bytes to numbers or bytes, and a value on the way too.
    any_tensor make_chain() {
        begin();
        const std::size_t images = any(1, 4) == 1 ? any(8, 11) : any(1, 3);
        lengths shape{images, any(1, 6)};
        for (std::size_t d = any(1, 2); d-- > 0;) shape.push_back(any(3, 12));
        any_tensor x;
        value last;
        if (maybe()) {
            made_.body.inputs = {{"x", io::dtype::f32, {}}};
            x = normal(shape);
            last = quantize("x", first_scale, shape);
        } else {
            last = {"x", first_scale, 0, maybe(), shape};
            last.zero = any_zero(last.is_signed);
            made_.body.inputs = {{"x", last.is_signed ? io::dtype::i8 : io::dtype::u8, {}}};
            std::string bytes(product(shape), '\0');
            for (char& each : bytes) each = static_cast<char>(any(0, 255));
            x = any_tensor(constant{made_.body.inputs[0].type, shape, std::make_shared<const std::string>(bytes)});
        }
        last = convolve(last);
        for (std::size_t i = any(0, 4); i-- > 0;) {
            const std::size_t kind = any(0, 4);
            last = kind < 2 ? convolve(last) : kind == 2 ? pool(last) : kind == 3 ? block(last) : change(last);
        }
        if (any(0, 3) == 0)
            made_.body.outputs.push_back({last.name, last.is_signed ? io::dtype::i8 : io::dtype::u8, {}});
        if (product(last.shape) / images <= 512 && maybe()) {
            last = layer(flatten(last));
            if (maybe()) last = layer(last);
        }
        if (maybe()) {
            made_.body.outputs.push_back({dequantize(last), io::dtype::f32, {}});
        } else if (made_.body.outputs.empty() || made_.body.outputs[0].name != last.name) {
            made_.body.outputs.push_back({last.name, last.is_signed ? io::dtype::i8 : io::dtype::u8, {}});
        }
        return x;
    }

    // Where each scale is an input, no pass knows it.
    std::vector<any_tensor> one_by_one(const any_tensor& x) {
        model of = made_;
        std::vector<any_tensor> inputs{x};
        for (const std::string& name : hidden_) {
            inputs.push_back(any_tensor(of.body.constants.at(name)));
            of.body.inputs.push_back({name, io::dtype::f32, {}});
            of.body.constants.erase(name);
        }
        const network made = sync(make_network(of), on_);
        EXPECT_EQ(made.rounding().quantized, 0u);
        return sync(made.run(std::move(inputs)), on_);
    }

    model made_;
    std::size_t count_ = 0;
    std::vector<std::string> hidden_;
    std::map<std::string, std::string> dequantized_;  // by the bytes
};

TEST_P(integer_stretches, give_the_bits_of_their_nodes) {
    for (int round = 0; round < 200; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const any_tensor x = make_chain();
        const network made = sync(make_network(made_), on_);
        const auto expected = one_by_one(x);
        for (int call = 0; call < 2; ++call) {
            const auto got = sync(made.run({x}), on_);
            ASSERT_EQ(got.size(), expected.size());
            for (std::size_t k = 0; k < got.size(); ++k) {
                ASSERT_EQ(to_string(got[k]), to_string(expected[k]));
                const auto a = got[k].bytes(), b = expected[k].bytes();
                for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << "output " << k << ", byte " << i;
            }
        }
        ASSERT_EQ(made.inside().commands(), 1u);
    }
}

// The table of a curve is computed by the operator of the host, whose last bits may be others.
TEST_P(integer_stretches, give_curves_by_tables) {
    for (const std::string op : {"Sigmoid", "Tanh", "HardSwish", "Softplus", "Elu"}) {
        begin();
        made_.body.inputs = {{"x", io::dtype::f32, {}}};
        const lengths shape{2, 5, 6, 7};
        value last = convolve(quantize("x", first_scale, shape));
        const std::string y = new_name();
        made_.body.nodes.push_back(make_node(op, {dequantize(last)}, {y}));
        last = quantize(y, 0x1p-7f, last.shape);
        last.is_signed = made_.body.constants.at(made_.body.nodes.back().inputs[2]).type == io::dtype::i8;
        made_.body.outputs = {{last.name, last.is_signed ? io::dtype::i8 : io::dtype::u8, {}}};
        const any_tensor x = normal(shape);
        const network made = sync(make_network(made_), on_);
        EXPECT_EQ(made.inside().commands(), 1u) << op;
        const auto got = sync(made.run({x}), on_), expected = one_by_one(x);
        ASSERT_EQ(got[0].elements(), expected[0].elements()) << op;
        for (std::size_t i = 0; i < got[0].elements(); ++i) {
            const int flip = last.is_signed ? 128 : 0;
            const int a = std::to_integer<int>(got[0].bytes()[i]) ^ flip,
                      b = std::to_integer<int>(expected[0].bytes()[i]) ^ flip;
            ASSERT_LE(std::abs(a - b), 1) << op << ", element " << i;
        }
    }
}

// Dimensions meet from the last one on: of values of other ranks others than channels and pixels.
TEST_P(integer_stretches, leave_values_of_other_ranks_to_their_nodes) {
    for (const std::string op : {"Add", "Mul", "ReduceMean"}) {
        begin();
        const bool is_row = op == "ReduceMean";
        const lengths shape = is_row ? lengths{2, 4, 5} : lengths{1, 4, 3, 4};
        made_.body.inputs = {{"x", io::dtype::f32, {}}};
        value last = quantize("x", first_scale, shape);
        const std::string c = new_name(), y = new_name();
        made_.body.nodes.push_back(
            make_node("Conv", {dequantize(last), add_weights(is_row ? lengths{4, 4, 1} : lengths{4, 4, 1, 1})}, {c}));
        last = quantize(c, scale_of_sums(first_scale, 4), shape);
        if (is_row) {
            node mean = make_node("ReduceMean", {dequantize(last)}, {y});
            mean.attributes["axes"] = std::vector<std::int64_t>{-2, -1};
            made_.body.nodes.push_back(std::move(mean));
        } else {
            const value flat = flatten(last);
            const std::string sums = new_name();
            node only = make_node("Gemm", {dequantize(flat), add_weights({4, 48})}, {sums});
            only.attributes["transB"] = std::int64_t{1};
            made_.body.nodes.push_back(std::move(only));
            const value row = quantize(sums, scale_of_sums(last.scale, 48), {1, 4});
            made_.body.nodes.push_back(make_node(op, {dequantize(last), dequantize(row)}, {y}));
        }
        const value all = quantize(y, 0x1p-2f, {});
        made_.body.outputs = {{all.name, all.is_signed ? io::dtype::i8 : io::dtype::u8, {}}};
        const any_tensor x = normal(shape);
        const auto got = sync(sync(make_network(made_), on_).run({x}), on_), expected = one_by_one(x);
        EXPECT_EQ(to_string(got[0]), to_string(expected[0])) << op;
        EXPECT_TRUE(std::ranges::equal(got[0].bytes(), expected[0].bytes())) << op;
    }
}

// Large enough that several threads have rows of one image, and of two images between them.
TEST_P(integer_stretches, share_rows_of_images) {
    for (const std::size_t images : {std::size_t{1}, std::size_t{3}}) {
        begin();
        made_.body.inputs = {{"x", io::dtype::f32, {}}};
        value last = quantize("x", first_scale, {images, 16, 96, 96});
        const std::string x = dequantize(last), w = add_weights({32, 16, 3, 3}), y = new_name();
        node only = make_node("Conv", {x, w}, {y});
        only.attributes["pads"] = std::vector<std::int64_t>(4, 1);
        made_.body.nodes.push_back(std::move(only));
        last = convolve(quantize(y, scale_of_sums(last.scale, 144), {images, 32, 96, 96}));
        made_.body.outputs = {{last.name, last.is_signed ? io::dtype::i8 : io::dtype::u8, {}}};
        const any_tensor given = normal({images, 16, 96, 96});
        const auto got = sync(sync(make_network(made_), on_).run({given}), on_), expected = one_by_one(given);
        EXPECT_TRUE(std::ranges::equal(got[0].bytes(), expected[0].bytes())) << images;
    }
}

TEST_P(integer_stretches, quantize_what_is_no_number_and_what_is_large) {
    begin();
    made_.body.inputs = {{"x", io::dtype::f32, {}}};
    const lengths shape{2, 3, 5, 7};
    any_tensor x = with_odd(normal(shape), false);
    std::vector<float> numbers(x.values<float>().begin(), x.values<float>().end());
    for (std::size_t i = 0; i < numbers.size(); i += 11) numbers[i] = i % 2 == 0 ? 3e38f : -1e30f;
    numbers[3] = std::numeric_limits<float>::quiet_NaN();
    numbers[4] = -std::numeric_limits<float>::infinity();
    x = any_tensor(numbers, shape);
    const value last = convolve(quantize("x", first_scale, shape));
    made_.body.outputs = {{last.name, last.is_signed ? io::dtype::i8 : io::dtype::u8, {}}};
    const auto got = sync(sync(make_network(made_), on_).run({x}), on_), expected = one_by_one(x);
    EXPECT_TRUE(std::ranges::equal(got[0].bytes(), expected[0].bytes()));
}

// What moves numbers between quantizations with other numbers is left as it is.
TEST_P(integer_stretches, leave_poolings_that_quantize_otherwise) {
    begin();
    made_.body.inputs = {{"x", io::dtype::f32, {}}};
    const lengths shape{1, 4, 6, 6};
    const value middle = convolve(quantize("x", first_scale, shape));
    node pooled = make_node("MaxPool", {dequantize(middle)}, {"p"});
    pooled.attributes["kernel_shape"] = std::vector<std::int64_t>(2, 1);
    made_.body.nodes.push_back(std::move(pooled));
    const value last = quantize("p", 0x1p-4f, middle.shape);
    made_.body.outputs = {{last.name, last.is_signed ? io::dtype::i8 : io::dtype::u8, {}}};
    const any_tensor x = normal(shape);
    const auto got = sync(sync(make_network(made_), on_).run({x}), on_), expected = one_by_one(x);
    EXPECT_TRUE(std::ranges::equal(got[0].bytes(), expected[0].bytes()));
}

// A node whose output nothing reads writes nothing.
TEST_P(integer_stretches, leave_numbers_out_that_nothing_reads) {
    begin();
    const lengths shape{2, 3, 6, 6};
    made_.body.inputs = {{"x", io::dtype::f32, {}}};
    const value last = convolve(quantize("x", first_scale, shape));
    static_cast<void>(dequantize(last));
    made_.body.outputs = {{last.name, last.is_signed ? io::dtype::i8 : io::dtype::u8, {}}};
    const any_tensor x = normal(shape);
    const network made = sync(make_network(made_), on_);
    const auto expected = one_by_one(x).at(0);
    std::vector<float> numbers(x.values<float>().begin(), x.values<float>().end());
    for (int call = 0; call < 4; ++call) {  // the third one reads the caller's memory
        std::vector<std::byte> y(expected.size_bytes());
        made({{numbers, shape}}, {{expected.type(), y.data(), expected.shape()}});
        EXPECT_TRUE(std::ranges::equal(y, expected.bytes()));
        EXPECT_TRUE(std::ranges::equal(numbers, x.values<float>())) << call;
    }
}

INSTANTIATE_TEST_SUITE_P(workers, integer_stretches, ::testing::Values(1u, 3u));

// --- the loops of each vector unit ---------------------------------------------------------------------------------

using namespace kernels;

// Also where the quotient is about half between two bytes.
TEST(integer_loops, quantize_as_a_division_does) {
    std::mt19937 numbers(5);
    std::uniform_real_distribution<float> any_scale(-20, 20), any_number(-300, 300);
    for (int round = 0; round < 400; ++round) {
        const float scale = std::exp2(any_scale(numbers));
        const std::int32_t zero = static_cast<std::int32_t>(numbers() % 256);
        std::vector<float> x(1 + numbers() % 100);
        for (float& each : x) {
            each = any_number(numbers) * scale;
            if (numbers() % 4 == 0) continue;
            each = (std::floor(each / scale) + 0.5f) * scale;
            for (std::size_t ulps = numbers() % 3; ulps-- > 0;)
                each = std::nextafter(each, numbers() % 2 == 0 ? 1e9f : -1e9f);
        }
        for (const integer_loops* const loops : known_integer_loops()) {
            std::vector<std::uint8_t> got(x.size());
            loops->quantize(x.data(), x.size(), {{scale, zero}, 1 / scale, false}, got.data());
            for (std::size_t i = 0; i < x.size(); ++i) {
                const float q = std::nearbyint(x[i] / scale) + static_cast<float>(zero);
                ASSERT_EQ(static_cast<float>(got[i]), std::fmin(std::fmax(q, 0.0f), 255.0f))
                    << x[i] << " by " << scale << ", zero " << zero;
            }
        }
    }
}

TEST(integer_loops, of_each_vector_unit_give_the_same_bytes) {
    std::mt19937 numbers(3);
    const auto any = [&](std::size_t low, std::size_t high) { return low + numbers() % (high - low + 1); };
    const std::vector<const integer_loops*> known = known_integer_loops();
    for (int round = 0; round < 60; ++round) {
        const bool is_by_channel = any(0, 2) == 0;
        const std::size_t channels = any(1, 50), filters = is_by_channel ? channels : any(1, 50);
        const size_2d window{any(1, 3), any(1, 3)};
        const image_size out{filters, any(1, 5), any(1, 20)};
        const image_size in{channels, out.height + window.height - 1, out.width + window.width - 1};
        std::vector<integer_layer> layers(is_by_channel ? channels : 1);
        for (integer_layer& each : layers) {
            each.in_features = window.height * window.width * (is_by_channel ? 1 : channels);
            each.out_features = is_by_channel ? 1 : filters;
            for (std::size_t i = 0; i < each.in_features * each.out_features; ++i)
                each.weight.push_back(static_cast<std::int8_t>(static_cast<int>(any(0, 255)) - 128));
            for (std::size_t i = 0; i < each.out_features; ++i) {
                each.steps.push_back(0x1p-7f);
                each.bias.push_back(static_cast<float>(any(0, 9)) - 4);
            }
        }
        const byte_quantity x{0x1p-5f, 77}, y{0x1p-1f, 13};
        integer_numbers packed;
        integer_step enters, convolves, leaves;
        enters.what = integer_work::enter;
        enters.in = enters.out = in;
        enters.to = {0, in.width * in.channels, in.channels};
        convolves.what = is_by_channel ? integer_work::convolve_channels : integer_work::convolve;
        convolves.in = in;
        convolves.out = out;
        convolves.window.size = window;
        convolves.groups = layers.size();
        convolves.has_relu = any(0, 1) == 1;
        convolves.quantity = y;
        convolves.numbers = is_by_channel ? packed.add_channel_filters(layers, convolves.window, x)
                                          : packed.add_filters(layers, convolves.window, x);
        convolves.from = enters.to;
        convolves.to = {(in.elements() + 127) / 64 * 64, out.width * out.channels, out.channels};
        leaves.what = integer_work::leave;
        leaves.outside = 1;
        leaves.in = leaves.out = out;
        leaves.from = convolves.to;
        const integer_step steps[] = {enters, convolves, leaves};
        std::vector<std::uint8_t> given(in.elements()), scratch(convolves.to.first + out.elements() + 64);
        for (auto& each : given) each = static_cast<std::uint8_t>(any(0, 255));
        std::vector<std::vector<std::uint8_t>> made;
        for (const integer_loops* const each : known) {
            auto& got = made.emplace_back(out.elements());
            integer_call call{.steps = steps,
                              .count = 3,
                              .numbers = packed.all().data(),
                              .scratch = scratch.data(),
                              .scratch_bytes = scratch.size()};
            call.outside[0] = reinterpret_cast<std::byte*>(given.data());
            call.outside[1] = reinterpret_cast<std::byte*>(got.data());
            run_integer_program(call, *each);
        }
        // The definition.
        for (std::size_t i = 0; i < out.elements(); ++i) {
            const std::size_t f = i / (out.height * out.width), row = i / out.width % out.height,
                              column = i % out.width;
            const integer_layer& layer = layers[is_by_channel ? f : 0];
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < layer.in_features; ++k) {
                const std::size_t size = window.height * window.width, c = is_by_channel ? f : k / size;
                const std::size_t y_at = row + k % size / window.width, x_at = column + k % window.width;
                sum += (std::int64_t{given[(c * in.height + y_at) * in.width + x_at]} - x.zero) *
                       layer.weight[(is_by_channel ? 0 : f) * layer.in_features + k];
            }
            double real = static_cast<double>(sum) * 0x1p-12 + static_cast<double>(layer.bias[is_by_channel ? 0 : f]);
            if (convolves.has_relu) real = std::fmax(real, 0);
            const double q = std::fmin(std::fmax(std::nearbyint(real / 0.5) + y.zero, 0), 255);
            for (std::size_t u = 0; u < known.size(); ++u)
                ASSERT_EQ(static_cast<double>(made[u][i]), q)
                    << "unit " << u << ", element " << i << ", round " << round;
        }
    }
}

}  // namespace
}  // namespace sluice::nn::integer_stretches_tests
