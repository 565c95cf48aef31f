// SPDX-License-Identifier: Apache-2.0
// Convolutions of few outputs and many products, as networks have them for single images: one block makes a tile of
// outputs, and its warps share the products, each with every eighth part of the windows. cuDNN's kernels leave most of
// the GPU without work there.
//
// Tensor cores multiply 16 pixels by 8 filters, 16 numbers of each at a time. The order of the numbers does not matter
// as long as it is that of pixels and filters alike, so a thread reads neighbouring channels straight from memory:
// of a part of 32 channels, thread t of four those from 8 * t on, of which the first four belong to the first product
// and the others to the second one.
#include "kernels/image_batch/image_batch_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>
#include <string>
#include <type_traits>

#include "kernels/image_batch/image_batch_end.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"

#if defined(__CUDACC__)
#include "sluice/kernels/detail/mma.hpp"
#endif

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {
namespace {

struct place_of_images {
    std::byte* first;               // null: there is none
    std::size_t image, row, pixel;  // elements
};

struct shared_convolution {
    place_of_images x, also, out;
    const std::byte *filters, *bias;
    unsigned channels, filter_count, pixels;  // of a pixel; all; of all images
    unsigned in_height, in_width, out_height, out_width;
    unsigned window_height, window_width;
    int down, across, dilation_down, dilation_across, top, left;
    step_end end;
};

#if defined(__CUDACC__)
constexpr unsigned warps = 8, warp_lanes = 32;

// This many channels of a pixel or filter, of 16 bits: a quarter of a part.
template <unsigned Part>
using quarter = std::conditional_t<Part == 32, uint4, uint2>;

template <typename T, unsigned Part, unsigned Tiles, unsigned Columns>
__global__ void __launch_bounds__(warps* warp_lanes) convolve_shared(const __grid_constant__ shared_convolution of) {
    constexpr unsigned rows = 16 * Tiles, columns = 8 * Columns;
    __shared__ float sums_of_warps[warps][rows][columns + 1];
    const unsigned warp = threadIdx.x / warp_lanes, group = threadIdx.x % warp_lanes / 4, t = threadIdx.x % 4;
    const unsigned first_pixel = blockIdx.x * rows, first_filter = blockIdx.y * columns;
    const auto* const x = reinterpret_cast<const T*>(of.x.first);
    const auto* const filters = reinterpret_cast<const T*>(of.filters);

    // The windows of pixels group, group + 8, ...
    constexpr int outside = -(1 << 28);
    const T* images[2 * Tiles];
    int tops[2 * Tiles], lefts[2 * Tiles];
#pragma unroll
    for (unsigned i = 0; i < 2 * Tiles; ++i) {
        const unsigned pixel = first_pixel + 8 * i + group;
        const unsigned column = pixel % of.out_width, row = pixel / of.out_width % of.out_height;
        const bool is_there = pixel < of.pixels;
        images[i] = x + (is_there ? pixel / of.out_width / of.out_height : 0) * of.x.image;
        tops[i] = is_there ? static_cast<int>(row) * of.down - of.top : outside;
        lefts[i] = static_cast<int>(column) * of.across - of.left;
    }

    float sums[Tiles][Columns][4] = {};
    const unsigned parts = of.channels / Part, all = of.window_height * of.window_width * parts;
    constexpr int at_once = Tiles == 1 && Columns == 4 ? 4 : 2;  // so that some reads are in flight
#pragma unroll at_once
    for (unsigned at = warp; at < all; at += warps) {
        const unsigned tap = at / parts, channel = at % parts * Part + t * (Part / 4);
        const int row = static_cast<int>(tap / of.window_width) * of.dilation_down,
                  column = static_cast<int>(tap % of.window_width) * of.dilation_across;
        quarter<Part> a[2 * Tiles], b[Columns];
#pragma unroll
        for (unsigned i = 0; i < 2 * Tiles; ++i) {
            const int y = tops[i] + row, z = lefts[i] + column;
            a[i] = {};
            if (static_cast<unsigned>(y) < of.in_height && static_cast<unsigned>(z) < of.in_width) {
                a[i] = *reinterpret_cast<const quarter<Part>*>(images[i] + static_cast<unsigned>(y) * of.x.row +
                                                               static_cast<unsigned>(z) * of.x.pixel + channel);
            }
        }
#pragma unroll
        for (unsigned j = 0; j < Columns; ++j) {
            const unsigned filter = first_filter + 8 * j + group;
            b[j] = {};
            if (filter < of.filter_count) {
                b[j] = *reinterpret_cast<const quarter<Part>*>(
                    filters + (std::size_t{filter} * of.window_height * of.window_width + tap) * of.channels + channel);
            }
        }
#pragma unroll
        for (unsigned i = 0; i < Tiles; ++i) {
#pragma unroll
            for (unsigned j = 0; j < Columns; ++j) {
                const std::uint32_t first[4] = {a[2 * i].x, a[2 * i + 1].x, a[2 * i].y, a[2 * i + 1].y};
                mma<T>(sums[i][j], first, b[j].x, b[j].y);
                if constexpr (Part == 32) {
                    const std::uint32_t second[4] = {a[2 * i].z, a[2 * i + 1].z, a[2 * i].w, a[2 * i + 1].w};
                    mma<T>(sums[i][j], second, b[j].z, b[j].w);
                }
            }
        }
    }

#pragma unroll
    for (unsigned i = 0; i < Tiles; ++i) {
#pragma unroll
        for (unsigned j = 0; j < Columns; ++j) {
            for (unsigned k = 0; k < 4; ++k)
                sums_of_warps[warp][16 * i + group + k / 2 * 8][8 * j + 2 * t + k % 2] = sums[i][j][k];
        }
    }
    __syncthreads();
    const auto* const bias = reinterpret_cast<const T*>(of.bias);
    const auto* const also = reinterpret_cast<const T*>(of.also.first);
    for (unsigned i = threadIdx.x; i < rows * columns; i += warps * warp_lanes) {
        const unsigned pixel = first_pixel + i / columns, filter = first_filter + i % columns;
        if (pixel >= of.pixels || filter >= of.filter_count) continue;
        float made = float{bias[filter]};
        for (unsigned w = 0; w < warps; ++w) made += sums_of_warps[w][i / columns][i % columns];
        const std::size_t column = pixel % of.out_width, row = pixel / of.out_width % of.out_height,
                          image = pixel / of.out_width / of.out_height;
        if (also != nullptr)
            made += float{also[image * of.also.image + row * of.also.row + column * of.also.pixel + filter]};
        reinterpret_cast<T*>(of.out.first)[image * of.out.image + row * of.out.row + column * of.out.pixel + filter] =
            T(of.end(made));
    }
}

template <typename T, unsigned Part>
const void* kernel_of(const convolution_tile& tile) {
    if (tile.pixels == 32) return reinterpret_cast<const void*>(&convolve_shared<T, Part, 2, 4>);
    if (tile.filters == 64) return reinterpret_cast<const void*>(&convolve_shared<T, Part, 1, 8>);
    return reinterpret_cast<const void*>(&convolve_shared<T, Part, 1, 4>);  // see require_tile
}
#endif

}  // namespace
}  // namespace SLUICE_LAUNCH_ABI

