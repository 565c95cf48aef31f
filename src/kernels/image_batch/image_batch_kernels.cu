// SPDX-License-Identifier: Apache-2.0
// The steps of image batches. A thread makes 8 neighbouring channels of a pixel where channels come in eights, else
// one (of what enters, 4 if they come in fours).
#include "kernels/image_batch/image_batch_kernels.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <type_traits>

#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {
namespace {

// --- numbers -----------------------------------------------------------------------------------------------------

SLUICE_KERNEL inline float widened(half x) {
#if defined(__CUDA_ARCH__)
    float made;
    asm("cvt.f32.f16 %0, %1;" : "=f"(made) : "h"(x.bits()));
    return made;
#else
    return x;
#endif
}
SLUICE_KERNEL inline float widened(bfloat16 x) { return x; }

template <typename T>
SLUICE_KERNEL T narrowed(float x) {
#if defined(__CUDA_ARCH__)
    unsigned short bits;
    if constexpr (std::is_same_v<T, half>) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    } else {
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    }
    return T::from_bits(bits);
#else
    return T(x);
#endif
}

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
            to[i] = widened(all.each[i]);
        }
    }
}
template <typename T, unsigned Count>
SLUICE_KERNEL void write_channels(const float (&from)[Count], T* to) {
    channels_of<T, Count> all;
    for (unsigned i = 0; i < Count; ++i) all.each[i] = narrowed<T>(from[i]);
    *reinterpret_cast<channels_of<T, Count>*>(to) = all;
}

// --- places ------------------------------------------------------------------------------------------------------

template <typename T>
struct value_view {
    T* first;
    std::size_t image, row, pixel;

    SLUICE_KERNEL T* at(unsigned n, unsigned y, unsigned x, unsigned channel) const {
        return first + n * image + y * row + x * pixel + channel;
    }
};

// Which channels of which pixel an index means. Channels are next to each other.
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

struct bounds_of_step {
    bool are_there;
    float least, most;

    // As fmax and fmin would, but NaN stays.
    SLUICE_KERNEL float operator()(float x) const {
        if (!are_there) return x;
        x = x < least ? least : x;
        return x > most ? most : x;
    }
};

struct window_form {
    unsigned height, width, down, across, dilation_down, dilation_across;
    int top, left;                 // padding
    unsigned in_height, in_width;  // of the images
    unsigned bottom, right;        // where the padding after the image ends, from its first pixel on

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

// --- steps -------------------------------------------------------------------------------------------------------

// out = x * factors + addends + bias + also, in its bounds; what is null is left out.
template <typename T, unsigned Count>
struct scaled_channels {
    element_grid grid;
    value_view<const T> x, also;
    const float *factors, *addends;
    const T* bias;
    bounds_of_step bounds;
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
            read_channels(also.at(at.image, at.y, at.x, channel), other);
            for (unsigned i = 0; i < Count; ++i) made[i] += other[i];
        }
        for (unsigned i = 0; i < Count; ++i) made[i] = bounds(made[i]);
        write_channels(made, out.at(at.image, at.y, at.x, channel));
    }
};

template <typename T, unsigned Count>
struct pooled_maximum {
    element_grid grid;
    window_form window;
    value_view<const T> x;
    bounds_of_step bounds;
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
                    made[i] = other[i] > made[i] || other[i] != other[i] ? other[i] : made[i];
            }
        }
        for (unsigned i = 0; i < Count; ++i) made[i] = bounds(made[i]);
        write_channels(made, out.at(at.image, at.y, at.x, channel));
    }
};

template <typename T, unsigned Count>
struct pooled_average {
    element_grid grid;
    window_form window;
    bool counts_padding;
    value_view<const T> x;
    bounds_of_step bounds;
    value_view<T> out;

    // Several threads may share a window: each adds every `step`-th pixel, from the one with its number on.
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
        for (unsigned i = 0; i < Count; ++i) made[i] = bounds(sums[i] / static_cast<float>(count));
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
    bounds_of_step bounds;
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
        for (unsigned i = 0; i < Count; ++i) made[i] = bounds(made[i]);
        write_channels(made, out.at(at.image, at.y, at.x, channel));
    }
};

