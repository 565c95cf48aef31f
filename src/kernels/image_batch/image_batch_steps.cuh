// SPDX-License-Identifier: Apache-2.0
// What each step of image batches computes, by number of the pixel and its
// channels. A thread makes 8 neighbouring channels of a pixel where channels
// come in eights, else one (of what enters, 4 if they come in fours).
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "kernels/image_batch/image_batch_end.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/kernels/detail/tile_threads.hpp"

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {

// --- numbers
// -----------------------------------------------------------------------------------------------------

// Some channels of a pixel: read and written at once.
template <typename T, unsigned Count>
struct alignas(sizeof(T) * Count) channels_of {
    T each[Count];
};

template <unsigned Count, typename T>
SLUICE_KERNEL void read_channels(const T* from, float (&to)[Count]) {
    const auto all = *reinterpret_cast<const channels_of<T, Count>*>(from);
    for (unsigned i = 0; i < Count; ++i) {
        if constexpr (std::is_same_v<T, float>) {
            to[i] = all.each[i];
        } else {
            to[i] = float(all.each[i]);
        }
    }
}
template <typename T, unsigned Count>
SLUICE_KERNEL void write_channels(const float (&from)[Count], T* to) {
    channels_of<T, Count> all;
    for (unsigned i = 0; i < Count; ++i) all.each[i] = T(from[i]);
    *reinterpret_cast<channels_of<T, Count>*>(to) = all;
}

// --- places
// ------------------------------------------------------------------------------------------------------

template <typename T>
struct value_view {
    T* first;
    std::size_t image, row, pixel;

    SLUICE_KERNEL T* at(unsigned n, unsigned y, unsigned x, unsigned channel) const {
        return first + n * image + y * row + x * pixel + channel;
    }
};

// Which channels of which pixel an index means. Channels are next to each
// other.
struct element_grid {
    unsigned vectors, width, height;

    struct place {
        unsigned vector, x, y, image;
    };
    SLUICE_KERNEL place operator()(unsigned index) const {
        place made{};
        made.vector = index % vectors;
        index /= vectors;
        made.x = index % width;
        index /= width;
        made.y = index % height;
        made.image = index / height;
        return made;
    }
};

struct window_form {
    unsigned height, width, down, across, dilation_down, dilation_across;
    int top, left;                 // padding
    unsigned in_height, in_width;  // of the images
    unsigned bottom,
        right;  // where the padding after the image ends, from its first pixel on

    SLUICE_KERNEL int row(unsigned y, unsigned tap) const {
        return static_cast<int>(y * down + tap * dilation_down) - top;
    }
    SLUICE_KERNEL int column(unsigned x, unsigned tap) const {
        return static_cast<int>(x * across + tap * dilation_across) - left;
    }
    SLUICE_KERNEL bool has(int row, int column) const {
        return row >= 0 && column >= 0 && static_cast<unsigned>(row) < in_height &&
               static_cast<unsigned>(column) < in_width;
    }
};

// --- steps
// -------------------------------------------------------------------------------------------------------

// out = x * factors + addends + bias + also, or x * also, and its end; what is
// null is left out.
template <typename T, unsigned Count>
struct scaled_channels {
    element_grid grid;
    value_view<const T> x, also;
    const float *factors, *addends;
    const T* bias;
    bool multiplies, also_is_channel;  // the first channel of `also` meets all
    step_end end;
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned channel = at.vector * Count;
        float made[Count], other[Count];
        read_channels(x.at(at.image, at.y, at.x, channel), made);
        if (factors != nullptr) {
            float added[Count];
            read_channels(factors + channel, other);
            read_channels(addends + channel, added);
            for (unsigned i = 0; i < Count; ++i) made[i] = made[i] * other[i] + added[i];
        }
        if (bias != nullptr) {
            read_channels(bias + channel, other);
            for (unsigned i = 0; i < Count; ++i) made[i] += other[i];
        }
        if (also.first != nullptr) {
            if (also_is_channel) {
                const float one = float(*also.at(at.image, at.y, at.x, 0));
                for (unsigned i = 0; i < Count; ++i) other[i] = one;
            } else {
                read_channels(also.at(at.image, at.y, at.x, channel), other);
            }
            for (unsigned i = 0; i < Count; ++i) made[i] = multiplies ? made[i] * other[i] : made[i] + other[i];
        }
        for (unsigned i = 0; i < Count; ++i) made[i] = end(made[i]);
        write_channels(made, out.at(at.image, at.y, at.x, channel));
    }
};

template <typename T, unsigned Count>
struct pooled_maximum {
    element_grid grid;
    window_form window;
    value_view<const T> x;
    step_end end;
    value_view<T> out;
    float least;  // -infinity

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned channel = at.vector * Count;
        float made[Count], other[Count];
        for (unsigned i = 0; i < Count; ++i) made[i] = least;
        for (unsigned r = 0; r < window.height; ++r) {
            for (unsigned s = 0; s < window.width; ++s) {
                const int row = window.row(at.y, r), column = window.column(at.x, s);
                if (!window.has(row, column)) continue;
                read_channels(x.at(at.image, static_cast<unsigned>(row), static_cast<unsigned>(column), channel),
                              other);
                for (unsigned i = 0; i < Count; ++i)
                    made[i] = other[i] > made[i] || sluice::detail::is_nan(other[i]) ? other[i] : made[i];
            }
        }
        for (unsigned i = 0; i < Count; ++i) made[i] = end(made[i]);
        write_channels(made, out.at(at.image, at.y, at.x, channel));
    }
};

template <typename T, unsigned Count>
struct pooled_average {
    element_grid grid;
    window_form window;
    bool counts_padding;
    value_view<const T> x;
    step_end last;
    value_view<T> out;

    // Several threads may share a window: each adds every `step`-th pixel, from
    // the one with its number on.
    SLUICE_KERNEL void add(unsigned index, unsigned number, unsigned step, float (&sums)[Count],
                           unsigned& count) const {
        const auto at = grid(index);
        float other[Count];
        for (unsigned tap = number; tap < window.height * window.width; tap += step) {
            const int row = window.row(at.y, tap / window.width), column = window.column(at.x, tap % window.width);
            if (!window.has(row, column)) {
                count +=
                    counts_padding && row < static_cast<int>(window.bottom) && column < static_cast<int>(window.right);
                continue;
            }
            ++count;
            read_channels(x.at(at.image, static_cast<unsigned>(row), static_cast<unsigned>(column), at.vector * Count),
                          other);
            for (unsigned i = 0; i < Count; ++i) sums[i] += other[i];
        }
    }
    SLUICE_KERNEL void end(unsigned index, const float (&sums)[Count], unsigned count) const {
        const auto at = grid(index);
        float made[Count];
        for (unsigned i = 0; i < Count; ++i) made[i] = last(sums[i] / static_cast<float>(count));
        write_channels(made, out.at(at.image, at.y, at.x, at.vector * Count));
    }
    SLUICE_KERNEL void operator()(unsigned index) const {
        float sums[Count] = {};
        unsigned count = 0;
        add(index, 0, 1, sums, count);
        end(index, sums, count);
    }
};

// Each channel by a filter of its own.
template <typename T, unsigned Count>
struct convolved_channels {
    element_grid grid;
    window_form window;
    value_view<const T> x, also;
    const float* filters;  // [taps][columns], then the biases
    unsigned columns;
    step_end end;
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned channel = at.vector * Count;
        float made[Count], other[Count], factors[Count];
        read_channels(filters + std::size_t{window.height} * window.width * columns + channel, made);
        for (unsigned r = 0; r < window.height; ++r) {
            for (unsigned s = 0; s < window.width; ++s) {
                const int row = window.row(at.y, r), column = window.column(at.x, s);
                if (!window.has(row, column)) continue;
                read_channels(x.at(at.image, static_cast<unsigned>(row), static_cast<unsigned>(column), channel),
                              other);
                read_channels(filters + std::size_t{r * window.width + s} * columns + channel, factors);
                for (unsigned i = 0; i < Count; ++i) made[i] += other[i] * factors[i];
            }
        }
        if (also.first != nullptr) {
            read_channels(also.at(at.image, at.y, at.x, channel), other);
            for (unsigned i = 0; i < Count; ++i) made[i] += other[i];
        }
        for (unsigned i = 0; i < Count; ++i) made[i] = end(made[i]);
        write_channels(made, out.at(at.image, at.y, at.x, channel));
    }
};