namespace {

// Those that kernel_of has kernels for.
constexpr convolution_tile all_tiles[] = {{16, 32}, {32, 32}, {16, 64}};

bool fits_tiles(const image_step& step) {
    const filter_form form = filter_form_of(step);
    const auto is_in_eights = [](const image_place& place) {
        return place.first % 8 == 0 && place.image % 8 == 0 && place.row % 8 == 0 && place.pixel % 8 == 0;
    };
    return step.what == image_work::convolve && step.groups == 1 && form.channels == step.in.channels &&
           form.filters == step.out.channels && form.channels % 16 == 0 && is_in_eights(step.from);
}

// Another tile would run a kernel whose blocks make other elements.
void require_tile(const image_step& step, const convolution_tile& tile) {
    const error_context context{"convolutions"};
    if (!fits_tiles(step)) {
        throw error(
            errc::invalid_argument,
            "tiles are for convolutions of one group, of whole numbers of 16 channels that lie at multiples of 8; "
            "batch_command carries out all steps",
            context);
    }
    const auto is_it = [&](const convolution_tile& each) {
        return each.pixels == tile.pixels && each.filters == tile.filters;
    };
    if (std::any_of(std::begin(all_tiles), std::end(all_tiles), is_it)) return;
    std::string possible;
    for (const convolution_tile& each : all_tiles)
        possible += (possible.empty() ? "" : ", ") + std::to_string(each.pixels) + " x " + std::to_string(each.filters);
    throw error(errc::invalid_argument,
                "no kernel has tiles of " + std::to_string(tile.pixels) + " x " + std::to_string(tile.filters) +
                    " (pixels x filters); there are " + possible,
                context);
}

}  // namespace

std::vector<convolution_tile> convolution_tiles_for(const image_step& step) {
    if (!fits_tiles(step)) return {};
    return {std::begin(all_tiles), std::end(all_tiles)};
}

launch_command batch_convolution_command(const batch_call& call, const image_step& step, const convolution_tile& tile,
                                         batch_closure& closure) {
    require_tile(step, tile);
    const auto count = [](std::size_t x) { return static_cast<unsigned>(x); };
    const auto place = [&](const image_place& of) {
        return place_of_images{call.scratch + of.first * short_bytes, of.image, of.row, of.pixel};
    };
    const image_window& window = step.window;
    const filter_form form = filter_form_of(step);
    const std::size_t pixels = call.images * step.out.height * step.out.width;
    static_assert(sizeof(shared_convolution) <= sizeof(closure.bytes));
    auto* const made = new (closure.bytes) shared_convolution{place(step.from),
                                                              step.has_also ? place(step.also) : place_of_images{},
                                                              place(step.to),
                                                              call.numbers + step.numbers,
                                                              call.numbers + step.numbers + form.bias,
                                                              count(step.in.channels),
                                                              count(step.out.channels),
                                                              count(pixels),
                                                              count(step.in.height),
                                                              count(step.in.width),
                                                              count(step.out.height),
                                                              count(step.out.width),
                                                              count(window.size.height),
                                                              count(window.size.width),
                                                              static_cast<int>(window.stride.height),
                                                              static_cast<int>(window.stride.width),
                                                              static_cast<int>(window.dilation.height),
                                                              static_cast<int>(window.dilation.width),
                                                              static_cast<int>(window.before.height),
                                                              static_cast<int>(window.before.width),
                                                              end_of(step)};
    launch_command command;
    command.closure = made;
    command.closure_bytes = sizeof(shared_convolution);
    command.grid = {count((pixels + tile.pixels - 1) / tile.pixels),
                    count((step.out.channels + tile.filters - 1) / tile.filters), 1};
#if defined(__CUDACC__)
    command.block = {warps * warp_lanes, 1, 1};
    const bool is_wide = step.in.channels % 32 == 0;
    if (call.type == short_type::f16) {
        command.device_function = is_wide ? kernel_of<half, 32>(tile) : kernel_of<half, 16>(tile);
    } else {
        command.device_function = is_wide ? kernel_of<bfloat16, 32>(tile) : kernel_of<bfloat16, 16>(tile);
    }
#endif
    return command;
}

}  // namespace sluice::kernels
