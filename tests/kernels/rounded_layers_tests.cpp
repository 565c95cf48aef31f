// SPDX-License-Identifier: Apache-2.0
// Rounded layers: each kernel that this processor has, and those with emulated tiles, against sums in double of the
// same rounded factors.
#include "kernels/rounded_layers/rounded_layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulated_tiles.hpp"
#include "sluice/base/half.hpp"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels::rounded_layers_tests {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr rounded_type all_types[] = {rounded_type::bf16, rounded_type::f16, rounded_type::int8};

std::vector<float> random_numbers(std::size_t count, float scale, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> any(0, scale);
    std::vector<float> made(count);
    for (float& each : made) each = any(generator);
    return made;
}

mlp_layer layer(std::size_t in, std::size_t out, activation after, unsigned seed) {
    return {in, out, random_numbers(in * out, 0.3f, seed), random_numbers(out, 1, seed + 1), after};
}

float rounded(rounded_type type, float x) { return type == rounded_type::bf16 ? float{bfloat16(x)} : float{half(x)}; }

struct quantized {
    float scale = 0;
    int zero = 0;
    std::vector<int> numbers;  // of weights
};
// As the header says.
quantized row_in_integers(std::span<const float> x) {
    float low = 0, high = 0;
    for (const float each : x) {
        low = std::min(low, each);
        high = std::max(high, each);
    }
    quantized made{high / 255 - low / 255, 0, {}};
    made.zero = static_cast<int>(std::rint(-low / made.scale));
    return made;
}
quantized weights_in_integers(std::span<const float> w) {
    quantized made;
    for (const float each : w) made.scale = std::max(made.scale, std::abs(each));
    made.scale /= 127;
    for (const float each : w) made.numbers.push_back(static_cast<int>(std::rint(each / made.scale)));
    return made;
}

struct product {
    double value, magnitude;  // the sum, and that of the magnitudes
};
int in_integers(const quantized& as, float x) {
    return std::clamp(static_cast<int>(std::rint(x / as.scale)) + as.zero, 0, 255);
}
// With the scale and the zero point of `as`.
product multiplied_integers(const quantized& as, std::span<const float> x, std::span<const float> w) {
    const quantized column = weights_in_integers(w);
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) sum += (in_integers(as, x[k]) - as.zero) * column.numbers[k];
    sum *= double{as.scale} * column.scale;
    return {sum, std::abs(sum)};
}
product multiplied(rounded_type type, std::span<const float> x, std::span<const float> w) {
    if (type == rounded_type::int8) return multiplied_integers(row_in_integers(x), x, w);
    product made{0, 0};
    for (std::size_t k = 0; k < x.size(); ++k) {
        const double each = double{rounded(type, x[k])} * rounded(type, w[k]);
        made.value += each;
        made.magnitude += std::abs(each);
    }
    return made;
}

std::vector<float> run(const rounded_kernel& with, rounded_type type, const std::vector<mlp_layer>& layers,
                       const std::vector<float>& x) {
    const std::vector<std::byte> image = rounded_image(type, layers);
    const rounded_form form = form_of(type, layers);
    std::vector<std::byte> scratch(rounded_scratch_bytes(form, with));
    const std::size_t rows = x.size() / layers.front().in_features;
    std::vector<float> out(rows * layers.back().out_features, nan);
    run_rounded_layers({x.data(), out.data(), image.data(), scratch.data(), &with, rows, form});
    return out;
}

std::vector<rounded_kernel> all_kernels(rounded_type type) {
    const std::span<const rounded_kernel> here = rounded_kernels(type);
    std::vector<rounded_kernel> made(here.begin(), here.end());
    if (type != rounded_type::f16) made.push_back(emulated_tile_kernel(type));
    return made;
}

template <typename Function>
void for_each_kernel(const Function& function) {
    for (const rounded_type type : all_types) {
        for (const rounded_kernel& each : all_kernels(type)) {
            SCOPED_TRACE(std::string(each.name) + ", type " + std::to_string(static_cast<int>(type)));
            function(type, each);
        }
    }
}

