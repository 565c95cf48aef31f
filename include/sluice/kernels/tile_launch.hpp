// SPDX-License-Identifier: Apache-2.0
// launch of tile kernels (tile.hpp): operations like other launches, over the tiles of what the kernel writes.
//
//     launch(multiply<half, 64, 64, 32>{}, std::move(a), b, std::move(c))              // over all tiles of c
//     launch(multiply<half, 64, 64, 32>{}, each_written(), upload(x, {m, k}), b, std::move(c))
//     launch(multiply<half, 64, 64, 32>{}, each_of(c), std::move(a), b, std::move(c))  // c may be a partition
//
// The kernel's parameters say how each argument is used:
//     parameter                     argument                                              use
//     tiles_of<const T, R, C>       a matrix: tensor<T>, partition<T>, shared_tensor<T>   read
//     vector_tiles_of<const T, N>   a vector: the same                                    read
//     tiles_of<T, R, C>             a matrix: tensor<T>; partition<T> in tiles of [R, C]  written
//     vector_tiles_of<T, N>         a vector: tensor<T>; partition<T> in tiles of [N]     written
//     batch_tiles_of<const T, R, C> matrices, [batch, rows, columns]: tensor<T>, batch_partition<T>,
//                                   shared_tensor<T>                                      read
//     batch_tiles_of<T, R, C>       the same: tensor<T>; batch_partition<T> in tiles of [1, R, C]
//                                                                                         written
// and those of launch.hpp. A block runs once for each tile; all matrices that the kernel writes have as many tiles down
// and across, all batches as many matrices of as many tiles, and vectors as many tiles as there are blocks.
//
// A kernel may say which arguments do not fit each other, before anything is submitted:
//     const char* misfit(parameters...) const   // null when they fit, else a sentence for the error
//
// Errors: errc::shape_mismatch for an argument that is no matrix, vector or batch, for a partition of other tiles than
// the kernel's, for several written arguments of different numbers of tiles, for a range other than all tiles of what
// the kernel writes, and for a misfit. Otherwise those of launch.hpp. No tiles: nothing is submitted.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "sluice/kernels/batch_tiles.hpp"
#include "sluice/kernels/tile.hpp"
#include "sluice/kernels/vector_tiles.hpp"
#include "sluice/runtime/batch_partition.hpp"
#include "sluice/runtime/detail/access_notice.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/launch_operations.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {
namespace detail {

template <>
inline constexpr index_kind index_kind_of<tile_block> = index_kind::tile_block;

template <typename Kernel>
concept tile_kernel =
    has_kernel_signature<Kernel> && std::same_as<typename kernel_signature<Kernel>::index, tile_block>;

// Throw errc::shape_mismatch unless the shape is a vector, unless it is a batch of matrices, and unless a partition has
// the kernel's tiles.
void require_vector(const shape& given, const error_context& context);
void require_batch(const shape& given, const error_context& context);
void require_tiles(const shape& given, const shape& of_kernel, const error_context& context);

template <typename T, int Rows, int Columns>
struct bound_argument<tiles_of<const T, Rows, Columns>, tensor<T>> {
    static constexpr argument_use use = argument_use::read;
    static tiles_of<const T, Rows, Columns> bind(const tensor<T>& from, const error_context& context) {
        require_held(from, context);
        require_matrix(from.shape(), context);
        return {from.device_data(), from.rows(), from.columns()};
    }
    static storage* memory(const tensor<T>& from) { return from.memory(); }
};
template <typename T, int Rows, int Columns>
requires(!std::is_const_v<T>)
struct bound_argument<tiles_of<T, Rows, Columns>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static tiles_of<T, Rows, Columns> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        require_matrix(to.shape(), context);
        return {to.device_data(), to.rows(), to.columns()};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};
template <typename T, int Size>
struct bound_argument<vector_tiles_of<const T, Size>, tensor<T>> {
    static constexpr argument_use use = argument_use::read;
    static vector_tiles_of<const T, Size> bind(const tensor<T>& from, const error_context& context) {
        require_held(from, context);
        require_vector(from.shape(), context);
        return {from.device_data(), from.size()};
    }
    static storage* memory(const tensor<T>& from) { return from.memory(); }
};
template <typename T, int Size>
requires(!std::is_const_v<T>)
struct bound_argument<vector_tiles_of<T, Size>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static vector_tiles_of<T, Size> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        require_vector(to.shape(), context);
        return {to.device_data(), to.size()};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};

