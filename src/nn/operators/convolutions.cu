// SPDX-License-Identifier: Apache-2.0
// Conv and ConvTranspose of floating point.
#include "nn/operators/convolutions.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/convolution/convolution_dispatch.hpp"
#include "nn/operators/convolutions_on_cpu.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/table.hpp"
#include "sluice/kernels/convolution.hpp"

namespace sluice::nn::operators {

// --- layout ------------------------------------------------------------------------------------------------------

std::size_t convolution_groups(const node_call& in) {
    const std::int64_t groups = in.integer("group", 1);
    if (groups < 1) in.refuse("has " + std::to_string(groups) + " groups");
    return static_cast<std::size_t>(groups);
}

lengths filter_window(const node_call& in, const any_tensor& filter) {
    const lengths window(filter.shape().begin() + 2, filter.shape().end());
    if (in.has("kernel_shape") && window_numbers(in, "kernel_shape", window.size(), 1, 1) != window)
        in.refuse_shapes("has a kernel_shape that is not that of its filter, " + to_string(filter));
    return window;
}

void require_bias(const node_call& in, std::size_t input, std::size_t filters, io::dtype type) {
    if (!in.has_input(input)) return;
    const any_tensor& bias = in.input(input);
    if (bias.type() != type) in.refuse("has the bias " + to_string(bias) + ", which has another type");
    if (bias.shape() != lengths{filters})
        in.refuse_shapes("has the bias " + to_string(bias) + " for " + std::to_string(filters) + " filters");
}

convolution_layout convolution_of(const node_call& in, const any_tensor& x, const any_tensor& filter) {
    convolution_layout made;
    made.rank = window_rank(in, x);
    made.groups = convolution_groups(in);
    made.images = x.shape()[0];
    if (filter.shape().size() != x.shape().size() || filter.shape()[1] > x.shape()[1] ||
        x.shape()[1] % made.groups != 0 || filter.shape()[0] % made.groups != 0 ||
        x.shape()[1] / made.groups != filter.shape()[1]) {
        in.refuse_shapes("has the image " + to_string(x) + " and the filter " + to_string(filter) + " with " +
                         std::to_string(made.groups) + " groups, which do not fit");
    }
    made.channels = filter.shape()[1];
    made.filters = filter.shape()[0] / made.groups;
    made.grid = windows_of(in, std::span(x.shape()).subspan(2), filter_window(in, filter));
    return made;
}

namespace {

// --- Conv: kernels -----------------------------------------------------------------------------------------------

template <typename T>
struct convolution_element {
    convolution_layout of;
    const T* x;
    const T* filter;
    const T* bias;  // or null
    T* y;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const window_grid& grid = of.grid;
        std::size_t rest = index;
        const std::size_t o2 = rest % grid.output[2];
        rest /= grid.output[2];
        const std::size_t o1 = rest % grid.output[1];
        rest /= grid.output[1];
        const std::size_t o0 = rest % grid.output[0];
        rest /= grid.output[0];
        const std::size_t filters = of.groups * of.filters, k = rest % filters, group = k / of.filters;
        const T* plane = x + (rest / filters * of.groups + group) * of.channels * grid.input_size();
        const T* taps = filter + k * of.channels * grid.window_size();
        const auto r0 = grid.in_image(o0, 0), r1 = grid.in_image(o1, 1), r2 = grid.in_image(o2, 2);
        // One window's sum in the type, all windows' in double.
        double sum = bias != nullptr ? static_cast<double>(static_cast<computed<T>>(bias[k])) : 0.0;
        for (std::size_t c = 0; c < of.channels; ++c) {
            computed<T> part = 0;
            for (std::size_t w0 = r0.first; w0 < r0.last; ++w0) {
                for (std::size_t w1 = r1.first; w1 < r1.last; ++w1) {
                    const std::size_t line =
                        (grid.place(o0, w0, 0) * grid.input[1] + grid.place(o1, w1, 1)) * grid.input[2];
                    const T* const tap = taps + (w0 * grid.window[1] + w1) * grid.window[2];
                    for (std::size_t w2 = r2.first; w2 < r2.last; ++w2) {
                        part += static_cast<computed<T>>(plane[line + grid.place(o2, w2, 2)]) *
                                static_cast<computed<T>>(tap[w2]);
                    }
                }
            }
            sum += static_cast<double>(part);
            plane += grid.input_size();
            taps += grid.window_size();
        }
        y[index] = static_cast<T>(static_cast<computed<T>>(sum));
    }
};

// The image with zeros around it.
template <typename T>
struct padded_image {
    window_grid grid;
    std::size_t length[3];
    const T* x;
    T* y;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const std::size_t p2 = index % length[2], p1 = index / length[2] % length[1];
        const std::size_t p0 = index / length[2] / length[1] % length[0];
        const std::size_t plane = index / length[2] / length[1] / length[0];
        const bool is_inside = p0 >= grid.before[0] && p0 - grid.before[0] < grid.input[0] && p1 >= grid.before[1] &&
                               p1 - grid.before[1] < grid.input[1] && p2 >= grid.before[2] &&
                               p2 - grid.before[2] < grid.input[2];
        y[index] = is_inside ? x[((plane * grid.input[0] + p0 - grid.before[0]) * grid.input[1] + p1 - grid.before[1]) *
                                     grid.input[2] +
                                 p2 - grid.before[2]]
                             : T(0);
    }
};