void expect_product(rounded_type type, const rounded_kernel& with, std::size_t rows, const mlp_layer& of) {
    const std::vector<float> x = random_numbers(rows * of.in_features, 2, 7);
    const std::vector<float> y = run(with, type, {of}, x);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < of.out_features; ++c) {
            const product sum = multiplied(type, std::span(x).subspan(r * of.in_features, of.in_features),
                                           std::span(of.weight).subspan(c * of.in_features, of.in_features));
            const double bias = of.bias.empty() ? 0.0 : double{of.bias[c]};
            const float expected = activated(static_cast<float>(sum.value + bias), of.after);
            ASSERT_NEAR(y[r * of.out_features + c], expected, 1e-6 + 2e-6 * (sum.magnitude + std::abs(bias)))
                << "row " << r << ", column " << c << " of " << rows << " x " << of.in_features << " x "
                << of.out_features;
        }
    }
}

}  // namespace

TEST(rounded_layers, are_products_of_the_rounded_factors) {
    for_each_kernel([](rounded_type type, const rounded_kernel& with) {
        for (const std::size_t rows : {1, 2, 3, 4, 5, 8, 11, 12, 13, 31, 48, 49, 100})
            expect_product(type, with, rows, layer(21, 37, activation::none, 3));
        for (const std::size_t in : {1, 2, 3, 15, 16, 17, 64, 515})
            for (const std::size_t out : {1, 16, 17, 130})
                expect_product(type, with, 5, layer(in, out, activation::relu, 5));
        mlp_layer without_bias = layer(40, 20, activation::tanh, 9);
        without_bias.bias.clear();
        expect_product(type, with, 7, without_bias);
        expect_product(type, with, 7, layer(33, 65, activation::sigmoid, 11));
        expect_product(type, with, 7, layer(33, 65, activation::gelu, 13));
    });
}

TEST(rounded_layers, follow_each_other) {
    for_each_kernel([](rounded_type type, const rounded_kernel& with) {
        const std::vector<mlp_layer> layers{layer(20, 50, activation::relu, 1), layer(50, 7, activation::tanh, 2),
                                            layer(7, 33, activation::none, 3)};
        const std::vector<float> x = random_numbers(60 * 20, 1, 4);
        std::vector<float> one_by_one = x;
        for (const mlp_layer& each : layers) one_by_one = run(with, type, {each}, one_by_one);
        EXPECT_EQ(run(with, type, layers, x), one_by_one);
    });
}

TEST(rounded_layers, give_a_row_the_same_bits_whatever_the_other_rows_are) {
    for_each_kernel([](rounded_type type, const rounded_kernel& with) {
        const std::vector<mlp_layer> layers{layer(130, 200, activation::relu, 1), layer(200, 40, activation::none, 2)};
        const std::vector<float> x = random_numbers(150 * 130, 1, 4);  // more than go through the layers together
        const std::vector<float> all = run(with, type, layers, x);
        for (const std::size_t row : {0, 1, 47, 48, 100, 149}) {
            const auto from = x.begin() + static_cast<std::ptrdiff_t>(row * 130);
            const std::vector<float> alone = run(with, type, layers, {from, from + 130});
            EXPECT_TRUE(std::ranges::equal(alone, std::span(all).subspan(row * 40, 40))) << "row " << row;
        }
    });
}

TEST(rounded_layers, round_to_nearest_even_once) {
    std::vector<float> numbers{
        0,        -0.0f,       1,     1.0f + 0x1p-8f,  1.0f + 3 * 0x1p-9f, 1.0f + 0x1p-9f, 65504,    65519,
        -65520,   65536,       3e38f, 0x1p-14f,        infinity,           -infinity,      0x1p-15f, 0x1.8p-24f,
        0x1p-25f, -0x1.8p-25f, 0.1f,  1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-12f};
    for (const float each : random_numbers(1000, 100, 1)) numbers.push_back(each);
    const mlp_layer identity{1, 1, {1}, {}, activation::none};
    for (const rounded_type type : {rounded_type::bf16, rounded_type::f16}) {
        for (const rounded_kernel& with : all_kernels(type)) {
            const std::vector<float> y = run(with, type, {identity}, numbers);
            for (std::size_t i = 0; i < numbers.size(); ++i)
                EXPECT_EQ(y[i], rounded(type, numbers[i])) << with.name << ": " << numbers[i];
        }
    }
}