template <typename T, int Rows, int Columns>
struct bound_argument<batch_tiles_of<const T, Rows, Columns>, tensor<T>> {
    static constexpr argument_use use = argument_use::read;
    static batch_tiles_of<const T, Rows, Columns> bind(const tensor<T>& from, const error_context& context) {
        require_held(from, context);
        require_batch(from.shape(), context);
        return {from.device_data(), from.shape()[0], from.shape()[1], from.shape()[2]};
    }
    static storage* memory(const tensor<T>& from) { return from.memory(); }
};
template <typename T, int Rows, int Columns>
requires(!std::is_const_v<T>)
struct bound_argument<batch_tiles_of<T, Rows, Columns>, tensor<T>> {
    static constexpr argument_use use = argument_use::written;
    static batch_tiles_of<T, Rows, Columns> bind(const tensor<T>& to, const error_context& context) {
        require_held(to, context);
        require_batch(to.shape(), context);
        return {to.device_data(), to.shape()[0], to.shape()[1], to.shape()[2]};
    }
    static storage* memory(const tensor<T>& to) { return to.memory(); }
};

template <typename Parameter>
struct written_tiles {
    static constexpr bool are = false;
};
template <typename T, int Rows, int Columns>
requires(!std::is_const_v<T>)
struct written_tiles<tiles_of<T, Rows, Columns>> {
    static constexpr bool are = true;
    static shape tile() { return {Rows, Columns}; }
    static shape whole(const tiles_of<T, Rows, Columns>& of) { return {of.rows(), of.columns()}; }
};
template <typename T, int Size>
requires(!std::is_const_v<T>)
struct written_tiles<vector_tiles_of<T, Size>> {
    static constexpr bool are = true;
    static shape tile() { return {Size}; }
    static shape whole(const vector_tiles_of<T, Size>& of) { return {of.size()}; }
};
template <typename T, int Rows, int Columns>
requires(!std::is_const_v<T>)
struct written_tiles<batch_tiles_of<T, Rows, Columns>> {
    static constexpr bool are = true;
    static shape tile() { return {1, Rows, Columns}; }
    static shape whole(const batch_tiles_of<T, Rows, Columns>& of) { return {of.batches(), of.rows(), of.columns()}; }
};
template <typename Parameter>
inline constexpr bool is_written_batch = false;
template <typename T, int Rows, int Columns>
inline constexpr bool is_written_batch<batch_tiles_of<T, Rows, Columns>> = !std::is_const_v<T>;

template <typename Parameter, typename T>
requires(written_tiles<Parameter>::are && bound_argument<Parameter, tensor<T>>::use == argument_use::written)
struct bound_argument<Parameter, partition<T>> {
    static constexpr argument_use use = argument_use::written;
    static Parameter bind(const partition<T>& to, const error_context& context) {
        require_held(to.whole(), context);
        require_tiles(to.tile_shape(), written_tiles<Parameter>::tile(), context);
        return bound_argument<Parameter, tensor<T>>::bind(to.whole(), context);
    }
    static storage* memory(const partition<T>& to) { return to.whole().memory(); }
};
template <typename Parameter, typename T>
requires is_written_batch<Parameter>
struct bound_argument<Parameter, batch_partition<T>> {
    static constexpr argument_use use = bound_argument<Parameter, tensor<T>>::use;
    static Parameter bind(const batch_partition<T>& to, const error_context& context) {
        require_held(to.whole(), context);
        require_tiles(to.tile_shape(), written_tiles<Parameter>::tile(), context);
        return bound_argument<Parameter, tensor<T>>::bind(to.whole(), context);
    }
    static storage* memory(const batch_partition<T>& to) { return to.whole().memory(); }
};