// One output: windows of all channels of a group, with the filters of the group.
template <typename T>
struct convolved_element {
    element_grid grid;
    window_form window;
    value_view<const T> x, also;
    const T *filters, *bias;
    unsigned channels, filter_channels;  // that a filter reads, and that it has in memory
    unsigned filters_of_group;
    bounds_of_step bounds;
    value_view<T> out;

    SLUICE_KERNEL void operator()(unsigned index) const {
        const auto at = grid(index);
        const unsigned k = at.vector, first = k / filters_of_group * channels;
        const T* const filter = filters + std::size_t{k} * window.height * window.width * filter_channels;
        float sum = widened(bias[k]);
        for (unsigned r = 0; r < window.height; ++r) {
            for (unsigned s = 0; s < window.width; ++s) {
                const int row = window.row(at.y, r), column = window.column(at.x, s);
                if (!window.has(row, column)) continue;
                const T* const pixel = x.at(at.image, static_cast<unsigned>(row), static_cast<unsigned>(column), first);
                const T* const tap = filter + std::size_t{r * window.width + s} * filter_channels;
                for (unsigned c = 0; c < channels; ++c) sum += widened(pixel[c]) * widened(tap[c]);
            }
        }
        if (also.first != nullptr) sum += widened(*also.at(at.image, at.y, at.x, k));
        *out.at(at.image, at.y, at.x, k) = narrowed<T>(bounds(sum));
    }
};

// Channel g * n + k, of groups of n, becomes k * groups + g. Channels after the last one become 0.
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
        *out.at(at.image, at.y, at.x, c) = c < channels ? *x.at(at.image, at.y, at.x, from) : narrowed<T>(0.0f);
    }
};

// An outside tensor, channels first. Neighbouring threads read neighbouring pixels.
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
        y[index] = widened(*x.at(image, pixel / width, pixel % width, channel));
    }
};

// --- launches ----------------------------------------------------------------------------------------------------

template <typename Kernel>
struct closure_of {
    unsigned count;
    Kernel kernel;
};

template <typename Kernel>
void run_on_host(const void* erased) {
    const auto& all = *static_cast<const closure_of<Kernel>*>(erased);
    for (unsigned i = 0; i < all.count; ++i) all.kernel(i);
}

constexpr unsigned threads_of_window = 32;

#if defined(__CUDACC__)
constexpr unsigned threads = 256;

template <typename Kernel>
__global__ void __launch_bounds__(threads) run_on_device(const __grid_constant__ closure_of<Kernel> all) {
    const unsigned index = blockIdx.x * threads + threadIdx.x;
    if (index < all.count) all.kernel(index);
}

// A warp adds up one window.
template <typename Kernel, unsigned Count>
__global__ void __launch_bounds__(threads) add_on_device(const __grid_constant__ closure_of<Kernel> all) {
    const unsigned index = (blockIdx.x * threads + threadIdx.x) / threads_of_window;
    const unsigned number = threadIdx.x % threads_of_window;
    if (index >= all.count) return;
    float sums[Count] = {};
    unsigned count = 0;
    all.kernel.add(index, number, threads_of_window, sums, count);
    for (unsigned other = threads_of_window / 2; other != 0; other /= 2) {
        count += __shfl_xor_sync(~0u, count, other);
        for (unsigned i = 0; i < Count; ++i) sums[i] += __shfl_xor_sync(~0u, sums[i], other);
    }
    if (number == 0) all.kernel.end(index, sums, count);
}
#endif

template <typename Kernel>
launch_command command_of(std::size_t count, const Kernel& kernel, batch_closure& to, std::size_t threads_of_one = 1) {
    using closure = closure_of<Kernel>;
    static_assert(std::is_trivially_copyable_v<closure> && sizeof(closure) <= sizeof(to.bytes));
    auto* const made = new (to.bytes) closure{static_cast<unsigned>(count), kernel};
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&run_on_device<Kernel>);
    command.block = {threads, 1, 1};
    command.grid.x = static_cast<unsigned>((count * threads_of_one + threads - 1) / threads);
#endif
    static_cast<void>(threads_of_one);
    command.host_function = &run_on_host<Kernel>;
    command.closure = made;
    command.closure_bytes = sizeof(closure);
    return command;
}

