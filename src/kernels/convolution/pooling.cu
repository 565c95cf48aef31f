// SPDX-License-Identifier: Apache-2.0
// Pooling: each output by itself, one source for both sides; averages by the library of a GPU that has it.
#include "sluice/kernels/pooling.hpp"

#include <array>
#include <cstdint>
#include <string>

#include "kernels/convolution/pooling_dispatch.hpp"
#include "kernels/reduction/extrema.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice {
namespace {

using kernels::pooling_form;
using kernels::pooling_kind;

// What is left of a window within the image, along one dimension.
struct span_of_pixels {
    std::size_t first;
    std::size_t end;
};
SLUICE_KERNEL inline span_of_pixels pixels_of(std::size_t output, std::size_t stride, std::size_t padding,
                                              std::size_t window, std::size_t size) {
    const std::size_t first = output * stride, end = first + window;  // counted from the padding's first pixel
    return {first < padding ? 0 : first - padding, end - padding < size ? end - padding : size};
}

// Which output that is. `Number` holds the number of all outputs: a GPU divides 32-bit numbers much faster.
struct output_place {
    std::size_t across, down, plane;
};
template <typename Number>
SLUICE_KERNEL inline output_place place_of(std::size_t output, const pooling_form& form) {
    const auto at = static_cast<Number>(output), width = static_cast<Number>(form.out_width),
               height = static_cast<Number>(form.out_height);
    return {at % width, at / width % height, at / width / height};
}

struct pooling {
    pooling_form form;
    std::size_t outputs;

    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> out) const {
        float* const element = out.at(at);
        if (element == nullptr) return;
        const auto [across, down, plane] = outputs <= 0xffff'ffffu ? place_of<std::uint32_t>(at.value(), form)
                                                                   : place_of<std::size_t>(at.value(), form);
        const auto rows = pixels_of(down, form.stride.height, form.padding.height, form.window.height, form.height);
        const auto columns = pixels_of(across, form.stride.width, form.padding.width, form.window.width, form.width);
        const std::size_t first_row = plane * form.height + rows.first;
        float largest = x[first_row * form.width + columns.first], sum = 0;
        for (std::size_t row = first_row; row < plane * form.height + rows.end; ++row) {
            for (std::size_t column = columns.first; column < columns.end; ++column) {
                const float pixel = x[row * form.width + column];
                largest = kernels::maximum(largest, pixel);
                sum += pixel;
            }
        }
        const std::size_t inside = (rows.end - rows.first) * (columns.end - columns.first);
        switch (form.what) {
            case pooling_kind::max: *element = largest; break;
            case pooling_kind::average: *element = sum / static_cast<float>(inside); break;
            case pooling_kind::average_with_padding:
                *element = sum / static_cast<float>(form.window.height * form.window.width);
                break;
        }
    }
};

}  // namespace

template <>
[[maybe_unused]] constexpr bool detail::can_clear_padding<pooling> = detail::can_clear_padding<pooling_form>;

namespace {

void run_pooling(const native_stream& on, const void* closure) {
    kernels::pooling_on_cuda(*static_cast<const kernels::pooling_call*>(closure), on);
}

void check_options(const pooling_options& options, const size_2d& stride, const error_context& context) {
    const auto refuse = [&](const char* name, std::size_t value, const std::string& possible) {
        throw error(errc::invalid_argument, std::string("a ") + name + " of " + std::to_string(value) + "; " + possible,
                    context);
    };
    const std::string possible = "1 to " + std::to_string(largest_window_step) + " is possible";
    for (const std::size_t each : {options.window.height, options.window.width}) {
        if (each < 1 || each > largest_window_step) refuse("window", each, possible);
    }
    for (const std::size_t each : {stride.height, stride.width}) {
        if (each < 1 || each > largest_window_step) refuse("stride", each, possible);
    }
    const auto check_padding = [&](std::size_t padding, std::size_t window) {
        if (padding >= window) refuse("padding", padding, "less than the window's " + std::to_string(window));
    };
    check_padding(options.padding.height, options.window.height);
    check_padding(options.padding.width, options.window.width);
}

pooling_form form_of(const shape& x, const pooling_options& options, pooling_kind what, const error_context& context) {
    if (x.rank() != 4 || x[2] == 0 || x[3] == 0) {
        throw error(errc::shape_mismatch, "pools [images, channels, height, width], not " + to_string(x), context);
    }
    const size_2d stride = options.stride.value_or(options.window);
    check_options(options, stride, context);
    const pooling_form form{
        x[0],
        x[1],
        x[2],
        x[3],
        detail::window_outputs(x[2], options.window.height, stride.height, options.padding.height, 1),
        detail::window_outputs(x[3], options.window.width, stride.width, options.padding.width, 1),
        options.window,
        stride,
        options.padding,
        what};
    if (form.out_height == 0 || form.out_width == 0) {
        throw error(errc::shape_mismatch,
                    "a window of " + std::to_string(options.window.height) + " x " +
                        std::to_string(options.window.width) + " does not fit into padded images " + to_string(x),
                    context);
    }
    return form;
}

shape out_shape(const pooling_form& form) { return {form.images, form.channels, form.out_height, form.out_width}; }

void pool(stream on, const tensor<float>& x, tensor<float>& out, const pooling_options& options, pooling_kind what,
          const source_location& location) {
    const error_context context{"pooling", on.owner().name(), location};
    const pooling_form form = form_of(x.shape(), options, what, context);
    const shape expected = out_shape(form);
    if (out.shape() != expected) {
        throw error(errc::shape_mismatch,
                    "the result is " + to_string(expected) + ", the output " + to_string(out.shape()), context);
    }
    if (out.size() == 0) return;
    if (out.memory() == x.memory()) throw error(errc::invalid_argument, "the output is also the input", context);

    // cuDNN's maximum of nothing but -infinity may be the lowest finite number.
    const bool by_library = options.use_library && what != pooling_kind::max &&
                            on.owner().kind() == device_kind::cuda &&
                            kernels::pooling_on_cuda_is_there(form, on.owner());
    if (!by_library) return launch_on(on, pooling{form, out.size()}, each_of(out, location), x, out);
    kernels::pooling_call call{x.device_data(), out.device_data(), form};
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    on.library_call({"pooling", accesses, location}, detail::library_call_with(&run_pooling, call));
}

}  // namespace

shape pooled(const shape& x, const pooling_options& options, source_location location) {
    return out_shape(form_of(x, options, pooling_kind::max, {"pooling", {}, location}));
}

void max_pooling(stream on, const tensor<float>& x, tensor<float>& out, const pooling_options& options,
                 source_location location) {
    pool(on, x, out, options, pooling_kind::max, location);
}

void average_pooling(stream on, const tensor<float>& x, tensor<float>& out, const pooling_options& options,
                     source_location location) {
    pool(on, x, out, options, options.counts_padding ? pooling_kind::average_with_padding : pooling_kind::average,
         location);
}

}  // namespace sluice
