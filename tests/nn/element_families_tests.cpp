// SPDX-License-Identifier: Apache-2.0
// Norms, softmax, reductions and convolutions of groups, over shapes, axes, element types and special values at random,
// on the default device (a GPU where there is one): what they give is what the same node gives in f64 on a CPU, where
// it is computed element by element. And a row has the same bits whatever other rows are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/single_nodes.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::element_families_tests {
namespace {

using namespace test_support;

using lengths = std::vector<std::size_t>;

std::size_t product(const lengths& shape) {
    std::size_t made = 1;
    for (const std::size_t each : shape) made *= each;
    return made;
}
template <typename T>
any_tensor rounded(const std::vector<float>& values, lengths shape) {
    std::vector<T> made;
    made.reserve(values.size());
    for (const float each : values) made.push_back(T(each));
    return any_tensor(made, std::move(shape));
}
template <typename T>
any_tensor widened(const any_tensor& from) {
    const auto values = from.values<T>();
    std::vector<double> made;
    made.reserve(values.size());
    for (const T& each : values) made.push_back(static_cast<double>(static_cast<float>(each)));
    return any_tensor(made, from.shape());
}

template <typename T>
class element_families : public ::testing::Test {
protected:
    static constexpr double unit = std::is_same_v<T, float> ? 1e-6 : std::is_same_v<T, half> ? 1e-3 : 8e-3;

    // Fewer on a CPU, where other tests look at these families too.
    int rounds(int on_a_gpu) { return machine_.default_device().kind() == device_kind::cuda ? on_a_gpu : on_a_gpu / 4; }
    // Sums are f32: 16-bit results are rounded once.
    static double units_of_sum(double of_f32) { return std::is_same_v<T, float> ? of_f32 : 2; }

    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    bool maybe() { return any(0, 1) == 1; }
    lengths some_lengths(std::size_t least_rank, std::size_t most) {
        lengths made(any(least_rank, 4));
        for (std::size_t& each : made) each = any(1, most);
        // One long dimension, for teams of every size.
        if (any(0, 2) == 0) made[any(0, made.size() - 1)] = any(100, 3000);
        return made;
    }
    any_tensor normal(lengths shape, bool is_special = false) {
        std::normal_distribution<float> one;
        std::vector<float> made(product(shape));
        for (float& each : made) each = one(numbers_);
        if (is_special && !made.empty()) {
            const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
            for (const float each : {inf, -inf, nan, -0.0f, 0.0f})
                if (maybe()) made[any(0, made.size() - 1)] = each;
        }
        return rounded<T>(made, std::move(shape));
    }

    // Each output is that of f64 but for `tolerance` units of max(1, |it|), and is NaN or infinite where that is.
    void expect_as_in_f64(const single_node& what, double tolerance) {
        single_node exact = what;
        for (any_tensor& each : exact.inputs)
            if (each && each.type() == io::dtype_of<T>) each = widened<T>(each);
        const auto made = run_node(what, on_), expected = run_node(exact, cpu_);
        ASSERT_EQ(made.size(), expected.size());
        for (std::size_t k = 0; k < made.size(); ++k) {
            ASSERT_EQ(made[k].shape(), expected[k].shape());
            const auto b = expected[k].type() == io::dtype::f64 ? doubles_of(expected[k]) : floats_of(expected[k]);
            const auto a = made[k].type() == io::dtype_of<T> ? doubles_of_elements(made[k]) : floats_of(made[k]);
            for (std::size_t i = 0; i < a.size(); ++i) {
                const std::string where = what.op + ", output " + std::to_string(k) + ", element " + std::to_string(i);
                if (std::isnan(b[i])) {
                    ASSERT_TRUE(std::isnan(a[i])) << where << ": " << a[i];
                } else if (std::isinf(b[i]) || std::isinf(a[i])) {
                    const bool is_too_large = std::is_same_v<T, half> && std::abs(b[i]) > 65000;
                    if (is_too_large) continue;
                    ASSERT_EQ(a[i], b[i]) << where;
                } else {
                    ASSERT_NEAR(a[i], b[i], tolerance * unit * std::max(1.0, std::abs(b[i]))) << where;
                }
            }
        }
    }
    // Of each image alone.
    void expect_the_same_bits_alone(const single_node& what) {
        const auto together = run_node(what, on_);
        const lengths shape = what.inputs[0].shape();
        const auto values = what.inputs[0].values<T>();
        const std::size_t of_row = values.size() / shape[0], row = any(0, shape[0] - 1);
        lengths alone_shape = shape;
        alone_shape[0] = 1;
        single_node one = what;
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * of_row);
        one.inputs[0] =
            any_tensor(std::vector<T>(first, first + static_cast<std::ptrdiff_t>(of_row)), std::move(alone_shape));
        const auto alone = run_node(one, on_);
        const auto a = alone[0].values<T>(), all = together[0].values<T>();
        ASSERT_EQ(all.size(), a.size() * shape[0]);
        for (std::size_t i = 0; i < a.size(); ++i)
            ASSERT_EQ(0, std::memcmp(&a[i], &all[row * a.size() + i], sizeof(T))) << what.op << ", element " << i;
    }

