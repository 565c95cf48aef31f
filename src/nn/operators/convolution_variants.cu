// SPDX-License-Identifier: Apache-2.0
// Convolutions of quantized images, with windows that are bent, and of sequences with a state; and Col2Im, which adds
// windows up to an image.
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/gemm/integer_gemm.hpp"
#include "nn/operators/convolutions.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/typed_elements.hpp"

namespace sluice::nn::operators {
namespace {

// Splits the index of an output element: [images, planes, output...].
struct window_output {
    std::size_t image, plane, at[3];

    SLUICE_KERNEL window_output(std::size_t index, std::size_t planes, const std::size_t* lengths) {
        for (std::size_t d = 3; d-- > 0;) {
            at[d] = index % lengths[d];
            index /= lengths[d];
        }
        plane = index % planes;
        image = index / planes;
    }
};

// --- ConvInteger, QLinearConv ------------------------------------------------------------------------------------

template <typename X, typename W>
struct integer_convolution_element {
    convolution_layout of;
    const X* x;
    const W* filter;
    const std::int32_t* bias;  // or null
    void* y;
    in_word<io::dtype> y_type;  // i32: the sum itself
    number_list x_scale, x_zero, filter_scale, filter_zero, y_scale, y_zero;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const window_grid& grid = of.grid;
        const window_output to(index, of.groups * of.filters, grid.output);
        const X* plane = x + (to.image * of.groups + to.plane / of.filters) * of.channels * grid.input_size();
        const W* taps = filter + to.plane * of.channels * grid.window_size();
        const auto zero_x = static_cast<std::int32_t>(x_zero[0]);
        const auto zero_w = static_cast<std::int32_t>(filter_zero[to.plane]);
        const auto r0 = grid.in_image(to.at[0], 0), r1 = grid.in_image(to.at[1], 1), r2 = grid.in_image(to.at[2], 2);
        std::uint32_t sum = 0;
        for (std::size_t c = 0; c < of.channels; ++c) {
            for (std::size_t w0 = r0.first; w0 < r0.last; ++w0) {
                for (std::size_t w1 = r1.first; w1 < r1.last; ++w1) {
                    const std::size_t line =
                        (grid.place(to.at[0], w0, 0) * grid.input[1] + grid.place(to.at[1], w1, 1)) * grid.input[2];
                    const W* const tap = taps + (w0 * grid.window[1] + w1) * grid.window[2];
                    for (std::size_t w2 = r2.first; w2 < r2.last; ++w2) {
                        const std::int32_t a = plane[line + grid.place(to.at[2], w2, 2)] - zero_x;
                        const std::int32_t b = tap[w2] - zero_w;
                        sum += static_cast<std::uint32_t>(a * b);
                    }
                }
            }
            plane += grid.input_size();
            taps += grid.window_size();
        }
        give(index, to.plane, sum);
    }

    SLUICE_KERNEL void give(std::size_t index, std::size_t plane, std::uint32_t sum) const {
        if (bias != nullptr) sum += static_cast<std::uint32_t>(bias[plane]);
        const auto made = static_cast<std::int32_t>(sum);
        if (y_type == io::dtype::i32) {
            static_cast<std::int32_t*>(y)[index] = made;
            return;
        }
        const double scale = x_scale[0] * filter_scale[plane] / y_scale[0];
        write_saturated(y, y_type, index, std::rint(made * scale) + y_zero[0]);
    }

    // Whole planes, as products of the filters of a group by its windows.
    static constexpr std::size_t numbers_of_part = 2'048;
    std::size_t host_unit() const { return of.grid.output_size(); }
    void on_host(std::size_t first, std::size_t last) const {
        const std::size_t size = of.grid.output_size();
        for (std::size_t plane = first / size, end = last / size; plane < end;) {
            const std::size_t count = std::min(end - plane, of.filters - plane % of.filters);
            if (!try_multiply_planes(plane, count))
                for (std::size_t i = plane * size; i < (plane + count) * size; ++i) (*this)(i);
            plane += count;
        }
    }

private:
    // False too where there is no memory for it: the command cannot fail, and the slow way gives the same sums.
    bool try_multiply_planes(std::size_t plane, std::size_t count) const noexcept {
        try {
            return multiply_planes(plane, count);
        } catch (...) {
            return false;
        }
    }

