// SPDX-License-Identifier: Apache-2.0
// The launches of image batches' steps.
#include "kernels/image_batch/image_batch_kernels.hpp"

#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "kernels/image_batch/image_batch_tiles.cuh"

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {
namespace {

// --- launches
// ----------------------------------------------------------------------------------------------------

template <typename Kernel>
void run_on_host(const void* erased) {
    const auto& all = *static_cast<const closure_of<Kernel>*>(erased);
    for (unsigned i = 0; i < all.count; ++i) all.kernel(i);
}

constexpr unsigned threads_of_window = 32;

#if defined(__CUDACC__)
constexpr unsigned threads = 256;

// A step of few threads is divided among more multiprocessors.
constexpr unsigned few_threads = 64;
constexpr std::size_t many = 64 * 1024;

template <typename Kernel>
__global__ void __launch_bounds__(threads) run_on_device(const __grid_constant__ closure_of<Kernel> all) {
    dependency_trigger();
    dependency_wait();
    const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < all.count) all.kernel(index);
}

// A warp adds up one window.
template <typename Kernel, unsigned Count>
__global__ void __launch_bounds__(threads) add_on_device(const __grid_constant__ closure_of<Kernel> all) {
    dependency_trigger();
    dependency_wait();
    const unsigned index = blockIdx.x * (blockDim.x / threads_of_window) + threadIdx.x / threads_of_window;
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
    const unsigned of_block = count * threads_of_one < many ? few_threads : threads;
    command.block = {of_block, 1, 1};
    command.grid.x = static_cast<unsigned>((count * threads_of_one + of_block - 1) / of_block);
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
            case image_work::convolve_transposed: return convolve_transposed();
            case image_work::shuffle: return shuffle();
            case image_work::resample: return resample();
            case image_work::scale:
            case image_work::add:
            case image_work::multiply:
            case image_work::copy: return scale(step_.what == image_work::scale, nullptr);
            default: break;
        }
        const bool eights =
            in_eights(step_.from, step_.to, step_.out.channels) && (!step_.has_also || is_in_eights(step_.also));
        if (step_.what == image_work::convolve_channels) {
            if (!eights) return convolve_channels<1>();
            return convolve_pixels(std::integer_sequence<unsigned, 3, 5, 7>());
        }
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
        after.what = image_work::copy;
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
        launch_command made = command_of(
            elements(Count),
            entered_channels<T, Count>{width, plane, static_cast<unsigned>(step_.out.channels) / Count,
                                       static_cast<unsigned>(step_.in.channels), call_.outside[step_.outside], to()},
            to_);
#if defined(__CUDACC__)
        if (is_tiled()) use_tiles(made, reinterpret_cast<const void*>(&enter_tiles<T, Count>));
#endif
        return made;
    }
#if defined(__CUDACC__)
    // Few elements are faster one by one, by more blocks; and of few channels a tile would be empty.
    bool is_tiled() const {
        return step_.out.channels >= tile_channels / 2 && call_.images * step_.out.elements() >= 4 * many;
    }
    void use_tiles(launch_command& of, const void* kernel) const {
        const std::size_t plane = step_.out.height * step_.out.width;
        of.device_function = kernel;
        of.block = {tile_threads, 1, 1};
        of.grid.x = static_cast<unsigned>(call_.images * ((plane + tile_pixels - 1) / tile_pixels) *
                                          ((step_.out.channels + tile_channels - 1) / tile_channels));
    }
