// The two bodies of a launch: a loop on the CPU, a __global__ function on the GPU. Both take one closure.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/runtime/command.hpp"
#include "sluice/runtime/kernel.hpp"
#include "sluice/runtime/launch_arguments.hpp"

namespace sluice::detail {
inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel, typename Values>
struct launch_closure {
    // No [[no_unique_address]]: nvcc lays the members out otherwise than the host's compiler.
    std::size_t columns;
    std::size_t rows;  // flat launches: 1
    Values values;
    Kernel kernel;

    template <typename Index>
    SLUICE_KERNEL void run(Index at) const {
        values.apply([&](const auto&... each) { kernel(at, each...); });
    }
};

template <typename Index>
SLUICE_KERNEL Index make_index(std::size_t row, std::size_t column, std::size_t columns);
template <>
SLUICE_KERNEL inline index_1d make_index<index_1d>(std::size_t row, std::size_t column, std::size_t columns) {
    return index_maker::one(row * columns + column);
}
template <>
SLUICE_KERNEL inline index_2d make_index<index_2d>(std::size_t row, std::size_t column, std::size_t) {
    return index_maker::two(row, column);
}
template <>
SLUICE_KERNEL inline tile_index make_index<tile_index>(std::size_t row, std::size_t column, std::size_t) {
    return index_maker::tile(row, column);
}

inline constexpr unsigned threads_per_block = 256;

#if defined(__CUDACC__)
// One thread an index. Flat launches have one row and as many blocks as they need; others reach the rows beyond
// the grid's limit by striding.
template <typename Index, bool StartsEarly, typename Closure>
__device__ void run_thread(const Closure& closure) {
    const std::size_t column = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (column < closure.columns) {
        if constexpr (std::is_same_v<Index, index_1d>) {
            closure.run(make_index<Index>(0, column, 0));
        } else {
            const std::size_t stride = std::size_t{gridDim.y} * blockDim.y;
            for (std::size_t row = std::size_t{blockIdx.y} * blockDim.y + threadIdx.y; row < closure.rows;
                 row += stride) {
                closure.run(make_index<Index>(row, column, closure.columns));
            }
        }
    }
    // One that has started early ends after the kernels before it, whatever its code says: what comes behind it counts
    // on that. (In others the instruction would do nothing, but costs 0.15 us in a graph, measured on an H200.)
    if constexpr (StartsEarly) dependency_wait();
}

template <typename Index, typename Closure, bool StartsEarly>
__global__ void __launch_bounds__(threads_per_block) launch_on_device(const __grid_constant__ Closure closure) {
    run_thread<Index, StartsEarly>(closure);
}
// The same with a plain parameter: of that the compiler knows that it may read any part at any time, and makes one
// comparison of the launch's bound and the views': in a chain of tiny kernels 0.08 us less each, of 0.97 (measured on
// an H200). But where the kernel needs an address inside, each thread makes a copy; so only for small closures of
// kernels that take everything by value.
template <typename Index, typename Closure, bool StartsEarly>
__global__ void __launch_bounds__(threads_per_block) launch_small_on_device(const Closure closure) {
    run_thread<Index, StartsEarly>(closure);
}
#endif

template <typename Kernel, typename Index, typename Values, bool StartsEarly = false>
struct launch_body {
    using closure = launch_closure<Kernel, std::remove_const_t<Values>>;
    static_assert(std::is_trivially_copyable_v<closure>, "launch: kernels and their arguments are copied byte by byte");
    static_assert(alignof(closure) <= alignof(std::max_align_t),
                  "launch: kernels and their arguments are not over-aligned");
    static_assert(sizeof(closure) <= 4096, "launch: a kernel and its arguments take at most 4096 bytes");

    static void run_on_host(const void* erased) {
        const auto& all = *static_cast<const closure*>(erased);
        for (std::size_t row = 0; row < all.rows; ++row) {
            for (std::size_t column = 0; column < all.columns; ++column) {
                all.run(make_index<Index>(row, column, all.columns));
            }
        }
    }

    static launch_command command(const closure& all) {
        launch_command made;
#if defined(__CUDACC__)
        if constexpr (sizeof(closure) <= 128 && !kernel_signature<Kernel>::takes_references) {
            made.device_function = reinterpret_cast<const void*>(&launch_small_on_device<Index, closure, StartsEarly>);
        } else {
            made.device_function = reinterpret_cast<const void*>(&launch_on_device<Index, closure, StartsEarly>);
        }
#endif
        // Flat launches: all along x. Matrices: a warp along a row, eight rows a block; at most 65,535 blocks down.
        constexpr unsigned block_y = std::is_same_v<Index, index_1d> ? 1 : 8;
        constexpr unsigned block_x = threads_per_block / block_y;
        const std::size_t blocks_y = (all.rows + block_y - 1) / block_y;
        made.block = {block_x, block_y, 1};
        made.grid = {static_cast<unsigned>((all.columns + block_x - 1) / block_x),
                     static_cast<unsigned>(blocks_y < 65535 ? blocks_y : 65535), 1};
        made.host_function = &run_on_host;
        made.closure = &all;
        made.closure_bytes = sizeof(closure);
        made.early_start = StartsEarly;
        return made;
    }
};

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail
