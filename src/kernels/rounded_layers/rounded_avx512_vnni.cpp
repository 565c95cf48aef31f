// SPDX-License-Identifier: Apache-2.0
// Rounded layers on a CPU with AVX-512-VNNI: an instruction multiplies 64 pairs of 8-bit integers and adds them to 16
// integers of 32 bits.
#define SLUICE_LANES 16
#define SLUICE_TILE_ROWS 12
#define SLUICE_TILE_PANELS 2
#include "kernels/rounded_layers/rounded_loops.hpp"
#include "kernels/rounded_layers/rounded_tables.hpp"

namespace sluice::kernels {
namespace {

template <int Rows, int Panels>
struct int8_tile {
    static void run(const rounded_part& of, std::size_t row, std::size_t panel) {
        constexpr std::size_t group_bytes = rounded_panel * 4;
        const std::byte* const weights = of.weights + panel * of.groups * group_bytes;
        integers sum[Rows][Panels];
        for (int p = 0; p < Panels; ++p)
            for (int r = 0; r < Rows; ++r) sum[r][p] = integers{};
        const std::byte* const x = of.rows + row * of.row_bytes;
        for (std::size_t k = 0; k < of.groups; ++k) {
            __m512i w[Panels];
            for (int p = 0; p < Panels; ++p)
                w[p] = _mm512_loadu_si512(weights + (static_cast<std::size_t>(p) * of.groups + k) * group_bytes);
            for (int r = 0; r < Rows; ++r) {
                std::int32_t four;
                memcpy(&four, x + static_cast<std::size_t>(r) * of.row_bytes + 4 * k, sizeof(four));
                const __m512i each = _mm512_set1_epi32(four);
                for (int p = 0; p < Panels; ++p)
                    sum[r][p] = (integers)_mm512_dpbusd_epi32((__m512i)sum[r][p], each, w[p]);
            }
        }
        for (int r = 0; r < Rows; ++r) {
            for (int p = 0; p < Panels; ++p) {
                *reinterpret_cast<loose_integers*>(of.out + (row + static_cast<std::size_t>(r)) * of.out_stride +
                                                   (panel + static_cast<std::size_t>(p)) * 16) = sum[r][p];
            }
        }
    }
};

void multiply_int8(const rounded_part& part) {
    multiply_in_tiles<int8_tile, SLUICE_TILE_ROWS, SLUICE_TILE_PANELS>(part);
    finish_integers(part);
    activate_part(part);
}

}  // namespace

rounded_kernel rounded_avx512_vnni() {
    return {.name = "AVX-512-VNNI",
            .has_own_products = true,
            .element_bytes = 1,
            .round_rows = &round_integer_rows,
            .multiply = &multiply_int8,
            .widen = &widen_range,
            .quantize = &quantize_numbers};
}

}  // namespace sluice::kernels