#endif
    launch_command leave() const {
        const auto width = static_cast<unsigned>(step_.out.width);
        const auto plane = static_cast<unsigned>(step_.out.height) * width;
        launch_command made = command_of(elements(1),
                                         left_element<T>{width, plane, static_cast<unsigned>(step_.out.channels),
                                                         from(), call_.outside[step_.outside]},
                                         to_);
#if defined(__CUDACC__)
        if (is_tiled()) use_tiles(made, reinterpret_cast<const void*>(&leave_tiles<T>));
#endif
        return made;
    }
    launch_command shuffle() const {
        return command_of(elements(1),
                          shuffled_channel<T>{grid(1), static_cast<unsigned>(step_.in.channels),
                                              static_cast<unsigned>(step_.groups), from(), to()},
                          to_);
    }

    launch_command scale(bool has_factors, const T* bias) const {
        const bool eights = in_eights(step_.from, step_.to, step_.out.channels) &&
                            (!step_.has_also || also_is_channel() || is_in_eights(step_.also));
        return eights ? scale<8>(has_factors, bias) : scale<1>(has_factors, bias);
    }
    bool also_is_channel() const { return step_.also_spread == image_spread::channels; }
    template <unsigned Count>
    launch_command scale(bool has_factors, const T* bias) const {
        const float* const factors =
            has_factors ? reinterpret_cast<const float*>(call_.numbers + step_.numbers) : nullptr;
        const float* const addends = has_factors ? factors + padded_channels(step_.out.channels) : nullptr;
        return command_of(
            elements(Count),
            scaled_channels<T, Count>{grid(Count), from(), also(), factors, addends, bias,
                                      step_.what == image_work::multiply, also_is_channel(), end_of(step_), to()},
            to_);
    }
    template <unsigned Count>
    launch_command maximum() const {
        return command_of(elements(Count),
                          pooled_maximum<T, Count>{grid(Count), window(), from(), end_of(step_), to(),
                                                   -std::numeric_limits<float>::infinity()},
                          to_);
    }
    template <unsigned Count>
    launch_command average() const {
        using kernel = pooled_average<T, Count>;
        constexpr std::size_t large_window = 24;
        const bool is_shared = step_.window.size.height * step_.window.size.width >= large_window;
        launch_command made = command_of(
            elements(Count), kernel{grid(Count), window(), step_.counts_padding, from(), end_of(step_), to()}, to_,
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
                                                       end_of(step_), to()},
                          to_);
    }
    // Several pixels in one thread, where a kernel has such windows.
    template <unsigned... Taps>
    launch_command convolve_pixels(std::integer_sequence<unsigned, Taps...>) const {
        const image_window& of = step_.window;
        const bool is_even = of.size.height == of.size.width && of.dilation.height == 1 && of.dilation.width == 1;
        launch_command made;
        const auto use = [&]<unsigned Size>() {
            if (!is_even || of.size.width != Size || of.stride.width > 2) return false;
            // With fewer threads than this, more of them are worth more than what they would share. (Two channels a
            // thread: with eight, registers do not hold what is in flight, and it takes three times as long.)
            constexpr std::size_t least_threads = 96 * 1024;
            constexpr unsigned some = Size < 7 ? 4 : 2;
            const bool is_shared = elements(2) / some >= least_threads;
            if (of.stride.width == 1) made = is_shared ? convolve_some<some, Size, 1>() : convolve_some<1, Size, 1>();
            if (of.stride.width == 2) made = is_shared ? convolve_some<some, Size, 2>() : convolve_some<1, Size, 2>();
            return true;
        };
        return (use.template operator()<Taps>() || ...) ? made : convolve_channels<8>();
    }
    template <unsigned Pixels, unsigned Taps, unsigned Stride>
    launch_command convolve_some() const {
        constexpr unsigned Count = 2;
        element_grid groups = grid(Count);
        groups.width = (groups.width + Pixels - 1) / Pixels;
        const std::size_t count = call_.images * groups.height * groups.width * groups.vectors;
        return command_of(count,
                          convolved_channel_pixels<T, Count, Pixels, Taps, Stride>{
                              groups, window(), static_cast<unsigned>(step_.out.width), from(), also(),
                              reinterpret_cast<const float*>(call_.numbers + step_.numbers),
                              static_cast<unsigned>(padded_channels(step_.out.channels)), end_of(step_), to()},
                          to_);
    }
    launch_command resample() const {
        return in_eights(step_.from, step_.to, step_.out.channels) ? resample<8>() : resample<1>();
    }
    template <unsigned Count>
    launch_command resample() const {
        return command_of(elements(Count),
                          resampled_channels<T, Count>{grid(Count), static_cast<unsigned>(step_.in.height),
                                                       static_cast<unsigned>(step_.in.width), step_.resampling, from(),
                                                       end_of(step_), to()},
                          to_);
    }
    launch_command convolve_transposed() const {
        const filter_form form = filter_form_of(step_);
        const size_2d taps = taps_of_phase(step_.window);
        const std::byte* const filters = call_.numbers + step_.numbers;
        return command_of(
            elements(1),
            transposed_element<T>{grid(1), window(), static_cast<unsigned>(taps.height),
                                  static_cast<unsigned>(taps.width), from(), also(),
                                  reinterpret_cast<const T*>(filters), reinterpret_cast<const T*>(filters + form.bias),
                                  static_cast<unsigned>(step_.in.channels), static_cast<unsigned>(form.channels),
                                  static_cast<unsigned>(form.filters), end_of(step_), to()},
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
                                 static_cast<unsigned>(step_.out.channels / step_.groups), end_of(step_), to()},
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
