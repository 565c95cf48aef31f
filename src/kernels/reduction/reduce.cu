// SPDX-License-Identifier: Apache-2.0
// Reductions. On a GPU 4 to 32 threads share a row of up to 1024 elements; longer rows have a block each, or, where
// that would leave multiprocessors idle, several, whose states a second kernel joins. All load 16 bytes at a time. On
// a CPU one row after the other, with a few states side by side.
#include "sluice/kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "kernels/reduction/reducers.hpp"
#include "kernels/warp.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/kernels/detail/elements.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

template <reduction What, typename T>
struct reduce_closure {
    using reducer = kernels::reducer<What>;
    using state = typename reducer::state;
    using result = reduced<What, T>;

    const T* x;
    result* out;
    state* partials;  // of each row's parts, where it has several
    std::size_t rows;
    std::size_t columns;
    std::size_t part;      // elements of a row that a block takes
    unsigned parts;        // blocks a row
    unsigned row_threads;  // for short rows; a power of two

    SLUICE_KERNEL void finish(std::size_t row, const state& all) const {
        if constexpr (What == reduction::max || What == reduction::min) {
            out[row] = T(reducer::result(all, columns));
        } else {
            out[row] = reducer::result(all, columns);
        }
    }
};

template <reduction What, typename T>
void reduce_on_host(const void* closure) {
    using reducer = kernels::reducer<What>;
    constexpr std::size_t lanes = 8;
    const auto all = *static_cast<const reduce_closure<What, T>*>(closure);
    for (std::size_t row = 0; row < all.rows; ++row) {
        const T* const x = all.x + row * all.columns;
        typename reducer::state states[lanes];
        for (auto& each : states) each = reducer::nothing();
        std::size_t i = 0;
        for (; i + lanes <= all.columns; i += lanes) {
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                reducer::take(states[lane], static_cast<float>(x[i + lane]), i + lane);
            }
        }
        for (std::size_t lane = 0; i < all.columns; ++i, ++lane)
            reducer::take(states[lane], static_cast<float>(x[i]), i);
        for (std::size_t lane = 1; lane < lanes; ++lane) reducer::join(states[0], states[lane]);
        all.finish(row, states[0]);
    }
}

#if defined(__CUDACC__)
constexpr unsigned reduce_threads = 256;
constexpr unsigned reduce_warps = reduce_threads / kernels::warp_size;
constexpr std::size_t longest_short_row = 1024;

// Takes the elements of a row that fall to this thread of `threads`: in pieces, but for those before the first address
// that is a multiple of 16 and after the last. Places are counted from `first`.
template <typename Reducer, typename T>
__device__ inline void take_share(typename Reducer::state& all, const T* x, std::size_t count, std::size_t first,
                                  unsigned rank, unsigned threads) {
    constexpr std::size_t size = kernels::piece_size<T>;
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(x) / sizeof(T) % size;
    const std::size_t to_aligned = misaligned == 0 ? 0 : size - misaligned;
    const std::size_t ahead = to_aligned < count ? to_aligned : count;
    for (std::size_t i = rank; i < ahead; i += threads) Reducer::take(all, static_cast<float>(x[i]), first + i);
    const auto* const pieces = reinterpret_cast<const kernels::piece<T, size>*>(x + ahead);
    const std::size_t whole = (count - ahead) / size;
#pragma unroll 4
    for (std::size_t p = rank; p < whole; p += threads) {
        const kernels::piece<T, size> some = pieces[p];
        const std::size_t place = first + ahead + p * size;
        if constexpr (std::is_same_v<typename Reducer::state, kernels::running_sum> && sizeof(T) == 2) {
            // Two at once: their sum is off by at most a float's rounding, their own was a hundred times that.
#pragma unroll
            for (unsigned i = 0; i < size; i += 2) {
                Reducer::take(all, static_cast<float>(some.element[i]) + static_cast<float>(some.element[i + 1]),
                              place + i);
            }
        } else {
#pragma unroll
            for (unsigned i = 0; i < size; ++i) Reducer::take(all, static_cast<float>(some.element[i]), place + i);
        }
    }
    for (std::size_t i = ahead + whole * size + rank; i < count; i += threads) {
        Reducer::take(all, static_cast<float>(x[i]), first + i);
    }
}