    // Some planes of one group of one image, a few lines of the output at a time. False where bytes are not multiplied
    // fast.
    bool multiply_planes(std::size_t plane, std::size_t count) const {
        constexpr std::size_t bytes_at_once = std::size_t{256} << 10;
        const window_grid& grid = of.grid;
        const std::size_t inner = of.channels * grid.window_size(), width = grid.output[2],
                          lines = grid.output[0] * grid.output[1], in_image = plane % (of.groups * of.filters);
        if (inner == 0) return false;
        const X* const from = x + plane / of.filters * of.channels * grid.input_size();
        const bool is_one_zero = filter_zero.is_one;
        const kernels::byte_matrix filters{filter + in_image * inner, std::is_signed_v<W>,
                                           is_one_zero ? static_cast<std::int32_t>(filter_zero[0]) : 0};
        const std::size_t of_column = inner * sizeof(X) + count * sizeof(std::int32_t);  // windows and sums
        const std::size_t at_once = std::max<std::size_t>(1, bytes_at_once / (of_column * width));
        thread_local std::vector<X> windows;
        thread_local std::vector<std::int32_t> sums;
        for (std::size_t line = 0; line < lines; line += at_once) {
            const std::size_t some = std::min(at_once, lines - line), columns = some * width;
            if (windows.size() < inner * columns) windows.resize(inner * columns);
            if (sums.size() < count * columns) sums.resize(count * columns);
            copy_windows(from, line, some, windows.data());
            const kernels::byte_matrix by{windows.data(), std::is_signed_v<X>, static_cast<std::int32_t>(x_zero[0])};
            if (!kernels::multiply_bytes_on_cpu(filters, by, count, inner, columns, sums.data())) return false;
            if (!is_one_zero) subtract_zeros(windows.data(), in_image, count, columns, sums.data());
            for (std::size_t f = 0; f < count; ++f)
                for (std::size_t i = 0; i < columns; ++i)
                    give((plane + f) * lines * width + line * width + i, in_image + f,
                         static_cast<std::uint32_t>(sums[f * columns + i]));
        }
        return true;
    }

    // The elements of windows of some lines of the output: [channels, window, lines, width]. Padding is the zero point.
    void copy_windows(const X* from, std::size_t first, std::size_t lines, X* to) const {
        const window_grid& grid = of.grid;
        const auto zero = static_cast<X>(x_zero[0]);
        for (std::size_t k = 0; k < of.channels * grid.window_size(); ++k) {
            const std::size_t w2 = k % grid.window[2], w1 = k / grid.window[2] % grid.window[1],
                              w0 = k / grid.window[2] / grid.window[1] % grid.window[0];
            const X* const plane = from + k / grid.window_size() * grid.input_size();
            const auto r0 = grid.windows_with(w0, 0), r1 = grid.windows_with(w1, 1), r2 = grid.windows_with(w2, 2);
            for (std::size_t line = first; line < first + lines; ++line, to += grid.output[2]) {
                const std::size_t o0 = line / grid.output[1], o1 = line % grid.output[1];
                const bool is_inside = o0 >= r0.first && o0 < r0.last && o1 >= r1.first && o1 < r1.last;
                if (!is_inside || r2.first >= r2.last) {
                    std::fill_n(to, grid.output[2], zero);
                    continue;
                }
                std::fill(to, to + r2.first, zero);
                std::fill(to + r2.last, to + grid.output[2], zero);
                const X* next = plane +
                                (grid.place(o0, w0, 0) * grid.input[1] + grid.place(o1, w1, 1)) * grid.input[2] +
                                grid.place(r2.first, w2, 2);
                for (std::size_t o2 = r2.first; o2 < r2.last; ++o2, next += grid.stride[2]) to[o2] = *next;
            }
        }
    }

    // A zero point of each filter, times what a window sums up to.
    void subtract_zeros(const X* windows, std::size_t plane, std::size_t count, std::size_t columns,
                        std::int32_t* sums) const {
        const auto zero = static_cast<std::int32_t>(x_zero[0]);
        thread_local std::vector<std::uint32_t> totals;
        totals.assign(columns, 0);
        for (std::size_t k = 0; k < of.channels * of.grid.window_size(); ++k)
            for (std::size_t i = 0; i < columns; ++i)
                totals[i] += static_cast<std::uint32_t>(windows[k * columns + i] - zero);
        for (std::size_t f = 0; f < count; ++f) {
            const auto moved = static_cast<std::uint32_t>(static_cast<std::int32_t>(filter_zero[plane + f]));
            for (std::size_t i = 0; i < columns; ++i)
                sums[f * columns + i] =
                    static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[f * columns + i]) - totals[i] * moved);
        }
    }
};

