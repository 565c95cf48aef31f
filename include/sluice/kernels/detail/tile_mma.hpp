// SPDX-License-Identifier: Apache-2.0
// Products of tiles: where an accumulator's numbers are, and how a block multiplies. For a GPU there are two ways, the
// tensor cores and plain arithmetic; a CPU has loops. On a GPU operands pass through shared memory.
#pragma once

#include <type_traits>

#include "sluice/base/half.hpp"
#include "sluice/kernels/detail/mma.hpp"
#include "sluice/kernels/detail/tile_threads.hpp"

namespace sluice {

struct tf32 {};  // the arithmetic: factors are floats, rounded to 11 significant bits

}  // namespace sluice

namespace sluice::detail {

struct tile_position {
    int row;
    int column;
};

template <typename Arithmetic>
using tile_factor = std::conditional_t<std::is_same_v<Arithmetic, tf32>, float, Arithmetic>;

#if defined(__CUDA_ARCH__)

// A tile in shared memory. Rows are 16 bytes longer than they need be, so that reads down a column meet other banks.
template <typename T, int Rows, int Columns>
struct shared_tile {
    static constexpr int pitch = Columns + static_cast<int>(16 / sizeof(T));
    alignas(16) T element[Rows * pitch];

    template <typename Tile>
    __device__ void put(const Tile& x) {
        using spread = typename Tile::spread;
        SLUICE_UNROLL
        for (int p = 0; p < spread::pieces; ++p) {
            if (!spread::holds(p)) continue;
            if constexpr (Columns % spread::piece == 0) {
                const int row = spread::place(p) / Columns, column = spread::place(p) % Columns;
                copy_piece<spread::piece>(&element[row * pitch + column], &x[p * spread::piece]);
            } else {
                SLUICE_UNROLL
                for (int i = 0; i < spread::piece; ++i) {
                    const int place = spread::place(p) + i;
                    element[place / Columns * pitch + place % Columns] = x[p * spread::piece + i];
                }
            }
        }
    }
    __device__ std::uint32_t address(int row, int column) const {
        return static_cast<std::uint32_t>(__cvta_generic_to_shared(&element[row * pitch + column]));
    }
};

// Tensor cores: four warps, two by two; each has blocks of 16 x 8.
template <typename Arithmetic, int Rows, int Columns>
struct tile_product {
    static_assert(Rows >= 32 && Columns >= 32, "tensor cores want tiles of 32 x 32 or more");
    using factor = tile_factor<Arithmetic>;
    static constexpr int down = Rows / 32, across = Columns / 16;
    static constexpr int count = down * across * 4;

    __device__ static constexpr bool has_sums() { return true; }
    __device__ static int first_row() { return tile_thread() / 64 * (Rows / 2); }
    __device__ static int first_column() { return tile_thread() / 32 % 2 * (Columns / 2); }
    __device__ static tile_position place(int i) {
        const int lane = tile_thread() % 32, block = i / 4;
        return {first_row() + block / across * 16 + i % 4 / 2 * 8 + lane / 4,
                first_column() + block % across * 8 + lane % 4 * 2 + i % 2};
    }

    // b is [Inner, Columns], or transposed.
    template <int Inner, bool Transposed, typename A, typename B>
    __device__ static void add(float (&d)[count], const A& a, const B& b) {
        constexpr int step = sizeof(factor) == 2 ? 16 : 8;
        static_assert(Inner % step == 0, "the inner size of tensor cores' tiles is a multiple of 16, of 8 for floats");
        auto& blocks = reinterpret_cast<float(&)[down][across][4]>(d);
        SLUICE_UNROLL
        for (int k = 0; k < Inner; k += step) {
            std::uint32_t left[down][4], right[across][2];
            SLUICE_UNROLL
            for (int i = 0; i < down; ++i) load_left(left[i], a, first_row() + i * 16, k);
            SLUICE_UNROLL
            for (int j = 0; j < across; j += 2) {
                load_right<Transposed>(right[j], right[j + 1], b, k, first_column() + j * 8);
            }
            SLUICE_UNROLL
            for (int i = 0; i < down; ++i) {
                SLUICE_UNROLL
                for (int j = 0; j < across; ++j) kernels::mma<factor>(blocks[i][j], left[i], right[j][0], right[j][1]);
            }
        }
    }

private:
    template <typename A>
    __device__ static void load_left(std::uint32_t (&to)[4], const A& a, int row, int k) {
        const int lane = tile_thread() % 32;
        if constexpr (sizeof(factor) == 2) {
            kernels::load_matrices(to, a.address(row + lane % 16, k + lane / 16 * 8));
        } else {
            SLUICE_UNROLL
            for (int i = 0; i < 4; ++i) {
                to[i] = kernels::rounded_to_tf32(
                    a.element[(row + lane / 4 + i % 2 * 8) * A::pitch + k + lane % 4 + i / 2 * 4]);
            }
        }
    }
    // Of 16 columns.
    template <bool Transposed, typename B>
    __device__ static void load_right(std::uint32_t (&first)[2], std::uint32_t (&second)[2], const B& b, int k,
                                      int column) {
        const int lane = tile_thread() % 32;
        if constexpr (sizeof(factor) == 2) {
            const int along_k = lane / 8 % 2 * 8, along_columns = lane / 16 * 8;
            std::uint32_t all[4];
            if constexpr (Transposed) {
                kernels::load_matrices(all, b.address(column + along_columns + lane % 8, k + along_k));
            } else {
                kernels::load_matrices<true>(all, b.address(k + along_k + lane % 8, column + along_columns));
            }
            first[0] = all[0];
            first[1] = all[1];
            second[0] = all[2];
            second[1] = all[3];
        } else {
            SLUICE_UNROLL
            for (int i = 0; i < 2; ++i) {
                const int row = k + lane % 4 + i * 4, at = column + lane / 4;
                first[i] = kernels::rounded_to_tf32(Transposed ? b.element[at * B::pitch + row]
                                                               : b.element[row * B::pitch + at]);
                second[i] = kernels::rounded_to_tf32(Transposed ? b.element[(at + 8) * B::pitch + row]
                                                                : b.element[row * B::pitch + at + 8]);
            }
        }
    }
};

// Plain arithmetic: threads side by side, each with every nth row and column.
template <int Rows, int Columns>
struct tile_product<float, Rows, Columns> {
    static constexpr int threads_across = Columns < 16 ? Columns : 16, most_down = tile_threads / threads_across,
                         threads_down = Rows < most_down ? Rows : most_down;
    static constexpr int down = Rows / threads_down, across = Columns / threads_across;
    static constexpr int count = down * across;

