// SPDX-License-Identifier: Apache-2.0
// each_row: calls a kernel once for each row. On a GPU a team of threads makes a row together; on a CPU a team is one
// thread. For files that nvcc compiles.
//
//     struct row_sum {
//         const float* x;
//         float* y;
//         std::size_t width;
//         template <typename Team>
//         SLUICE_KERNEL void operator()(std::size_t row, const Team& team) const {
//             float own = 0;
//             for (std::size_t i = team.rank(); i < width; i += team.size()) own += x[row * width + i];
//             const float all = team.join(own, added());    // the same number for every thread of the team
//             if (team.rank() == 0) y[row] = all;
//         }
//     };
//     each_row(in, rows, width, team_of(width), row_sum{...}, {&x}, {&y});
//
// The kernel is as launch_each.hpp has it. A team's size follows from the width alone, and so do the bits of a row,
// whatever other rows are there. (A batch is the first axis: where it is another one, its length may be a width.) All
// threads of a team reach each join.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "nn/operators/launch_each.hpp"

namespace sluice::nn::operators {

// Threads of a GPU that make a row of this many elements together: 1, a warp, or a block.
inline unsigned team_of(std::size_t width) {
    constexpr std::size_t fewest = 8, of_a_warp = 1024;
    return width < fewest ? 1 : width <= of_a_warp ? 32 : 256;
}

inline namespace SLUICE_LAUNCH_ABI {

struct added {
    template <typename Number>
    SLUICE_KERNEL Number operator()(Number a, Number b) const {
        return a + b;
    }
};

// The team of a CPU, and of one thread of a GPU.
struct one_thread {
    SLUICE_KERNEL static constexpr std::size_t rank() { return 0; }
    SLUICE_KERNEL static constexpr std::size_t size() { return 1; }
    template <typename Number, typename Join>
    SLUICE_KERNEL static Number join(Number own, const Join&) {
        return own;
    }
};

template <typename Kernel>
struct row_closure {
    std::size_t rows;
    std::size_t numbers;  // elements of a row, for the division among workers
    Kernel kernel;
};

template <typename Kernel>
void each_row_on_host(const void* erased) {
    constexpr std::size_t numbers_of_part = 16'384;  // some 50 µs
    const auto& all = *static_cast<const row_closure<Kernel>*>(erased);
    const std::size_t parts = sluice::detail::parts_for(all.rows * all.numbers, numbers_of_part, all.rows);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(all.rows, parts, part, 1);
        for (std::size_t row = range.first; row < range.last; ++row) all.kernel(row, one_thread());
    });
}

#if defined(__CUDACC__)
inline constexpr unsigned row_threads = 256;  // of a block, at most

// Few rows are spread over as many multiprocessors as possible.
inline unsigned threads_of_block(std::size_t rows, unsigned team) {
    constexpr std::size_t enough_blocks = 512;
    constexpr unsigned fewest = 32;
    unsigned threads = row_threads;
    while (threads > std::max(team, fewest) && rows * team < enough_blocks * threads) threads /= 2;
    return threads;
}

// A warp or a block. `join` combines in the same order for every thread, so all have the same bits.
template <unsigned Threads>
struct thread_team {
    static constexpr unsigned of_a_warp = 32, warps = Threads / of_a_warp;

    __device__ static std::size_t rank() { return threadIdx.x % Threads; }
    __device__ static constexpr std::size_t size() { return Threads; }
    template <typename Number, typename Join>
    __device__ static Number join(Number own, const Join& join) {
        for (unsigned step = of_a_warp / 2; step != 0; step /= 2)
            own = join(own, __shfl_xor_sync(0xffffffff, own, static_cast<int>(step)));
        if constexpr (warps > 1) {
            __shared__ Number of_warps[warps];
            if (threadIdx.x % of_a_warp == 0) of_warps[threadIdx.x / of_a_warp] = own;
            __syncthreads();
            own = of_warps[0];
            for (unsigned w = 1; w < warps; ++w) own = join(own, of_warps[w]);
            __syncthreads();  // before the next join writes there
        }
        return own;
    }
};

template <typename Team, typename Kernel>
__global__ void __launch_bounds__(row_threads) each_row_on_device(const __grid_constant__ row_closure<Kernel> all) {
    start_in_turn();
    const std::size_t of_block = blockDim.x / Team::size();
    const std::size_t step = std::size_t{gridDim.x} * of_block;
    for (std::size_t row = blockIdx.x * of_block + threadIdx.x / Team::size(); row < all.rows; row += step)
        all.kernel(row, Team());
}
#endif

// `team` is what team_of gave, or 1: a thread for each row, where neighbouring rows are neighbours in memory.
template <typename Kernel>
void each_row(const node_call& in, std::size_t rows, std::size_t width, unsigned team, const Kernel& kernel,
              std::initializer_list<const any_tensor*> reads, std::initializer_list<const any_tensor*> writes) {
    static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(row_closure<Kernel>) <= 4000);
    if (rows == 0 || in.where() == place::nowhere) return;
    row_closure<Kernel> closure{rows, std::max<std::size_t>(width, 1), kernel};
    if (in.where() == place::host) return each_row_on_host<Kernel>(&closure);
    launch_command command;
#if defined(__CUDACC__)
    command.device_function =
        team == 1    ? reinterpret_cast<const void*>(&each_row_on_device<one_thread, Kernel>)
        : team == 32 ? reinterpret_cast<const void*>(&each_row_on_device<thread_team<32>, Kernel>)
                     : reinterpret_cast<const void*>(&each_row_on_device<thread_team<row_threads>, Kernel>);
    command.early_start = true;
    const unsigned threads = threads_of_block(rows, team);
    command.block = {threads, 1, 1};
    const std::size_t of_block = threads / team;
    command.grid.x = static_cast<unsigned>(std::min<std::size_t>((rows + of_block - 1) / of_block, 1u << 20));
#else
    static_cast<void>(team);
#endif
    command.host_function = &each_row_on_host<Kernel>;
    sluice::detail::set_closure(command, closure);
    detail::submit(in, command, reads, writes);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::nn::operators