bool is_quantized_byte(const any_tensor& x) { return x.type() == io::dtype::i8 || x.type() == io::dtype::u8; }

// One number, or one for each filter.
number_list numbers_of_filters(const node_call& in, std::size_t input, std::size_t filters, double otherwise) {
    if (in.has_input(input) && in.input(input).elements() != 1 && in.input(input).shape() != lengths{filters}) {
        in.refuse_shapes("has the scale or zero point " + to_string(in.input(input)) + " for " +
                         std::to_string(filters) + " filters");
    }
    return numbers_from(in, input, otherwise);
}

number_list one_number(const node_call& in, std::size_t input, double otherwise) {
    return numbers_of_filters(in, input, 1, otherwise);
}

// `zero`: the input that is the zero point of one of these.
void require_zero_point(const node_call& in, std::size_t zero, const any_tensor& of) {
    if (!is_quantized_byte(of)) in.refuse_type(of);
    if (in.has_input(zero) && in.input(zero).type() != of.type())
        in.refuse("has a zero point of another type than what it belongs to");
}

// The fields other than x, filter, bias and y are those of `fields`.
void run_integer_convolution(const node_call& in, const any_tensor& x, const any_tensor& filter, const any_tensor* bias,
                             const any_tensor& y,
                             const integer_convolution_element<std::uint8_t, std::uint8_t>& fields) {
    // All inputs, for the list of what is read.
    const auto input = [&](std::size_t i) { return in.has_input(i) ? &in.input(i) : &x; };
    const auto run = [&]<typename X, typename W>() {
        each(in, y.elements(),
             integer_convolution_element<X, W>{fields.of, in.read<X>(x), in.read<W>(filter),
                                               bias != nullptr ? in.read<std::int32_t>(*bias) : nullptr,
                                               in.write<void>(y), y.type(), fields.x_scale, fields.x_zero,
                                               fields.filter_scale, fields.filter_zero, fields.y_scale, fields.y_zero},
             {input(0), input(1), input(2), input(3), input(4), input(5), input(6), input(7), input(8)}, {&y});
    };
    const bool is_w_signed = filter.type() == io::dtype::i8;
    if (x.type() == io::dtype::i8) {
        is_w_signed ? run.operator()<std::int8_t, std::int8_t>() : run.operator()<std::int8_t, std::uint8_t>();
    } else {
        is_w_signed ? run.operator()<std::uint8_t, std::int8_t>() : run.operator()<std::uint8_t, std::uint8_t>();
    }
}

// --- DeformConv --------------------------------------------------------------------------------------------------

template <typename T>
struct deformable_convolution_element {
    convolution_layout of;
    std::size_t offset_groups;
    const T* x;
    const T* filter;
    const T* offset;
    const T* bias;  // or null
    const T* mask;  // or null
    T* y;

    using number = computed<T>;