// --- Conv of groups of few channels on a GPU ---------------------------------------------------------------------

// One output for each index, in 32-bit numbers: a sum of few products, for which a product of matrices is too narrow.
// Neighbouring threads read neighbouring pixels and the same filter.
template <typename T>
struct grouped_convolution_element {
    const T* x;
    const T* filter;
    const T* bias;  // or null
    T* y;
    std::uint32_t input[3], window[3], output[3], stride[3], dilation[3], before[3];
    std::uint32_t groups, channels, filters, input_size;  // channels and filters of one group

    SLUICE_KERNEL void operator()(std::size_t index) const {
        std::uint32_t rest = static_cast<std::uint32_t>(index);
        const std::uint32_t o2 = rest % output[2];
        rest /= output[2];
        const std::uint32_t o1 = rest % output[1];
        rest /= output[1];
        const std::uint32_t o0 = rest % output[0];
        rest /= output[0];
        const std::uint32_t all_filters = groups * filters, k = rest % all_filters;
        const T* plane = x + (rest / all_filters * groups + k / filters) * channels * input_size;
        const T* tap = filter + k * channels * window[0] * window[1] * window[2];
        // Places before the image wrap around, and are too large.
        const std::uint32_t first0 = o0 * stride[0] - before[0], first1 = o1 * stride[1] - before[1],
                            first2 = o2 * stride[2] - before[2];
        float sum = bias != nullptr ? static_cast<float>(bias[k]) : 0.0f;
        for (std::uint32_t c = 0; c < channels; ++c, plane += input_size) {
            for (std::uint32_t w0 = 0; w0 < window[0]; ++w0) {
                const std::uint32_t p0 = first0 + w0 * dilation[0];
                for (std::uint32_t w1 = 0; w1 < window[1]; ++w1, tap += window[2]) {
                    const std::uint32_t p1 = first1 + w1 * dilation[1];
                    if (p0 >= input[0] || p1 >= input[1]) continue;
                    const T* const line = plane + (p0 * input[1] + p1) * input[2];
                    for (std::uint32_t w2 = 0; w2 < window[2]; ++w2) {
                        const std::uint32_t p2 = first2 + w2 * dilation[2];
                        if (p2 < input[2]) sum += static_cast<float>(line[p2]) * static_cast<float>(tap[w2]);
                    }
                }
            }
        }
        y[index] = static_cast<T>(sum);
    }
};

