// SPDX-License-Identifier: Apache-2.0
// Rounded layers on a CPU with AVX2, FMA and F16C: 16 registers of 8 numbers.
#define SLUICE_LANES 8
#define SLUICE_TILE_ROWS 6
#define SLUICE_TILE_PANELS 1
#include "kernels/rounded_layers/rounded_loops.hpp"
#include "kernels/rounded_layers/rounded_tables.hpp"

namespace sluice::kernels {

rounded_table rounded_avx2() {
    constexpr auto bf16 = rounded_type::bf16, f16 = rounded_type::f16;
    return {{"f32 arithmetic with AVX2", false, sizeof(float), &round_float_rows<bf16>, &multiply_floats<bf16>},
            {"f32 arithmetic with AVX2", false, sizeof(float), &round_float_rows<f16>, &multiply_floats<f16>},
            {.name = "16-bit integer products with AVX2",
             .has_own_products = false,
             .element_bytes = 1,
             .round_rows = &round_integer_rows,
             .multiply = &multiply_integers,
             .widen = &widen_range,
             .quantize = &quantize_numbers}};
}

}  // namespace sluice::kernels