// The same for some neighbouring pixels of a row at once, whose windows of
// `Taps` rows and columns, without dilation, are `Stride` pixels apart: a
// column of filters and a pixel that several windows have are read once.
template <typename T, unsigned Count, unsigned Pixels, unsigned Taps, unsigned Stride>
struct convolved_channel_pixels {
    element_grid grid;  // its width counts groups of pixels
    window_form window;
    unsigned width;  // of the output
    value_view<const T> x, also;
    const float* filters;  // [taps][columns], then the biases
    unsigned columns;
    step_end end;
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned channel = at.vector * Count, first = at.x * Pixels;
        const int left = window.column(first, 0);
        float made[Pixels][Count];
        read_channels(filters + std::size_t{Taps} * Taps * columns + channel, made[0]);
        for (unsigned p = 1; p < Pixels; ++p)
            for (unsigned i = 0; i < Count; ++i) made[p][i] = made[0][i];
        SLUICE_UNROLL
        for (unsigned r = 0; r < Taps; ++r) {
            const int row = window.row(at.y, r);
            const bool has_row = window.has(row, 0);
            float factors[Taps][Count];
            SLUICE_UNROLL
            for (unsigned s = 0; s < Taps; ++s)
                read_channels(filters + std::size_t{r * Taps + s} * columns + channel, factors[s]);
            const T* const line = x.at(at.image, has_row ? static_cast<unsigned>(row) : 0, 0, channel);
            SLUICE_UNROLL
            for (unsigned k = 0; k < (Pixels - 1) * Stride + Taps; ++k) {
                const int column = left + static_cast<int>(k);
                // (Without a branch, so that all reads are in flight at once.)
                channels_of<T, Count> some{};
                if (has_row && static_cast<unsigned>(column) < window.in_width)
                    some =
                        *reinterpret_cast<const channels_of<T, Count>*>(line + static_cast<unsigned>(column) * x.pixel);
                float other[Count];
                for (unsigned i = 0; i < Count; ++i) other[i] = float(some.each[i]);
                SLUICE_UNROLL
                for (unsigned p = 0; p < Pixels; ++p) {
                    if (k < p * Stride || k - p * Stride >= Taps) continue;
                    for (unsigned i = 0; i < Count; ++i) made[p][i] += other[i] * factors[k - p * Stride][i];
                }
            }
        }
        for (unsigned p = 0; p < Pixels && first + p < width; ++p) {
            if (also.first != nullptr) {
                float other[Count];
                read_channels(also.at(at.image, at.y, first + p, channel), other);
                for (unsigned i = 0; i < Count; ++i) made[p][i] += other[i];
            }
            for (unsigned i = 0; i < Count; ++i) made[p][i] = end(made[p][i]);
            write_channels(made[p], out.at(at.image, at.y, first + p, channel));
        }
    }
};

// One output: windows of all channels of a group, with the filters of the
// group.
template <typename T>
struct convolved_element {
    element_grid grid;
    window_form window;
    value_view<const T> x, also;
    const T *filters, *bias;
    unsigned channels,
        filter_channels;  // that a filter reads, and that it has in memory
    unsigned filters_of_group;
    step_end end;
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned k = at.vector, first = k / filters_of_group * channels;
        const T* const filter = filters + std::size_t{k} * window.height * window.width * filter_channels;
        float sum = float(bias[k]);
        for (unsigned r = 0; r < window.height; ++r) {
            for (unsigned s = 0; s < window.width; ++s) {
                const int row = window.row(at.y, r), column = window.column(at.x, s);
                if (!window.has(row, column)) continue;
                const T* const pixel = x.at(at.image, static_cast<unsigned>(row), static_cast<unsigned>(column), first);
                const T* const tap = filter + std::size_t{r * window.width + s} * filter_channels;
                for (unsigned c = 0; c < channels; ++c) sum += float(pixel[c]) * float(tap[c]);
            }
        }
        if (also.first != nullptr) sum += float(*also.at(at.image, at.y, at.x, k));
        *out.at(at.image, at.y, at.x, k) = T(end(sum));
    }
};

// One output of a transposed convolution.
template <typename T>
struct transposed_element {
    element_grid grid;
    window_form window;
    unsigned taps_down, taps_across;
    value_view<const T> x, also;
    const T *filters, *bias;
    unsigned channels, filter_channels,
        filter_count;  // that are read, and that are in memory
    step_end end;
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned k = at.vector, r = at.y + static_cast<unsigned>(window.top),
                       s = at.x + static_cast<unsigned>(window.left);
        const unsigned phase = r % window.down * window.across + s % window.across;
        const T* const filter =
            filters + (std::size_t{phase} * filter_count + k) * taps_down * taps_across * filter_channels;
        float sum = float(bias[k]);
        for (unsigned i = 0; i < taps_down; ++i) {
            for (unsigned j = 0; j < taps_across; ++j) {
                const int row = static_cast<int>(r / window.down + i) - static_cast<int>(taps_down - 1),
                          column = static_cast<int>(s / window.across + j) - static_cast<int>(taps_across - 1);
                if (!window.has(row, column)) continue;
                const T* const pixel = x.at(at.image, static_cast<unsigned>(row), static_cast<unsigned>(column), 0);
                const T* const tap = filter + std::size_t{i * taps_across + j} * filter_channels;
                for (unsigned c = 0; c < channels; ++c) sum += float(pixel[c]) * float(tap[c]);
            }
        }
        if (also.first != nullptr) sum += float(*also.at(at.image, at.y, at.x, k));
        *out.at(at.image, at.y, at.x, k) = T(end(sum));
    }
};

// Pixels at other places, each from the nearest one, or from those around its
// place.
template <typename T, unsigned Count>
struct resampled_channels {
    element_grid grid;
    unsigned in_height, in_width;
    image_resampling how;
    value_view<const T> x;
    step_end end;
    value_view<T> out;

    SLUICE_KERNEL static double place(const resampled_axis& of, unsigned at) {
        return (at + of.shift) * of.factor / of.divisor - of.back;
    }
    SLUICE_KERNEL static unsigned clamped(double at, unsigned count) {
        return at > 0 ? static_cast<unsigned>(at < count - 1 ? at : count - 1) : 0;
    }
    SLUICE_KERNEL unsigned nearest(double at, unsigned count) const {
        switch (how.by) {
            case resample_by::nearest_half_down: return clamped(std::ceil(at - 0.5), count);
            case resample_by::nearest_half_up: return clamped(std::floor(at + 0.5), count);
            case resample_by::nearest_up: return clamped(std::ceil(at), count);
            default: return clamped(std::floor(at), count);
        }
    }

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned channel = at.vector * Count;
        const double row = place(how.rows, at.y), column = place(how.columns, at.x);
        float made[Count];
        if (how.by != resample_by::linear) {
            read_channels(x.at(at.image, nearest(row, in_height), nearest(column, in_width), channel), made);
        } else {
            const double top = std::ceil(row) - 1, left = std::ceil(column) - 1;
            const float down = static_cast<float>(row - top), across = static_cast<float>(column - left);
            for (unsigned i = 0; i < Count; ++i) made[i] = 0;
            for (unsigned k = 0; k < 4; ++k) {
                const unsigned y = clamped(top + k / 2, in_height), z = clamped(left + k % 2, in_width);
                const float weight = (k / 2 != 0 ? down : 1 - down) * (k % 2 != 0 ? across : 1 - across);
                float other[Count];
                read_channels(x.at(at.image, y, z, channel), other);
                for (unsigned i = 0; i < Count; ++i) made[i] += weight * other[i];
            }
        }
        for (unsigned i = 0; i < Count; ++i) made[i] = end(made[i]);
        write_channels(made, out.at(at.image, at.y, at.x, channel));
    }
};

// Channel g * n + k, of groups of n, becomes k * groups + g. Channels after the
// last one become 0.
template <typename T>
struct shuffled_channel {
    element_grid grid;
    unsigned channels, groups;
    value_view<const T> x;
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned c = at.vector;
        const unsigned from = c % groups * (channels / groups) + c / groups;
        *out.at(at.image, at.y, at.x, c) = c < channels ? *x.at(at.image, at.y, at.x, from) : T(0.0f);
    }
};

// An outside tensor, channels first. Neighbouring threads read neighbouring
// pixels.
template <typename T, unsigned Count>
struct entered_channels {
    unsigned width, plane, vectors, channels;
    const float* x;  // [images][channels][plane]
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const unsigned pixel = index % plane, vector = index / plane % vectors, image = index / plane / vectors;
        const float* const from = x + std::size_t{image} * channels * plane + pixel;
        float made[Count];
        for (unsigned i = 0; i < Count; ++i) {
            const unsigned c = vector * Count + i;
            made[i] = c < channels ? from[std::size_t{c} * plane] : 0.0f;
        }
        write_channels(made, out.at(image, pixel / width, pixel % width, vector * Count));
    }
};

template <typename T>
struct left_element {
    unsigned width, plane, channels;
    value_view<const T> x;
    float* y;  // [images][channels][plane]

    SLUICE_KERNEL void operator()(unsigned index) const {
        const unsigned pixel = index % plane, channel = index / plane % channels, image = index / plane / channels;
        y[index] = float(*x.at(image, pixel / width, pixel % width, channel));
    }
};

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::kernels