// False where another way has to be taken.
bool convolve_groups(const node_call& in, const convolution_layout& of, const any_tensor& x, const any_tensor& filter,
                     const any_tensor& bias, const any_tensor& y) {
    constexpr std::size_t most_products = 320, most_places = std::size_t{1} << 31;
    const window_grid& grid = of.grid;
    if (!is_on_gpu(in) || x.type() == io::dtype::f64 || of.groups == 1 ||
        of.channels * grid.window_size() > most_products)
        return false;
    // All places, those around the image too, fit into 32 bits.
    for (std::size_t d = 0; d < 3; ++d) {
        const std::size_t reach = grid.output[d] * grid.stride[d] + grid.window[d] * grid.dilation[d] + grid.before[d];
        if (std::max({reach, grid.stride[d], grid.dilation[d]}) >= most_places / 2) return false;
    }
    if (std::max({x.elements(), y.elements(), filter.elements()}) >= most_places) return false;
    const auto run = [&]<typename T>() {
        grouped_convolution_element<T> kernel{};
        kernel.x = in.read<T>(x);
        kernel.filter = in.read<T>(filter);
        kernel.bias = bias ? in.read<T>(bias) : nullptr;
        kernel.y = in.write<T>(y);
        for (std::size_t d = 0; d < 3; ++d) {
            kernel.input[d] = static_cast<std::uint32_t>(grid.input[d]);
            kernel.window[d] = static_cast<std::uint32_t>(grid.window[d]);
            kernel.output[d] = static_cast<std::uint32_t>(grid.output[d]);
            kernel.stride[d] = static_cast<std::uint32_t>(grid.stride[d]);
            kernel.dilation[d] = static_cast<std::uint32_t>(grid.dilation[d]);
            kernel.before[d] = static_cast<std::uint32_t>(grid.before[d]);
        }
        kernel.groups = static_cast<std::uint32_t>(of.groups);
        kernel.channels = static_cast<std::uint32_t>(of.channels);
        kernel.filters = static_cast<std::uint32_t>(of.filters);
        kernel.input_size = static_cast<std::uint32_t>(grid.input_size());
        each(in, y.elements(), kernel, {&x, &filter, &bias}, {&y});
    };
    switch (x.type()) {
        case io::dtype::f16: run.template operator()<half>(); break;
        case io::dtype::bf16: run.template operator()<bfloat16>(); break;
        default: run.template operator()<float>();
    }
    return true;
}

// --- Conv by the library -----------------------------------------------------------------------------------------

// The library convolves f32 images of two dimensions.
bool can_use_library(const node_call& in, const convolution_layout& of, io::dtype type) {
    if (in.where() != place::device || type == io::dtype::f64 || of.rank > 2 || in.input(0).elements() == 0)
        return false;
    const auto is_small = [](std::size_t each) { return each <= largest_window_step; };
    return std::ranges::all_of(of.grid.stride, is_small) && std::ranges::all_of(of.grid.dilation, is_small) &&
           std::ranges::all_of(of.grid.before, is_small) && std::ranges::all_of(of.grid.after, is_small) &&
           std::ranges::all_of(of.grid.window, is_small);
}

any_tensor image_as_f32(node_call& in, const any_tensor& x) {
    if (x.type() == io::dtype::f32) return x;
    any_tensor made = in.make(io::dtype::f32, x.shape());
    expression e(in);
    e.give(made, e.input(x));
    e.run();
    return made;
}

tensor<float> image_tensor(const any_tensor& x, const shape& as) {
    return {buffer<float>(x.shared_memory(), x.elements()), as};
}

void convolve_by_library(node_call& in, const convolution_layout& of, const any_tensor& y) {
    const window_grid& grid = of.grid;
    any_tensor x = image_as_f32(in, in.input(0));
    const any_tensor filter = image_as_f32(in, in.input(1));
    const std::size_t channels = of.groups * of.channels, filters = of.groups * of.filters;
    std::size_t height = grid.input[1], width = grid.input[2];
    size_2d padding{grid.before[1], grid.before[2]};
    if (grid.before[1] != grid.after[1] || grid.before[2] != grid.after[2]) {
        height += grid.before[1] + grid.after[1];
        width += grid.before[2] + grid.after[2];
        padding = {0, 0};
        any_tensor padded = in.make(io::dtype::f32, {of.images, channels, height, width});
        each(in, padded.elements(),
             padded_image<float>{grid, {1, height, width}, in.read<float>(x), in.write<float>(padded)}, {&x},
             {&padded});
        x = padded;
    }
    std::optional<tensor<float>> bias;
    if (in.has_input(2)) bias.emplace(image_tensor(image_as_f32(in, in.input(2)), {filters}));
    const any_tensor made = y.type() == io::dtype::f32 ? y : in.make(io::dtype::f32, y.shape());
    auto out = image_tensor(made, {of.images, filters, grid.output[1], grid.output[2]});
    convolution(in.context().stream(), image_tensor(x, {of.images, channels, height, width}),
                image_tensor(filter, {filters, of.channels, grid.window[1], grid.window[2]}), bias ? &*bias : nullptr,
                out,
                {.stride = {grid.stride[1], grid.stride[2]},
                 .padding = padding,
                 .dilation = {grid.dilation[1], grid.dilation[2]},
                 .groups = of.groups});
    if (y.type() == io::dtype::f32) return;
    expression e(in);
    e.give(y, e.input(made));
    e.run();
}