template <typename T>
class step_kernels {
public:
    step_kernels(const batch_call& call, const image_step& step, batch_closure& to)
        : call_(call), step_(step), to_(to) {}

    launch_command command() const {
        switch (step_.what) {
            case image_work::enter:
                if (is_in(8, step_.to) && step_.out.channels % 8 == 0) return enter<8>();
                return is_in(4, step_.to) && step_.out.channels % 4 == 0 ? enter<4>() : enter<1>();
            case image_work::leave: return leave();
            case image_work::convolve: return convolve();
            case image_work::shuffle: return shuffle();
            case image_work::scale:
            case image_work::add:
            case image_work::copy: return scale(step_.what == image_work::scale, nullptr);
            default: break;
        }
        const bool eights =
            in_eights(step_.from, step_.to, step_.out.channels) && (!step_.has_also || is_in_eights(step_.also));
        if (step_.what == image_work::convolve_channels)
            return eights ? convolve_channels<8>() : convolve_channels<1>();
        if (step_.what == image_work::maximum) return eights ? maximum<8>() : maximum<1>();
        return eights ? average<8>() : average<1>();
    }

    // Of the sums in the output.
    launch_command end() const {
        image_step after = step_;
        after.from = step_.to;
        const T* const bias = reinterpret_cast<const T*>(call_.numbers + step_.numbers + filter_form_of(step_).bias);
        return step_kernels(call_, after, to_).scale(false, bias);
    }
    launch_command bounds() const {
        image_step after = step_;
        after.from = step_.to;
        after.has_also = false;
        return step_kernels(call_, after, to_).scale(false, nullptr);
    }

private:
    static bool is_in(std::size_t count, const image_place& place) {
        return place.first % count == 0 && place.image % count == 0 && place.row % count == 0 &&
               place.pixel % count == 0;
    }
    static bool is_in_eights(const image_place& place) { return is_in(8, place); }
    static bool in_eights(const image_place& a, const image_place& b, std::size_t channels) {
        return channels % 8 == 0 && is_in_eights(a) && is_in_eights(b);
    }

    template <typename Element>
    value_view<Element> view(const image_place& place) const {
        return {reinterpret_cast<T*>(call_.scratch) + place.first, place.image, place.row, place.pixel};
    }
    value_view<const T> from() const { return view<const T>(step_.from); }
    value_view<const T> also() const { return step_.has_also ? view<const T>(step_.also) : value_view<const T>{}; }
    value_view<T> to() const { return view<T>(step_.to); }
    bounds_of_step step_bounds() const { return {step_.has_bounds, step_.least, step_.most}; }
    element_grid grid(unsigned count) const {
        return {static_cast<unsigned>(step_.out.channels) / count, static_cast<unsigned>(step_.out.width),
                static_cast<unsigned>(step_.out.height)};
    }
    std::size_t elements(unsigned count) const { return call_.images * step_.out.elements() / count; }
    window_form window() const {
        const image_window& of = step_.window;
        const auto small = [](std::size_t x) { return static_cast<unsigned>(x); };
        return {small(of.size.height),
                small(of.size.width),
                small(of.stride.height),
                small(of.stride.width),
                small(of.dilation.height),
                small(of.dilation.width),
                static_cast<int>(of.before.height),
                static_cast<int>(of.before.width),
                small(step_.in.height),
                small(step_.in.width),
                small(step_.in.height + of.after.height),
                small(step_.in.width + of.after.width)};
    }

    template <unsigned Count>
    launch_command enter() const {
        const auto width = static_cast<unsigned>(step_.out.width);
        const auto plane = static_cast<unsigned>(step_.out.height) * width;
        return command_of(
            elements(Count),
            entered_channels<T, Count>{width, plane, static_cast<unsigned>(step_.out.channels) / Count,
                                       static_cast<unsigned>(step_.in.channels), call_.outside[step_.outside], to()},
            to_);
    }
    launch_command leave() const {
        const auto width = static_cast<unsigned>(step_.out.width);
        const auto plane = static_cast<unsigned>(step_.out.height) * width;
        return command_of(elements(1),
                          left_element<T>{width, plane, static_cast<unsigned>(step_.out.channels), from(),
                                          call_.outside[step_.outside]},
                          to_);
    }
    launch_command shuffle() const {
        return command_of(elements(1),
                          shuffled_channel<T>{grid(1), static_cast<unsigned>(step_.in.channels),
                                              static_cast<unsigned>(step_.groups), from(), to()},
                          to_);
    }

