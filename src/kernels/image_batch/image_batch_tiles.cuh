// SPDX-License-Identifier: Apache-2.0
// Between channels first and channels last, by tiles that are turned in shared memory: both sides are read and written
// by neighbouring threads where they are.
#pragma once

#include "kernels/image_batch/image_batch_steps.cuh"

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {

template <typename Kernel>
struct closure_of {
    unsigned count;
    Kernel kernel;
};

#if defined(__CUDACC__)
inline constexpr unsigned tile_channels = 64, tile_pixels = 64, tile_pitch = tile_pixels + 1, tile_lanes = 32,
                          tile_threads = 256;

template <typename Kernel>
struct tile_of {
    unsigned image, first_channel, first_pixel;

    __device__ explicit tile_of(const Kernel& of, unsigned channels) {
        const unsigned wide = (of.plane + tile_pixels - 1) / tile_pixels,
                       high = (channels + tile_channels - 1) / tile_channels;
        first_pixel = blockIdx.x % wide * tile_pixels;
        first_channel = blockIdx.x / wide % high * tile_channels;
        image = blockIdx.x / wide / high;
    }
};

template <typename T, unsigned Count>
__global__ void __launch_bounds__(tile_threads)
    enter_tiles(const __grid_constant__ closure_of<entered_channels<T, Count>> all) {
    __shared__ T kept[tile_channels][tile_pitch];
    dependency_trigger();
    dependency_wait();
    const entered_channels<T, Count>& of = all.kernel;
    const unsigned channels = of.vectors * Count, warp = threadIdx.x / tile_lanes, lane = threadIdx.x % tile_lanes;
    const tile_of<entered_channels<T, Count>> tile(of, channels);
    const float* const from = of.x + std::size_t{tile.image} * of.channels * of.plane + tile.first_pixel;
#pragma unroll
    for (unsigned c = warp; c < tile_channels; c += tile_threads / tile_lanes) {
#pragma unroll
        for (unsigned p = lane; p < tile_pixels; p += tile_lanes) {
            const unsigned channel = tile.first_channel + c;
            const bool is_there = channel < of.channels && tile.first_pixel + p < of.plane;
            kept[c][p] = T(is_there ? from[std::size_t{channel} * of.plane + p] : 0.0f);
        }
    }
    __syncthreads();
    for (unsigned p = warp; p < tile_pixels && tile.first_pixel + p < of.plane; p += tile_threads / tile_lanes) {
        const unsigned pixel = tile.first_pixel + p;
        T* const to = of.out.at(tile.image, pixel / of.width, pixel % of.width, tile.first_channel);
#pragma unroll
        for (unsigned c = lane; c < tile_channels; c += tile_lanes)
            if (tile.first_channel + c < channels) to[c] = kept[c][p];
    }
}

template <typename T>
__global__ void __launch_bounds__(tile_threads) leave_tiles(const __grid_constant__ closure_of<left_element<T>> all) {
    __shared__ T kept[tile_channels][tile_pitch];
    dependency_trigger();
    dependency_wait();
    const left_element<T>& of = all.kernel;
    const unsigned warp = threadIdx.x / tile_lanes, lane = threadIdx.x % tile_lanes;
    const tile_of<left_element<T>> tile(of, of.channels);
    for (unsigned p = warp; p < tile_pixels && tile.first_pixel + p < of.plane; p += tile_threads / tile_lanes) {
        const unsigned pixel = tile.first_pixel + p;
        const T* const from = of.x.at(tile.image, pixel / of.width, pixel % of.width, tile.first_channel);
#pragma unroll
        for (unsigned c = lane; c < tile_channels; c += tile_lanes)
            if (tile.first_channel + c < of.channels) kept[c][p] = from[c];
    }
    __syncthreads();
    float* const to = of.y + std::size_t{tile.image} * of.channels * of.plane + tile.first_pixel;
#pragma unroll
    for (unsigned c = warp; c < tile_channels; c += tile_threads / tile_lanes) {
#pragma unroll
        for (unsigned p = lane; p < tile_pixels; p += tile_lanes) {
            const unsigned channel = tile.first_channel + c;
            if (channel < of.channels && tile.first_pixel + p < of.plane)
                to[std::size_t{channel} * of.plane + p] = float(kept[c][p]);
        }
    }
}
#endif

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::kernels