void convolution_node(node_call& in) {
    const any_tensor &x = in.input(0), &filter = in.input(1);
    if (!is_float(x.type())) in.refuse_type(x);
    if (x.type() != filter.type()) in.refuse("has the image " + to_string(x) + " and the filter " + to_string(filter));
    const convolution_layout of = convolution_of(in, x, filter);
    require_bias(in, 2, of.groups * of.filters, x.type());
    const any_tensor& y = in.make_output(0, x.type(), of.output_shape());
    if (y.elements() == 0) return;
    if (convolve_on_cpu(in, of, x, filter, in.has_input(2) ? &in.input(2) : nullptr, y)) return;
    if (convolve_groups(in, of, x, filter, in.has_input(2) ? in.input(2) : any_tensor(), y)) return;
    if (can_use_library(in, of, x.type())) return convolve_by_library(in, of, y);
    const any_tensor& bias = in.has_input(2) ? in.input(2) : filter;
    with_float(in, x, [&]<typename T>() {
        each(in, y.elements(),
             convolution_element<T>{of, in.read<T>(x), in.read<T>(filter), in.has_input(2) ? in.read<T>(bias) : nullptr,
                                    in.write<T>(y)},
             {&x, &filter, &bias}, {&y});
    });
}

// --- ConvTranspose -----------------------------------------------------------------------------------------------

// grid.input is the image, over which `window` is spread; filters are [channels, filters / groups, window...].
template <typename T>
struct transposed_convolution_element {
    convolution_layout of;
    const T* x;
    const T* filter;
    const T* bias;  // or null
    T* y;

    // The pixel of the image that element w of its window brings to output o; false if there is none.
    SLUICE_KERNEL bool pixel(std::size_t o, std::size_t w, std::size_t d, std::size_t& made) const {
        const std::size_t to = o + of.grid.before[d], from = w * of.grid.dilation[d];
        if (to < from || (to - from) % of.grid.stride[d] != 0) return false;
        made = (to - from) / of.grid.stride[d];
        return made < of.grid.input[d];
    }

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const window_grid& grid = of.grid;
        std::size_t rest = index;
        const std::size_t o2 = rest % grid.output[2];
        rest /= grid.output[2];
        const std::size_t o1 = rest % grid.output[1];
        rest /= grid.output[1];
        const std::size_t o0 = rest % grid.output[0];
        rest /= grid.output[0];
        const std::size_t filters = of.groups * of.filters, k = rest % filters, group = k / of.filters;
        const std::size_t image = grid.input_size(), window = grid.window_size();
        const T* const planes = x + (rest / filters * of.groups + group) * of.channels * image;
        const T* const taps = filter + (group * of.channels * of.filters + k % of.filters) * window;
        double sum = bias != nullptr ? static_cast<double>(static_cast<computed<T>>(bias[k])) : 0.0;
        std::size_t p0 = 0, p1 = 0, p2 = 0;
        for (std::size_t w0 = 0; w0 < grid.window[0]; ++w0) {
            if (!pixel(o0, w0, 0, p0)) continue;
            for (std::size_t w1 = 0; w1 < grid.window[1]; ++w1) {
                if (!pixel(o1, w1, 1, p1)) continue;
                for (std::size_t w2 = 0; w2 < grid.window[2]; ++w2) {
                    if (!pixel(o2, w2, 2, p2)) continue;
                    const T* at = planes + (p0 * grid.input[1] + p1) * grid.input[2] + p2;
                    const T* tap = taps + (w0 * grid.window[1] + w1) * grid.window[2] + w2;
                    for (std::size_t c = 0; c < of.channels; ++c) {
                        sum += static_cast<double>(static_cast<computed<T>>(at[c * image]) *
                                                   static_cast<computed<T>>(tap[c * of.filters * window]));
                    }
                }
            }
        }
        y[index] = static_cast<T>(static_cast<computed<T>>(sum));
    }
};