    SLUICE_KERNEL static number pixel(const T* plane, const window_grid& grid, std::int64_t row, std::int64_t column) {
        const auto height = static_cast<std::int64_t>(grid.input[1]), width = static_cast<std::int64_t>(grid.input[2]);
        if (row < 0 || row >= height || column < 0 || column >= width) return 0;
        return static_cast<number>(plane[row * width + column]);
    }
    // Between the four pixels around; outside of the image all are 0.
    SLUICE_KERNEL static number sample(const T* plane, const window_grid& grid, number row, number column) {
        if (!(row > -1 && row < static_cast<number>(grid.input[1]) && column > -1 &&
              column < static_cast<number>(grid.input[2]))) {
            return 0;
        }
        const number top = std::floor(row), left = std::floor(column), down = row - top, across = column - left;
        const auto r = static_cast<std::int64_t>(top), c = static_cast<std::int64_t>(left);
        return (1 - down) * ((1 - across) * pixel(plane, grid, r, c) + across * pixel(plane, grid, r, c + 1)) +
               down * ((1 - across) * pixel(plane, grid, r + 1, c) + across * pixel(plane, grid, r + 1, c + 1));
    }

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const window_grid& grid = of.grid;
        const window_output to(index, of.groups * of.filters, grid.output);
        const std::size_t all_channels = of.groups * of.channels, outputs = grid.output_size(),
                          window = grid.window_size();
        const std::size_t first_channel = to.plane / of.filters * of.channels;
        const std::size_t place = to.at[1] * grid.output[2] + to.at[2];
        double sum = bias != nullptr ? static_cast<double>(static_cast<number>(bias[to.plane])) : 0.0;
        for (std::size_t c = 0; c < of.channels; ++c) {
            const std::size_t channel = first_channel + c;
            const std::size_t group = to.image * offset_groups + channel / (all_channels / offset_groups);
            const T* const plane = x + (to.image * all_channels + channel) * grid.input_size();
            const T* const taps = filter + (to.plane * of.channels + c) * window;
            for (std::size_t w = 0; w < window; ++w) {
                const std::size_t row = to.at[1] * grid.stride[1] + w / grid.window[2] * grid.dilation[1],
                                  column = to.at[2] * grid.stride[2] + w % grid.window[2] * grid.dilation[2];
                const T* const moved = offset + (group * window + w) * 2 * outputs + place;
                const number at_row =
                    static_cast<number>(static_cast<std::int64_t>(row) - static_cast<std::int64_t>(grid.before[1])) +
                    static_cast<number>(moved[0]);
                const number at_column =
                    static_cast<number>(static_cast<std::int64_t>(column) - static_cast<std::int64_t>(grid.before[2])) +
                    static_cast<number>(moved[outputs]);
                number value = sample(plane, grid, at_row, at_column) * static_cast<number>(taps[w]);
                if (mask != nullptr) value *= static_cast<number>(mask[(group * window + w) * outputs + place]);
                sum += static_cast<double>(value);
            }
        }
        y[index] = static_cast<T>(static_cast<number>(sum));
    }
};

// --- CausalConvWithState -----------------------------------------------------------------------------------------

// The sequence of each channel: the state, then the input.
template <typename T>
struct causal_sequence {
    std::size_t length, state;
    const T* x;
    const T* past;  // or null: zeros

    SLUICE_KERNEL T operator()(std::size_t row, std::size_t i) const {
        if (i >= state) return x[row * length + i - state];
        return past != nullptr ? past[row * state + i] : T(0);
    }
};

template <typename T>
struct causal_convolution_element {
    causal_sequence<T> from;
    std::size_t channels;
    const T* weight;
    const T* bias;  // or null
    T* y;
    in_word<bool> is_silu;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const std::size_t row = index / from.length, at = index % from.length, channel = row % channels;
        double sum = bias != nullptr ? static_cast<double>(static_cast<computed<T>>(bias[channel])) : 0.0;
        for (std::size_t k = 0; k <= from.state; ++k) {
            sum += static_cast<double>(static_cast<computed<T>>(from(row, at + k))) *
                   static_cast<double>(static_cast<computed<T>>(weight[channel * (from.state + 1) + k]));
        }
        if (is_silu) sum = sum / (1 + std::exp(-sum));
        y[index] = static_cast<T>(static_cast<computed<T>>(sum));
    }
};

template <typename T>
struct causal_state_element {
    causal_sequence<T> from;
    T* y;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        y[index] = from(index / from.state, from.length + index % from.state);
    }
};

// --- Col2Im ------------------------------------------------------------------------------------------------------

// grid.input is the image, grid.output how many windows there are.
template <typename T>
struct image_of_columns {
    window_grid grid;
    std::size_t channels;
    const T* x;
    T* y;

    SLUICE_KERNEL bool window_at(std::size_t at, std::size_t w, std::size_t d, std::size_t& made) const {
        const std::size_t to = at + grid.before[d], from = w * grid.dilation[d];
        if (to < from || (to - from) % grid.stride[d] != 0) return false;
        made = (to - from) / grid.stride[d];
        return made < grid.output[d];
    }

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const window_output to(index, channels, grid.input);
        const T* const columns = x + (to.image * channels + to.plane) * grid.window_size() * grid.output_size();
        computed<T> sum = 0;
        std::size_t o0 = 0, o1 = 0, o2 = 0;
        for (std::size_t w0 = 0; w0 < grid.window[0]; ++w0) {
            if (!window_at(to.at[0], w0, 0, o0)) continue;
            for (std::size_t w1 = 0; w1 < grid.window[1]; ++w1) {
                if (!window_at(to.at[1], w1, 1, o1)) continue;
                for (std::size_t w2 = 0; w2 < grid.window[2]; ++w2) {
                    if (!window_at(to.at[2], w2, 2, o2)) continue;
                    const std::size_t w = (w0 * grid.window[1] + w1) * grid.window[2] + w2;
                    const std::size_t o = (o0 * grid.output[1] + o1) * grid.output[2] + o2;
                    sum = static_cast<computed<T>>(sum + static_cast<computed<T>>(columns[w * grid.output_size() + o]));
                }
            }
        }
        y[index] = static_cast<T>(sum);
    }
};

