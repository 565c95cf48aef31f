// softmax: on a GPU a warp makes one row, in three passes over it (maximum, sum, division); on a CPU one loop
// after the other does.
#include "sluice/kernels/softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/runtime/kernel.hpp"

namespace sluice {
namespace {

struct softmax_closure {
    float* x;
    std::size_t rows;
    std::size_t columns;
};

// The larger of two; NaN if either is.
SLUICE_KERNEL inline float max_or_nan(float a, float b) { return a > b || a != a ? a : b; }

void softmax_on_host(const void* closure) {
    const auto& all = *static_cast<const softmax_closure*>(closure);
    for (std::size_t row = 0; row < all.rows; ++row) {
        float* const x = all.x + row * all.columns;
        float largest = x[0];
        for (std::size_t i = 1; i < all.columns; ++i) largest = max_or_nan(largest, x[i]);
        float sum = 0;
        for (std::size_t i = 0; i < all.columns; ++i) sum += x[i] = std::exp(x[i] - largest);
        const float scale = 1 / sum;
        for (std::size_t i = 0; i < all.columns; ++i) x[i] *= scale;
    }
}

#if defined(__CUDACC__)
constexpr unsigned warp_size = 32;
constexpr unsigned warps_per_block = 8;

__global__ void softmax_on_device(const __grid_constant__ softmax_closure all) {
    constexpr unsigned everyone = 0xffffffff;
    const unsigned lane = threadIdx.x % warp_size;
    const std::size_t first = std::size_t{blockIdx.x} * warps_per_block + threadIdx.x / warp_size;
    for (std::size_t row = first; row < all.rows; row += std::size_t{gridDim.x} * warps_per_block) {
        float* const x = all.x + row * all.columns;
        float largest = x[0];
        for (std::size_t i = lane; i < all.columns; i += warp_size) largest = max_or_nan(largest, x[i]);
        for (unsigned step = warp_size / 2; step != 0; step /= 2) {
            largest = max_or_nan(largest, __shfl_xor_sync(everyone, largest, step));
        }
        float sum = 0;
        for (std::size_t i = lane; i < all.columns; i += warp_size) sum += x[i] = expf(x[i] - largest);
        for (unsigned step = warp_size / 2; step != 0; step /= 2) sum += __shfl_xor_sync(everyone, sum, step);
        const float scale = 1 / sum;
        for (std::size_t i = lane; i < all.columns; i += warp_size) x[i] *= scale;
    }
}
#endif

}  // namespace

void softmax(stream& on, tensor<float>& x, source_location where) {
    if (x.size() == 0) return;
    const softmax_closure closure{x.device_data(), x.rows(), x.columns()};
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&softmax_on_device);
    const std::size_t blocks = (x.rows() + warps_per_block - 1) / warps_per_block;
    command.grid.x = static_cast<unsigned>(std::min<std::size_t>(blocks, 65535));
    command.block.x = warp_size * warps_per_block;
#endif
    command.host_function = &softmax_on_host;
    command.closure = &closure;
    command.closure_bytes = sizeof(closure);
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    on.launch({"softmax", accesses, where}, command);
}

}  // namespace sluice