TEST(rounded_layers, keep_NaN_and_infinities_in_their_rows) {
    for_each_kernel([](rounded_type type, const rounded_kernel& with) {
        mlp_layer of{3, 2, {1, 0, 2, 1, 1, 1}, {0, 0}, activation::relu};
        const std::vector<float> y =
            run(with, type, {of}, {1, 2, 3, nan, 1, 1, infinity, 1, 1, -infinity, 1, infinity, 0, 0, 0, 1, 2, 3});
        EXPECT_NEAR(y[0], 7, 0.1);
        EXPECT_NEAR(y[1], 6, 0.1);
        EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3]));
        if (type == rounded_type::int8) {
            EXPECT_TRUE(std::isnan(y[4]) && std::isnan(y[5]));  // the whole row has no integers
        } else {
            EXPECT_EQ(y[4], infinity);
            EXPECT_EQ(y[5], infinity);
        }
        EXPECT_TRUE(std::isnan(y[6]) && std::isnan(y[7]));
        EXPECT_EQ(y[8], 0);
        EXPECT_EQ(y[9], 0);
        EXPECT_EQ(y[10], y[0]);
    });
}

TEST(rounded_layers, take_rows_of_zeros_of_one_number_and_of_any_scale) {
    for_each_kernel([](rounded_type type, const rounded_kernel& with) {
        const mlp_layer of = layer(64, 20, activation::none, 1);
        EXPECT_EQ(run(with, type, {of}, std::vector<float>(64)), of.bias);
        for (const float scale : {1e-3f, 1.0f, 1e4f, -7.0f}) {
            const std::vector<float> y = run(with, type, {of}, std::vector<float>(64, scale));
            for (std::size_t c = 0; c < 20; ++c) {
                double sum = 0, magnitude = 0;
                for (std::size_t k = 0; k < 64; ++k) {
                    sum += double{scale} * of.weight[c * 64 + k];
                    magnitude += std::abs(double{scale} * of.weight[c * 64 + k]);
                }
                EXPECT_NEAR(y[c], sum + of.bias[c], 0.012 * magnitude + 1e-5);
            }
        }
        if (type == rounded_type::f16) return;  // has no such numbers
        // Far from 1 in both directions; a row that is too small for a scale counts as zeros.
        mlp_layer small = of;
        small.bias.clear();
        for (const float scale : {1e-30f, 1e30f}) {
            std::vector<float> x = random_numbers(64, 1, 3);
            const std::vector<float> at_one = run(with, type, {small}, x);
            for (float& each : x) each *= scale;
            const std::vector<float> y = run(with, type, {small}, x);
            for (std::size_t c = 0; c < 20; ++c) EXPECT_NEAR(y[c] / scale, at_one[c], 0.05);
        }
        for (const float each : run(with, type, {small}, std::vector<float>(64, 1e-45f)))
            EXPECT_LT(std::abs(each), 1e-40f);
    });
}

TEST(rounded_layers, of_int8_do_not_overflow) {
    const std::size_t in = most_rounded_features;
    mlp_layer of{in, 2, std::vector<float>(2 * in, 1.0f), {}, activation::none};
    std::fill(of.weight.begin() + static_cast<std::ptrdiff_t>(in), of.weight.end(), -1.0f);
    for (const rounded_kernel& with : all_kernels(rounded_type::int8)) {
        for (const float each : {1.0f, -1.0f}) {
            const std::vector<float> y = run(with, rounded_type::int8, {of}, std::vector<float>(in, each));
            EXPECT_NEAR(y[0], each * static_cast<float>(in), 1) << with.name;
            EXPECT_NEAR(y[1], -each * static_cast<float>(in), 1) << with.name;
        }
    }
}

TEST(rounded_layers, say_which_weights_would_lose_more_than_the_rounding) {
    const auto why = [](rounded_type type, std::vector<float> weights) {
        const std::size_t count = weights.size();
        return std::string(why_not_rounded(type, {count, 1, std::move(weights), {}, activation::none}));
    };
    for (const rounded_type type : all_types) {
        EXPECT_EQ(why(type, {1, -2, 0, 0.001f}), "");
        EXPECT_EQ(why(type, {0, 0}), "");
        EXPECT_EQ(why(type, {1, nan}), "a weight is not finite");
        EXPECT_EQ(why(type, {1, -infinity}), "a weight is not finite");
    }
    EXPECT_EQ(why(rounded_type::f16, {70000, 1}), "a weight is too large for f16");
    EXPECT_EQ(why(rounded_type::bf16, {3.4e38f, 1}), "a weight is too large for bf16");
    EXPECT_EQ(why(rounded_type::f16, {1e-6f, 1e-7f}), "the weights are too small for f16");
    EXPECT_EQ(why(rounded_type::bf16, {1e-39f, 0}), "the weights are too small for bf16");
    EXPECT_EQ(why(rounded_type::int8, {1e-37f, 0}), "the weights of an output are too small for int8");
    EXPECT_EQ(why(rounded_type::int8, {3.4e38f, 1}), "");
    EXPECT_EQ(why_not_rounded(rounded_type::int8, {65'536, 1, std::vector<float>(65'536), {}, activation::none}),
              "it is wider than 65535");
}