lengths positive_lengths(const node_call& in, std::size_t input, std::string_view what) {
    lengths made;
    for (const std::int64_t each : in.host_integers(input)) {
        if (each < 1) in.refuse_value(input, "has " + std::to_string(each) + " in its " + std::string(what));
        made.push_back(static_cast<std::size_t>(each));
    }
    return made;
}

}  // namespace

void integer_convolution(node_call& in) {
    const any_tensor &x = in.input(0), &filter = in.input(1);
    require_zero_point(in, 2, x);
    require_zero_point(in, 3, filter);
    integer_convolution_element<std::uint8_t, std::uint8_t> fields{};
    fields.of = convolution_of(in, x, filter);
    fields.x_zero = one_number(in, 2, 0);
    fields.filter_zero = numbers_of_filters(in, 3, filter.shape()[0], 0);
    const any_tensor& y = in.make_output(0, io::dtype::i32, fields.of.output_shape());
    run_integer_convolution(in, x, filter, nullptr, y, fields);
}

void quantized_convolution(node_call& in) {
    for (std::size_t i = 0; i < 8; ++i)
        if (!in.has_input(i)) in.refuse("has a scale or zero point left out");
    const any_tensor &x = in.input(0), &filter = in.input(3);
    require_zero_point(in, 2, x);
    require_zero_point(in, 5, filter);
    require_zero_point(in, 7, in.input(7));
    for (const std::size_t i : {1, 4, 6})
        if (in.input(i).type() != io::dtype::f32) in.refuse_type(in.input(i));
    integer_convolution_element<std::uint8_t, std::uint8_t> fields{};
    fields.of = convolution_of(in, x, filter);
    const std::size_t filters = filter.shape()[0];
    fields.x_scale = one_number(in, 1, 1);
    fields.x_zero = one_number(in, 2, 0);
    fields.filter_scale = numbers_of_filters(in, 4, filters, 1);
    fields.filter_zero = numbers_of_filters(in, 5, filters, 0);
    fields.y_scale = one_number(in, 6, 1);
    fields.y_zero = one_number(in, 7, 0);
    require_bias(in, 8, filters, io::dtype::i32);
    const any_tensor& y = in.make_output(0, in.input(7).type(), fields.of.output_shape());
    run_integer_convolution(in, x, filter, in.has_input(8) ? &in.input(8) : nullptr, y, fields);
}

void deformable_convolution(node_call& in) {
    const any_tensor &x = in.input(0), &filter = in.input(1), &offset = in.input(2);
    if (!is_float(x.type())) in.refuse_type(x);
    for (std::size_t i = 1; i < in.input_count(); ++i)
        if (in.has_input(i) && in.input(i).type() != x.type()) in.refuse("takes tensors of one type");
    const convolution_layout of = convolution_of(in, x, filter);
    if (of.rank != 2) in.refuse_unsupported("bends windows of images that do not have two dimensions");
    require_bias(in, 3, filter.shape()[0], x.type());
    const std::int64_t groups = in.integer("offset_group", 1);
    if (groups < 1 || x.shape()[1] % static_cast<std::size_t>(groups) != 0)
        in.refuse("has " + std::to_string(groups) + " groups of offsets for the image " + to_string(x));
    const auto offset_groups = static_cast<std::size_t>(groups);
    lengths expected{of.images, 0, of.grid.output[1], of.grid.output[2]};
    if (__builtin_mul_overflow(offset_groups, of.grid.window_size() * 2, &expected[1]) || offset.shape() != expected)
        in.refuse_shapes("has the offsets " + to_string(offset) + "; " + to_string(std::span(expected)) + " is needed");
    expected[1] /= 2;
    if (in.has_input(4) && in.input(4).shape() != expected)
        in.refuse_shapes("has the mask " + to_string(in.input(4)) + "; " + to_string(std::span(expected)) +
                         " is needed");
    const any_tensor& y = in.make_output(0, x.type(), of.output_shape());
    const any_tensor &bias = in.has_input(3) ? in.input(3) : x, &mask = in.has_input(4) ? in.input(4) : x;
    with_float(in, x, [&]<typename T>() {
        each(in, y.elements(),
             deformable_convolution_element<T>{of, offset_groups, in.read<T>(x), in.read<T>(filter), in.read<T>(offset),
                                               in.has_input(3) ? in.read<T>(bias) : nullptr,
                                               in.has_input(4) ? in.read<T>(mask) : nullptr, in.write<T>(y)},
             {&x, &filter, &offset, &bias, &mask}, {&y});
    });
}