// Joins the states of `lanes` neighbours, a power of two, in the first of them. All threads of the warp take part.
template <typename Reducer>
__device__ inline void join_lanes(typename Reducer::state& all, unsigned lanes) {
    using state = typename Reducer::state;
    constexpr unsigned words = sizeof(state) / sizeof(unsigned);
    for (unsigned step = lanes / 2; step != 0; step /= 2) {
        unsigned word[words];
        memcpy(word, &all, sizeof(state));
#pragma unroll
        for (unsigned& each : word) each = __shfl_down_sync(0xffffffff, each, step, kernels::warp_size);
        state other;
        memcpy(&other, word, sizeof(state));
        Reducer::join(all, other);
    }
}

// The block's states joined, in thread 0.
template <typename Reducer>
__device__ inline void join_block(typename Reducer::state& all) {
    __shared__ typename Reducer::state of_warp[reduce_warps];
    join_lanes<Reducer>(all, kernels::warp_size);
    if (threadIdx.x % kernels::warp_size == 0) of_warp[threadIdx.x / kernels::warp_size] = all;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (unsigned warp = 1; warp < reduce_warps; ++warp) Reducer::join(all, of_warp[warp]);
}

template <reduction What, typename T>
__global__ void __launch_bounds__(reduce_threads)
    reduce_short_rows(const __grid_constant__ reduce_closure<What, T> all) {
    using reducer = kernels::reducer<What>;
    const unsigned rows_per_block = reduce_threads / all.row_threads;
    const std::size_t row = std::size_t{blockIdx.x} * rows_per_block + threadIdx.x / all.row_threads;
    const unsigned rank = threadIdx.x % all.row_threads;
    auto mine = reducer::nothing();
    if (row < all.rows) {
        take_share<reducer>(mine, all.x + row * all.columns, all.columns, 0, rank, all.row_threads);
    }
    join_lanes<reducer>(mine, all.row_threads);
    if (row < all.rows && rank == 0) all.finish(row, mine);
}

template <reduction What, typename T>
__global__ void __launch_bounds__(reduce_threads) reduce_parts(const __grid_constant__ reduce_closure<What, T> all) {
    using reducer = kernels::reducer<What>;
    const std::size_t row = blockIdx.x / all.parts, first = std::size_t{blockIdx.x % all.parts} * all.part;
    auto mine = reducer::nothing();
    const std::size_t left = all.columns - first;
    take_share<reducer>(mine, all.x + row * all.columns + first, all.part < left ? all.part : left, first, threadIdx.x,
                        reduce_threads);
    join_block<reducer>(mine);
    if (threadIdx.x != 0) return;
    if (all.parts == 1) {
        all.finish(row, mine);
    } else {
        all.partials[blockIdx.x] = mine;
    }
}

template <reduction What, typename T>
__global__ void __launch_bounds__(reduce_threads) join_parts(const __grid_constant__ reduce_closure<What, T> all) {
    using reducer = kernels::reducer<What>;
    const auto* const partials = all.partials + std::size_t{blockIdx.x} * all.parts;
    auto mine = reducer::nothing();
    for (unsigned part = threadIdx.x; part < all.parts; part += reduce_threads) {
        reducer::join(mine, partials[part]);
    }
    join_block<reducer>(mine);
    if (threadIdx.x == 0) all.finish(blockIdx.x, mine);
}

// A thread for each 16 bytes of a row: 4, 8, 16 or 32.
template <typename T>
unsigned threads_for_row(std::size_t columns) {
    unsigned threads = 4;
    while (threads < kernels::warp_size && threads * kernels::piece_size<T> < columns) threads *= 2;
    return threads;
}

// Into how many parts a long row is split: enough that eight blocks a multiprocessor have work, but none less than
// 4096 elements.
std::size_t parts_for_row(std::size_t rows, std::size_t columns, const device_properties& gpu) {
    const std::size_t wanted = 8 * static_cast<std::size_t>(gpu.compute_units);
    if (rows >= wanted / 2) return 1;
    return std::clamp<std::size_t>(columns / 4096, 1, wanted / rows);
}
#endif

constexpr std::string_view name_of(reduction what) {
    constexpr std::string_view names[] = {"sum", "mean", "max", "min", "argmax"};
    return names[static_cast<std::size_t>(what)];
}

