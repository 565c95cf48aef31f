// SPDX-License-Identifier: Apache-2.0
#define SLUICE_LANES 4
#define SLUICE_TILE_ROWS 2
#define SLUICE_TILE_PANELS 1
#include "emulated_tiles.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "kernels/rounded_layers/rounded_loops.hpp"
//
#include "kernels/rounded_layers/rounded_tiles.hpp"
#include "sluice/base/half.hpp"

namespace sluice::kernels {
namespace {

float without_subnormal(float x) {
    return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

struct emulated_tile {
    std::size_t rows = 0, row_bytes = 0;
    std::array<std::array<std::byte, 64>, 16> data = {};

    template <typename T>
    T at(std::size_t row, std::size_t element) const {
        T made;
        std::memcpy(&made, data[row].data() + element * sizeof(T), sizeof(T));
        return made;
    }
    template <typename T>
    void set(std::size_t row, std::size_t element, T to) {
        std::memcpy(data[row].data() + element * sizeof(T), &to, sizeof(T));
    }
};

void require(bool holds, const char* what) {
    if (!holds) throw std::logic_error(what);
}

// TDPBF16PS: the even and the odd products are added apart, then both to the sum.
void add_products_of_bf16(emulated_tile& sums, const emulated_tile& a, const emulated_tile& b) {
    const auto number = [](const emulated_tile& of, std::size_t row, std::size_t element) {
        return float{bfloat16::from_bits(of.at<std::uint16_t>(row, element))};
    };
    for (std::size_t m = 0; m < sums.rows; ++m) {
        for (std::size_t n = 0; n < sums.row_bytes / 4; ++n) {
            float even = 0, odd = 0;
            for (std::size_t k = 0; k < a.row_bytes / 4; ++k) {
                even = tile_fused_add(number(a, m, 2 * k), number(b, k, 2 * n), even);
                odd = tile_fused_add(number(a, m, 2 * k + 1), number(b, k, 2 * n + 1), odd);
            }
            const float both = tile_fused_add(1, even, odd);
            sums.set(m, n, tile_fused_add(1, both, sums.at<float>(m, n)));
        }
    }
}

// TDPBUSD: unsigned bytes of a by signed bytes of b.
void add_products_of_bytes(emulated_tile& sums, const emulated_tile& a, const emulated_tile& b) {
    for (std::size_t m = 0; m < sums.rows; ++m) {
        for (std::size_t n = 0; n < sums.row_bytes / 4; ++n) {
            auto sum = sums.at<std::uint32_t>(m, n);
            for (std::size_t k = 0; k < a.row_bytes / 4; ++k) {
                for (std::size_t g = 0; g < 4; ++g) {
                    const int product = a.at<std::uint8_t>(m, 4 * k + g) * b.at<std::int8_t>(k, 4 * n + g);
                    sum += static_cast<std::uint32_t>(product);
                }
            }
            sums.set(m, n, sum);
        }
    }
}

template <rounded_type Type>
class emulated_tiles {
public:
    static constexpr rounded_type type = Type;

    emulated_tiles(std::size_t height, bool is_single) {
        require(height >= 1 && height <= 16, "a tile has 1 to 16 rows");
        for (std::size_t i = 0; i < tiles_.size(); ++i) {
            tiles_[i].row_bytes = 64;
            tiles_[i].rows = i > 5 || (i == 5 && is_single) ? 16 : height;
        }
    }
    template <int To>
    void load(const void* from, std::size_t stride) {
        emulated_tile& to = tiles_[To];
        to.data = {};
        for (std::size_t r = 0; r < to.rows; ++r)
            std::memcpy(to.data[r].data(), static_cast<const std::byte*>(from) + r * stride, to.row_bytes);
    }
    template <int From>
    void store(void* to, std::size_t stride) {
        const emulated_tile& from = tiles_[From];
        for (std::size_t r = 0; r < from.rows; ++r)
            std::memcpy(static_cast<std::byte*>(to) + r * stride, from.data[r].data(), from.row_bytes);
    }
    template <int To>
    void clear() {
        tiles_[To].data = {};
    }
    template <int To, int Inputs, int Weights>
    void multiply_add() {
        static_assert(To != Inputs && To != Weights && Inputs != Weights);
        emulated_tile& sums = tiles_[To];
        const emulated_tile &a = tiles_[Inputs], &b = tiles_[Weights];
        require(sums.rows == a.rows, "the sums have other rows than the inputs");
        require(sums.row_bytes == b.row_bytes, "the sums have other columns than the weights");
        require(a.row_bytes == 4 * b.rows, "the inputs have other groups than the weights");
        Type == rounded_type::int8 ? add_products_of_bytes(sums, a, b) : add_products_of_bf16(sums, a, b);
    }
    static void round(const float* from, std::byte* to) {
        for (std::size_t i = 0; i < rounded_panel; ++i) {
            const std::uint16_t bits = bfloat16(from[i]).bits();
            std::memcpy(to + i * 2, &bits, sizeof(bits));
        }
    }

private:
    std::array<emulated_tile, 8> tiles_;
};

void round_to_bf16(const float* x, std::size_t x_stride, std::size_t count, std::size_t in, std::size_t padded,
                   std::byte* rows, row_quantity*) {
    for (std::size_t r = 0; r < count; ++r) {
        for (std::size_t k = 0; k < padded; ++k) {
            const std::uint16_t bits = k < in ? bfloat16(x[r * x_stride + k]).bits() : std::uint16_t{0};
            std::memcpy(rows + (r * padded + k) * 2, &bits, sizeof(bits));
        }
    }
}

}  // namespace

float tile_fused_add(float a, float b, float to) {
    return without_subnormal(std::fma(without_subnormal(a), without_subnormal(b), without_subnormal(to)));
}

rounded_kernel emulated_tile_kernel(rounded_type type) {
    if (type == rounded_type::int8)
        return {"emulated AMX-INT8",
                true,
                1,
                &round_integer_rows,
                &multiply_with_tiles<emulated_tiles<rounded_type::int8>>,
                true,
                sharing_of_int8_tiles};
    return {
        "emulated AMX-BF16",   true, 2, &round_to_bf16, &multiply_with_tiles<emulated_tiles<rounded_type::bf16>>, true,
        sharing_of_bf16_tiles, true};
}

}  // namespace sluice::kernels
