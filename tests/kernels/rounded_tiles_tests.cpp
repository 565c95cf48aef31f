// SPDX-License-Identifier: Apache-2.0
// The loop over tiles, for all sizes around the edges of tiles, bit by bit: with emulated tiles on every processor, and
// with AMX where the processor has it and the system permits it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "emulated_tiles.hpp"
#include "kernels/rounded_layers/quantized_product.hpp"
#include "kernels/rounded_layers/rounded_layers.hpp"
#include "kernels/rounded_layers/tile_permission.hpp"
#include "sluice/base/half.hpp"

namespace sluice::kernels::rounded_tiles_tests {
namespace {

constexpr rounded_type tile_types[] = {rounded_type::bf16, rounded_type::int8};

std::vector<float> random_numbers(std::size_t count, float scale, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> any(0, scale);
    std::vector<float> made(count);
    for (float& each : made) each = any(generator);
    return made;
}

mlp_layer random_layer(std::size_t in, std::size_t out, float scale = 0.3f) {
    return {in, out, random_numbers(in * out, scale, 3), random_numbers(out, scale, 4), activation::none};
}

// Nothing may depend on what is in the scratch memory before.
std::vector<float> run(const rounded_kernel& with, rounded_type type, const std::vector<mlp_layer>& of,
                       std::span<const float> x) {
    const std::vector<std::byte> image = rounded_image(type, of);
    const rounded_form form = form_of(type, of);
    const std::size_t rows = x.size() / of.front().in_features;
    std::vector<std::byte> scratch(rounded_scratch_bytes(form, with), std::byte{0xff});
    std::vector<float> out(rows * of.back().out_features);
    run_rounded_layers({x.data(), out.data(), image.data(), scratch.data(), &with, rows, form});
    return out;
}

// One output in the order of tiles: the products of 32 inputs at a time, even and odd ones apart.
float in_order_of_tiles(std::span<const float> x, std::span<const float> w, float bias) {
    float sum = bias;
    for (std::size_t first = 0; first < x.size(); first += 32) {
        float apart[2] = {0, 0};
        for (std::size_t k = first; k < std::min(first + 32, x.size()); ++k)
            apart[k % 2] = tile_fused_add(float{bfloat16(x[k])}, float{bfloat16(w[k])}, apart[k % 2]);
        sum = tile_fused_add(1, tile_fused_add(1, apart[0], apart[1]), sum);
    }
    return sum;
}

void expect_bits_of_bf16(const rounded_kernel& with, std::size_t rows, std::size_t in, std::size_t out,
                         float scale = 1) {
    const mlp_layer of = random_layer(in, out, 0.3f * scale);
    const std::vector<float> x = random_numbers(rows * in, scale, 5);
    const std::vector<float> y = run(with, rounded_type::bf16, {of}, x);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < out; ++c) {
            const float expected = in_order_of_tiles(std::span(x).subspan(r * in, in),
                                                     std::span(of.weight).subspan(c * in, in), of.bias[c]);
            ASSERT_EQ(std::bit_cast<std::uint32_t>(y[r * out + c] + 0.0f),
                      std::bit_cast<std::uint32_t>(expected + 0.0f))
                << "row " << r << ", column " << c << " of " << rows << " x " << in << " x " << out << ": "
                << y[r * out + c] << " is not " << expected;
        }
    }
}

// Inputs that are the integers 0 to 255 of the row, and weights that are those of the column.
void expect_sums_of_int8(const rounded_kernel& with, std::size_t rows, std::size_t in, std::size_t out) {
    std::mt19937 generator(7);
    std::vector<float> x(rows * in), exact(rows * out);
    mlp_layer of{in, out, std::vector<float>(in * out), random_numbers(out, 10, 4), activation::none};
    for (float& each : x) each = static_cast<float>(generator() % 256);
    for (float& each : of.weight) each = static_cast<float>(static_cast<int>(generator() % 255) - 127);
    for (std::size_t r = 0; r < rows; ++r) x[r * in] = 255;         // the scale is 1
    for (std::size_t c = 0; c < out; ++c) of.weight[c * in] = 127;  // the step is 1
    const std::vector<float> y = run(with, rounded_type::int8, {of}, x);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < out; ++c) {
            double sum = 0;  // exact
            for (std::size_t k = 0; k < in; ++k) sum += double{x[r * in + k]} * of.weight[c * in + k];
            // One rounding, or two where the processor has no fused addition.
            ASSERT_NEAR(y[r * out + c], sum + of.bias[c], 1.3e-7 * (std::abs(sum) + std::abs(of.bias[c])))
                << "row " << r << ", column " << c << " of " << rows << " x " << in << " x " << out;
        }
    }
}

void expect_size(const rounded_kernel& with, rounded_type type, std::size_t rows, std::size_t in, std::size_t out) {
    type == rounded_type::int8 ? expect_sums_of_int8(with, rows, in, out) : expect_bits_of_bf16(with, rows, in, out);
}

void expect_all_sizes(const rounded_kernel& with, rounded_type type) {
    const auto failed = [] { return ::testing::Test::HasFatalFailure(); };
    for (std::size_t rows = 1; rows <= 40 && !failed(); ++rows)
        for (const std::size_t in : {1, 31, 32, 33, 64, 65, 100})
            for (const std::size_t out : {1, 16, 17, 50}) expect_size(with, type, rows, in, out);
    for (std::size_t in = 1; in <= 100 && !failed(); ++in)
        for (const std::size_t rows : {1, 16, 17, 33})
            for (const std::size_t out : {17, 50}) expect_size(with, type, rows, in, out);
    for (std::size_t out = 1; out <= 50 && !failed(); ++out)
        for (const std::size_t rows : {1, 16, 17, 33})
            for (const std::size_t in : {33, 65}) expect_size(with, type, rows, in, out);
    // More panels than are computed at once, and whole tiles with a rest.
    for (const std::size_t rows : {1, 8, 64, 130}) expect_size(with, type, rows, 784, 100);
}

// What follows the rows of the outputs stays, and nothing that follows those of the inputs is used.
void expect_no_other_rows(const rounded_kernel& with, rounded_type type) {
    const mlp_layer of = random_layer(70, 50);
    const std::vector<std::byte> image = rounded_image(type, {of});
    const rounded_layer_places at = places_of(type, 70, 50);
    const std::size_t columns = panels_of_columns(50) * rounded_panel, row_bytes = row_bytes_of(with, type, 70);
    for (std::size_t rows = 1; rows <= 130; ++rows) {
        const std::vector<float> x = random_numbers(rows * 70, 1, 5);
        std::vector<std::byte> inputs(rows * row_bytes);
        std::vector<row_quantity> quantities(rows);
        with.round_rows(x.data(), 70, rows, 70, row_bytes / with.element_bytes, inputs.data(), quantities.data());
        std::vector<float> out((rows + 16) * columns, -1e30f);
        with.multiply({.rows = inputs.data(),
                       .row_bytes = row_bytes,
                       .count = rows,
                       .weights = image.data(),
                       .groups = padded_inputs(type, 70) / group_of(type),
                       .panels = columns / rounded_panel,
                       .biases = reinterpret_cast<const float*>(image.data() + at.biases),
                       .steps = reinterpret_cast<const float*>(image.data() + at.steps),
                       .column_sums = reinterpret_cast<const std::int32_t*>(image.data() + at.column_sums),
                       .quantities = quantities.data(),
                       .after = activation::none,
                       .out = out.data(),
                       .out_stride = columns});
        const std::size_t written = rows * columns;
        const auto untouched = std::count(out.begin() + static_cast<std::ptrdiff_t>(written), out.end(), -1e30f);
        ASSERT_EQ(static_cast<std::size_t>(untouched), 16 * columns) << rows << " rows";
        ASSERT_EQ(std::count(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(written), -1e30f), 0);
    }
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& of) {
    std::vector<std::uint32_t> made(of.size());
    std::ranges::transform(of, made.begin(), [](float each) { return std::bit_cast<std::uint32_t>(each); });
    return made;
}

// All layers at once and one after the other have the same bits. Inputs are rounded once, so numbers that are not
// finite and subnormal ones count as in a layer of its own.
void expect_layers_as_alone(const rounded_kernel& with, rounded_type type) {
    for (const activation after :
         {activation::none, activation::relu, activation::gelu, activation::sigmoid, activation::tanh}) {
        for (const auto& widths :
             std::vector<std::vector<std::size_t>>{{70, 50, 10}, {33, 16, 33, 1}, {5, 80, 17, 48, 3}}) {
            std::vector<mlp_layer> layers;
            for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
                layers.push_back(random_layer(widths[i], widths[i + 1]));
                layers.back().after = after;
            }
            for (const std::size_t rows : {1, 2, 15, 16, 17, 33, 48, 130}) {
                std::vector<float> x = random_numbers(rows * widths.front(), 1, 6);
                x[x.size() / 2] = std::numeric_limits<float>::infinity();
                x.back() = std::numeric_limits<float>::quiet_NaN();
                x.front() = std::numeric_limits<float>::denorm_min();
                std::vector<float> expected = x;
                for (const mlp_layer& each : layers) expected = run(with, type, {each}, expected);
                ASSERT_EQ(bits_of(run(with, type, layers, x)), bits_of(expected))
                    << to_string(after) << ", " << rows << " rows of " << widths.size() - 1 << " layers";
            }
        }
    }
}

const rounded_kernel* amx_of(rounded_type type) {
    const rounded_kernel& first = rounded_kernels(type).front();
    return first.has_tiles ? &first : nullptr;
}
std::string why_no_amx() {
    const std::string& refused = permission_for_tiles().refused;
    return "no AMX" + (refused.empty() ? std::string() : ": " + refused);
}

// Bytes by bytes in two convolutions and a product.
std::vector<float> quantized(const rounded_kernel& with, const convolution_form& form, io::dtype x_type) {
    std::mt19937 generator(9);
    const std::size_t filters = form.filters / form.groups;
    std::vector<integer_layer> layers;
    for (std::size_t g = 0; g < form.groups; ++g) {
        integer_layer made{form.products(), filters, std::vector<std::int8_t>(form.products() * filters),
                           std::vector<float>(filters, 0.01f), random_numbers(filters, 3, static_cast<unsigned>(g))};
        for (std::int8_t& each : made.weight) each = static_cast<std::int8_t>(generator());
        layers.push_back(std::move(made));
    }
    std::vector<std::byte> x(form.images * form.channels * form.height * form.width);
    for (std::byte& each : x) each = static_cast<std::byte>(generator());
    std::vector<float> y(form.images * form.filters * form.positions());
    const std::vector<std::byte> image = integer_image(layers);
    std::vector<std::byte> scratch(quantized_scratch_bytes(form), std::byte{0xff});
    quantized_form numbers{.x_scale = 0.02f, .x_zero = 11, .x_type = x_type, .y_type = io::dtype::f32};
    run_quantized_product(
        {x.data(), reinterpret_cast<std::byte*>(y.data()), image.data(), scratch.data(), &with, form, numbers});
    return y;
}

void expect_quantized_products(const rounded_kernel& with) {
    const rounded_kernel& simple = rounded_kernels(rounded_type::int8).back();
    for (const convolution_form& form : {convolution_form{2, 3, 9, 8, 10, 3, 3, 9, 8, {1, 1}, {1, 1}, {1, 1}, 1},
                                         convolution_form{1, 40, 11, 7, 36, 5, 2, 3, 3, {3, 2}, {2, 0}, {1, 1}, 2},
                                         convolution_form{70, 100, 1, 1, 33, 1, 1, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1}}) {
        for (const io::dtype type : {io::dtype::u8, io::dtype::i8}) {
            const std::vector<float> y = quantized(with, form, type), expected = quantized(simple, form, type);
            for (std::size_t i = 0; i < y.size(); ++i)
                ASSERT_NEAR(y[i], expected[i], 1e-6f * (20 + std::abs(expected[i]))) << "element " << i;
        }
    }
}

}  // namespace

TEST(rounded_tiles, of_emulated_tiles_have_the_sums_of_the_order_of_tiles) {
    for (const rounded_type type : tile_types) {
        expect_all_sizes(emulated_tile_kernel(type), type);
        expect_no_other_rows(emulated_tile_kernel(type), type);
        expect_layers_as_alone(emulated_tile_kernel(type), type);
    }
    expect_bits_of_bf16(emulated_tile_kernel(rounded_type::bf16), 20, 70, 20, 1e-19f);
    expect_quantized_products(emulated_tile_kernel(rounded_type::int8));
}

TEST(rounded_tiles, of_AMX_have_the_sums_of_the_order_of_tiles_in_bf16) {
    const rounded_kernel* const with = amx_of(rounded_type::bf16);
    if (with == nullptr) GTEST_SKIP() << why_no_amx();
    EXPECT_EQ(with->name, "AMX-BF16");
    expect_all_sizes(*with, rounded_type::bf16);
    expect_no_other_rows(*with, rounded_type::bf16);
    expect_layers_as_alone(*with, rounded_type::bf16);
    expect_bits_of_bf16(*with, 20, 70, 20, 1e-19f);  // sums of which many are too small, and 0 therefore
}

TEST(rounded_tiles, of_AMX_have_exact_sums_in_int8) {
    const rounded_kernel* const with = amx_of(rounded_type::int8);
    if (with == nullptr) GTEST_SKIP() << why_no_amx();
    EXPECT_EQ(with->name, "AMX-INT8");
    expect_all_sizes(*with, rounded_type::int8);
    expect_no_other_rows(*with, rounded_type::int8);
    expect_layers_as_alone(*with, rounded_type::int8);
    expect_quantized_products(*with);
}

TEST(rounded_tiles, of_AMX_are_switched_off_by_a_variable) {
    const tile_permission off = ask_for_tiles("1");
    EXPECT_FALSE(off.bf16 || off.int8);
    if (amx_of(rounded_type::bf16) == nullptr) GTEST_SKIP() << why_no_amx();
    EXPECT_EQ(off.refused, "SLUICE_NO_AMX is set");
    for (const char* const each : {static_cast<const char*>(nullptr), "", "0"}) {
        const tile_permission on = ask_for_tiles(each);
        EXPECT_TRUE(on.bf16 && on.refused.empty());
    }
}

TEST(rounded_tiles, have_rows_of_an_odd_number_of_lines) {
    for (const rounded_type type : tile_types) {
        const rounded_kernel with = emulated_tile_kernel(type);
        for (std::size_t in = 1; in < 5000; ++in) {
            const std::size_t bytes = row_bytes_of(with, type, in);
            ASSERT_TRUE(bytes % 128 == 64 && bytes >= in * with.element_bytes) << in;
        }
    }
}

}  // namespace sluice::kernels::rounded_tiles_tests