// How many blocks a launch has. Each written argument is added; the first batch, or else the first matrix, says how
// many are down and across.
class tile_grid {
public:
    // Throws errc::shape_mismatch when this one has other tiles than those before; errc::invalid_argument for more than
    // CUDA's 2^31 - 1.
    void add(const shape& whole, const shape& tile, const error_context& context);
    // Throws errc::shape_mismatch unless the range is that of all tiles.
    void require(const launch_range& range, const error_context& context) const;

    unsigned down() const noexcept { return batches_ * down_; }  // of all matrices
    unsigned down_each() const noexcept { return down_; }        // of one matrix
    unsigned across() const noexcept { return across_; }

private:
    shape whole_;  // of the argument that gave the numbers; rank 0: none yet
    unsigned batches_ = 0;
    unsigned down_ = 0;
    unsigned across_ = 0;
};

inline void add_written(const kernel_values<>&, tile_grid&, const error_context&) {}
template <typename First, typename... Rest>
void add_written(const kernel_values<First, Rest...>& values, tile_grid& grid, const error_context& context) {
    using written = written_tiles<First>;
    if constexpr (written::are) grid.add(written::whole(values.first), written::tile(), context);
    add_written(values.rest, grid, context);
}

template <typename Values>
inline constexpr bool writes_batches = false;
template <typename... Values>
inline constexpr bool writes_batches<kernel_values<Values...>> = (is_written_batch<Values> || ...);

// Whether the kernel has a member of that name, overloaded or not: then the name is ambiguous here.
struct misfit_name {
    int misfit;
};
template <typename Kernel>
struct with_misfit_name : Kernel, misfit_name {};
template <typename Kernel>
concept has_misfit = !requires { &with_misfit_name<Kernel>::misfit; };
template <typename Kernel, typename... Values>
const char* misfit_of(const Kernel& kernel, const kernel_values<>&, const Values&... values) {
    if constexpr (has_misfit<Kernel>) {
        return kernel.misfit(values...);
    } else {
        return nullptr;
    }
}
template <typename Kernel, typename First, typename... Rest, typename... Before>
const char* misfit_of(const Kernel& kernel, const kernel_values<First, Rest...>& values, const Before&... before) {
    return misfit_of(kernel, values.rest, before..., values.first);
}
void require_no_misfit(const char* misfit, const error_context& context);

inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel, bool StartsEarly = false>
struct tile_launch {
    Kernel kernel;
    unsigned down;
    unsigned across;
#if SLUICE_CHECK_BOUNDS && defined(__CUDACC__)
    access_notice notice = {};
#endif

    static void run_on_host(const void* closure) {
        const auto& all = *static_cast<const tile_launch*>(closure);
        for (unsigned row = 0; row < all.down; ++row) {
            for (unsigned column = 0; column < all.across; ++column) {
                all.kernel(tile_block_maker::make(row, column, row * all.across + column));
            }
        }
    }
};

#if defined(__CUDACC__)
template <typename Kernel, bool StartsEarly>
__global__ void __launch_bounds__(threads_of_tile_block)
    run_tiles_on_device(const __grid_constant__ tile_launch<Kernel, StartsEarly> all) {
#if SLUICE_CHECK_BOUNDS
    post_notice(all.notice);
#endif
    all.kernel(tile_block_maker::make(blockIdx.x / all.across, blockIdx.x % all.across, blockIdx.x));
    if constexpr (StartsEarly) dependency_wait();  // see launch_body.hpp
}
#endif

// A kernel with its arguments.
template <typename Kernel, typename Values, bool IsOfBatches = writes_batches<Values>>
struct bound_tile_kernel {
    Values values;
    Kernel kernel;

    static bound_tile_kernel make(const Values& values, const Kernel& kernel, const tile_grid&) {
        return {values, kernel};
    }
    SLUICE_KERNEL void operator()(const tile_block& at) const {
        values.apply([&](const auto&... each) { kernel(at, each...); });
    }
};
// The blocks of a batch come as those of one matrix, in which its matrices are below each other.
template <typename Kernel, typename Values>
struct bound_tile_kernel<Kernel, Values, true> {
    Values values;
    Kernel kernel;
    unsigned down;  // tiles of each matrix

