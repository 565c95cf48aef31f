// SPDX-License-Identifier: Apache-2.0
// MaxPool and AveragePool of f32 on a CPU, over shapes, windows and special values at random, against the same node in
// f64, which is computed element by element.
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

#include "nn/operators/pooling_loops.hpp"
#include "nn/support/single_nodes.hpp"

namespace sluice::nn::pooling_families_tests {
namespace {

using namespace test_support;

class pooling_families : public ::testing::Test {
protected:
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    std::vector<float> numbers(std::size_t count, bool is_special) {
        std::normal_distribution<float> one;
        std::vector<float> made(count);
        for (float& each : made) each = one(numbers_);
        if (is_special)
            for (const float each : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::quiet_NaN(), -0.0f})
                made[any(0, count - 1)] = each;
        return made;
    }
    void expect_as_in_f64(const std::string& op, const std::vector<float>& values, std::vector<std::size_t> shape,
                          const attributes& with) {
        const any_tensor x(values, shape), wide(std::vector<double>(values.begin(), values.end()), std::move(shape));
        const auto made = run_node({op, {x}, with, {}, 19}, on_), expected = run_node({op, {wide}, with, {}, 19}, on_);
        ASSERT_EQ(made[0].shape(), expected[0].shape());
        const auto a = made[0].values<float>();
        const auto b = expected[0].values<double>();
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (std::isnan(b[i])) {
                ASSERT_TRUE(std::isnan(a[i])) << i;
            } else if (op == "MaxPool" || op == "GlobalMaxPool" || std::isinf(b[i])) {
                ASSERT_EQ(static_cast<double>(a[i]), b[i]) << i;
            } else {
                ASSERT_NEAR(static_cast<double>(a[i]), b[i], 1e-6 * std::max(1.0, std::abs(b[i]))) << i;
            }
        }
    }

    std::mt19937 numbers_{23};
    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = 3, .cuda = false}};
    single_stream on_{machine_.find("cpu:0")};
};

}  // namespace

TEST_F(pooling_families, of_one_to_three_dimensions_give_what_f64_gives) {
    for (int round = 0; round < 300; ++round) {
        SCOPED_TRACE(round);
        const std::size_t rank = any(1, 3);
        std::vector<std::size_t> shape{any(1, 2), any(1, 5)};
        std::vector<std::int64_t> window, strides, dilations, begins, ends;
        for (std::size_t d = 0; d < rank; ++d) {
            const std::size_t w = any(1, 4), dilation = any(0, 3) == 0 ? 2 : 1, reach = (w - 1) * dilation + 1;
            shape.push_back(reach + any(0, any(0, 8) == 0 && d + 1 == rank ? 700 : 12));
            window.push_back(static_cast<std::int64_t>(w));
            dilations.push_back(static_cast<std::int64_t>(dilation));
            strides.push_back(static_cast<std::int64_t>(any(1, 4)));
            begins.push_back(static_cast<std::int64_t>(any(0, reach - 1)));
            ends.push_back(static_cast<std::int64_t>(any(0, reach - 1)));
        }
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        attributes with{{"kernel_shape", wholes(window)}, {"ceil_mode", whole(static_cast<std::int64_t>(any(0, 1)))}};
        if (any(0, 2) != 0) with.emplace("strides", wholes(strides));
        if (any(0, 2) != 0) with.emplace("dilations", wholes(dilations));
        if (any(0, 2) != 0) {
            if (!with.contains("dilations"))
                for (std::size_t d = 0; d < rank; ++d) {
                    begins[d] = std::min(begins[d], window[d] - 1);
                    ends[d] = std::min(ends[d], window[d] - 1);
                }
            begins.insert(begins.end(), ends.begin(), ends.end());
            with.emplace("pads", wholes(begins));
        }
        const std::vector<float> values = numbers(count, any(0, 1) == 0);
        expect_as_in_f64("MaxPool", values, shape, with);
        with.emplace("count_include_pad", whole(static_cast<std::int64_t>(any(0, 1))));
        expect_as_in_f64("AveragePool", values, shape, with);
        expect_as_in_f64("GlobalMaxPool", values, shape, {});
        expect_as_in_f64("GlobalAveragePool", values, shape, {});
    }
}

TEST_F(pooling_families, loops_of_each_unit_give_the_same) {
    using operators::pooled_windows;
    for (int round = 0; round < 200; ++round) {
        SCOPED_TRACE(round);
        pooled_windows of{};
        std::size_t planes = any(1, 3), elements = planes, rows = planes;
        for (std::size_t d = 0; d < 3; ++d) {
            of.window[d] = any(1, d == 2 ? 20 : 4);
            of.dilation[d] = any(1, 3);
            of.stride[d] = any(1, 6);
            const std::size_t reach = (of.window[d] - 1) * of.dilation[d] + 1;
            of.before[d] = any(0, reach - 1);
            of.after[d] = any(0, reach - 1);
            of.input[d] = any(1, d == 2 ? 70 : 6) + reach;
            of.output[d] = (of.before[d] + of.input[d] + of.after[d] - reach) / of.stride[d] + 1;
            elements *= of.input[d];
            if (d < 2) rows *= of.output[d];
        }
        const std::vector<float> x = numbers(elements, true);
        of.x = x.data();
        of.last_row = rows;
        of.begin = any(0, of.output[2] - 1);
        of.end = any(of.begin + 1, of.output[2]);
        of.counts_padding = any(0, 1) == 1;
        // Windows that are not asked for stay as they are.
        std::vector<std::vector<float>> made;
        for (const operators::pooling_loops* const loops : operators::known_pooling_loops()) {
            for (const auto loop : {loops->largest, loops->means}) {
                made.emplace_back(rows * of.output[2], 123.0f);
                of.y = made.back().data();
                loop(of);
                for (std::size_t i = 0; i < made.back().size(); ++i) {
                    const std::size_t o = i % of.output[2];
                    if (o < of.begin || o >= of.end) {
                        ASSERT_EQ(made.back()[i], 123.0f);
                    }
                    if (made.size() < 3) continue;
                    const float first = made[made.size() - 3][i];
                    ASSERT_TRUE(made.back()[i] == first || (std::isnan(first) && std::isnan(made.back()[i]))) << i;
                }
            }
        }
    }
}

}  // namespace sluice::nn::pooling_families_tests
