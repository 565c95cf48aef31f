// SPDX-License-Identifier: Apache-2.0
// The loops of convolution_loops.hpp, for a file that is compiled for one kind of vector unit and includes this once.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>

#include "kernels/add_product.hpp"
#include "nn/operators/convolution_loops.hpp"

namespace sluice::nn::operators {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t output_lane_bytes = 64, filters_together = 8;
#elif defined(__AVX2__)
constexpr std::size_t output_lane_bytes = 32, filters_together = 4;
#else
constexpr std::size_t output_lane_bytes = 16, filters_together = 4;
#endif
constexpr std::size_t outputs_of_lane = output_lane_bytes / sizeof(float);
using output_lane __attribute__((vector_size(output_lane_bytes))) = float;
using loose_output_lane __attribute__((vector_size(output_lane_bytes), aligned(4))) = float;

// Lanes * outputs_of_lane outputs of some filters, from o on. Sums stay in registers.
template <std::size_t Filters, std::size_t Lanes>
[[gnu::always_inline]] inline void sum_lanes(const float* x, const std::size_t* places, const float* weights,
                                             std::size_t taps, const float* bias, float* y, std::size_t apart,
                                             std::size_t o) {
    output_lane sums[Filters][Lanes];
    for (std::size_t f = 0; f < Filters; ++f)
        for (std::size_t v = 0; v < Lanes; ++v) sums[f][v] = output_lane{} + bias[f];
    for (std::size_t t = 0; t < taps; ++t) {
        output_lane values[Lanes];
        for (std::size_t v = 0; v < Lanes; ++v)
            values[v] = *reinterpret_cast<const loose_output_lane*>(x + places[t] + o + v * outputs_of_lane);
        for (std::size_t f = 0; f < Filters; ++f) {
            const output_lane weight = weights[t * Filters + f] - output_lane{};
            for (std::size_t v = 0; v < Lanes; ++v) kernels::add_product(sums[f][v], values[v], weight);
        }
    }
    for (std::size_t f = 0; f < Filters; ++f)
        for (std::size_t v = 0; v < Lanes; ++v)
            *reinterpret_cast<loose_output_lane*>(y + f * apart + o + v * outputs_of_lane) = sums[f][v];
}

// The last outputs, fewer than a lane has: x has as many elements as a lane reads, and y has not.
template <std::size_t Filters>
void sum_rest(const float* x, const std::size_t* places, const float* weights, std::size_t taps, const float* bias,
              float* y, std::size_t apart, std::size_t o, std::size_t count) {
    float made[Filters * outputs_of_lane];
    sum_lanes<Filters, 1>(x + o, places, weights, taps, bias, made, outputs_of_lane, 0);
    for (std::size_t f = 0; f < Filters; ++f)
        for (std::size_t i = o; i < count; ++i) y[f * apart + i] = made[f * outputs_of_lane + (i - o)];
}

template <std::size_t Filters, std::size_t Lanes>
void sum_row(const float* x, const std::size_t* places, const float* weights, std::size_t taps, const float* bias,
             float* y, std::size_t apart, std::size_t count) {
    std::size_t o = 0;
    for (; o + Lanes * outputs_of_lane <= count; o += Lanes * outputs_of_lane)
        sum_lanes<Filters, Lanes>(x, places, weights, taps, bias, y, apart, o);
    for (; o + outputs_of_lane <= count; o += outputs_of_lane)
        sum_lanes<Filters, 1>(x, places, weights, taps, bias, y, apart, o);
    if (o < count) sum_rest<Filters>(x, places, weights, taps, bias, y, apart, o, count);
}

void rows_of_several(const float* x, const std::size_t* places, const float* weights, std::size_t taps,
                     const float* bias, float* y, std::size_t apart, std::size_t count) noexcept {
    sum_row<filters_together, 2>(x, places, weights, taps, bias, y, apart, count);
}
void row_of_one(const float* x, const std::size_t* places, const float* weights, std::size_t taps, float bias, float* y,
                std::size_t count) noexcept {
    sum_row<1, 4>(x, places, weights, taps, &bias, y, 0, count);
}

constexpr convolution_loops convolution_loops_of_this_unit = {filters_together, &rows_of_several, &row_of_one};

}  // namespace
}  // namespace sluice::nn::operators
