// SPDX-License-Identifier: Apache-2.0
// Operators whose f32 has a way of its own on a CPU, over shapes, strides and special values at random: what they give
// is what the same node gives in f64, which is computed element by element. (The onnx package's cases say what each
// node means.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/operator_families.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::operator_families_tests {
namespace {

using namespace test_support;

// --- ConvTranspose -----------------------------------------------------------------------------------------------

TEST_P(operator_families, transposed_convolutions) {
    for (int round = 0; round < 120; ++round) {
        const std::size_t rank = any(1, 2);
        const bool has_blocks = any(0, 2) == 0, is_depthwise = !has_blocks && any(0, 3) == 0;
        const std::size_t groups = is_depthwise ? any(2, 20) : has_blocks ? 1 : any(1, 3);
        const std::size_t channels = is_depthwise ? 1 : has_blocks ? 16 * any(1, 4) : any(1, 9);
        const std::size_t filters = is_depthwise ? any(1, 2) : has_blocks ? 16 * any(1, 12) : any(1, 9);
        lengths image = {any(1, 3), groups * channels}, filter = {groups * channels, filters};
        std::vector<std::int64_t> strides, dilations, before, after, added;
        for (std::size_t d = 0; d < rank; ++d) {
            image.push_back(any(1, 9));
            filter.push_back(any(1, 5));
            strides.push_back(static_cast<std::int64_t>(any(1, 4)));
            dilations.push_back(static_cast<std::int64_t>(any(1, 3)));
            added.push_back(static_cast<std::int64_t>(
                any(0, static_cast<std::size_t>(std::max(strides.back(), dilations.back())) - 1)));
            const std::size_t full = (image.back() - 1) * static_cast<std::size_t>(strides.back()) +
                                     (filter.back() - 1) * static_cast<std::size_t>(dilations.back()) + 1 +
                                     static_cast<std::size_t>(added.back());
            const std::size_t cut = any(0, std::min<std::size_t>(full - 1, 5)), first = any(0, cut);
            before.push_back(static_cast<std::int64_t>(first));
            after.push_back(static_cast<std::int64_t>(cut - first));
        }
        before.insert(before.end(), after.begin(), after.end());
        single_node what{.op = "ConvTranspose",
                         .inputs = {normal(image), normal(filter)},
                         .with = {{"group", whole(static_cast<std::int64_t>(groups))},
                                  {"strides", wholes(strides)},
                                  {"dilations", wholes(dilations)},
                                  {"pads", wholes(before)},
                                  {"output_padding", wholes(added)}}};
        if (maybe()) what.inputs.push_back(normal({groups * filters}));
        SCOPED_TRACE("round " + std::to_string(round));
        expect_as_in_f64(what, 1e-5 * static_cast<double>(10 + channels * (product(filter) / (filter[0] * filter[1]))));
        if (HasFatalFailure()) return;
    }
}

// Large enough for several workers: divided by images, by groups, and by filters, of one image.
TEST_P(operator_families, large_transposed_convolutions_are_divided) {
    struct size {
        std::size_t images, groups, channels, filters, length, window, stride;
    };
    for (const size& of : {size{4, 1, 24, 32, 20, 3, 2}, size{1, 4, 24, 32, 20, 4, 2}, size{1, 1, 48, 160, 17, 4, 2},
                           size{1, 1, 40, 136, 19, 2, 2}, size{1, 1, 32, 192, 20, 3, 1}}) {
        SCOPED_TRACE(of.filters);
        const auto side = static_cast<std::int64_t>(of.stride);
        expect_as_in_f64(
            {.op = "ConvTranspose",
             .inputs = {normal({of.images, of.groups * of.channels, of.length, of.length}),
                        normal({of.groups * of.channels, of.filters, of.window, of.window}),
                        normal({of.groups * of.filters})},
             .with = {{"group", whole(static_cast<std::int64_t>(of.groups))}, {"strides", wholes({side, side})}}},
            1e-3);
    }
}

// --- elementwise, softmax ----------------------------------------------------------------------------------------

TEST_P(operator_families, functions_of_elements) {
    for (const char* const op : {"Exp", "Sigmoid", "Tanh", "Erf"}) {
        for (const std::size_t count : {1u, 7u, 128u, 129u, 5'000u}) {
            std::vector<float> x(count);
            for (std::size_t i = 0; i < count; ++i) x[i] = std::sin(static_cast<float>(i)) * 20;
            const float infinity = std::numeric_limits<float>::infinity();
            const float odd[] = {infinity, -infinity, std::nanf(""), 0.0f, -0.0f};
            for (std::size_t i = 0; i < count && count > 7; ++i)
                if (i % 11 == 0) x[i] = odd[i / 11 % 5];
            SCOPED_TRACE(op);
            // exp(20) is 4.9e8
            expect_as_in_f64({.op = op, .inputs = {any_tensor(x, {count})}}, std::string(op) == "Exp" ? 64 : 2e-7);
        }
    }
}

// Dimensions in which every other one repeats one of the inputs: none of them are neighbours that move alike.
TEST_P(operator_families, broadcasts_in_any_number_of_dimensions) {
    for (const std::size_t rank : {5u, 7u, 8u, 13u, 16u}) {
        std::vector<std::size_t> left(rank, 1), right(rank, 1), shape(rank, 2);
        for (std::size_t d = 0; d < rank; ++d) (d % 2 == 0 ? left : right)[d] = 2;
        const auto numbers = [](std::size_t count) {
            std::vector<std::int32_t> made(count);
            for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<std::int32_t>(i * 7919 % 104729);
            return made;
        };
        const auto a = numbers(std::size_t{1} << (rank + 1) / 2), b = numbers(std::size_t{1} << rank / 2);
        const any_tensor made =
            run_node({.op = "Sub", .inputs = {any_tensor(a, left), any_tensor(b, right)}}, on_).at(0);
        ASSERT_EQ(made.shape(), shape);
        const auto got = made.values<std::int32_t>();
        for (std::size_t i = 0; i < got.size(); ++i) {
            std::size_t of_a = 0, of_b = 0;
            for (std::size_t d = 0; d < rank; ++d) {
                std::size_t& at = d % 2 == 0 ? of_a : of_b;
                at = at * 2 + (i >> (rank - 1 - d) & 1);
            }
            ASSERT_EQ(got[i], a[of_a] - b[of_b]) << "element " << i << " of " << rank << " dimensions";
        }
    }
}

// Numbers of channels are the same for many blocks of elements.
TEST_P(operator_families, numbers_of_channels_of_any_size) {
    for (int round = 0; round < 40; ++round) {
        SCOPED_TRACE(round);
        const lengths shape{any(1, 3), any(1, 5), maybe() ? any(200, 1'400) : any(1, 40), any(1, 3)};
        const lengths channels{shape[1], 1, 1}, columns{shape[3]};
        const any_tensor x = with_odd(normal(shape), false);
        for (const char* op : {"Add", "Mul", "Sub", "Div"}) {
            expect_as_in_f64({op, {x, normal(channels)}}, 1e-6, true);
            expect_as_in_f64({op, {normal(channels), normal(shape)}}, 1e-6, true);
        }
        expect_as_in_f64({"PRelu", {x, normal(maybe() ? channels : columns)}}, 1e-6, true);
        single_node norm{"BatchNormalization", {normal(shape)}};
        for (int k = 0; k < 4; ++k) norm.inputs.push_back(with_odd(normal({shape[1]}), k == 3));
        expect_as_in_f64(norm, 1e-5, true);
        if (HasFatalFailure()) return;
    }
}

TEST_P(operator_families, softmax_along_any_axis) {
    for (int round = 0; round < 60; ++round) {
        lengths shape(any(1, 4));
        for (std::size_t& each : shape) each = any(1, 20);
        if (any(0, 4) == 0) shape.back() = any(200, 3'000);
        any_tensor x = normal(shape);
        SCOPED_TRACE("round " + std::to_string(round));
        const auto axis = static_cast<std::int64_t>(any(0, shape.size() - 1));
        expect_as_in_f64({.op = "Softmax", .inputs = {x}, .with = {{"axis", whole(axis)}}}, 1e-6);
    }
}

// --- 8-bit integers ----------------------------------------------------------------------------------------------

TEST_P(operator_families, products_of_bytes) {
    for (int round = 0; round < 50; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const bool is_large = any(0, 9) == 0;
        const std::size_t rows = any(1, is_large ? 90 : 9), inner = any(1, is_large ? 700 : 40),
                          columns = any(1, is_large ? 300 : 40), matrices = any(1, 3);
        const bool is_b_shared = maybe(), is_a_signed = maybe(), is_b_signed = maybe();
        const auto bytes = [&](lengths shape, bool is_signed, auto& as_whole) {
            as_whole.resize(product(shape));
            std::vector<std::int8_t> low(as_whole.size());
            std::vector<std::uint8_t> high(as_whole.size());
            for (std::size_t i = 0; i < as_whole.size(); ++i) {
                as_whole[i] = static_cast<std::int64_t>(any(0, 255)) - (is_signed ? 128 : 0);
                low[i] = static_cast<std::int8_t>(as_whole[i]);
                high[i] = static_cast<std::uint8_t>(as_whole[i]);
            }
            return is_signed ? any_tensor(low, std::move(shape)) : any_tensor(high, std::move(shape));
        };
        std::vector<std::int64_t> a, b, a_zero, b_zero;
        single_node what{.op = "MatMulInteger",
                         .inputs = {bytes({matrices, rows, inner}, is_a_signed, a),
                                    bytes(is_b_shared ? lengths{inner, columns} : lengths{matrices, inner, columns},
                                          is_b_signed, b)}};
        const std::size_t zeros = any(0, 2);  // none, one, one for each row or column
        if (zeros != 0) {
            what.inputs.push_back(bytes(zeros == 2 && maybe() ? lengths{rows} : lengths{}, is_a_signed, a_zero));
            what.inputs.push_back(bytes(zeros == 2 ? lengths{columns} : lengths{}, is_b_signed, b_zero));
        }
        const auto zero_at = [](const std::vector<std::int64_t>& of, std::size_t i) {
            return of.empty() ? 0 : of[of.size() == 1 ? 0 : i];
        };
        const any_tensor made = run_node(what, on_).at(0);
        ASSERT_EQ(made.shape(), (lengths{matrices, rows, columns}));
        for (std::size_t i = 0; i < made.elements(); ++i) {
            const std::size_t column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < inner; ++k) {
                sum += (a[(matrix * rows + row) * inner + k] - zero_at(a_zero, row)) *
                       (b[((is_b_shared ? 0 : matrix) * inner + k) * columns + column] - zero_at(b_zero, column));
            }
            ASSERT_EQ(made.values<std::int32_t>()[i], sum) << "element " << i;
        }
    }
}

// The sum of the largest products does not fit into 16 bits, and that of many not into 32: it wraps.
TEST_P(operator_families, products_of_bytes_do_not_saturate) {
    const std::size_t inner = 40'000;
    const any_tensor a(std::vector<std::uint8_t>(inner, 255), {1, inner}),
        b(std::vector<std::uint8_t>(inner * 2, 255), {inner, 2});
    const any_tensor made = run_node({.op = "MatMulInteger", .inputs = {a, b}}, on_).at(0);
    const auto expected = static_cast<std::int32_t>(static_cast<std::uint32_t>(inner * 255 * 255));
    EXPECT_EQ(made.values<std::int32_t>()[0], expected);
    EXPECT_EQ(made.values<std::int32_t>()[1], expected);
    const any_tensor signed_b(std::vector<std::int8_t>(inner * 2, -128), {inner, 2});
    const any_tensor other = run_node({.op = "MatMulInteger", .inputs = {a, signed_b}}, on_).at(0);
    EXPECT_EQ(other.values<std::int32_t>()[1],
              static_cast<std::int32_t>(static_cast<std::uint32_t>(-static_cast<std::int64_t>(inner * 255 * 128))));
}

TEST_P(operator_families, products_of_bytes_are_quantized) {
    for (int round = 0; round < 40; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const std::size_t rows = any(1, 9), inner = any(1, 40), columns = any(1, 40);
        std::vector<std::uint8_t> a(rows * inner);
        std::vector<std::int8_t> b(inner * columns);
        for (auto& each : a) each = static_cast<std::uint8_t>(any(0, 255));
        for (auto& each : b) each = static_cast<std::int8_t>(any(0, 255));
        const float a_scale = 0.02f, b_scale = 0.013f, y_scale = 0.11f;
        const any_tensor made =
            run_node({.op = "QLinearMatMul",
                      .inputs = {any_tensor(a, {rows, inner}), number(a_scale), number<std::uint8_t>(120),
                                 any_tensor(b, {inner, columns}), number(b_scale), number<std::int8_t>(3),
                                 number(y_scale), number<std::int8_t>(-7)}},
                     on_)
                .at(0);
        for (std::size_t i = 0; i < made.elements(); ++i) {
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < inner; ++k)
                sum += (a[i / columns * inner + k] - 120) * (b[k * columns + i % columns] - 3);
            const double scale =
                static_cast<double>(a_scale) * static_cast<double>(b_scale) / static_cast<double>(y_scale);
            const double exact = std::rint(static_cast<double>(sum) * scale) - 7;
            ASSERT_EQ(made.values<std::int8_t>()[i], std::clamp(exact, -128.0, 127.0)) << "element " << i;
        }
    }
}

// Numbers between two steps, beyond the range, and those that are no numbers.
template <typename T>
void expect_quantized(scheduling_policy& on, std::mt19937& numbers) {
    const double low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    for (const float scale : {0.25f, 0.037f, 3e-5f, 2e30f}) {
        for (const int zero : {static_cast<int>(low), static_cast<int>(high), static_cast<int>(low) + 117}) {
            std::vector<float> x;
            for (int i = -300; i <= 300; ++i) x.push_back(static_cast<float>(i) * 0.5f * scale);
            std::uniform_real_distribution<float> any(-400, 400);
            for (int i = 0; i < 500; ++i) x.push_back(any(numbers) * scale);
            const float infinity = std::numeric_limits<float>::infinity();
            for (const float each : {infinity, -infinity, std::nanf(""), 0.0f, -0.0f, 3e38f, -3e38f, 1e-45f})
                x.push_back(each);
            const any_tensor made =
                run_node({.op = "QuantizeLinear",
                          .inputs = {any_tensor(x, {x.size()}), number(scale), number(static_cast<T>(zero))}},
                         on)
                    .at(0);
            const any_tensor back =
                run_node({.op = "DequantizeLinear", .inputs = {made, number(scale), number(static_cast<T>(zero))}}, on)
                    .at(0);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double exact = std::rint(static_cast<double>(x[i] / scale)) + zero;
                const double limited = exact > low ? std::min(exact, high) : low;  // NaN is the smallest
                ASSERT_EQ(static_cast<double>(made.values<T>()[i]), limited) << x[i] << " / " << scale << " + " << zero;
                ASSERT_EQ(back.values<float>()[i], static_cast<float>((limited - zero) * static_cast<double>(scale)));
            }
        }
    }
}

TEST_P(operator_families, bytes_are_quantized_and_back) {
    expect_quantized<std::uint8_t>(on_, numbers_);
    expect_quantized<std::int8_t>(on_, numbers_);
}

TEST_P(operator_families, ranges_are_found_in_numbers_of_any_count) {
    for (const std::size_t count : {1u, 2u, 15u, 16u, 17u, 300u, 4'097u, 100'003u}) {
        for (int round = 0; round < 4; ++round) {
            const any_tensor x = normal({count});
            const auto values = x.values<float>();
            const float low = std::min(0.0f, *std::ranges::min_element(values)),
                        high = std::max(0.0f, *std::ranges::max_element(values)), step = (high - low) / 255.0f;
            const auto made = run_node({.op = "DynamicQuantizeLinear", .inputs = {x}, .outputs = 3}, on_);
            ASSERT_EQ(made.at(1).values<float>()[0], step);
            const double zero = std::rint(-low / step);
            ASSERT_EQ(made.at(2).values<std::uint8_t>()[0], zero);
            for (std::size_t i = 0; i < count; ++i) {
                const double exact = std::clamp(std::rint(static_cast<double>(values[i] / step)) + zero, 0.0, 255.0);
                ASSERT_EQ(made.at(0).values<std::uint8_t>()[i], exact) << "element " << i << " of " << count;
            }
        }
    }
}

// --- reductions, norms, softmax ------------------------------------------------------------------------------------

TEST_P(operator_families, reductions_over_any_axes) {
    for (const char* const op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
                                 "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
        for (int round = 0; round < 60; ++round) {
            SCOPED_TRACE(std::string(op) + ", round " + std::to_string(round));
            const std::size_t rank = any(1, 5);
            lengths shape;
            for (std::size_t d = 0; d < rank; ++d) shape.push_back(any(0, 4) == 0 ? any(20, 300) : any(1, 6));
            while (product(shape) > 60'000) *std::ranges::max_element(shape) /= 3;
            std::vector<std::int64_t> axes;
            for (std::size_t d = 0; d < rank; ++d)
                if (maybe()) axes.push_back(static_cast<std::int64_t>(d));
            const bool is_log_sum = std::string(op) == "ReduceLogSum";
            const any_tensor x = with_odd(normal(shape), is_log_sum);
            attributes with = {{"keepdims", whole(maybe() ? 1 : 0)}};
            if (!axes.empty()) with.emplace("axes", wholes(axes));
            if (std::string(op) == "ReduceSum") {
                with.erase("axes");
                expect_as_in_f64({.op = op, .inputs = {x, list(axes)}, .with = with}, 1e-2);
            } else {
                expect_as_in_f64({.op = op, .inputs = {x}, .with = with, .opset = 13}, 1e-2);
            }
            if (HasFatalFailure()) return;
        }
    }
}

// Sums that f32 could not hold: the largest numbers cancel, and what is left is exact.
TEST_P(operator_families, sums_are_exact) {
    for (const bool is_of_columns : {false, true}) {
        std::vector<float> values(3 * 4'003, 1.0f);
        for (std::size_t i = 0; i < 2'000; ++i) values[3 * i] = i % 2 == 0 ? 1e9f : -1e9f;
        const any_tensor x(values, is_of_columns ? lengths{4'003, 3} : lengths{1, 3 * 4'003});
        const any_tensor made =
            run_node({.op = "ReduceSum", .inputs = {x, list<std::int64_t>({is_of_columns ? 0 : 1})}}, on_).at(0);
        ASSERT_EQ(made.values<float>()[0], is_of_columns ? 2'003.0f : 3 * 4'003.0f - 2'000.0f);
    }
}

TEST_P(operator_families, norms_of_rows) {
    for (int round = 0; round < 150; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const std::size_t rows = any(1, 40), groups = any(1, 4), of_group = any(1, 5), pixels = any(1, 80);
        const std::size_t channels = groups * of_group;
        const lengths image = {rows, channels, pixels};
        const any_tensor x = maybe() ? normal(image) : with_odd(normal(image), false);
        const bool has_bias = maybe();
        const lengths last = maybe() ? lengths{channels, pixels} : lengths{pixels};
        single_node layer{.op = "LayerNormalization",
                          .inputs = {x, normal(last)},
                          .with = {{"axis", whole(-static_cast<std::int64_t>(last.size()))}}};
        if (has_bias) layer.inputs.push_back(normal(last));
        expect_as_in_f64(layer, 2e-5);
        if (HasFatalFailure()) return;
        layer.op = "RMSNormalization";
        layer.opset = 23;
        layer.inputs.resize(2);
        expect_as_in_f64(layer, 2e-5);
        expect_as_in_f64({.op = "InstanceNormalization", .inputs = {x, normal({channels}), normal({channels})}}, 5e-5);
        for (const std::int64_t opset : {18, 21}) {
            const std::size_t numbers = opset == 18 ? groups : channels;
            expect_as_in_f64({.op = "GroupNormalization",
                              .inputs = {x, normal({numbers}), normal({numbers})},
                              .with = {{"num_groups", whole(static_cast<std::int64_t>(groups))}},
                              .opset = opset},
                             5e-5);
        }
        for (const std::int64_t axis : {0, 1, 2}) {
            expect_as_in_f64({.op = "Softmax", .inputs = {x}, .with = {{"axis", whole(axis)}}}, 1e-6);
            expect_as_in_f64({.op = "LogSoftmax", .inputs = {x}, .with = {{"axis", whole(axis)}}}, 2e-5);
            if (HasFatalFailure()) return;
        }
    }
}

// A mean that is much larger than the distances to it.
TEST_P(operator_families, norms_of_rows_far_from_zero) {
    any_tensor x = normal({5, 200});
    std::vector<float> moved(x.values<float>().begin(), x.values<float>().end());
    for (float& each : moved) each = each / 16 + 10'000.37f;
    expect_as_in_f64({.op = "LayerNormalization", .inputs = {any_tensor(moved, x.shape()), normal({200})}}, 1e-4);
}

// Large enough for several workers; each row has the bits that it has alone.
TEST_P(operator_families, rows_have_the_same_bits_in_any_batch) {
    const std::size_t rows = 70, width = 1'530;
    const any_tensor x = normal({rows, width}), scale = normal({width}), bias = normal({width});
    const auto values = x.values<float>();
    const auto nodes = [&](const any_tensor& of) {
        const auto shape = of.shape();
        const any_tensor cube = of.with_shape({shape[0], 1, width});
        return std::vector<single_node>{
            {.op = "LayerNormalization", .inputs = {of, scale, bias}},
            {.op = "RMSNormalization", .inputs = {of, scale}, .opset = 23},
            {.op = "LogSoftmax", .inputs = {of}},
            {.op = "ReduceSum", .inputs = {of, list<std::int64_t>({1})}},
            {.op = "ReduceLogSumExp", .inputs = {of}, .with = {{"axes", wholes({1})}}},
            {.op = "InstanceNormalization", .inputs = {cube, normal_one(), normal_one()}},
            {.op = "Softmax", .inputs = {of.with_shape({shape[0], 6, 255})}, .with = {{"axis", whole(1)}}},
        };
    };
    const auto all = nodes(x);
    for (std::size_t n = 0; n < all.size(); ++n) {
        const any_tensor whole_batch = run_node(all[n], on_).at(0);
        const std::size_t of_row = whole_batch.elements() / rows;
        for (const std::size_t row : {0u, 33u, 69u}) {
            const any_tensor one(std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(row * width),
                                                    values.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)),
                                 {1, width});
            const any_tensor alone = run_node(nodes(one)[n], on_).at(0);
            for (std::size_t i = 0; i < of_row; ++i) {
                ASSERT_EQ(alone.values<float>()[i], whole_batch.values<float>()[row * of_row + i])
                    << all[n].op << " " << n << ", row " << row << ", element " << i;
            }
        }
    }
}

// --- what only some forms have -----------------------------------------------------------------------------------

// The output is larger than all windows together: what is added has the bias alone.
TEST_P(operator_families, transposed_convolutions_with_a_larger_output) {
    for (const std::int64_t length : {7, 8, 9, 12, 20}) {
        expect_as_in_f64({.op = "ConvTranspose",
                          .inputs = {normal({2, 16, 3, 3}), normal({16, 16, 3, 3}), normal({16})},
                          .with = {{"strides", wholes({2, 2})}, {"output_shape", wholes({length, length})}}},
                         1e-4);
    }
}

TEST_P(operator_families, transposed_convolutions_of_halves) {
    const any_tensor x = normal({2, 16, 5, 5}), filter = normal({16, 8, 3, 3});
    const auto halves = [](const any_tensor& from) {
        std::vector<half> made;
        for (const float each : from.values<float>()) made.emplace_back(each);
        return any_tensor(made, from.shape());
    };
    const auto back = [](const any_tensor& from) {
        std::vector<float> made;
        for (const half each : from.values<half>()) made.push_back(static_cast<float>(each));
        return any_tensor(made, from.shape());
    };
    const attributes with = {{"strides", wholes({2, 2})}};
    const any_tensor made =
        run_node({.op = "ConvTranspose", .inputs = {halves(x), halves(filter)}, .with = with}, on_).at(0);
    const any_tensor expected =
        run_node({.op = "ConvTranspose", .inputs = {back(halves(x)), back(halves(filter))}, .with = with}, on_).at(0);
    ASSERT_EQ(made.shape(), expected.shape());
    for (std::size_t i = 0; i < made.elements(); ++i)
        ASSERT_NEAR(static_cast<float>(made.values<half>()[i]), expected.values<float>()[i], 0.03f);
}

// NaN and infinity reach the windows that they are in, and no other output.
TEST_P(operator_families, transposed_convolutions_keep_odd_numbers_in_their_windows) {
    for (const std::size_t groups : {1u, 16u}) {
        for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
            any_tensor x = normal({1, 16, 6, 6});
            std::vector<float> values(x.values<float>().begin(), x.values<float>().end());
            values[5 * 36 + 3 * 6 + 2] = odd;  // channel 5, row 3, column 2
            expect_as_in_f64(
                {.op = "ConvTranspose",
                 .inputs = {any_tensor(values, x.shape()), normal({16, groups == 1 ? 16u : 1u, 3, 3})},
                 .with = {{"group", whole(static_cast<std::int64_t>(groups))}, {"strides", wholes({2, 2})}}},
                1e-4);
        }
    }
}

// More rows than are multiplied at once, of unsigned matrices with a zero point for each column.
TEST_P(operator_families, products_of_many_rows_of_bytes) {
    const std::size_t rows = 150, inner = 37, columns = 21;
    std::vector<std::uint8_t> a(rows * inner), b(inner * columns), zeros(columns);
    for (auto& each : a) each = static_cast<std::uint8_t>(any(0, 255));
    for (auto& each : b) each = static_cast<std::uint8_t>(any(0, 255));
    for (auto& each : zeros) each = static_cast<std::uint8_t>(any(0, 255));
    const any_tensor made = run_node({.op = "MatMulInteger",
                                      .inputs = {any_tensor(a, {rows, inner}), any_tensor(b, {inner, columns}),
                                                 number<std::uint8_t>(9), any_tensor(zeros, {columns})}},
                                     on_)
                                .at(0);
    for (std::size_t i = 0; i < made.elements(); ++i) {
        int sum = 0;
        for (std::size_t k = 0; k < inner; ++k)
            sum += (a[i / columns * inner + k] - 9) * (b[k * columns + i % columns] - zeros[i % columns]);
        ASSERT_EQ(made.values<std::int32_t>()[i], sum) << "element " << i;
    }
}

// --- operator sets and rounding ----------------------------------------------------------------------------------

std::vector<float> floats_of(const single_node& what) {
    const any_tensor made = outputs_of(what).at(0);
    return {made.values<float>().begin(), made.values<float>().end()};
}

TEST(operator_sets, have_their_own_defaults) {
    constexpr float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
    const any_tensor ends = list<float>({-infinity, infinity, 2});
    EXPECT_EQ(floats_of({.op = "Clip", .inputs = {ends}, .opset = 6}), (std::vector<float>{-most, most, 2}));
    EXPECT_EQ(floats_of({.op = "Clip", .inputs = {ends}, .opset = 13}), (std::vector<float>{-infinity, infinity, 2}));
    EXPECT_EQ(floats_of({.op = "Selu", .inputs = {list<float>({1})}, .opset = 1}), std::vector<float>{1.0507f});
    const std::vector<any_tensor> last{list({-1}), number(std::int64_t{3}), list<float>({0, 1})};
    EXPECT_EQ(floats_of({.op = "OneHot", .inputs = last, .opset = 9}), (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(floats_of({.op = "OneHot", .inputs = last, .opset = 11}), (std::vector<float>{0, 0, 1}));
}

TEST(casts, round_large_integers_once) {
    constexpr std::int64_t middle = (std::int64_t{1} << 60) + (std::int64_t{1} << 36);
    const std::vector<std::int64_t> given{middle, middle + 1, -middle - 1};
    const std::vector<float> expected{0x1p60f, 0x1p60f + 0x1p37f, -0x1p60f - 0x1p37f};
    EXPECT_EQ(floats_of({.op = "Cast", .inputs = {list(given)}, .with = {{"to", whole(1)}}}), expected);
    const std::vector<std::uint64_t> whole_numbers{static_cast<std::uint64_t>(middle + 1), ~std::uint64_t{0}};
    EXPECT_EQ(floats_of({.op = "Cast", .inputs = {list(whole_numbers)}, .with = {{"to", whole(1)}}}),
              (std::vector<float>{0x1p60f + 0x1p37f, 0x1p64f}));
}

TEST(casts, round_to_16_bits_once) {
    const std::vector<double> given{1 + 0x1p-11 + 0x1p-40, -1 - 0x1p-11 - 0x1p-40, 1 + 0x1p-11};
    const any_tensor made = outputs_of({.op = "Cast", .inputs = {list(given)}, .with = {{"to", whole(10)}}}).at(0);
    EXPECT_EQ(float{made.values<half>()[0]}, 1 + 0x1p-10f);
    EXPECT_EQ(float{made.values<half>()[1]}, -1 - 0x1p-10f);
    EXPECT_EQ(float{made.values<half>()[2]}, 1.0f);
    const std::vector<std::int64_t> integers_given{(1 << 24) + (1 << 16) + 1};
    const any_tensor short_one =
        outputs_of({.op = "Cast", .inputs = {list(integers_given)}, .with = {{"to", whole(16)}}}).at(0);
    EXPECT_EQ(float{short_one.values<bfloat16>()[0]}, 16908288.0f);
}

// Positions that are whole numbers are exact: floor and ceil give the same element there.
TEST(resizes, by_sizes_find_whole_positions) {
    for (std::size_t from = 1; from < 80; ++from) {
        std::vector<float> line(from);
        for (std::size_t i = 0; i < from; ++i) line[i] = static_cast<float>(i);
        for (const std::size_t to : {from + 4, 2 * from + 12, 3 * from / 2 + 1, std::size_t{81}}) {
            for (const char* const mode : {"floor", "ceil"}) {
                const std::vector<float> made =
                    floats_of({.op = "Resize",
                               .inputs = {any_tensor(line, {1, 1, 1, from}), any_tensor(), any_tensor(),
                                          list<std::int64_t>({1, 1, 1, static_cast<std::int64_t>(to)})},
                               .with = {{"mode", text("nearest")},
                                        {"coordinate_transformation_mode", text("asymmetric")},
                                        {"nearest_mode", text(mode)}}});
                ASSERT_EQ(made.size(), to);
                for (std::size_t i = 0; i < to; ++i) {
                    const std::size_t expected = mode[0] == 'f' ? i * from / to : (i * from + to - 1) / to;
                    ASSERT_EQ(made[i], static_cast<float>(std::min(expected, from - 1)))
                        << from << " to " << to << ", " << mode << " of " << i;
                }
            }
        }
    }
}

// NaN differs from each number; it passes no other test unless the node says so.
TEST(trees, take_nan_for_a_number_that_differs) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto& [mode, expected] : {std::pair{"BRANCH_NEQ", 10.0f}, {"BRANCH_EQ", 20.0f}, {"BRANCH_LEQ", 20.0f}}) {
        EXPECT_EQ(floats_of({.op = "TreeEnsembleRegressor",
                             .inputs = {any_tensor(std::vector<float>{nan}, {1, 1})},
                             .with = {{"nodes_treeids", wholes({0, 0, 0})},
                                      {"nodes_nodeids", wholes({0, 1, 2})},
                                      {"nodes_featureids", wholes({0, 0, 0})},
                                      {"nodes_truenodeids", wholes({1, 0, 0})},
                                      {"nodes_falsenodeids", wholes({2, 0, 0})},
                                      {"nodes_modes", texts({mode, "LEAF", "LEAF"})},
                                      {"nodes_values", reals({1, 0, 0})},
                                      {"target_treeids", wholes({0, 0})},
                                      {"target_nodeids", wholes({1, 2})},
                                      {"target_ids", wholes({0, 0})},
                                      {"target_weights", reals({10, 20})},
                                      {"n_targets", whole(1)}},
                             .domain = "ai.onnx.ml",
                             .opset = 3}),
                  std::vector<float>{expected})
            << mode;
    }
}

INSTANTIATE_TEST_SUITE_P(workers, operator_families, ::testing::Values(1, 3));

}  // namespace
}  // namespace sluice::nn::operator_families_tests
