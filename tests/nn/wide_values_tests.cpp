// SPDX-License-Identifier: Apache-2.0
// Networks in f16 and bf16 on a CPU compute in f32: their outputs are those of the same network in f32, rounded once.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/prepared_network.hpp"
#include "nn/support/operator_families.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::wide_values_tests {
namespace {

using namespace test_support;

template <typename T>
class wide_values : public ::testing::Test {
protected:
    static constexpr io::dtype type = std::is_same_v<T, half> ? io::dtype::f16 : io::dtype::bf16;

    static std::vector<T> rounded(const any_tensor& from) {
        std::vector<T> made;
        for (const float each : from.values<float>()) made.push_back(T(each));
        return made;
    }
    // Numbers that have 16 bits.
    any_tensor numbers(const lengths& shape) {
        std::vector<float> made(product(shape));
        for (float& each : made) each = static_cast<float>(T(one_(numbers_) * 0.3f));
        return any_tensor(made, shape);
    }
    static any_tensor narrow(const any_tensor& from) { return any_tensor(rounded(from), from.shape()); }
    static constant narrow(const constant& from) {
        const any_tensor made = narrow(any_tensor(from));
        const auto bytes = made.bytes();
        return {type, from.shape,
                std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
    }
    // Inputs, outputs and constants of f32 become those of the type.
    static model narrow(model from) {
        for (value_info& each : from.body.inputs) each.type = type;
        for (value_info& each : from.body.outputs)
            if (each.type == io::dtype::f32) each.type = type;
        for (auto& [name, value] : from.body.constants)
            if (value.type == io::dtype::f32) value = narrow(value);
        return from;
    }

    std::vector<any_tensor> run(const model& of, const any_tensor& x) {
        const network made = sync(make_network(of), on_);
        commands_ = made.inside().commands();
        return sync(made.run({x}), on_);
    }
    void expect_rounded_once(const model& of, const any_tensor& x) {
        const auto expected = run(of, x);
        const std::size_t commands = commands_;
        const auto got = run(narrow(of), narrow(x));
        EXPECT_LE(commands_, commands + of.body.inputs.size() + of.body.outputs.size());
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t k = 0; k < got.size(); ++k) {
            ASSERT_EQ(got[k].shape(), expected[k].shape());
            if (got[k].type() != type) {
                EXPECT_TRUE(std::ranges::equal(got[k].bytes(), expected[k].bytes()));
                continue;
            }
            const auto want = rounded(expected[k]);
            const auto have = got[k].template values<T>();
            for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(have[i].bits(), want[i].bits()) << k << ", " << i;
        }
    }

    constant weights(const lengths& shape) {
        const any_tensor made = numbers(shape);
        const auto values = made.values<float>();
        return tensor_of(std::vector<float>(values.begin(), values.end()), shape);
    }

    static model empty() {
        model made;
        made.path = "wide.onnx";
        made.opsets = {{"", 17}};
        return made;
    }

    std::mt19937 numbers_{5};
    std::normal_distribution<float> one_;
    std::size_t commands_ = 0;
    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = 2, .cuda = false}};
    single_stream on_{machine_.find("cpu:0")};
};

using types = ::testing::Types<half, bfloat16>;
TYPED_TEST_SUITE(wide_values, types);

TYPED_TEST(wide_values, of_images_are_rounded_once) {
    model made = this->empty();
    made.body.inputs = {f32("x", {of(2), of(3), of(9), of(11)})};
    made.body.outputs = {{"p", io::dtype::f32, {}}, {"y", io::dtype::f32, {}}, {"i", io::dtype::i64, {}}};
    made.body.constants = {{"w", this->weights({8, 3, 3, 3})},
                           {"b", this->weights({8})},
                           {"s", this->weights({8})},
                           {"m", this->weights({8})},
                           {"v", tensor_of<float>(std::vector<float>(8, 1.5f), {8})},
                           {"g", this->weights({8 * 3 * 4, 10})},
                           {"a", tensor_of<std::int64_t>({0, -1}, {2})}};
    node pool = make_node("MaxPool", {"r"}, {"p"});
    pool.attributes["kernel_shape"] = std::vector<std::int64_t>{2, 2};
    pool.attributes["strides"] = std::vector<std::int64_t>{2, 2};
    made.body.nodes = {
        make_node("Conv", {"x", "w", "b"}, {"c"}), make_node("BatchNormalization", {"c", "s", "b", "m", "v"}, {"n"}),
        make_node("Relu", {"n"}, {"r"}),           std::move(pool),
        make_node("Reshape", {"p", "a"}, {"f"}),   make_node("MatMul", {"f", "g"}, {"l"}),
        make_node("Softmax", {"l"}, {"y"}),        make_node("ArgMax", {"l"}, {"i"})};
    this->expect_rounded_once(made, this->numbers({2, 3, 9, 11}));
}