// Of rows without elements.
template <reduction What, typename T>
void make_of_nothing(stream on, tensor<reduced<What, T>>& out, const error_context& context) {
    if constexpr (What == reduction::sum || What == reduction::mean) {
        const float value = What == reduction::sum ? 0 : std::numeric_limits<float>::quiet_NaN();
        fill_elements(on, *out.memory(), out.size(), &value, sizeof(value), context.location);
    } else {
        throw error(errc::invalid_argument, "no elements to choose from", context);
    }
}

}  // namespace

shape reduced_shape(const shape& x, reduce_over which) {
    if (which == reduce_over::all || x.rank() == 0) return {};
    std::array<std::size_t, shape::max_rank> extents{};
    for (std::size_t i = 0; i + 1 < x.rank(); ++i) extents[i] = x[i];
    return shape(std::span<const std::size_t>(extents).first(x.rank() - 1));
}

template <reduction What, detail::reducible T>
void reduce(stream on, const tensor<T>& x, tensor<reduced<What, T>>& out, reduce_over which, source_location location) {
    using closure_type = reduce_closure<What, T>;
    const error_context context{name_of(What), on.owner().name(), location};
    detail::require_held(x, context);
    if (out.shape() != reduced_shape(x.shape(), which)) {
        throw error(errc::shape_mismatch, to_string(x.shape()) + " into " + to_string(out.shape()), context);
    }
    if (out.size() == 0) return;
    if (out.memory() == x.memory()) throw error(errc::invalid_argument, "the output is also the input", context);
    if (x.size() == 0) return make_of_nothing<What, T>(on, out, context);

    const std::size_t rows = out.size(), columns = x.size() / rows;
    closure_type closure{x.device_data(), out.device_data(), nullptr, rows, columns, columns, 1, 0};
    launch_command command;
    detail::set_closure(command, closure);
    command.host_function = &reduce_on_host<What, T>;
    const memory_access reads{x.memory(), access_mode::read}, writes{out.memory(), access_mode::write};
    const std::array accesses{reads, writes};
#if defined(__CUDACC__)
    command.block.x = reduce_threads;
    if (columns <= longest_short_row) {
        closure.row_threads = threads_for_row<T>(columns);
        const std::size_t rows_per_block = reduce_threads / closure.row_threads;
        command.device_function = reinterpret_cast<const void*>(&reduce_short_rows<What, T>);
        command.grid.x = static_cast<unsigned>((rows + rows_per_block - 1) / rows_per_block);
    } else {
        const bool on_gpu = on.owner().kind() == device_kind::cuda;
        const std::size_t wanted = on_gpu ? parts_for_row(rows, columns, on.owner().properties()) : 1;
        // All but the last of whole pieces, so that they begin as a row does.
        constexpr std::size_t size = kernels::piece_size<T>;
        closure.part = (columns + wanted * size - 1) / (wanted * size) * size;
        closure.parts = static_cast<unsigned>((columns + closure.part - 1) / closure.part);
        command.device_function = reinterpret_cast<const void*>(&reduce_parts<What, T>);
        command.grid.x = static_cast<unsigned>(rows * closure.parts);
        if (closure.parts > 1) {
            const buffer<typename closure_type::state> partials(on, rows * closure.parts,
                                                                {name_of(What), {}, location});
            closure.partials = partials.device_data();
            const std::array first{reads, memory_access{partials.memory(), access_mode::write}};
            on.launch({name_of(What), first, location}, command);
            command.device_function = reinterpret_cast<const void*>(&join_parts<What, T>);
            command.grid.x = static_cast<unsigned>(rows);
            const std::array second{memory_access{partials.memory(), access_mode::read}, writes};
            on.launch({name_of(What), second, location}, command);
            return;
        }
    }
#endif
    on.launch({name_of(What), accesses, location}, command);
}

#define SLUICE_REDUCTION(what, type)                                                                            \
    template void reduce<reduction::what>(stream, const tensor<type>&, tensor<reduced<reduction::what, type>>&, \
                                          reduce_over, source_location);
#define SLUICE_REDUCTIONS(type)  \
    SLUICE_REDUCTION(sum, type)  \
    SLUICE_REDUCTION(mean, type) \
    SLUICE_REDUCTION(max, type)  \
    SLUICE_REDUCTION(min, type)  \
    SLUICE_REDUCTION(argmax, type)
SLUICE_REDUCTIONS(float)
SLUICE_REDUCTIONS(half)
SLUICE_REDUCTIONS(bfloat16)

}  // namespace sluice
