// SPDX-License-Identifier: Apache-2.0
// The mean of each image and the small convolutions of one pixel after it, as
// one kernel: a cluster of blocks makes them for an image. Networks with
// squeeze-and-excite have many of these, and none is enough work for a kernel.
#include <new>

#include "kernels/image_batch/image_batch_end.hpp"
#include "kernels/image_batch/image_batch_kernels.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"

#if defined(__CUDACC__)
#include "sluice/kernels/mbarrier.hpp"
#endif

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {
namespace {

constexpr unsigned most_layers = 2;
constexpr std::size_t most_squeezed_channels = 2048;

struct squeezed_layer {
    const std::byte *filters, *bias;
    unsigned channels, count;  // of a filter; filters
    std::byte* out;
    std::size_t image;  // from one image's outputs to the next
    step_end end;
};

struct squeezed_images {
    const std::byte* x;
    std::size_t image, row, pixel;
    unsigned width, pixels, channels, layers;
    squeezed_layer mean;  // its filters do not count
    squeezed_layer layer[most_layers];
};

#if defined(__CUDACC__)
constexpr unsigned lanes_of_warp = 32;
template <unsigned Blocks>
constexpr unsigned threads_with = Blocks == 1 ? 1024 : 512;

template <typename T>
struct alignas(16) eight_of {
    T each[8];
};

// What a block shares with the others of its cluster.
template <unsigned Threads>
struct squeezed_values {
    float sums[Threads * 8];
    float values[2][most_squeezed_channels];
};

// The number that another block of the cluster has where this one has `mine`.
template <unsigned Blocks>
__device__ float of_block(const float* mine, unsigned block) {
    float made = *mine;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    if constexpr (Blocks > 1)
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(made) : "r"(address_in_block(mine, block)) : "memory");
#endif
    return made;
}

template <unsigned Blocks>
__device__ void synchronize() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    if constexpr (Blocks > 1) return cluster_barrier();
#endif
    __syncthreads();
}

// Of the sum over a block's pixels, channel c is at sums[c % 8 * Threads + c / 8].
template <typename T, unsigned Blocks, unsigned Threads>
__device__ void sum_pixels(const squeezed_images& of, unsigned image, unsigned rank, float* sums) {
    // Each group of threads adds some of the pixels; then the groups' sums are added.
    const unsigned vectors = of.channels / 8, groups = Threads / vectors;
    const unsigned group = threadIdx.x / vectors, vector = threadIdx.x % vectors;
    float sum[8] = {};
    if (group < groups) {
        const T* const x = reinterpret_cast<const T*>(of.x) + image * of.image + vector * 8;
#pragma unroll 4
        for (unsigned p = rank * groups + group; p < of.pixels; p += Blocks * groups) {
            const auto some =
                *reinterpret_cast<const eight_of<T>*>(x + p / of.width * of.row + p % of.width * of.pixel);
            for (unsigned i = 0; i < 8; ++i) sum[i] += float(some.each[i]);
        }
        for (unsigned i = 0; i < 8; ++i) sums[i * Threads + threadIdx.x] = sum[i];
    }
    __syncthreads();
    for (unsigned left = groups; left > 1;) {
        const unsigned half = (left + 1) / 2;
        if (group + half < left) {
            for (unsigned i = 0; i < 8; ++i)
                sums[i * Threads + threadIdx.x] += sums[i * Threads + threadIdx.x + half * vectors];
        }
        left = half;
        __syncthreads();
    }
}

// The outputs of this block's filters.
template <typename T, unsigned Blocks, unsigned Threads>
__device__ void make_outputs(const squeezed_layer& layer, unsigned image, unsigned rank, const float* from, float* to) {
    constexpr unsigned together = 4;  // filters of a group of lanes, so that some reads are in flight
    const unsigned parts = layer.channels / 8;
    unsigned lanes = 1;  // that share a filter
    while (lanes < lanes_of_warp && lanes * 2 <= parts) lanes *= 2;
    const unsigned groups = Blocks * Threads / lanes, lane = threadIdx.x % lanes;
    const unsigned group = (rank * Threads + threadIdx.x) / lanes;
    const auto* const filters = reinterpret_cast<const T*>(layer.filters);
    for (unsigned first = 0; first < layer.count; first += together * groups) {
        float made[together] = {};
        for (unsigned part = lane; part < parts; part += lanes) {
            eight_of<T> some[together];
#pragma unroll
            for (unsigned k = 0; k < together; ++k) {
                const unsigned filter = first + k * groups + group;
                some[k] = {};
                if (filter < layer.count)
                    some[k] = *reinterpret_cast<const eight_of<T>*>(filters + std::size_t{filter} * layer.channels +
                                                                    part * 8);
            }
            for (unsigned i = 0; i < 8; ++i) {
                const float x = from[part * 8 + i];
#pragma unroll
                for (unsigned k = 0; k < together; ++k) made[k] += float(some[k].each[i]) * x;
            }
        }
#pragma unroll
        for (unsigned k = 0; k < together; ++k) {
            for (unsigned other = lanes / 2; other != 0; other /= 2) made[k] += __shfl_xor_sync(~0u, made[k], other);
        }
#pragma unroll
        for (unsigned k = 0; k < together; ++k) {
            const unsigned filter = first + k * groups + group;
            if (lane != 0 || filter >= layer.count) continue;
            const T last = T(layer.end(made[k] + float(reinterpret_cast<const T*>(layer.bias)[filter])));
            to[filter] = float(last);
            reinterpret_cast<T*>(layer.out)[image * layer.image + filter] = last;
        }
    }
}

// Whose filter it is, as make_outputs divides them.
template <unsigned Blocks, unsigned Threads>
__device__ unsigned block_of(const squeezed_layer& layer, unsigned filter) {
    const unsigned parts = layer.channels / 8;
    unsigned lanes = 1;
    while (lanes < lanes_of_warp && lanes * 2 <= parts) lanes *= 2;
    return filter % (Blocks * Threads / lanes) * lanes / Threads;
}

// A cluster of blocks for each image, or one block.
template <typename T, unsigned Blocks>
__global__ void __launch_bounds__(threads_with<Blocks>) squeeze(const __grid_constant__ squeezed_images of) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    if constexpr (Blocks > 1) __trap();  // asked for only where there are clusters
#endif
    constexpr unsigned Threads = threads_with<Blocks>;
    __shared__ squeezed_values<Threads> mine;
    dependency_trigger();
    dependency_wait();
    const unsigned rank = Blocks == 1 ? 0 : blockIdx.x % Blocks, image = blockIdx.x / Blocks, thread = threadIdx.x;
    sum_pixels<T, Blocks, Threads>(of, image, rank, mine.sums);
    synchronize<Blocks>();
    for (unsigned c = thread; c < of.channels; c += Threads) {
        float sum = 0;
#pragma unroll
        for (unsigned block = 0; block < Blocks; ++block)
            sum += of_block<Blocks>(&mine.sums[c % 8 * Threads + c / 8], block);
        const T made = T(of.mean.end(sum / static_cast<float>(of.pixels)));
        mine.values[0][c] = float(made);
        if (rank == 0) reinterpret_cast<T*>(of.mean.out)[image * of.mean.image + c] = made;
    }
    __syncthreads();
#pragma unroll
    for (unsigned l = 0; l < most_layers; ++l) {
        if (l == of.layers) break;
        float *const from = mine.values[l % 2], *const to = mine.values[(l + 1) % 2];
        make_outputs<T, Blocks, Threads>(of.layer[l], image, rank, from, to);
        // No block leaves, or writes again, while another one reads what it shares.
        synchronize<Blocks>();
        if constexpr (Blocks > 1) {
            if (l + 1 == of.layers) continue;
            for (unsigned k = thread; k < of.layer[l].count; k += Threads) {
                const unsigned block = block_of<Blocks, Threads>(of.layer[l], k);
                if (block != rank) to[k] = of_block<Blocks>(&to[k], block);
            }
            __syncthreads();
        }
    }
}
#endif

bool begins_at_eights(const image_place& place) {
    return place.first % 8 == 0 && place.image % 8 == 0 && place.row % 8 == 0 && place.pixel % 8 == 0;
}

bool is_mean(const image_step& step) {
    const image_window& window = step.window;
    return step.what == image_work::average && step.out.height == 1 && step.out.width == 1 &&
           window.size.height == step.in.height && window.size.width == step.in.width && window.before.height == 0 &&
           window.before.width == 0 && window.after.height == 0 && window.after.width == 0;
}

// Whether it is a convolution of the one pixel that `before` gives.
bool follows(const image_step& step, const image_step& before) {
    const filter_form form = filter_form_of(step);
    return step.what == image_work::convolve && step.groups == 1 && !step.has_also && step.in.height == 1 &&
           step.in.width == 1 && step.window.size.height == 1 && step.window.size.width == 1 &&
           step.window.before.height == 0 && step.window.before.width == 0 && step.out.height == 1 &&
           step.out.width == 1 && step.from.first == before.to.first && form.channels == step.in.channels &&
           step.in.channels == before.out.channels && form.filters == step.out.channels && form.channels % 8 == 0 &&
           step.out.channels <= most_squeezed_channels;
}

}  // namespace
}  // namespace SLUICE_LAUNCH_ABI

std::size_t squeezed_steps(const image_step* steps, std::size_t count) {
    // What a cluster reads faster than several kernels start.
    constexpr std::size_t most_elements = std::size_t{1} << 20, most_weights = 768 * 1024;
    if (count < 2 || !is_mean(steps[0])) return 0;
    const image_size& in = steps[0].in;
    if (in.channels % 8 != 0 || in.channels > most_squeezed_channels || !begins_at_eights(steps[0].from) ||
        in.elements() > most_elements)
        return 0;
    std::size_t made = 1, weights = 0;
    for (; made < count && made <= most_layers && follows(steps[made], steps[made - 1]); ++made) {
        weights += steps[made].in.channels * steps[made].out.channels;
        if (weights > most_weights) break;
    }
    return made > 1 ? made : 0;
}

launch_command squeeze_command(const batch_call& call, const image_step* steps, std::size_t count, std::size_t blocks,
                               batch_closure& closure) {
    static_assert(sizeof(squeezed_images) <= sizeof(closure.bytes));
    const auto number = [](std::size_t x) { return static_cast<unsigned>(x); };
    const auto layer = [&](const image_step& step) {
        const std::byte* const filters = call.numbers + step.numbers;
        return squeezed_layer{filters,
                              filters + filter_form_of(step).bias,
                              number(step.in.channels),
                              number(step.out.channels),
                              call.scratch + step.to.first * short_bytes,
                              step.to.image,
                              end_of(step)};
    };
    const image_step& mean = steps[0];
    auto* const made = new (closure.bytes) squeezed_images{call.scratch + mean.from.first * short_bytes,
                                                           mean.from.image,
                                                           mean.from.row,
                                                           mean.from.pixel,
                                                           number(mean.in.width),
                                                           number(mean.in.height * mean.in.width),
                                                           number(mean.in.channels),
                                                           number(count - 1),
                                                           layer(mean),
                                                           {}};
    for (std::size_t i = 1; i < count; ++i) made->layer[i - 1] = layer(steps[i]);
    launch_command command;
    command.closure = made;
    command.closure_bytes = sizeof(squeezed_images);
    command.grid.x = number(call.images * blocks);
    command.cluster.x = number(blocks);
#if defined(__CUDACC__)
    command.block = {blocks == 1 ? threads_with<1> : threads_with<blocks_of_cluster>, 1, 1};
    const auto kernel = [&]<typename T>() {
        return blocks == 1 ? reinterpret_cast<const void*>(&squeeze<T, 1>)
                           : reinterpret_cast<const void*>(&squeeze<T, blocks_of_cluster>);
    };
    command.device_function =
        call.type == short_type::f16 ? kernel.template operator()<half>() : kernel.template operator()<bfloat16>();
#endif
    return command;
}

}  // namespace sluice::kernels