// Along one dimension: sets output and padding. The window of all of the image is `full` elements wide.
void place_transposed(const node_call& in, window_grid& grid, std::size_t d, std::size_t full, std::size_t output) {
    const std::size_t padding = full > output ? full - output : 0, smaller = padding / 2;
    const bool is_same_upper = auto_padding_of(in) == auto_padding::same_upper;
    const bool begins_smaller = in.opset() < 11 ? !is_same_upper : is_same_upper;
    grid.before[d] = begins_smaller ? smaller : padding - smaller;
    grid.after[d] = padding - grid.before[d];
    grid.output[d] = output;
}

convolution_layout transposed_convolution_of(const node_call& in, const any_tensor& x, const any_tensor& filter) {
    convolution_layout made;
    made.rank = window_rank(in, x);
    made.groups = convolution_groups(in);
    made.images = x.shape()[0];
    if (filter.shape().size() != x.shape().size() || filter.shape()[0] != x.shape()[1] ||
        x.shape()[1] % made.groups != 0) {
        in.refuse_shapes("has the image " + to_string(x) + " and the filter " + to_string(filter) + " with " +
                         std::to_string(made.groups) + " groups, which do not fit");
    }
    made.channels = x.shape()[1] / made.groups;
    made.filters = filter.shape()[1];
    std::size_t filters = 0;
    if (__builtin_mul_overflow(made.filters, made.groups, &filters)) in.refuse_shapes("has too many groups");
    const std::size_t rank = made.rank;
    made.grid = unpadded_grid(in, std::span(x.shape()).subspan(2), filter_window(in, filter));
    const lengths pads = window_numbers(in, "pads", 2 * rank, 0, 0),
                  added = window_numbers(in, "output_padding", rank, 0, 0);
    // Some exporters write the whole shape.
    lengths output;
    if (in.has("output_shape")) {
        const std::size_t count = in.integer_list("output_shape").size();
        output = window_numbers(in, "output_shape", count == rank + 2 ? count : rank, 1, 1);
        if (count == rank + 2) {
            if (output[0] != made.images || output[1] != filters)
                in.refuse_shapes("has an output_shape that does not fit");
            output.erase(output.begin(), output.begin() + 2);
        }
    }
    const auto_padding automatic = auto_padding_of(in);
    if (automatic != auto_padding::not_set && std::ranges::any_of(pads, [](std::size_t each) { return each != 0; }))
        in.refuse("has both pads and auto_pad");
    window_grid& grid = made.grid;
    for (std::size_t d = 0; d < rank; ++d) {
        const std::size_t at = 3 - rank + d;
        if (added[d] >= std::max(grid.stride[at], grid.dilation[at]))
            in.refuse("has an output_padding that is not less than the stride or the dilation");
        if (grid.input[at] == 0) in.refuse_shapes("has an image without elements, " + to_string(x));
        const std::size_t full =
            grid.stride[at] * (grid.input[at] - 1) + added[d] + (grid.window[at] - 1) * grid.dilation[at] + 1;
        if (!output.empty()) {
            place_transposed(in, grid, at, full, output[d]);
        } else if (automatic == auto_padding::same_upper || automatic == auto_padding::same_lower) {
            place_transposed(in, grid, at, full, grid.input[at] * grid.stride[at]);
        } else {
            if (full <= pads[d] + pads[rank + d]) in.refuse_shapes("has so much padding that nothing is left");
            grid.before[at] = pads[d];
            grid.after[at] = pads[rank + d];
            grid.output[at] = full - pads[d] - pads[rank + d];
        }
    }
    return made;
}