    // Whether this thread has sums: small tiles leave some threads without.
    __device__ static bool has_sums() { return tile_thread() < threads_down * threads_across; }
    __device__ static tile_position place(int i) {
        return {tile_thread() / threads_across + i / across * threads_down,
                tile_thread() % threads_across + i % across * threads_across};
    }

    template <int Inner, bool Transposed, typename A, typename B>
    __device__ static void add(float (&d)[count], const A& a, const B& b) {
        if (!has_sums()) return;
#pragma unroll 4
        for (int k = 0; k < Inner; ++k) {
            float left[down], right[across];
            SLUICE_UNROLL
            for (int i = 0; i < down; ++i) left[i] = a.element[place(i * across).row * A::pitch + k];
            SLUICE_UNROLL
            for (int j = 0; j < across; ++j) {
                right[j] = b.element[Transposed ? place(j).column * B::pitch + k : k * B::pitch + place(j).column];
            }
            SLUICE_UNROLL
            for (int i = 0; i < count; ++i) d[i] += left[i / across] * right[i % across];
        }
    }
};

template <bool Transposed, typename Arithmetic, int Rows, int Columns, typename A, typename B, typename Sum>
__device__ void multiply_tiles(const A& a, const B& b, Sum& d) {
    using factor = tile_factor<Arithmetic>;
    __shared__ shared_tile<factor, A::rows, A::columns> left;
    __shared__ shared_tile<factor, B::rows, B::columns> right;
    __syncthreads();  // the last product's operands have been read
    left.put(a);
    right.put(b);
    __syncthreads();
    tile_product<Arithmetic, Rows, Columns>::template add<A::columns, Transposed>(d, left, right);
}

// A tile's numbers as sums, and sums as a tile's numbers: other threads have them.
template <typename Product, typename Tile, typename Sum>
__device__ void spread_as_sums(const Tile& from, Sum& to) {
    __shared__ shared_tile<std::remove_cvref_t<decltype(from[0])>, Tile::rows, Tile::columns> all;
    __syncthreads();  // the last ones have been read
    all.put(from);
    __syncthreads();
    if (!Product::has_sums()) return;
    SLUICE_UNROLL
    for (int i = 0; i < Product::count; ++i) {
        const tile_position at = Product::place(i);
        to[i] = float(all.element[at.row * all.pitch + at.column]);
    }
}
template <typename Product, typename Tile, typename Sum>
__device__ void spread_as_tile(const Sum& from, Tile& to) {
    using element = std::remove_cvref_t<decltype(to[0])>;
    using spread = typename Tile::spread;
    __shared__ element all[Tile::rows * Tile::columns];
    __syncthreads();
    if (Product::has_sums()) {
        SLUICE_UNROLL
        for (int i = 0; i < Product::count; ++i) {
            const tile_position at = Product::place(i);
            all[at.row * Tile::columns + at.column] = element(from[i]);
        }
    }
    __syncthreads();
    SLUICE_UNROLL
    for (int p = 0; p < spread::pieces; ++p) {
        SLUICE_UNROLL
        for (int i = 0; i < spread::piece; ++i) {
            if (spread::holds(p)) to[p * spread::piece + i] = all[spread::place(p) + i];
        }
    }
}

#else

template <typename Arithmetic, int Rows, int Columns>
struct tile_product {
    static constexpr int count = Rows * Columns;
    SLUICE_KERNEL static bool has_sums() { return true; }
    SLUICE_KERNEL static tile_position place(int i) { return {i / Columns, i % Columns}; }
};

template <bool Transposed, typename Arithmetic, int Rows, int Columns, typename A, typename B, typename Sum>
SLUICE_KERNEL void multiply_tiles(const A& a, const B& b, Sum& d) {
    constexpr int inner = A::columns;
    for (int row = 0; row < Rows; ++row) {
        for (int k = 0; k < inner; ++k) {
            const float left = a[row * inner + k];
            for (int column = 0; column < Columns; ++column) {
                const float right = b[Transposed ? column * inner + k : k * Columns + column];
                d[row * Columns + column] += left * right;
            }
        }
    }
}

template <typename Product, typename Tile, typename Sum>
SLUICE_KERNEL void spread_as_sums(const Tile& from, Sum& to) {
    for (int i = 0; i < Product::count; ++i) to[i] = float(from[i]);
}
template <typename Product, typename Tile, typename Sum>
SLUICE_KERNEL void spread_as_tile(const Sum& from, Tile& to) {
    using element = std::remove_cvref_t<decltype(to[0])>;
    for (int i = 0; i < Product::count; ++i) to[i] = element(from[i]);
}

#endif

}  // namespace sluice::detail
