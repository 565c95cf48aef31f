// SPDX-License-Identifier: Apache-2.0
// transpose: on a GPU a block moves a tile through shared memory, where a row of the tile has a word more than it
// needs, so that a column's elements lie in different banks. On a CPU tile by tile, so that both sides stay in cache.
#include "sluice/kernels/transpose.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/warp.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice {
namespace {

template <typename T>
struct transpose_closure {
    // Of small elements more, so that a warp's reads and writes are 64 bytes or longer.
    static constexpr std::size_t tile = sizeof(T) < 4 ? 64 : 32;

    const T* x;
    T* out;
    std::size_t rows;  // of each matrix of x
    std::size_t columns;
    std::size_t matrices;
};

template <typename T>
void transpose_on_host(const void* closure) {
    const auto all = *static_cast<const transpose_closure<T>*>(closure);
    constexpr std::size_t tile = transpose_closure<T>::tile;
    for (std::size_t matrix = 0; matrix < all.matrices; ++matrix) {
        const T* const x = all.x + matrix * all.rows * all.columns;
        T* const out = all.out + matrix * all.rows * all.columns;
        for (std::size_t row = 0; row < all.rows; row += tile) {
            const std::size_t row_end = row + tile < all.rows ? row + tile : all.rows;
            for (std::size_t column = 0; column < all.columns; column += tile) {
                const std::size_t column_end = column + tile < all.columns ? column + tile : all.columns;
                for (std::size_t c = column; c < column_end; ++c) {
                    for (std::size_t r = row; r < row_end; ++r) out[c * all.rows + r] = x[r * all.columns + c];
                }
            }
        }
    }
}

#if defined(__CUDACC__)
constexpr unsigned warps = 8;

template <typename T>
__global__ void __launch_bounds__(kernels::warp_size* warps)
    transpose_on_device(const __grid_constant__ transpose_closure<T> all) {
    constexpr unsigned tile = transpose_closure<T>::tile;
    constexpr unsigned spare = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
    __shared__ T moved[tile][tile + spare];
    const std::size_t column = std::size_t{blockIdx.x} * tile;
    const unsigned lane = threadIdx.x, warp = threadIdx.y;
    for (std::size_t matrix = blockIdx.z; matrix < all.matrices; matrix += gridDim.z) {
        const T* const x = all.x + matrix * all.rows * all.columns;
        T* const out = all.out + matrix * all.rows * all.columns;
        for (std::size_t row = std::size_t{blockIdx.y} * tile; row < all.rows; row += std::size_t{gridDim.y} * tile) {
#pragma unroll
            for (unsigned r = 0; r < tile; r += warps) {
#pragma unroll
                for (unsigned c = 0; c < tile; c += kernels::warp_size) {
                    const std::size_t from_row = row + r + warp, from_column = column + c + lane;
                    if (from_row < all.rows && from_column < all.columns) {
                        moved[r + warp][c + lane] = x[from_row * all.columns + from_column];
                    }
                }
            }
            __syncthreads();
#pragma unroll
            for (unsigned r = 0; r < tile; r += warps) {
#pragma unroll
                for (unsigned c = 0; c < tile; c += kernels::warp_size) {
                    const std::size_t to_row = column + r + warp, to_column = row + c + lane;
                    if (to_row < all.columns && to_column < all.rows) {
                        out[to_row * all.rows + to_column] = moved[c + lane][r + warp];
                    }
                }
            }
            __syncthreads();  // before the next tile comes
        }
    }
}
#endif

template <typename T>
void transpose_as(stream on, storage& x, const shape& of, storage& out, const source_location& location) {
    const std::size_t rows = of[of.rank() - 2], columns = of[of.rank() - 1];
    transpose_closure<T> closure{static_cast<const T*>(x.data()), static_cast<T*>(out.data()), rows, columns,
                                 of.size() / (rows * columns)};
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&transpose_on_device<T>);
    constexpr std::size_t tile = transpose_closure<T>::tile;
    // Down and across matrices a grid has at most 65,535 blocks; a block then takes several tiles.
    command.grid.x = static_cast<unsigned>((columns + tile - 1) / tile);
    command.grid.y = static_cast<unsigned>(std::min<std::size_t>((rows + tile - 1) / tile, 65535));
    command.grid.z = static_cast<unsigned>(std::min<std::size_t>(closure.matrices, 65535));
    command.block = {kernels::warp_size, warps, 1};
#endif
    command.host_function = &transpose_on_host<T>;
    detail::set_closure(command, closure);
    const std::array accesses{memory_access{&x, access_mode::read}, memory_access{&out, access_mode::write}};
    on.launch({"transpose", accesses, location}, command);
}

}  // namespace

shape transposed(const shape& x, source_location location) {
    if (x.rank() < 2) {
        throw error(errc::shape_mismatch, to_string(x) + " has no two dimensions to exchange",
                    {"transpose", {}, location});
    }
    std::array<std::size_t, shape::max_rank> extents{};
    for (std::size_t i = 0; i < x.rank(); ++i) extents[i] = x[i];
    std::swap(extents[x.rank() - 2], extents[x.rank() - 1]);
    return shape(std::span<const std::size_t>(extents).first(x.rank()));
}

void transpose_elements(stream on, storage* x, const shape& of, storage* out, std::size_t element_bytes,
                        source_location location) {
    if (of.size() == 0) return;
    const error_context context{"transpose", on.owner().name(), location};
    if (x == out) throw error(errc::invalid_argument, "the output is also the input", context);
    switch (element_bytes) {
        case 1: return transpose_as<std::uint8_t>(on, *x, of, *out, location);
        case 2: return transpose_as<std::uint16_t>(on, *x, of, *out, location);
        case 4: return transpose_as<std::uint32_t>(on, *x, of, *out, location);
        case 8: return transpose_as<std::uint64_t>(on, *x, of, *out, location);
        default: throw error(errc::invalid_argument, "elements of 1, 2, 4 or 8 bytes only", context);
    }
}

}  // namespace sluice
