// SPDX-License-Identifier: Apache-2.0
// Convolutions on tensor cores, with all that networks have around them: the
// scale of the pixels' channels before, the addend, the curve and the bounds
// after, and the phases of a transposed convolution.
//
// A tile of outputs is some pixels times some filters. Either the warps of a
// block share the products of one tile, each with every eighth part of the
// windows: for few outputs of many products, as networks have them for single
// images, where cuDNN's kernels leave most of the GPU without work. Or each
// warp has a tile of its own: for many outputs of few products, which the
// memory bounds, so that what follows the sums costs nothing.
//
// Tensor cores multiply 16 pixels by 8 filters, 16 numbers of each at a time.
// The order of the numbers does not matter as long as it is that of pixels and
// filters alike, so a thread reads neighbouring channels straight from memory:
// of a part of 32 channels, thread t of four those from 8 * t on, of which the
// first four belong to the first product and the others to the second one.
// Pixels of 4 channels come in fours: thread t has the t-th one of the window's
// row.
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

struct tiled_convolution {
    place_of_images x, also, out;
    place_of_images gate;  // one pixel for each image: factors of the channels of x
    const std::byte *filters, *bias;
    unsigned channels, filter_count, images;  // of a pixel; all; all
    unsigned in_height, in_width, out_height, out_width;
    unsigned window_height, window_width;
    int down, across, dilation_down, dilation_across, top, left;
    // Of a transposed convolution: the outputs of phase (r, s) are every
    // `down`-th row from r on, and so on (see image_work::convolve_transposed);
    // else 1.
    unsigned phases_down, phases_across;
    unsigned plane;    // pixels of an image; the rows of all images follow each
                       // other where the kernel is `Flat`
    bool has_vectors;  // 8 neighbouring channels of outputs and addends are read
                       // and written at once
    step_end end;
};

#if defined(__CUDACC__)
constexpr unsigned warp_lanes = 32;

// This many channels of a pixel or filter, of 16 bits: a quarter of a part.
template <unsigned Part>
using quarter = std::conditional_t<Part == 32, uint4, uint2>;

template <typename T>
__device__ std::uint32_t product_of_pairs(std::uint32_t a, std::uint32_t b) {
    std::uint32_t made;
    if constexpr (std::is_same_v<T, half>) {
        asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(made) : "r"(a), "r"(b));
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        made = 0;  // no image batches on such a GPU
#else
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(made) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
    }
    return made;
}
template <typename T>
__device__ void scale(uint4& x, const uint4& by) {
    x = {product_of_pairs<T>(x.x, by.x), product_of_pairs<T>(x.y, by.y), product_of_pairs<T>(x.z, by.z),
         product_of_pairs<T>(x.w, by.w)};
}
template <typename T>
__device__ void scale(uint2& x, const uint2& by) {
    x = {product_of_pairs<T>(x.x, by.x), product_of_pairs<T>(x.y, by.y)};
}

template <typename T, unsigned Count>
struct alignas(sizeof(T) * Count) neighbours {
    T each[Count];
};

// What windows are: of one pixel each, of images whose pixels follow each
// other; any; any, of pixels with 4 channels: then a part is up to 4
// neighbouring columns of a window.
enum class tile_windows : unsigned char { pixels, any, narrow };

template <typename T, unsigned Part, unsigned Tiles, unsigned Columns, unsigned Warps, bool Shares,
          tile_windows Windows>
__global__ void __launch_bounds__(Warps* warp_lanes) convolve_tiles(const __grid_constant__ tiled_convolution of) {
    constexpr bool Flat = Windows == tile_windows::pixels, Narrow = Windows == tile_windows::narrow;
    constexpr unsigned rows = 16 * Tiles, columns = 8 * Columns;
    __shared__ float sums_of_warps[Warps][rows][columns + 1];
    dependency_trigger();
    const unsigned warp = threadIdx.x / warp_lanes, lane = threadIdx.x % warp_lanes;
    const unsigned group = lane / 4, t = lane % 4;
    const unsigned first_pixel = (Shares ? blockIdx.x : blockIdx.x * Warps + warp) * rows,
                   first_filter = blockIdx.y * columns;
    const auto* const x = reinterpret_cast<const T*>(of.x.first);
    const auto* filters = reinterpret_cast<const T*>(of.filters);

    // The outputs of a phase.
    const unsigned phase_row = blockIdx.z / of.phases_across, phase_column = blockIdx.z % of.phases_across;
    const unsigned height = (of.out_height - phase_row + of.phases_down - 1) / of.phases_down,
                   width = (of.out_width - phase_column + of.phases_across - 1) / of.phases_across;
    const unsigned taps = Flat ? 1 : of.window_height * of.window_width;
    const unsigned pixels = Flat ? of.images * of.plane : of.images * height * width;
    int top = of.top, left = of.left;
    if (!Flat && of.phases_down * of.phases_across != 1) {
        const int r = static_cast<int>(phase_row) + of.top, s = static_cast<int>(phase_column) + of.left;
        const int down = static_cast<int>(of.phases_down), across = static_cast<int>(of.phases_across);
        filters +=
            std::size_t{static_cast<unsigned>(r % down * across + s % across)} * of.filter_count * taps * of.channels;
        top = static_cast<int>(of.window_height) - 1 - r / down;
        left = static_cast<int>(of.window_width) - 1 - s / across;
    }

    // The windows of pixels group, group + 8, ...
    constexpr int outside = -(1 << 28);
    const T *images[2 * Tiles], *gates[2 * Tiles];
    int tops[2 * Tiles], lefts[2 * Tiles];
#pragma unroll
    for (unsigned i = 0; i < 2 * Tiles; ++i) {
        const unsigned pixel = first_pixel + 8 * i + group;
        const bool is_there = pixel < pixels;
        if constexpr (Flat) {
            images[i] = x + std::size_t{is_there ? pixel : 0} * of.x.pixel;
            gates[i] = reinterpret_cast<const T*>(of.gate.first);
            if (of.gate.first != nullptr) gates[i] += (is_there ? pixel / of.plane : 0) * of.gate.image;
            tops[i] = is_there ? 0 : outside;
            lefts[i] = 0;
        } else {
            const unsigned column = pixel % width, row = pixel / width % height;
            const unsigned image = is_there ? pixel / width / height : 0;
            images[i] = x + image * of.x.image;
            gates[i] = reinterpret_cast<const T*>(of.gate.first) + image * of.gate.image;
            tops[i] = is_there ? static_cast<int>(row) * of.down - top : outside;
            lefts[i] = static_cast<int>(column) * of.across - left;
        }
    }

    float sums[Tiles][Columns][4] = {};
    const unsigned parts_of_row = (of.window_width + 3) / 4, parts = (of.channels + Part - 1) / Part;
    const unsigned all = Narrow ? of.window_height * parts_of_row : taps * parts;
    // As many parts are read before the first one is multiplied as registers have room for.
    constexpr unsigned at_once = 2 * Tiles + Columns <= 6 ? 4 : 2, step_of_parts = Shares ? Warps : 1;
    for (unsigned first_part = Shares ? warp : 0; first_part < all; first_part += at_once * step_of_parts) {
        quarter<Part> a[at_once][2 * Tiles], b[at_once][Columns];
        unsigned rows_of_taps[at_once], columns_of_taps[at_once], channels[at_once];
        bool exist[at_once];  // of the window
#pragma unroll
        for (unsigned n = 0; n < at_once; ++n) {
            const unsigned at = first_part + n * step_of_parts;
            unsigned& tap_row = rows_of_taps[n];
            unsigned& tap_column = columns_of_taps[n];
            if constexpr (Narrow) {
                tap_row = at / parts_of_row;
                tap_column = at % parts_of_row * 4 + t;
                channels[n] = 0;
                exist[n] = at < all && tap_column < of.window_width;
            } else if constexpr (Flat) {
                tap_row = tap_column = 0;
                channels[n] = at * Part + t * (Part / 4);
                exist[n] = channels[n] < of.channels;
            } else {
                const unsigned tap = at / parts;
                tap_row = tap / of.window_width;
                tap_column = tap % of.window_width;
                channels[n] = at % parts * Part + t * (Part / 4);
                exist[n] = at < all && channels[n] < of.channels;
            }
            const std::size_t tap = tap_row * of.window_width + tap_column;
#pragma unroll
            for (unsigned j = 0; j < Columns; ++j) {
                const unsigned filter = first_filter + 8 * j + group;
                b[n][j] = {};
                if (exist[n] && filter < of.filter_count) {
                    b[n][j] = *reinterpret_cast<const quarter<Part>*>(
                        filters + (std::size_t{filter} * taps + tap) * of.channels + channels[n]);
                }
            }
        }
        // Filters are constants: they are read while the kernel before this one ends.
        if (first_part < step_of_parts) dependency_wait();
#pragma unroll
        for (unsigned n = 0; n < at_once; ++n) {
            const int row = static_cast<int>(rows_of_taps[n]) * of.dilation_down,
                      column = static_cast<int>(columns_of_taps[n]) * of.dilation_across;
#pragma unroll
            for (unsigned i = 0; i < 2 * Tiles; ++i) {
                const int y = tops[i] + row, z = lefts[i] + column;
                a[n][i] = {};
                const bool is_there =
                    Flat ? y == 0 : static_cast<unsigned>(y) < of.in_height && static_cast<unsigned>(z) < of.in_width;
                if (exist[n] && is_there) {
                    const T* from = images[i] + channels[n];
                    if constexpr (!Flat)
                        from += static_cast<unsigned>(y) * of.x.row + static_cast<unsigned>(z) * of.x.pixel;
                    a[n][i] = *reinterpret_cast<const quarter<Part>*>(from);
                }
            }
        }
        if (of.gate.first != nullptr) {
#pragma unroll
            for (unsigned n = 0; n < at_once; ++n) {
#pragma unroll
                for (unsigned i = 0; i < 2 * Tiles; ++i)
                    if (exist[n]) scale<T>(a[n][i], *reinterpret_cast<const quarter<Part>*>(gates[i] + channels[n]));
            }
        }
#pragma unroll
        for (unsigned n = 0; n < at_once; ++n) {
#pragma unroll
            for (unsigned i = 0; i < Tiles; ++i) {
#pragma unroll
                for (unsigned j = 0; j < Columns; ++j) {
                    const auto &low = a[n][2 * i], &high = a[n][2 * i + 1];
                    const std::uint32_t first[4] = {low.x, high.x, low.y, high.y};
                    mma<T>(sums[i][j], first, b[n][j].x, b[n][j].y);
                    if constexpr (Part == 32) {
                        const std::uint32_t second[4] = {low.z, high.z, low.w, high.w};
                        mma<T>(sums[i][j], second, b[n][j].z, b[n][j].w);
                    }
                }
            }
        }
    }
    dependency_wait();  // of a warp without products too

#pragma unroll
    for (unsigned i = 0; i < Tiles; ++i) {
#pragma unroll
        for (unsigned j = 0; j < Columns; ++j) {
            for (unsigned k = 0; k < 4; ++k)
                sums_of_warps[warp][16 * i + group + k / 2 * 8][8 * j + 2 * t + k % 2] = sums[i][j][k];
        }
    }
    if constexpr (Shares) {
        __syncthreads();
    } else {
        __syncwarp();
    }
    const auto* const bias = reinterpret_cast<const T*>(of.bias);
    const auto* const also = reinterpret_cast<const T*>(of.also.first);
    auto* const out = reinterpret_cast<T*>(of.out.first);
    // Some neighbouring filters of one pixel.
    const auto finish = [&]<unsigned Count>(unsigned of_tile) {
        const unsigned in_tile = of_tile / columns, first = of_tile % columns;
        const unsigned pixel = first_pixel + in_tile, filter = first_filter + first;
        if (pixel >= pixels || filter >= of.filter_count) return;
        std::size_t to = filter, from = filter;  // of the output and the addend
        if constexpr (Flat) {
            to += std::size_t{pixel} * of.out.pixel;
            from += std::size_t{pixel} * of.also.pixel;
        } else {
            const std::size_t column = pixel % width * of.phases_across + phase_column,
                              row = pixel / width % height * of.phases_down + phase_row, image = pixel / width / height;
            to += image * of.out.image + row * of.out.row + column * of.out.pixel;
            from += image * of.also.image + row * of.also.row + column * of.also.pixel;
        }
        neighbours<T, Count> added{}, made;
        if (also != nullptr) added = *reinterpret_cast<const neighbours<T, Count>*>(also + from);
        const auto start = *reinterpret_cast<const neighbours<T, Count>*>(bias + filter);
        for (unsigned i = 0; i < Count; ++i) {
            float sum = float(start.each[i]);
            if constexpr (Shares) {
                for (unsigned w = 0; w < Warps; ++w) sum += sums_of_warps[w][in_tile][first + i];
            } else {
                sum += sums_of_warps[warp][in_tile][first + i];
            }
            if (also != nullptr) sum += float(added.each[i]);
            made.each[i] = T(of.end(sum));
        }
        *reinterpret_cast<neighbours<T, Count>*>(out + to) = made;
    };
    const unsigned first = Shares ? threadIdx.x : lane;
    constexpr unsigned step = Shares ? Warps * warp_lanes : warp_lanes;
    if (of.has_vectors) {
        for (unsigned i = first; i < rows * columns / 8; i += step) finish.template operator()<8>(i * 8);
    } else {
        for (unsigned i = first; i < rows * columns; i += step) finish.template operator()<1>(i);
    }
}

constexpr unsigned warps_that_share = 8, warps_alone = 4;

template <typename T, unsigned Part, tile_windows Windows>
const void* kernel_of(const convolution_tile& tile) {
    const auto is = [&](std::size_t pixels, std::size_t filters) {
        return tile.pixels == pixels && tile.filters == filters;
    };
    if constexpr (Part == 32) {
        if (tile.is_shared) {
            constexpr unsigned warps = warps_that_share;
            if (is(32, 32)) return reinterpret_cast<const void*>(&convolve_tiles<T, Part, 2, 4, warps, true, Windows>);
            if (is(16, 64)) return reinterpret_cast<const void*>(&convolve_tiles<T, Part, 1, 8, warps, true, Windows>);
            return reinterpret_cast<const void*>(&convolve_tiles<T, Part, 1, 4, warps, true, Windows>);
        }
    }
    constexpr unsigned warps = warps_alone;  // see require_tile
    if (is(64, 16)) return reinterpret_cast<const void*>(&convolve_tiles<T, Part, 1, 2, warps, false, Windows>);
    if (is(64, 64)) return reinterpret_cast<const void*>(&convolve_tiles<T, Part, 1, 8, warps, false, Windows>);
    return reinterpret_cast<const void*>(&convolve_tiles<T, Part, 2, 4, warps, false, Windows>);
}
#endif

}  // namespace
}  // namespace SLUICE_LAUNCH_ABI

namespace {

// Those that kernel_of has kernels for.
constexpr convolution_tile all_tiles[] = {{16, 32, true},  {32, 32, true},   {16, 64, true},
                                          {64, 16, false}, {128, 32, false}, {64, 64, false}};

bool is_in_eights(const image_place& place) {
    return place.first % 8 == 0 && place.image % 8 == 0 && place.row % 8 == 0 && place.pixel % 8 == 0;
}
bool is_in_fours(const image_place& place) {
    return place.first % 4 == 0 && place.image % 4 == 0 && place.row % 4 == 0 && place.pixel % 4 == 0;
}

bool fits_tiles(const image_step& step) {
    const filter_form form = filter_form_of(step);
    const bool is_convolution = step.what == image_work::convolve || step.what == image_work::convolve_transposed;
    if (!is_convolution || step.groups != 1 || form.channels != step.in.channels || form.filters != step.out.channels)
        return false;
    if (form.channels == 4) return is_in_fours(step.from);
    return form.channels % 8 == 0 && is_in_eights(step.from);
}

std::string text_of(const convolution_tile& tile) {
    return std::to_string(tile.pixels) + " x " + std::to_string(tile.filters) + (tile.is_shared ? " shared" : "");
}

// Another tile would run a kernel whose blocks make other elements.
void require_tile(const image_step& step, const convolution_tile& tile) {
    const error_context context{"convolutions"};
    if (!fits_tiles(step)) {
        throw error(errc::invalid_argument,
                    "tiles are for convolutions of one group, of 4 channels or of "
                    "whole numbers of 8 that lie at multiples of "
                    "as many; batch_command carries out all steps",
                    context);
    }
    const auto is_it = [&](const convolution_tile& each) {
        return each.pixels == tile.pixels && each.filters == tile.filters && each.is_shared == tile.is_shared;
    };
    const std::vector<convolution_tile> all = convolution_tiles_for(step);
    if (std::any_of(all.begin(), all.end(), is_it)) return;
    std::string possible;
    for (const convolution_tile& each : all) possible += (possible.empty() ? "" : ", ") + text_of(each);
    throw error(errc::invalid_argument,
                "no kernel has tiles of " + text_of(tile) + " (pixels x filters); there are " + possible, context);
}

}  // namespace

std::string convolution_tile::text() const { return text_of(*this); }

std::vector<convolution_tile> convolution_tiles_for(const image_step& step) {
    if (!fits_tiles(step)) return {};
    // Of few channels there is little to share.
    constexpr std::size_t least_shared = 17;
    const auto first = std::find_if(std::begin(all_tiles), std::end(all_tiles), [&](const convolution_tile& each) {
        return !each.is_shared || step.in.channels >= least_shared;
    });
    return {first, std::end(all_tiles)};
}

launch_command batch_convolution_command(const batch_call& call, const image_step& step, const convolution_tile& tile,
                                         batch_closure& closure, const image_step* gate) {
    require_tile(step, tile);
    const auto count = [](std::size_t x) { return static_cast<unsigned>(x); };
    const auto place = [&](const image_place& of) {
        return place_of_images{call.scratch + of.first * short_bytes, of.image, of.row, of.pixel};
    };
    const bool is_transposed = step.what == image_work::convolve_transposed;
    const image_window& window = step.window;
    const size_2d taps = is_transposed ? taps_of_phase(window) : window.size;
    const size_2d phases = is_transposed ? window.stride : size_2d{1, 1};
    const size_2d stride = is_transposed ? size_2d{1, 1} : window.stride;
    const filter_form form = filter_form_of(step);
    // Whether the rows of all images follow each other.
    const auto is_dense = [&](const image_place& of, const image_size& size) {
        return of.row == size.width * of.pixel && (call.images == 1 || of.image == size.height * of.row);
    };
    const image_place& read = gate != nullptr ? gate->from : step.from;
    const bool is_flat = !is_transposed && window.size.height == 1 && window.size.width == 1 && stride.height == 1 &&
                         stride.width == 1 && window.before.height == 0 && window.before.width == 0 &&
                         window.after.height == 0 && window.after.width == 0 && is_dense(read, step.in) &&
                         is_dense(step.to, step.out) && (!step.has_also || is_dense(step.also, step.out));
    const bool has_vectors =
        step.out.channels % 8 == 0 && is_in_eights(step.to) && (!step.has_also || is_in_eights(step.also));
    static_assert(sizeof(tiled_convolution) <= sizeof(closure.bytes));
    auto* const made = new (closure.bytes) tiled_convolution{place(read),
                                                             step.has_also ? place(step.also) : place_of_images{},
                                                             place(step.to),
                                                             gate != nullptr ? place(gate->also) : place_of_images{},
                                                             call.numbers + step.numbers,
                                                             call.numbers + step.numbers + form.bias,
                                                             count(step.in.channels),
                                                             count(step.out.channels),
                                                             count(call.images),
                                                             count(step.in.height),
                                                             count(step.in.width),
                                                             count(step.out.height),
                                                             count(step.out.width),
                                                             count(taps.height),
                                                             count(taps.width),
                                                             static_cast<int>(stride.height),
                                                             static_cast<int>(stride.width),
                                                             static_cast<int>(window.dilation.height),
                                                             static_cast<int>(window.dilation.width),
                                                             static_cast<int>(window.before.height),
                                                             static_cast<int>(window.before.width),
                                                             count(phases.height),
                                                             count(phases.width),
                                                             count(step.out.height * step.out.width),
                                                             has_vectors,
                                                             end_of(step)};
    launch_command command;
    command.closure = made;
    command.closure_bytes = sizeof(tiled_convolution);
    const auto divided = [](std::size_t x, std::size_t by) { return (x + by - 1) / by; };
    const std::size_t pixels =
        call.images * divided(step.out.height, phases.height) * divided(step.out.width, phases.width);
    command.grid = {count(divided(pixels, tile.pixels)), count(divided(step.out.channels, tile.filters)),
                    count(phases.height * phases.width)};
    static_cast<void>(is_flat);
#if defined(__CUDACC__)
    command.block = {(tile.is_shared ? warps_that_share : warps_alone) * warp_lanes, 1, 1};
    const auto kernel = [&]<typename T>() {
        if (step.in.channels == 4) return kernel_of<T, 16, tile_windows::narrow>(tile);
        if (step.in.channels > 16)
            return is_flat ? kernel_of<T, 32, tile_windows::pixels>(tile) : kernel_of<T, 32, tile_windows::any>(tile);
        return is_flat ? kernel_of<T, 16, tile_windows::pixels>(tile) : kernel_of<T, 16, tile_windows::any>(tile);
    };
    command.device_function =
        call.type == short_type::f16 ? kernel.template operator()<half>() : kernel.template operator()<bfloat16>();
#endif
    return command;
}

}  // namespace sluice::kernels
