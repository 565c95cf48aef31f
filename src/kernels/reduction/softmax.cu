// SPDX-License-Identifier: Apache-2.0
// softmax: on a GPU a warp makes one row, in three passes over it (maximum, sum, division); on a CPU one vector
// loop after the other does. The sum carries its rounding errors along, since a row may have more elements than a float
// can count.
#include "sluice/kernels/softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/elementwise/vector_math.hpp"
#include "kernels/reduction/extrema.hpp"
#include "kernels/reduction/reducers.hpp"
#include "kernels/warp.hpp"
#include "runtime/parallel_parts.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice {
namespace {

struct softmax_closure {
    float* x;
    std::size_t rows;
    std::size_t columns;
};

void softmax_on_host(const void* closure) {
    constexpr std::size_t numbers_of_part = 32'768;  // some 50 µs
    const auto& all = *static_cast<const softmax_closure*>(closure);
    const kernels::vector_math& math = kernels::vector_math_of_this_processor();
    const std::size_t parts = detail::parts_for(all.rows * all.columns, numbers_of_part, all.rows);
    detail::for_parts(parts, [&](std::size_t part) {
        const auto range = detail::range_of_part(all.rows, parts, part, 1);
        for (std::size_t row = range.first; row < range.last; ++row)
            math.softmax(all.x + row * all.columns, all.columns);
    });
}

#if defined(__CUDACC__)
constexpr unsigned softmax_warps = 8;

__global__ void softmax_on_device(const __grid_constant__ softmax_closure all) {
    constexpr unsigned everyone = 0xffffffff;
    const unsigned lane = threadIdx.x % kernels::warp_size;
    const std::size_t first = std::size_t{blockIdx.x} * softmax_warps + threadIdx.x / kernels::warp_size;
    for (std::size_t row = first; row < all.rows; row += std::size_t{gridDim.x} * softmax_warps) {
        float* const x = all.x + row * all.columns;
        float largest = x[0];
        for (std::size_t i = lane; i < all.columns; i += kernels::warp_size) largest = kernels::maximum(largest, x[i]);
        for (unsigned step = kernels::warp_size / 2; step != 0; step /= 2) {
            largest = kernels::maximum(largest, __shfl_xor_sync(everyone, largest, step));
        }
        kernels::running_sum sum{0, 0};
        for (std::size_t i = lane; i < all.columns; i += kernels::warp_size) sum.add(x[i] = expf(x[i] - largest));
        for (unsigned step = kernels::warp_size / 2; step != 0; step /= 2) {
            const float other_lost = __shfl_xor_sync(everyone, sum.lost, step);
            sum.add(__shfl_xor_sync(everyone, sum.sum, step));
            sum.lost += other_lost;
        }
        const float scale = __shfl_sync(everyone, 1 / sum.value(), 0);  // one for all: lanes add in different orders
        for (std::size_t i = lane; i < all.columns; i += kernels::warp_size) x[i] *= scale;
    }
}
#endif

}  // namespace

void detail::softmax(stream on, tensor<float>& x, const source_location& location) {
    detail::require_held(x, {"softmax", on.owner().name(), location});
    if (x.size() == 0) return;
    softmax_closure closure{x.device_data(), x.rows(), x.columns()};
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&softmax_on_device);
    const std::size_t blocks = (x.rows() + softmax_warps - 1) / softmax_warps;
    command.grid.x = static_cast<unsigned>(std::min<std::size_t>(blocks, 65535));
    command.block.x = kernels::warp_size * softmax_warps;
#endif
    command.host_function = &softmax_on_host;
    detail::set_closure(command, closure);
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    on.launch({"softmax", accesses, location}, command);
}

}  // namespace sluice