    launch_command scale(bool has_factors, const T* bias) const {
        const bool eights =
            in_eights(step_.from, step_.to, step_.out.channels) && (!step_.has_also || is_in_eights(step_.also));
        return eights ? scale<8>(has_factors, bias) : scale<1>(has_factors, bias);
    }
    template <unsigned Count>
    launch_command scale(bool has_factors, const T* bias) const {
        const float* const factors =
            has_factors ? reinterpret_cast<const float*>(call_.numbers + step_.numbers) : nullptr;
        const float* const addends = has_factors ? factors + padded_channels(step_.out.channels) : nullptr;
        return command_of(
            elements(Count),
            scaled_channels<T, Count>{grid(Count), from(), also(), factors, addends, bias, step_bounds(), to()}, to_);
    }
    template <unsigned Count>
    launch_command maximum() const {
        return command_of(elements(Count),
                          pooled_maximum<T, Count>{grid(Count), window(), from(), step_bounds(), to(),
                                                   -std::numeric_limits<float>::infinity()},
                          to_);
    }
    template <unsigned Count>
    launch_command average() const {
        using kernel = pooled_average<T, Count>;
        constexpr std::size_t large_window = 24;
        const bool is_shared = step_.window.size.height * step_.window.size.width >= large_window;
        launch_command made = command_of(
            elements(Count), kernel{grid(Count), window(), step_.counts_padding, from(), step_bounds(), to()}, to_,
            is_shared ? threads_of_window : 1);
#if defined(__CUDACC__)
        if (is_shared) made.device_function = reinterpret_cast<const void*>(&add_on_device<kernel, Count>);
#endif
        return made;
    }
    template <unsigned Count>
    launch_command convolve_channels() const {
        return command_of(elements(Count),
                          convolved_channels<T, Count>{grid(Count), window(), from(), also(),
                                                       reinterpret_cast<const float*>(call_.numbers + step_.numbers),
                                                       static_cast<unsigned>(padded_channels(step_.out.channels)),
                                                       step_bounds(), to()},
                          to_);
    }
    launch_command convolve() const {
        const filter_form form = filter_form_of(step_);
        const std::byte* const filters = call_.numbers + step_.numbers;
        return command_of(
            elements(1),
            convolved_element<T>{grid(1), window(), from(), also(), reinterpret_cast<const T*>(filters),
                                 reinterpret_cast<const T*>(filters + form.bias),
                                 static_cast<unsigned>(step_.in.channels / step_.groups),
                                 static_cast<unsigned>(form.channels),
                                 static_cast<unsigned>(step_.out.channels / step_.groups), step_bounds(), to()},
            to_);
    }

    const batch_call& call_;
    const image_step& step_;
    batch_closure& to_;
};

template <typename Function>
launch_command with_kernels(const batch_call& call, const image_step& step, batch_closure& to,
                            const Function& function) {
    return call.type == short_type::f16 ? function(step_kernels<half>(call, step, to))
                                        : function(step_kernels<bfloat16>(call, step, to));
}

}  // namespace
}  // namespace SLUICE_LAUNCH_ABI

launch_command batch_command(const batch_call& call, const image_step& step, batch_closure& closure) {
    return with_kernels(call, step, closure, [](const auto& of) { return of.command(); });
}
launch_command batch_end_command(const batch_call& call, const image_step& step, batch_closure& closure) {
    return with_kernels(call, step, closure, [](const auto& of) { return of.end(); });
}
launch_command batch_bounds_command(const batch_call& call, const image_step& step, batch_closure& closure) {
    return with_kernels(call, step, closure, [](const auto& of) { return of.bounds(); });
}

void run_image_batch_on_host(const batch_call& call) {
    batch_closure closure;
    for (std::size_t i = 0; i < call.count; ++i) {
        const launch_command command = batch_command(call, call.steps[i], closure);
        command.host_function(command.closure);
    }
}

}  // namespace sluice::kernels
