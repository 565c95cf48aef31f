// SPDX-License-Identifier: Apache-2.0
// each: calls a kernel once for each number below a count, at the place of a node_call. For files that nvcc compiles.
//
//     struct doubled {
//         const float* x;
//         float* y;
//         SLUICE_KERNEL void operator()(std::size_t i) const { y[i] = 2 * x[i]; }
//     };
//     const any_tensor& y = in.make_output(0, io::dtype::f32, x.shape());
//     each(in, y.elements(), doubled{in.read<float>(x), in.write<float>(y)}, {&x}, {&y});
//
// The kernel is trivially copyable, at most 4,000 bytes, without padding (in_word.hpp), and holds addresses of in.read
// and in.write. The lists name the tensors that it reads and writes. Tensors that are written are written nowhere else
// and by one index only.
//
// On a CPU device large counts are divided among workers (runtime/parallel_parts.hpp). There a kernel may have
//     void on_host(std::size_t first, std::size_t last) const;   what the calls for these numbers do, and faster;
//     std::size_t host_unit() const;                             `first` is a multiple of it, and `last` or the end
//     static constexpr std::size_t numbers_of_part;              the calls that take some 50 µs
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "nn/operators/in_word.hpp"
#include "nn/operators/node_call.hpp"
#include "runtime/parallel_parts.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::operators {

namespace detail {
// Submits the command with these accesses and the node's name.
void submit(const node_call& in, launch_command& command, std::initializer_list<const any_tensor*> reads,
            std::initializer_list<const any_tensor*> writes);
}  // namespace detail

inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel>
struct each_closure {
    std::size_t count;
    Kernel kernel;
};

template <typename Kernel>
constexpr std::size_t numbers_of_part() {
    if constexpr (requires { Kernel::numbers_of_part; }) {
        return Kernel::numbers_of_part;
    } else {
        return 32'768;
    }
}

template <typename Kernel>
void each_on_host(const void* erased) {
    const auto& all = *static_cast<const each_closure<Kernel>*>(erased);
    std::size_t unit = 1;
    if constexpr (requires { all.kernel.host_unit(); }) unit = all.kernel.host_unit();
    const std::size_t parts = sluice::detail::parts_for(all.count, numbers_of_part<Kernel>(), all.count / unit);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(all.count, parts, part, unit);
        if constexpr (requires { all.kernel.on_host(range.first, range.last); }) {
            all.kernel.on_host(range.first, range.last);
        } else {
            for (std::size_t i = range.first; i < range.last; ++i) all.kernel(i);
        }
    });
}

#if defined(__CUDACC__)
inline constexpr unsigned each_threads = 256;

// A kernel that starts early: the kernels after it may do so too, and its blocks are there when those before it end.
__device__ inline void start_in_turn() {
    dependency_trigger();
    dependency_wait();
}

template <typename Kernel>
__global__ void __launch_bounds__(each_threads) each_on_device(const __grid_constant__ each_closure<Kernel> all) {
    start_in_turn();
    const std::size_t step = std::size_t{gridDim.x} * each_threads;
    for (std::size_t i = std::size_t{blockIdx.x} * each_threads + threadIdx.x; i < all.count; i += step) all.kernel(i);
}
#endif

template <typename Kernel>
void each(const node_call& in, std::size_t count, const Kernel& kernel, std::initializer_list<const any_tensor*> reads,
          std::initializer_list<const any_tensor*> writes) {
    static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(each_closure<Kernel>) <= 4000);
    if (count == 0 || in.where() == place::nowhere) return;
    each_closure<Kernel> closure{count, kernel};
    if (in.where() == place::host) return each_on_host<Kernel>(&closure);
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&each_on_device<Kernel>);
    command.early_start = true;
    command.block = {each_threads, 1, 1};
    command.grid.x = static_cast<unsigned>(std::min<std::size_t>((count + each_threads - 1) / each_threads, 1u << 20));
#endif
    command.host_function = &each_on_host<Kernel>;
    sluice::detail::set_closure(command, closure);
    detail::submit(in, command, reads, writes);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::nn::operators
