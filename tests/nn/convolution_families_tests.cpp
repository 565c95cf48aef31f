// SPDX-License-Identifier: Apache-2.0
// Conv and ConvTranspose of f32 on a CPU in one to three dimensions and any groups, over shapes, strides, dilations,
// paddings and special values at random, against the same node in f64, which is computed element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/operators/convolution_loops.hpp"
#include "nn/support/single_nodes.hpp"

namespace sluice::nn::convolution_families_tests {
namespace {

using namespace test_support;

class convolution_families : public ::testing::Test {
protected:
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    std::vector<float> numbers(const std::vector<std::size_t>& shape, bool is_special) {
        std::normal_distribution<float> one;
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        std::vector<float> made(count);
        for (float& each : made) each = one(numbers_);
        if (is_special)
            for (const float each : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
                made[any(0, count - 1)] = each;
        return made;
    }
    void expect_as_in_f64(const std::string& op, const std::vector<std::size_t>& image,
                          const std::vector<std::size_t>& filter, std::size_t filters, const attributes& with,
                          bool is_special) {
        const std::vector<float> x = numbers(image, is_special && any(0, 1) == 0),
                                 w = numbers(filter, is_special && any(0, 1) == 0), bias = numbers({filters}, false);
        const auto wide = [](const std::vector<float>& from, const std::vector<std::size_t>& shape) {
            return any_tensor(std::vector<double>(from.begin(), from.end()), shape);
        };
        std::vector<any_tensor> inputs{any_tensor(x, image), any_tensor(w, filter)},
            exact{wide(x, image), wide(w, filter)};
        if (any(0, 1) == 0) {
            inputs.emplace_back(bias, std::vector<std::size_t>{filters});
            exact.push_back(wide(bias, {filters}));
        }
        const auto made = run_node({op, inputs, with}, on_), expected = run_node({op, exact, with}, on_);
        ASSERT_EQ(made[0].shape(), expected[0].shape());
        const auto a = made[0].values<float>();
        const auto b = expected[0].values<double>();
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (std::isnan(b[i]) || std::isinf(b[i])) {
                ASSERT_TRUE(std::isnan(b[i]) ? std::isnan(a[i]) : static_cast<double>(a[i]) == b[i]) << i;
            } else {
                ASSERT_NEAR(static_cast<double>(a[i]), b[i], 2e-5 * std::max(1.0, std::abs(b[i]))) << i;
            }
        }
    }

    std::mt19937 numbers_{29};
    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = 3, .cuda = false}};
    single_stream on_{machine_.find("cpu:0")};
};

}  // namespace

TEST_F(convolution_families, of_one_to_three_dimensions_give_what_f64_gives) {
    for (int round = 0; round < 200; ++round) {
        SCOPED_TRACE(round);
        const bool is_transposed = any(0, 2) == 0;
        const std::size_t rank = any(1, 3), groups = any(0, 1) == 0 ? 1 : any(2, 5), channels = any(1, 5),
                          filters = any(1, any(0, 1) == 0 ? 3 : 19);
        std::vector<std::size_t> image{any(1, 2), groups * channels},
            filter{is_transposed ? groups * channels : groups * filters, is_transposed ? filters : channels};
        std::vector<std::int64_t> strides, dilations, begins, ends;
        for (std::size_t d = 0; d < rank; ++d) {
            const std::size_t w = any(1, 4), dilation = any(0, 2) == 0 ? any(2, 3) : 1, reach = (w - 1) * dilation + 1;
            image.push_back(reach + any(0, d + 1 == rank && any(0, 3) == 0 ? 90 : 7));
            filter.push_back(w);
            strides.push_back(static_cast<std::int64_t>(any(1, 3)));
            dilations.push_back(static_cast<std::int64_t>(dilation));
            begins.push_back(static_cast<std::int64_t>(any(0, is_transposed ? reach / 3 : 3)));
            ends.push_back(static_cast<std::int64_t>(any(0, is_transposed ? reach / 3 : 3)));
        }
        begins.insert(begins.end(), ends.begin(), ends.end());
        const attributes with{{"group", whole(static_cast<std::int64_t>(groups))},
                              {"strides", wholes(strides)},
                              {"dilations", wholes(dilations)},
                              {"pads", wholes(begins)}};
        SCOPED_TRACE((is_transposed ? "transposed, " : "") + std::to_string(rank) + " dimensions, " +
                     std::to_string(groups) + " groups, image " + to_string(std::span<const std::size_t>(image)) +
                     ", filter " + to_string(std::span<const std::size_t>(filter)));
        // Numbers that are not finite: where the library does not compute them, which multiplies them by zeros around.
        const bool is_ours = rank == 3 || (!is_transposed && groups > 1 && channels <= 4);
        expect_as_in_f64(is_transposed ? "ConvTranspose" : "Conv", image, filter, groups * filters, with,
                         is_ours && any(0, 2) == 0);
    }
}

TEST_F(convolution_families, loops_of_each_unit_add_products_up) {
    for (const operators::convolution_loops* const loops : operators::known_convolution_loops()) {
        for (const std::size_t count : {1u, 5u, 16u, 31u, 64u, 77u}) {
            const std::size_t taps = any(1, 12), together = loops->together;
            const std::vector<float> x = numbers({count + 100}, false), weights = numbers({taps * together}, false),
                                     bias = numbers({together}, false);
            std::vector<std::size_t> places(taps);
            for (std::size_t& each : places) each = any(0, 80);
            std::vector<float> y(together * count), one(count);
            loops->of_several(x.data(), places.data(), weights.data(), taps, bias.data(), y.data(), count, count);
            loops->of_one(x.data(), places.data(), weights.data(), taps, bias[0], one.data(), count);
            for (std::size_t o = 0; o < count; ++o) {
                for (std::size_t f = 0; f < together; ++f) {
                    double sum = static_cast<double>(bias[f]);
                    for (std::size_t t = 0; t < taps; ++t)
                        sum += static_cast<double>(x[places[t] + o]) * static_cast<double>(weights[t * together + f]);
                    EXPECT_NEAR(static_cast<double>(y[f * count + o]), sum, 1e-4);
                }
                double sum = static_cast<double>(bias[0]);
                for (std::size_t t = 0; t < taps; ++t)
                    sum += static_cast<double>(x[places[t] + o]) * static_cast<double>(weights[t]);
                EXPECT_NEAR(static_cast<double>(one[o]), sum, 1e-4);
            }
        }
    }
}

}  // namespace sluice::nn::convolution_families_tests
