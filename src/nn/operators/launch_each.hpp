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
// and by one index only. A kernel may have a faster form for hosts, `void on_host(std::size_t count) const`, which does
// what the calls for all numbers below the count do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "nn/operators/in_word.hpp"
#include "nn/operators/node_call.hpp"
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
void each_on_host(const void* erased) {
    const auto& all = *static_cast<const each_closure<Kernel>*>(erased);
    if constexpr (requires { all.kernel.on_host(all.count); }) {
        all.kernel.on_host(all.count);
    } else {
        for (std::size_t i = 0; i < all.count; ++i) all.kernel(i);
    }
}

#if defined(__CUDACC__)
inline constexpr unsigned each_threads = 256;

template <typename Kernel>
__global__ void __launch_bounds__(each_threads) each_on_device(const __grid_constant__ each_closure<Kernel> all) {
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
    command.block = {each_threads, 1, 1};
    command.grid.x = static_cast<unsigned>(std::min<std::size_t>((count + each_threads - 1) / each_threads, 1u << 20));
#endif
    command.host_function = &each_on_host<Kernel>;
    sluice::detail::set_closure(command, closure);
    detail::submit(in, command, reads, writes);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::nn::operators