TYPED_TEST(wide_values, of_sequences_are_rounded_once) {
    model made = this->empty();
    made.body.inputs = {f32("x", {of(5), of(2), of(12)})};
    made.body.outputs = {{"h", io::dtype::f32, {}}, {"y", io::dtype::f32, {}}};
    made.body.constants = {{"w", this->weights({1, 28, 12})},
                           {"u", this->weights({1, 28, 7})},
                           {"s", this->weights({12})},
                           {"z", this->weights({12})},
                           {"k", tensor_of<float>({0.5f}, {})}};
    node layer = make_node("LSTM", {"n", "w", "u"}, {"", "h"});
    layer.attributes["hidden_size"] = std::int64_t{7};
    made.body.nodes = {make_node("LayerNormalization", {"x", "s", "z"}, {"n"}), std::move(layer),
                       make_node("Mul", {"h", "k"}, {"m"}), make_node("Tanh", {"m"}, {"y"})};
    this->expect_rounded_once(made, this->numbers({5, 2, 12}));
}

// A step in between that takes 16 bits, a Cast from f32, and one to integers, which sees a rounded number.
TYPED_TEST(wide_values, are_rounded_for_what_takes_nothing_else) {
    const std::int64_t to = this->type == io::dtype::f16 ? 10 : 16;
    model made = this->empty();
    made.body.inputs = {{"x", io::dtype::f32, {}}};
    made.body.outputs = {{"y", io::dtype::f32, {}}, {"i", io::dtype::i32, {}}, {"q", this->type, {}}};
    made.body.constants = {{"w", this->narrow(tensor_of<float>({1.5f, 0.25f, -2, 1}, {2, 2}))}};
    const auto cast = [](std::string from, std::string name, std::int64_t as) {
        node one = make_node("Cast", {std::move(from)}, {std::move(name)});
        one.attributes["to"] = as;
        return one;
    };
    made.body.nodes = {cast("x", "h", to),
                       make_node("MatMul", {"h", "w"}, {"m"}),
                       cast("m", "i", 6),
                       make_node("IsInf", {"m"}, {"b"}),
                       make_node("Where", {"b", "h", "m"}, {"q"}),
                       cast("q", "y", 1)};
    const any_tensor x(std::vector<float>{1.0009766f, 2.9999f, -3, 0.1f}, {2, 2});
    const auto got = this->run(made, x);
    for (std::size_t row = 0; row < 2; ++row) {
        for (std::size_t column = 0; column < 2; ++column) {
            const float w[] = {1.5f, 0.25f, -2, 1};
            const float a = x.values<float>()[2 * row], b = x.values<float>()[2 * row + 1];
            const float exact = a * w[column] + b * w[2 + column];
            const auto once = static_cast<float>(TypeParam(exact));
            EXPECT_EQ(got[1].template values<std::int32_t>()[2 * row + column], static_cast<std::int32_t>(once));
            EXPECT_EQ(got[2].template values<TypeParam>()[2 * row + column].bits(), TypeParam(exact).bits());
            EXPECT_NEAR(got[0].template values<float>()[2 * row + column], exact, 1e-6);
        }
    }
}

// Its scale has another type than its numbers, which are computed: no refusal.
TYPED_TEST(wide_values, may_scale_numbers_of_f32) {
    model made = this->empty();
    made.opsets = {{"", 23}};
    made.body.inputs = {{"x", this->type, {}}};
    made.body.outputs = {{"y", this->type, {}}};
    made.body.constants = {{"w", this->narrow(tensor_of<float>({1, 2, 3, -1}, {2, 2}))},
                           {"s", this->narrow(tensor_of<float>({2, 0.5f}, {2}))}};
    node wide = make_node("Cast", {"m"}, {"a"});
    wide.attributes["to"] = std::int64_t{1};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"m"}), std::move(wide),
                       make_node("RMSNormalization", {"a", "s"}, {"y"})};
    const any_tensor x = this->narrow(any_tensor(std::vector<float>{1, 1, 2, -1}, {2, 2}));
    const auto got = this->run(made, x);
    ASSERT_EQ(got[0].type(), this->type);
    const auto y = got[0].template values<TypeParam>();
    const float sums[2][2] = {{4, 1}, {-1, 5}};
    const float scale[2] = {2, 0.5f};
    for (std::size_t row = 0; row < 2; ++row) {
        const float root = std::sqrt((sums[row][0] * sums[row][0] + sums[row][1] * sums[row][1]) / 2 + 1e-5f);
        for (std::size_t i = 0; i < 2; ++i)
            EXPECT_NEAR(static_cast<float>(y[2 * row + i]), sums[row][i] / root * scale[i], 0.02f) << row << ", " << i;
    }
}

TYPED_TEST(wide_values, with_f32_between_them_are_refused_as_before) {
    model made = this->empty();
    made.body.inputs = {{"x", this->type, {}}};
    made.body.outputs = {{"y", this->type, {}}};
    made.body.constants = {{"w", tensor_of<float>({1, 2, 3, 4}, {2, 2})}};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"y"})};
    const any_tensor x = this->narrow(this->numbers({2, 2}));
    EXPECT_THROW(static_cast<void>(this->run(made, x)), error);
}

}  // namespace
}  // namespace sluice::nn::wide_values_tests