namespace {

// The window of a group's planes, in the order height, width, channel.
std::vector<float> window_of(const convolution_form& form, std::span<const float> planes, std::size_t position) {
    std::vector<float> made;
    const auto signed_of = [](std::size_t x) { return static_cast<std::ptrdiff_t>(x); };
    const std::ptrdiff_t top =
                             signed_of(position / form.out_width * form.stride.height) - signed_of(form.padding.height),
                         left =
                             signed_of(position % form.out_width * form.stride.width) - signed_of(form.padding.width);
    for (std::size_t r = 0; r < form.filter_height; ++r) {
        for (std::size_t s = 0; s < form.filter_width; ++s) {
            const std::ptrdiff_t y = top + signed_of(r * form.dilation.height),
                                 x = left + signed_of(s * form.dilation.width);
            const bool is_inside = y >= 0 && x >= 0 && y < signed_of(form.height) && x < signed_of(form.width);
            for (std::size_t c = 0; c < form.channels / form.groups; ++c) {
                const std::size_t at = c * form.height * form.width +
                                       static_cast<std::size_t>(is_inside ? y : 0) * form.width +
                                       static_cast<std::size_t>(is_inside ? x : 0);
                made.push_back(is_inside ? planes[at] : 0.0f);
            }
        }
    }
    return made;
}

void expect_convolution(rounded_type type, const rounded_kernel& with, const convolution_form& form) {
    const std::size_t filters = form.filters / form.groups, channels = form.channels / form.groups;
    std::vector<mlp_layer> layers;
    for (std::size_t g = 0; g < form.groups; ++g)
        layers.push_back(layer(form.products(), filters, activation::none, static_cast<unsigned>(g)));
    const std::vector<std::byte> image = rounded_image(type, layers);
    const std::vector<float> x = random_numbers(form.images * form.channels * form.height * form.width, 1, 5);
    std::vector<float> y(form.images * form.filters * form.positions(), nan);
    std::vector<std::byte> scratch(rounded_convolution_scratch_bytes(form));
    run_rounded_convolution({x.data(), y.data(), image.data(), scratch.data(), &with, form, type});
    const std::size_t size = channels * form.height * form.width;
    for (std::size_t which = 0; which < form.images * form.groups; ++which) {
        const std::span planes = std::span(x).subspan(which * size, size);
        const mlp_layer& of = layers[which % form.groups];
        for (std::size_t at = 0; at < filters * form.positions(); ++at) {
            const std::size_t f = at / form.positions(), position = at % form.positions();
            const std::vector<float> window = window_of(form, planes, position);
            const std::span weights = std::span(of.weight).subspan(f * window.size(), window.size());
            const product sum = type == rounded_type::int8
                                    ? multiplied_integers(row_in_integers(planes), window, weights)
                                    : multiplied(type, window, weights);
            const double bias = of.bias[f];
            ASSERT_NEAR(y[which * filters * form.positions() + at], sum.value + bias,
                        1e-6 + 2e-6 * (sum.magnitude + std::abs(bias)))
                << "image and group " << which << ", filter " << f << ", position " << position;
        }
    }
}

}  // namespace

TEST(rounded_layers, convolve) {
    for_each_kernel([](rounded_type type, const rounded_kernel& with) {
        expect_convolution(type, with, {2, 3, 9, 8, 10, 3, 3, 9, 8, {1, 1}, {1, 1}, {1, 1}, 1});
        expect_convolution(type, with, {1, 4, 11, 7, 18, 5, 2, 3, 3, {3, 2}, {2, 0}, {1, 1}, 2});
        expect_convolution(type, with, {3, 2, 8, 8, 8, 3, 3, 6, 6, {1, 1}, {1, 1}, {2, 2}, 1});
        expect_convolution(type, with, {1, 40, 1, 60, 16, 1, 1, 1, 60, {1, 1}, {0, 0}, {1, 1}, 1});
        // Padding after the image, too, and an image of which the windows leave out the end.
        expect_convolution(type, with, {1, 2, 5, 6, 9, 2, 3, 4, 3, {2, 3}, {1, 2}, {1, 1}, 1});
        expect_convolution(type, with, {1, 2, 8, 9, 9, 2, 2, 2, 2, {3, 4}, {0, 0}, {1, 1}, 1});
    });
}

}  // namespace sluice::kernels::rounded_layers_tests