    static bound_tile_kernel make(const Values& values, const Kernel& kernel, const tile_grid& grid) {
        return {values, kernel, grid.down_each()};
    }
    SLUICE_KERNEL void operator()(const tile_block& at) const {
        const tile_block mine = tile_block_maker::make_of_batch(at.row() / down, at.row() % down, at);
        values.apply([&](const auto&... each) { kernel(mine, each...); });
    }
};

// `closure` is what the command points to.
template <typename Kernel, bool StartsEarly>
launch_command tile_command(tile_launch<Kernel, StartsEarly>& closure) {
    using made = tile_launch<Kernel, StartsEarly>;
    static_assert(std::is_trivially_copyable_v<made>, "launch: kernels and their arguments are copied byte by byte");
    static_assert(alignof(made) <= alignof(std::max_align_t),
                  "launch: kernels and their arguments are not over-aligned");
    static_assert(sizeof(made) <= largest_closure<made>, "launch: a kernel and its arguments take at most 4096 bytes");
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&run_tiles_on_device<Kernel, StartsEarly>);
#endif
    command.grid.x = closure.down * closure.across;
    command.block.x = threads_of_tile_block;
    command.host_function = &made::run_on_host;
    command.early_start = StartsEarly;
    command.may_fail = SLUICE_CHECK_BOUNDS != 0;
    set_closure(command, closure);
    return command;
}

}  // namespace SLUICE_LAUNCH_ABI

template <typename Kernel, bool StartsEarly>
inline constexpr bool can_clear_padding<tile_launch<Kernel, StartsEarly>> = can_clear_padding<Kernel>;

}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

// The plain form: a launch as one command on a stream. The caller keeps the arguments. What the kernel writes must not
// be shared. Costs one command and O(arguments) on the host.
template <detail::tile_kernel Kernel, any_launch_range Range, typename... Arguments>
void launch_on(stream on, const Kernel& kernel, const Range& range, const Arguments&... arguments) {
    static_assert(detail::argument_check<Kernel, Arguments...>::passed);
    using binding = detail::argument_binding<typename detail::kernel_signature<Kernel>::parameters, Arguments...>;
    const error_context context{detail::type_name<Kernel>(), detail::device_name(on), range.location};
    const auto values = binding::bind(context, arguments...);
    detail::tile_grid grid;
    detail::add_written(values, grid, context);
    grid.require(range, context);
    detail::require_no_misfit(detail::misfit_of(kernel, values), context);
    const auto accesses = binding::accesses(arguments...);
    if (grid.down() == 0 || grid.across() == 0) return;
    using bound = detail::bound_tile_kernel<Kernel, std::remove_const_t<decltype(values)>>;
    detail::tile_launch<bound, Range::starts_early> closure{bound::make(values, kernel, grid), grid.down(),
                                                            grid.across()};
    const command_info info = {context.operation, accesses, range.location};
    launch_command command = detail::tile_command(closure);
    detail::add_notice(on, context.operation, closure, command);
    const auto launched = binding::launched(arguments...);
    command.launches = launched;
    on.launch(info, command);
}

// For kernels that have their matrices as members, and no parameters but the tile_block. What launch_tiles submits:
// `closure` is what it points to. `of` is the matrix whose tiles the blocks own. Costs a copy of the kernel.
template <typename Kernel, typename T, int Rows, int Columns>
launch_command tile_command(const tiles_of<T, Rows, Columns>& of, const Kernel& kernel,
                            detail::tile_launch<Kernel>& closure) {
    closure = {kernel, of.down(), of.across()};
    return detail::tile_command(closure);
}

// One command on a stream: such a kernel, once for each tile of `of`. `info` names every storage that it reads or
// writes. Does not block. No tiles: nothing is submitted. Costs one command.
template <typename Kernel, typename T, int Rows, int Columns>
void launch_tiles(stream on, const command_info& info, const tiles_of<T, Rows, Columns>& of, const Kernel& kernel) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "a kernel is copied to where it runs, byte by byte");
    if (of.down() == 0 || of.across() == 0) return;
    detail::tile_launch<Kernel> closure{kernel, 0, 0};
    launch_command command = tile_command(of, kernel, closure);
    detail::add_notice(on, info.name, closure, command);
    on.launch(info, command);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice
