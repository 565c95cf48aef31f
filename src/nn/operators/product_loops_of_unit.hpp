// SPDX-License-Identifier: Apache-2.0
// The loops of product_loops.hpp, for a file that is compiled for one kind of vector unit and includes this once.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>

#include "kernels/add_product.hpp"
#include "nn/operators/product_loops.hpp"

namespace sluice::nn::operators {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t product_lane_bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t product_lane_bytes = 32;
#else
constexpr std::size_t product_lane_bytes = 16;
#endif
constexpr std::size_t product_lane_numbers = product_lane_bytes / sizeof(float), product_lanes = 2;
constexpr std::size_t product_width = product_lanes * product_lane_numbers;
using product_lane __attribute__((vector_size(product_lane_bytes))) = float;
using loose_product_lane __attribute__((vector_size(product_lane_bytes), aligned(4))) = float;

// Two vectors for each row and one for each factor fit into the 16 registers of AVX2.
constexpr std::size_t product_rows = 6;

// Sums stay in registers: no element of one is named.
template <std::size_t Rows>
void multiply_rows(const product_panel& of, const float* a, float* y) {
    product_lane sums[Rows][product_lanes] = {};
    float row[product_width] = {};
    if (of.adds) {
        for (std::size_t r = 0; r < Rows; ++r) {
            for (std::size_t c = 0; c < of.columns; ++c) row[c] = y[r * of.y_row + c * of.y_column];
            for (std::size_t v = 0; v < product_lanes; ++v)
                sums[r][v] = *reinterpret_cast<const loose_product_lane*>(row + v * product_lane_numbers);
        }
    }
    const float* b = of.b;
    for (std::size_t k = 0; k < of.depth; ++k, b += of.b_inner, a += of.a_inner) {
        product_lane right[product_lanes];
        for (std::size_t v = 0; v < product_lanes; ++v)
            right[v] = *reinterpret_cast<const loose_product_lane*>(b + v * product_lane_numbers);
        for (std::size_t r = 0; r < Rows; ++r)
            for (std::size_t v = 0; v < product_lanes; ++v) kernels::add_product(sums[r][v], a[r * of.a_row], right[v]);
    }
    const bool is_whole = of.y_column == 1 && of.columns == product_width;
    for (std::size_t r = 0; r < Rows; ++r) {
        float* const to = y + r * of.y_row;
        float* const made = is_whole ? to : row;
        for (std::size_t v = 0; v < product_lanes; ++v)
            *reinterpret_cast<loose_product_lane*>(made + v * product_lane_numbers) = sums[r][v];
        for (std::size_t c = 0; !is_whole && c < of.columns; ++c) to[c * of.y_column] = row[c];
    }
}

void multiply_panel(const product_panel& of) noexcept {
    std::size_t row = 0;
    for (; row + product_rows <= of.rows; row += product_rows)
        multiply_rows<product_rows>(of, of.a + row * of.a_row, of.y + row * of.y_row);
    const float* const a = of.a + row * of.a_row;
    float* const y = of.y + row * of.y_row;
    switch (of.rows - row) {
        case 1: return multiply_rows<1>(of, a, y);
        case 2: return multiply_rows<2>(of, a, y);
        case 3: return multiply_rows<3>(of, a, y);
        case 4: return multiply_rows<4>(of, a, y);
        case 5: return multiply_rows<5>(of, a, y);
        default: return;
    }
}

static_assert(product_width <= product_loops::most_width);
constexpr product_loops product_loops_of_this_unit = {product_width, &multiply_panel};

}  // namespace
}  // namespace sluice::nn::operators