void causal_convolution(node_call& in) {
    const any_tensor &x = in.input(0), &weight = in.input(1);
    if (!is_float(x.type())) in.refuse_type(x);
    for (std::size_t i = 1; i < in.input_count(); ++i)
        if (in.has_input(i) && in.input(i).type() != x.type()) in.refuse("takes tensors of one type");
    const std::string activation = in.text("activation", "none");
    if (activation != "none" && activation != "silu" && activation != "swish")
        in.refuse("has the activation '" + activation + "'; 'none', 'silu' and 'swish' are possible");
    if (x.shape().size() != 3 || weight.shape().size() != 3 || weight.shape()[0] != x.shape()[1] ||
        weight.shape()[1] != 1 || weight.shape()[2] == 0) {
        in.refuse_shapes("has the sequences " + to_string(x) + " and the weights " + to_string(weight) +
                         ", which do not fit");
    }
    const std::size_t batch = x.shape()[0], channels = x.shape()[1], length = x.shape()[2],
                      state = weight.shape()[2] - 1;
    require_bias(in, 2, channels, x.type());
    if (in.has_input(3) && in.input(3).shape() != lengths{batch, channels, state})
        in.refuse_shapes("has the state " + to_string(in.input(3)) + " for the sequences " + to_string(x));
    const any_tensor &bias = in.has_input(2) ? in.input(2) : x, &past = in.has_input(3) ? in.input(3) : x;
    const any_tensor& y = in.make_output(0, x.type(), x.shape());
    with_float(in, x, [&]<typename T>() {
        const causal_sequence<T> from{length, state, in.read<T>(x), in.has_input(3) ? in.read<T>(past) : nullptr};
        each(in, y.elements(),
             causal_convolution_element<T>{from, channels, in.read<T>(weight),
                                           in.has_input(2) ? in.read<T>(bias) : nullptr, in.write<T>(y),
                                           activation != "none"},
             {&x, &weight, &bias, &past}, {&y});
        if (!in.wants_output(1)) return;
        const any_tensor& present = in.make_output(1, x.type(), {batch, channels, state});
        each(in, present.elements(), causal_state_element<T>{from, in.write<T>(present)}, {&x, &past}, {&present});
    });
}

void columns_to_image(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.type() == io::dtype::boolean) in.refuse_type(x);
    if (x.shape().size() != 3)
        in.refuse_shapes("takes columns [images, channels * window, windows], not " + to_string(x));
    const lengths image = positive_lengths(in, 1, "image_shape"), window = positive_lengths(in, 2, "block_shape");
    if (image.empty() || image.size() != window.size())
        in.refuse_shapes("has an image_shape and a block_shape that do not fit");
    if (image.size() > 3) in.refuse_unsupported("makes images of more than three dimensions");
    const window_grid grid = windows_of(in, image, window);
    std::size_t elements = 1, windows = 1;
    for (std::size_t d = 0; d < 3; ++d) {
        if (__builtin_mul_overflow(elements, grid.window[d], &elements) ||
            __builtin_mul_overflow(windows, grid.output[d], &windows)) {
            in.refuse_shapes("has a block_shape that is too large");
        }
    }
    if (x.shape()[1] % elements != 0 || x.shape()[2] != windows) {
        in.refuse_shapes("has the columns " + to_string(x) + "; windows of " + std::to_string(elements) +
                         " elements are needed, and " + std::to_string(windows) + " of them");
    }
    lengths shape{x.shape()[0], x.shape()[1] / elements};
    shape.insert(shape.end(), image.begin(), image.end());
    const any_tensor& y = in.make_output(0, x.type(), shape);
    const auto run = [&]<typename T>() {
        each(in, y.elements(), image_of_columns<T>{grid, shape[1], in.read<T>(x), in.write<T>(y)}, {&x}, {&y});
    };
    // Integers are unsigned: they wrap.
    is_float(x.type()) ? with_float(in, x, run) : with_word(x.type(), run);
}

}  // namespace sluice::nn::operators