// False: the library does not do it.
bool transpose_by_library(node_call& in, const convolution_layout& of, const any_tensor& y) {
    if (!can_use_library(in, of, in.input(0).type()) || of.channels == 0) return false;
    kernels::convolution_form form = form_of(of);
    form.kind = kernels::convolution_kind::transposed;
    const stream on = in.context().stream();
    const auto workspace_bytes = kernels::transposed_workspace_bytes(on.owner(), form);
    if (!workspace_bytes) return false;
    const any_tensor x = image_as_f32(in, in.input(0)), filter = image_as_f32(in, in.input(1));
    std::optional<tensor<float>> bias;
    if (in.has_input(2)) bias.emplace(image_tensor(image_as_f32(in, in.input(2)), {form.filters}));
    const any_tensor made = y.type() == io::dtype::f32 ? y : in.make(io::dtype::f32, y.shape());
    auto out = image_tensor(made, {form.images, form.filters, form.out_height, form.out_width});
    kernels::convolve_transposed(
        on, form, *workspace_bytes, image_tensor(x, {form.images, form.channels, form.height, form.width}),
        image_tensor(filter, {form.channels, of.filters, form.filter_height, form.filter_width}),
        bias ? &*bias : nullptr, out, source_location::current());
    if (y.type() != io::dtype::f32) {
        expression e(in);
        e.give(y, e.input(made));
        e.run();
    }
    return true;
}

void transposed_convolution_node(node_call& in) {
    const any_tensor &x = in.input(0), &filter = in.input(1);
    if (!is_float(x.type())) in.refuse_type(x);
    if (x.type() != filter.type()) in.refuse("has the image " + to_string(x) + " and the filter " + to_string(filter));
    const convolution_layout of = transposed_convolution_of(in, x, filter);
    require_bias(in, 2, of.groups * of.filters, x.type());
    const any_tensor& y = in.make_output(0, x.type(), of.output_shape());
    if (y.elements() == 0 || transpose_by_library(in, of, y)) return;
    if (convolve_transposed_on_cpu(in, of, x, filter, in.has_input(2) ? &in.input(2) : nullptr, y)) return;
    const any_tensor& bias = in.has_input(2) ? in.input(2) : filter;
    with_float(in, x, [&]<typename T>() {
        each(in, y.elements(),
             transposed_convolution_element<T>{of, in.read<T>(x), in.read<T>(filter),
                                               in.has_input(2) ? in.read<T>(bias) : nullptr, in.write<T>(y)},
             {&x, &filter, &bias}, {&y});
    });
}

}  // namespace

std::span<const definition> convolutions() {
    static const std::vector<std::string_view> windows = {"auto_pad",     "dilations", "group",
                                                          "kernel_shape", "pads",      "strides"};
    static const std::vector<definition> known = {
        {"Conv", 2, 3, 1, windows, &convolution_node},
        {.name = "ConvTranspose",
         .least_inputs = 2,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads",
                        "strides"},
         .run = &transposed_convolution_node},
        {.name = "ConvInteger",
         .least_inputs = 2,
         .most_inputs = 4,
         .most_outputs = 1,
         .attributes = windows,
         .run = &integer_convolution,
         .since = 10},
        {.name = "QLinearConv",
         .least_inputs = 8,
         .most_inputs = 9,
         .most_outputs = 1,
         .attributes = windows,
         .run = &quantized_convolution,
         .since = 10},
        {.name = "DeformConv",
         .least_inputs = 3,
         .most_inputs = 5,
         .most_outputs = 1,
         .attributes = {"dilations", "group", "kernel_shape", "offset_group", "pads", "strides"},
         .run = &deformable_convolution,
         .since = 19},
        {.name = "CausalConvWithState",
         .least_inputs = 2,
         .most_inputs = 4,
         .most_outputs = 2,
         .attributes = {"activation"},
         .run = &causal_convolution,
         .since = 27},
        {.name = "Col2Im",
         .least_inputs = 3,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"dilations", "pads", "strides"},
         .run = &columns_to_image,
         .host_inputs = input_bit(1) | input_bit(2),
         .since = 18},
    };
    return known;
}

}  // namespace sluice::nn::operators
