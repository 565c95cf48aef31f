// SPDX-License-Identifier: Apache-2.0
// Vectors of 16 numbers, for fused_mlp_loops.hpp, whose rules hold here too.
#pragma once

#include <math.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "sluice/kernels/activation.hpp"

namespace sluice::kernels {
namespace {

using panel __attribute__((vector_size(64))) = float;                    // a whole panel's row
using loose_panel __attribute__((vector_size(64), aligned(4))) = float;  // wherever it is

// Where a tile is: its first row and panel.
struct tile_place {
    const float* x;
    std::size_t x_stride;
    const float* weight;
    const float* bias;
    std::size_t in;
    float* out;
    std::size_t out_stride;
    std::size_t last_columns;  // of the last panel: 16 but at the end of a layer
    float floor;               // 0 with relu, else -infinity
};
using tile_function = void (*)(const tile_place& at);

// As activated<activation::relu>, if the floor is 0: NaN stays NaN. With -infinity nothing changes. (Vectors are no
// results: the calling convention for them depends on the unit.)
[[gnu::always_inline]] inline void raise_to(const panel& floor, panel& x) {
#if defined(__AVX512F__)
    // Of two numbers of which one is NaN it gives the second. (g++ 12 warns of the form without a mask.)
    x = reinterpret_cast<panel>(
        _mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(floor), reinterpret_cast<__m512>(x)));
#else
    x = x < floor ? floor : x;
#endif
}

// The first columns of a panel's row. A load sets the other columns to 0.
[[gnu::always_inline]] inline void store_columns(const panel& from, std::size_t columns, float* to) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << columns) - 1), reinterpret_cast<__m512>(from));
#else
    for (std::size_t c = 0; c < columns; ++c) to[c] = from[c];
#endif
}

[[gnu::always_inline]] inline void load_columns(const float* from, std::size_t columns, panel& to) {
#if defined(__AVX512F__)
    to = reinterpret_cast<panel>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << columns) - 1), from));
#else
    to = panel{};
    for (std::size_t c = 0; c < columns; ++c) to[c] = from[c];
#endif
}

// Always in the same order.
[[gnu::always_inline]] inline float sum_of(const panel& x) {
    const auto eight = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto four =
        __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
    const auto two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1);
    return two[0] + two[1];
}

[[gnu::always_inline]] inline float floor_of(activation after) { return after == activation::relu ? 0 : -INFINITY; }

// Calls the body with 0 to Count - 1, as constants: so an array stays in registers where a compiler would not unroll
// the loop.
template <int... I, typename Body>
[[gnu::always_inline]] inline void for_each_constant(std::integer_sequence<int, I...>, const Body& body) {
    (body(std::integral_constant<int, I>()), ...);
}
template <int Count, typename Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
    for_each_constant(std::make_integer_sequence<int, Count>(), body);
}

}  // namespace
}  // namespace sluice::kernels
