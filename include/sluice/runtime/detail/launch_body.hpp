// SPDX-License-Identifier: Apache-2.0
// launch_body: the two forms of a launch, a loop on the CPU and a __global__ function on the GPU. Both take one
// closure.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/base/kernel.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/access_notice.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/detail/launch_arguments.hpp"

namespace sluice::detail {
inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel, typename Values>
struct launch_closure {
    // No [[no_unique_address]]: nvcc then lays the members out differently from the host's compiler.
    std::size_t columns;
    std::size_t rows;  // flat launches: 1
    Values values;
    Kernel kernel;
#if SLUICE_CHECK_BOUNDS && defined(__CUDACC__)
    access_notice notice = {};
#endif

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

constexpr std::size_t blocks_for(std::size_t count, std::size_t each) {
    return count / each + (count % each != 0 ? 1 : 0);
}
// What does not fit becomes the largest number, which the driver refuses.
constexpr unsigned grid_side(std::size_t blocks) { return blocks < ~0u ? static_cast<unsigned>(blocks) : ~0u; }

#if defined(__CUDACC__)
// One thread for each index. Flat launches have one row and as many blocks as they need. In others the rows continue
// along the grid's z where y ends: without a loop around the kernel the compiler moves more of its loads to the front
// (in a product of 64 x 64, 22 instead of 11 for sm_90).
template <typename Index, bool StartsEarly, typename Closure>
__device__ void run_thread(const Closure& closure) {
#if SLUICE_CHECK_BOUNDS
    post_notice(closure.notice);
#endif
    const std::size_t column = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (column < closure.columns) {
        if constexpr (std::is_same_v<Index, index_1d>) {
            closure.run(make_index<Index>(0, column, 0));
        } else {
            const std::size_t block = std::size_t{blockIdx.z} * gridDim.y + blockIdx.y;
            const std::size_t row = block * blockDim.y + threadIdx.y;
            if (row < closure.rows) closure.run(make_index<Index>(row, column, closure.columns));
        }
    }
    // A kernel that has started early ends after the kernels before it, whatever its code does: later commands rely on
    // that. (In other kernels the instruction would do nothing, but it costs 0.15 us in a graph, measured on an H200.)
    if constexpr (StartsEarly) dependency_wait();
}

template <typename Index, typename Closure, bool StartsEarly>
__global__ void __launch_bounds__(threads_per_block) launch_on_device(const __grid_constant__ Closure closure) {
    run_thread<Index, StartsEarly>(closure);
}
// The same with a plain parameter. The compiler may read any part of it at any time, and merges the comparison with the
// launch's bound and those with the views' bounds. In a chain of tiny kernels this saves 0.08 us of 0.97 each (measured
// on an H200). But when the kernel needs an address inside the parameter, each thread copies it. So this form is only
// for small closures of kernels that take everything by value.
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
    static_assert(sizeof(closure) <= largest_closure<closure>,
                  "launch: a kernel and its arguments take at most 4096 bytes");

    static void run_on_host(const void* erased) {
        const auto& all = *static_cast<const closure*>(erased);
        for (std::size_t row = 0; row < all.rows; ++row) {
            for (std::size_t column = 0; column < all.columns; ++column) {
                all.run(make_index<Index>(row, column, all.columns));
            }
        }
    }

    static launch_command command(closure& all) {
        launch_command made;
#if defined(__CUDACC__)
        if constexpr (sizeof(closure) <= 128 && !kernel_signature<Kernel>::takes_references) {
            made.device_function = reinterpret_cast<const void*>(&launch_small_on_device<Index, closure, StartsEarly>);
        } else {
            made.device_function = reinterpret_cast<const void*>(&launch_on_device<Index, closure, StartsEarly>);
        }
#endif
        // Flat launches: all threads along x. Matrices: a warp along a row, eight rows per block, at most 65,535 blocks
        // along y and along z. The driver refuses more.
        constexpr unsigned block_y = std::is_same_v<Index, index_1d> ? 1 : 8;
        constexpr unsigned block_x = threads_per_block / block_y;
        constexpr std::size_t most_y = 65535;
        const std::size_t blocks_y = blocks_for(all.rows, block_y);
        made.block = {block_x, block_y, 1};
        made.grid = {grid_side(blocks_for(all.columns, block_x)), grid_side(blocks_y < most_y ? blocks_y : most_y),
                     grid_side(blocks_for(blocks_y, most_y))};
        made.host_function = &run_on_host;
        set_closure(made, all);
        made.early_start = StartsEarly;
        made.may_fail = SLUICE_CHECK_BOUNDS != 0;
        return made;
    }
};

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail

namespace sluice::detail {

template <typename Kernel, typename Values>
inline constexpr bool can_clear_padding<launch_closure<Kernel, Values>> =
    can_clear_padding<Kernel> && can_clear_padding<Values>;

inline namespace SLUICE_LAUNCH_ABI {

// Where the compiler cannot clear all padding: the padding between the members and after them, and inside those for
// which it can.
template <typename Kernel, typename Values>
requires(!can_clear_padding<launch_closure<Kernel, Values>>)
void clear_padding(launch_closure<Kernel, Values>& closure) noexcept {
    std::byte kept[sizeof(closure)]{};
    const auto* const begin = reinterpret_cast<const std::byte*>(&closure);
    const auto keep = [&]<typename Member>(const Member& member) {
        if constexpr (!std::is_empty_v<Member>) {
            Member copy = member;
            detail::clear_padding(copy);
            __builtin_memcpy(kept + (reinterpret_cast<const std::byte*>(&member) - begin), &copy, sizeof(copy));
        }
    };
    keep(closure.columns);
    keep(closure.rows);
    closure.values.apply([&](const auto&... each) { (keep(each), ...); });
    keep(closure.kernel);
    __builtin_memcpy(static_cast<void*>(&closure), kept, sizeof(closure));
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail
