// SPDX-License-Identifier: Apache-2.0
// The mean of each image and the small convolutions of one pixel after it, as one kernel: a block makes them for an
// image. Networks with squeeze-and-excite have many of these, and none is enough work for a kernel.
#include <new>

#include "kernels/image_batch/image_batch_end.hpp"
#include "kernels/image_batch/image_batch_kernels.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"

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
constexpr unsigned image_threads = 1024, lanes_of_warp = 32;

template <typename T>
struct alignas(16) eight_of {
    T each[8];
};

template <typename T>
__global__ void __launch_bounds__(image_threads) squeeze(const __grid_constant__ squeezed_images of) {
    __shared__ float sums[image_threads * 8];
    __shared__ float values[2][most_squeezed_channels];
    dependency_trigger();
    dependency_wait();
    const unsigned thread = threadIdx.x, image = blockIdx.x;

    // Each group of threads adds some of the pixels; then the groups' sums are added.
    const unsigned vectors = of.channels / 8, groups = image_threads / vectors;
    const unsigned group = thread / vectors, vector = thread % vectors;
    const bool adds = group < groups;
    float sum[8] = {};
    if (adds) {
        const T* const x = reinterpret_cast<const T*>(of.x) + image * of.image + vector * 8;
#pragma unroll 4
        for (unsigned p = group; p < of.pixels; p += groups) {
            const auto some =
                *reinterpret_cast<const eight_of<T>*>(x + p / of.width * of.row + p % of.width * of.pixel);
            for (unsigned i = 0; i < 8; ++i) sum[i] += float{some.each[i]};
        }
        for (unsigned i = 0; i < 8; ++i) sums[i * image_threads + thread] = sum[i];
    }
    __syncthreads();
    for (unsigned left = groups; left > 1;) {
        const unsigned half = (left + 1) / 2;
        if (group + half < left) {
            for (unsigned i = 0; i < 8; ++i)
                sums[i * image_threads + thread] += sums[i * image_threads + thread + half * vectors];
        }
        left = half;
        __syncthreads();
    }
    for (unsigned c = thread; c < of.channels; c += image_threads) {
        const T made(of.mean.end(sums[c % 8 * image_threads + c / 8] / static_cast<float>(of.pixels)));
        values[0][c] = float{made};
        reinterpret_cast<T*>(of.mean.out)[image * of.mean.image + c] = made;
    }
    __syncthreads();

    for (unsigned l = 0; l < of.layers; ++l) {
        const squeezed_layer& layer = of.layer[l];
        const float* const from = values[l % 2];
        float* const to = values[(l + 1) % 2];
        const unsigned parts = layer.channels / 8;
        unsigned lanes = 1;  // that share a filter
        while (lanes < lanes_of_warp && lanes * 2 <= parts) lanes *= 2;
        const unsigned at_once = image_threads / lanes, lane = thread % lanes;
        const auto* const filters = reinterpret_cast<const T*>(layer.filters);
#pragma unroll 4
        for (unsigned first = 0; first < layer.count; first += at_once) {
            const unsigned filter = first + thread / lanes;
            const bool exists = filter < layer.count;
            float made = 0;
            for (unsigned part = lane; exists && part < parts; part += lanes) {
                const auto some =
                    *reinterpret_cast<const eight_of<T>*>(filters + std::size_t{filter} * layer.channels + part * 8);
                for (unsigned i = 0; i < 8; ++i) made += float{some.each[i]} * from[part * 8 + i];
            }
            for (unsigned other = lanes / 2; other != 0; other /= 2) made += __shfl_xor_sync(~0u, made, other);
            if (!exists || lane != 0) continue;
            const T last(layer.end(made + float{reinterpret_cast<const T*>(layer.bias)[filter]}));
            to[filter] = float{last};
            reinterpret_cast<T*>(layer.out)[image * layer.image + filter] = last;
        }
        __syncthreads();
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
           step.in.width == 1 && step.window.size.height == 1 && step.window.size.width == 1 && step.out.height == 1 &&
           step.out.width == 1 && step.from.first == before.to.first && form.channels == step.in.channels &&
           step.in.channels == before.out.channels && form.filters == step.out.channels && form.channels % 8 == 0 &&
           step.out.channels <= most_squeezed_channels;
}

}  // namespace
}  // namespace SLUICE_LAUNCH_ABI

std::size_t squeezed_steps(const image_step* steps, std::size_t count) {
    // What one block reads faster than several kernels start.
    constexpr std::size_t most_elements = 320 * 1024, most_weights = 320 * 1024;
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

launch_command squeeze_command(const batch_call& call, const image_step* steps, std::size_t count,
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
    command.grid.x = number(call.images);
#if defined(__CUDACC__)
    command.block = {image_threads, 1, 1};
    command.device_function = call.type == short_type::f16 ? reinterpret_cast<const void*>(&squeeze<half>)
                                                           : reinterpret_cast<const void*>(&squeeze<bfloat16>);
#endif
    return command;
}

}  // namespace sluice::kernels