    static std::vector<double> doubles_of(const any_tensor& from) {
        const auto values = from.values<double>();
        return {values.begin(), values.end()};
    }
    static std::vector<double> floats_of(const any_tensor& from) {
        const auto values = from.values<float>();
        return {values.begin(), values.end()};
    }
    static std::vector<double> doubles_of_elements(const any_tensor& from) { return doubles_of(widened<T>(from)); }

    std::mt19937 numbers_{7};
    runtime machine_;
    single_stream on_{machine_.default_device()};
    runtime host_{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream cpu_{host_.find("cpu:0")};
};
using elements = ::testing::Types<float, half, bfloat16>;
TYPED_TEST_SUITE(element_families, elements);

}  // namespace

// Elements of any type and neighbours of any number, which a GPU moves in runs of up to 16 bytes.
template <typename T>
void expect_moved(scheduling_policy& on, std::size_t inner) {
    const lengths shape{2, 3, 5, inner};
    std::vector<T> values;
    for (std::size_t i = 0; i < product(shape); ++i) values.push_back(T(static_cast<float>(i % 251)));
    const auto made = run_node(
        {.op = "Transpose", .inputs = {any_tensor(values, shape)}, .with = {{"perm", wholes({0, 2, 1, 3})}}}, on);
    const auto moved = made[0].template values<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t e = i % inner, b = i / inner % 3, c = i / inner / 3 % 5, a = i / inner / 15;
        ASSERT_EQ(static_cast<float>(moved[i]), static_cast<float>(values[((a * 3 + b) * 5 + c) * inner + e]))
            << inner << " neighbours of " << sizeof(T) << " bytes, element " << i;
    }
}

TEST(element_families_of_bytes, elements_are_moved_with_their_neighbours) {
    runtime machine;
    single_stream on(machine.default_device());
    for (const std::size_t inner : {1, 2, 3, 4, 6, 8, 12, 16, 40}) {
        expect_moved<std::uint8_t>(on, inner);
        expect_moved<half>(on, inner);
        expect_moved<float>(on, inner);
        expect_moved<double>(on, inner);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TYPED_TEST(element_families, layer_norms_of_any_axes) {
    for (int round = 0; round < this->rounds(60); ++round) {
        const lengths shape = this->some_lengths(1, 12);
        const std::size_t axis = this->any(0, shape.size() - 1);
        const lengths own(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
        single_node node{.op = "LayerNormalization",
                         .inputs = {this->normal(shape, round % 4 == 3), this->normal(own)},
                         .with = {{"axis", whole(static_cast<std::int64_t>(axis))}}};
        if (this->maybe()) node.inputs.push_back(this->normal(own));
        this->expect_as_in_f64(node, 8);
        if (axis > 0) this->expect_the_same_bits_alone(node);
        if (this->HasFatalFailure()) return;
        single_node root = node;
        root.op = "RMSNormalization";
        root.opset = 23;
        root.inputs.resize(2);
        this->expect_as_in_f64(root, 8);
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(element_families, layer_norms_of_rows_far_from_zero) {
    for (const std::size_t width : {7, 100, 1500}) {
        std::vector<float> far(3 * width);
        for (std::size_t i = 0; i < far.size(); ++i) far[i] = 1024 + static_cast<float>(i * i % 13);
        this->expect_as_in_f64(
            {.op = "LayerNormalization", .inputs = {rounded<TypeParam>(far, {3, width}), this->normal({width})}}, 8);
    }
}

// Whose squares are large, and whose sums would be larger than a float can be.
TEST(element_families_of_f32, norms_of_large_numbers_are_finite) {
    runtime machine;
    single_stream on(machine.default_device());
    std::vector<float> large(4096);
    for (std::size_t i = 0; i < large.size(); ++i) large[i] = i % 2 == 0 ? 1e18f : -1e18f;
    const any_tensor x(large, {1, large.size()}), scale(std::vector<float>(large.size(), 1.0f), {large.size()});
    for (const std::string op : {"LayerNormalization", "RMSNormalization"}) {
        const auto made = run_node({.op = op, .inputs = {x, scale}, .opset = 23}, on);
        const auto values = made[0].values<float>();
        for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_NEAR(values[i], i % 2 == 0 ? 1.0f : -1.0f, 1e-5f) << op << ", element " << i;
    }
}

TYPED_TEST(element_families, norms_of_groups_and_images) {
    for (int round = 0; round < this->rounds(60); ++round) {
        const std::size_t groups = this->any(1, 5), of_group = this->any(1, 4);
        lengths shape = this->some_lengths(2, 7);
        if (shape.size() < 3) shape.push_back(this->any(1, 700));
        shape[0] = this->any(1, 4);
        shape[1] = groups * of_group;
        single_node node{
            .op = "InstanceNormalization",
            .inputs = {this->normal(shape, round % 4 == 3), this->normal({shape[1]}), this->normal({shape[1]})}};
        this->expect_as_in_f64(node, 20);
        this->expect_the_same_bits_alone(node);
        if (this->HasFatalFailure()) return;
        node.op = "GroupNormalization";
        node.opset = this->maybe() ? 21 : 18;
        node.with["num_groups"] = whole(static_cast<std::int64_t>(groups));
        if (node.opset == 18) node.inputs = {node.inputs[0], this->normal({groups}), this->normal({groups})};
        this->expect_as_in_f64(node, 20);
        this->expect_the_same_bits_alone(node);
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(element_families, softmax_of_any_axis) {
    for (int round = 0; round < this->rounds(80); ++round) {
        const lengths shape = this->some_lengths(1, 12);
        const std::size_t axis = this->any(0, shape.size() - 1);
        const single_node node{.op = this->maybe() ? "Softmax" : "LogSoftmax",
                               .inputs = {this->normal(shape, round % 4 == 3)},
                               .with = {{"axis", whole(static_cast<std::int64_t>(axis))}}};
        this->expect_as_in_f64(node, 8);
        if (axis > 0) this->expect_the_same_bits_alone(node);
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(element_families, reductions_of_any_axes) {
    const std::string all[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceL1",
                               "ReduceL2",  "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
    for (int round = 0; round < this->rounds(160); ++round) {
        lengths shape = this->some_lengths(1, 9);
        if (round % 20 == 0) shape = {this->any(1, 3), this->any(30'000, 70'000)};  // in parts
        std::vector<std::int64_t> axes;
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (this->maybe()) axes.push_back(static_cast<std::int64_t>(d));
        if (round % 20 == 0) axes = {1};
        if (axes.empty()) axes.push_back(static_cast<std::int64_t>(shape.size()) - 1);
        const std::string& op = all[this->any(0, std::size(all) - 1)];
        // The logarithm of a sum needs positive ones; a product of many is 0 or infinite.
        std::vector<float> values(product(shape));
        std::uniform_real_distribution<float> positive(0.5f, 1.5f);
        for (float& each : values) each = positive(this->numbers_);
        const bool is_positive = op == "ReduceLogSum" || op == "ReduceProd";
        if (op == "ReduceProd" && product(shape) > 40) continue;
        this->expect_as_in_f64(
            {.op = op,
             .inputs = {is_positive ? rounded<TypeParam>(values, shape) : this->normal(shape, round % 4 == 3),
                        list(axes)},
             .with = {{"keepdims", whole(this->maybe() ? 1 : 0)}},
             .opset = 18},
            4);
        if (this->HasFatalFailure()) return;
    }
}

// Sums in which the order shows: what is large cancels.
TYPED_TEST(element_families, sums_over_any_axes_have_the_same_bits_in_every_batch) {
    for (const lengths& shape : {lengths{64, 4096, 8}, lengths{64, 8, 4096}, lengths{3, 40'000}}) {
        std::vector<float> values(product(shape));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto kind = this->any(0, 3);
            values[i] = kind == 0 ? 3e4f : kind == 1 ? -3e4f : 1e-4f * static_cast<float>(i % 97);
        }
        for (const std::int64_t axis : {1, 2}) {
            if (static_cast<std::size_t>(axis) >= shape.size()) continue;
            this->expect_the_same_bits_alone(
                {.op = "ReduceSum", .inputs = {rounded<TypeParam>(values, shape), list<std::int64_t>({axis})}});
            if (this->HasFatalFailure()) return;
        }
    }
}

// Also with a transposed factor, as attention has it, and with a batch that one factor has not.
TYPED_TEST(element_families, products_of_batches) {
    for (int round = 0; round < this->rounds(80); ++round) {
        const std::size_t rows = this->any(1, 150), columns = this->any(1, 150), inner = this->any(1, 90);
        lengths a{rows, inner}, b{inner, columns};
        for (std::size_t d = this->any(1, 2); d > 0; --d) {
            const std::size_t length = this->any(1, 4);
            a.insert(a.begin(), length);
            if (this->any(0, 3) != 0) b.insert(b.begin(), b.size() + 1 == a.size() ? length : 1);
        }
        const double tolerance = this->units_of_sum(4.0 * static_cast<double>(inner));
        this->expect_as_in_f64({.op = "MatMul", .inputs = {this->normal(a, round % 5 == 4), this->normal(b)}},
                               tolerance);
        if (this->HasFatalFailure()) return;
        this->expect_as_in_f64({.op = "Einsum",
                                .inputs = {this->normal({2, rows, 3, inner}), this->normal({2, columns, 3, inner})},
                                .with = {{"equation", text("brhd,bchd->bhrc")}}},
                               tolerance);
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(element_families, convolutions_of_groups) {
    for (int round = 0; round < this->rounds(120); ++round) {
        const std::size_t rank = this->any(1, 3), groups = this->any(2, 9), channels = this->any(1, 5),
                          filters = this->any(1, 3);
        lengths image{this->any(1, 3), groups * channels}, filter{groups * filters, channels};
        std::vector<std::int64_t> strides, dilations, pads(2 * rank);
        for (std::size_t d = 0; d < rank; ++d) {
            const std::size_t window = this->any(1, 4), dilation = this->any(1, 3);
            image.push_back(this->any((window - 1) * dilation + 1, 15));
            filter.push_back(window);
            strides.push_back(static_cast<std::int64_t>(this->any(1, 3)));
            dilations.push_back(static_cast<std::int64_t>(dilation));
            pads[d] = static_cast<std::int64_t>(this->any(0, 3));
            pads[d + rank] = static_cast<std::int64_t>(this->any(0, 3));
        }
        single_node node{.op = "Conv",
                         .inputs = {this->normal(image, round % 6 == 5), this->normal(filter)},
                         .with = {{"group", whole(static_cast<std::int64_t>(groups))},
                                  {"strides", wholes(strides)},
                                  {"dilations", wholes(dilations)},
                                  {"pads", wholes(pads)}}};
        if (this->maybe()) node.inputs.push_back(this->normal({groups * filters}));
        this->expect_as_in_f64(node, this->units_of_sum(40));
        if (this->HasFatalFailure()) return;
    }
}

}  // namespace sluice::nn::element_families_tests
