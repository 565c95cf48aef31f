// SPDX-License-Identifier: Apache-2.0
// Rounded layers on a CPU with AVX-512-BF16: an instruction multiplies 32 pairs of bf16 and adds them to 16 floats.
#define SLUICE_LANES 16
#define SLUICE_TILE_ROWS 12
#define SLUICE_TILE_PANELS 2
#include "kernels/rounded_layers/rounded_loops.hpp"
#include "kernels/rounded_layers/rounded_tables.hpp"

namespace sluice::kernels {
namespace {

template <int Rows, int Panels>
struct bf16_tile {
    static void run(const rounded_part& of, std::size_t row, std::size_t panel) {
        constexpr std::size_t group_bytes = rounded_panel * 4;
        const std::byte* const weights = of.weights + panel * of.groups * group_bytes;
        __m512 sum[Rows][Panels];
        for (int p = 0; p < Panels; ++p) {
            const __m512 start = _mm512_loadu_ps(of.biases + (panel + static_cast<std::size_t>(p)) * 16);
            for (int r = 0; r < Rows; ++r) sum[r][p] = start;
        }
        const std::byte* const x = of.rows + row * of.row_bytes;
        for (std::size_t k = 0; k < of.groups; ++k) {
            __m512i w[Panels];
            for (int p = 0; p < Panels; ++p)
                w[p] = _mm512_loadu_si512(weights + (static_cast<std::size_t>(p) * of.groups + k) * group_bytes);
            for (int r = 0; r < Rows; ++r) {
                std::int32_t pair;
                memcpy(&pair, x + static_cast<std::size_t>(r) * of.row_bytes + 4 * k, sizeof(pair));
                const __m512i each = _mm512_set1_epi32(pair);
                for (int p = 0; p < Panels; ++p)
                    sum[r][p] = _mm512_dpbf16_ps(sum[r][p], (__m512bh)each, (__m512bh)w[p]);
            }
        }
        for (int r = 0; r < Rows; ++r) {
            for (int p = 0; p < Panels; ++p) {
                _mm512_storeu_ps(of.out + (row + static_cast<std::size_t>(r)) * of.out_stride +
                                     (panel + static_cast<std::size_t>(p)) * 16,
                                 sum[r][p]);
            }
        }
    }
};

void multiply_bf16(const rounded_part& part) {
    multiply_in_tiles<bf16_tile, SLUICE_TILE_ROWS, SLUICE_TILE_PANELS>(part);
    activate_part(part);
}

void round_rows(const float* x, std::size_t x_stride, std::size_t count, std::size_t in, std::size_t padded,
                std::byte* rows, row_quantity*) {
    for (std::size_t r = 0; r < count; ++r) {
        const float* const from = x + r * x_stride;
        auto* const to = reinterpret_cast<std::uint16_t*>(rows) + r * padded;
        for (std::size_t k = 0; k < padded; k += 16) {
            const auto some = [&](std::size_t end) {
                return static_cast<__mmask16>(end >= k + 16 ? 0xffffu : end > k ? (1u << (end - k)) - 1 : 0u);
            };
            const __m512 wide = _mm512_maskz_loadu_ps(some(in), from + k);
            _mm256_mask_storeu_epi16(to + k, some(padded), (__m256i)_mm512_cvtneps_pbh(wide));
        }
    }
}

}  // namespace

rounded_kernel rounded_avx512_bf16() { return {"AVX-512-BF16", true, 2, &round_rows, &multiply_bf16}; }

}  // namespace sluice::kernels
