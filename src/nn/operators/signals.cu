// SPDX-License-Identifier: Apache-2.0
// DFT, STFT, the windows and MelWeightMatrix. A transform is a sum for each frequency, over a table of the complex
// roots of one. Sums are double.
#include <cmath>
#include <numbers>
#include <optional>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/table.hpp"

namespace sluice::nn::operators {
namespace {

// --- transforms --------------------------------------------------------------------------------------------------

// Cosine and sine of 2 pi i / count.
struct signal_roots {
    double* to;
    std::size_t count;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(count);
        to[2 * i] = std::cos(angle);
        to[2 * i + 1] = std::sin(angle);
    }
};

// A transform of lines: what it reads of each line, and where it writes.
template <typename T>
struct signal_transform {
    const T *x, *window;  // window may be null
    const double* roots;
    T* y;
    std::size_t length;                           // of the transform
    std::size_t given;                            // elements of a line, at most length; what is missing is 0
    std::size_t inner, frequencies;               // lines are [outer, inner]
    std::size_t x_outer, x_inner, x_step, parts;  // strides of x; parts: 2 for complex elements, 1 for real ones
    std::size_t y_outer, y_inner, y_step;         // the same of y
    in_word<bool> is_inverse, gives_real;         // gives_real: x is the first half of a symmetric line

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t k = i % frequencies, line = i / frequencies;
        const T* const from = x + line / inner * x_outer + line % inner * x_inner;
        double real = 0, imaginary = 0;
        std::size_t root = 0;  // n * k mod length
        for (std::size_t n = 0; n < given; ++n) {
            double a = static_cast<double>(static_cast<computed<T>>(from[n * x_step]));
            double b = parts == 2 ? static_cast<double>(static_cast<computed<T>>(from[n * x_step + 1])) : 0;
            if (window != nullptr) {
                const double weight = static_cast<double>(static_cast<computed<T>>(window[n]));
                a *= weight;
                b *= weight;
            }
            const bool is_alone = n == 0 || 2 * n == length;
            if (gives_real && is_alone) b = 0;
            const double both = gives_real && !is_alone ? 2 : 1;  // itself and its conjugate
            const double cosine = roots[2 * root], sine = is_inverse ? roots[2 * root + 1] : -roots[2 * root + 1];
            real += both * (a * cosine - b * sine);
            imaginary += both * (a * sine + b * cosine);
            root += k;
            if (root >= length) root -= length;
        }
        if (is_inverse) {
            real /= static_cast<double>(length);
            imaginary /= static_cast<double>(length);
        }
        T* const to = y + line / inner * y_outer + line % inner * y_inner + k * y_step;
        to[0] = static_cast<T>(static_cast<computed<T>>(real));
        if (!gives_real) to[1] = static_cast<T>(static_cast<computed<T>>(imaginary));
    }
};

any_tensor roots_of_one(const node_call& in, std::size_t count) {
    const any_tensor made = in.make(io::dtype::f64, {count, 2});
    each(in, count, signal_roots{in.write<double>(made), count}, {}, {&made});
    return made;
}

// One number of an input, which is at least 1.
std::size_t signal_length(const node_call& in, std::size_t input, std::string_view name) {
    const integers numbers = in.host_integers(input);
    if (numbers.size() != 1) in.refuse("has the input " + to_string(in.input(input)) + " for " + std::string(name));
    if (numbers[0] < 1) in.refuse_value(input, "has " + std::to_string(numbers[0]) + " for " + std::string(name));
    return static_cast<std::size_t>(numbers[0]);
}

void fourier_transform(node_call& in) {
    const any_tensor& x = in.input(0);
    const lengths& shape = x.shape();
    if (!is_float(x.type())) in.refuse_type(x);
    if (shape.size() < 2 || (shape.back() != 1 && shape.back() != 2))
        in.refuse_shapes("has the input " + to_string(x) + "; its last dimension has to be 1 or 2");
    std::int64_t chosen = in.opset() < 20 ? in.integer("axis", 1) : -2;
    if (in.opset() < 20 && in.has_input(2)) in.refuse("has more than 2 inputs");
    if (in.opset() >= 20 && in.has("axis")) in.refuse("has an attribute 'axis'");
    if (in.has_input(2)) {
        const integers numbers = in.host_integers(2);
        if (numbers.size() != 1) in.refuse("has the axis " + to_string(in.input(2)));
        chosen = numbers[0];
    }
    const auto chosen_by = in.from_input(2);
    const std::size_t axis = in.axis(chosen, shape.size(), false, chosen_by);
    if (axis + 1 == shape.size())
        in.refuse_number(chosen_by, "transforms the last dimension, " + std::to_string(chosen));
    const bool is_inverse = in.integer("inverse", 0) != 0, is_half = in.integer("onesided", 0) != 0;
    const bool gives_real = is_inverse && is_half;
    if (!in.has_input(1) && (shape[axis] == 0 || (gives_real && shape[axis] < 2)))
        in.refuse_shapes("transforms " + std::to_string(shape[axis]) + " elements");
    const std::size_t length = in.has_input(1) ? signal_length(in, 1, "the length")
                               : gives_real    ? 2 * (shape[axis] - 1)
                                               : shape[axis];
    const std::size_t used = gives_real ? length / 2 + 1 : length;
    const std::size_t parts = shape.back(), made_parts = gives_real ? 1 : 2;
    const std::size_t inner = product_of(std::span(shape).subspan(axis + 1)) / parts;
    lengths made = shape;
    made[axis] = is_half && !gives_real ? length / 2 + 1 : length;
    made.back() = made_parts;
    const any_tensor& y = in.make_output(0, x.type(), made);
    const any_tensor roots = roots_of_one(in, length);
    with_float(in, x, [&]<typename T>() {
        const signal_transform<T> kernel{.x = in.read<T>(x),
                                         .window = nullptr,
                                         .roots = in.read<double>(roots),
                                         .y = in.write<T>(y),
                                         .length = length,
                                         .given = shape[axis] < used ? shape[axis] : used,
                                         .inner = inner,
                                         .frequencies = made[axis],
                                         .x_outer = shape[axis] * inner * parts,
                                         .x_inner = parts,
                                         .x_step = inner * parts,
                                         .parts = parts,
                                         .y_outer = made[axis] * inner * made_parts,
                                         .y_inner = made_parts,
                                         .y_step = inner * made_parts,
                                         .is_inverse = is_inverse,
                                         .gives_real = gives_real};
        each(in, y.elements() / made_parts, kernel, {&x, &roots}, {&y});
    });
}

void short_time_transform(node_call& in) {
    const any_tensor& x = in.input(0);
    const lengths& shape = x.shape();
    if (!is_float(x.type())) in.refuse_type(x);
    const bool has_parts = shape.size() == 3;
    if ((shape.size() != 2 && !has_parts) || (has_parts && shape[2] != 1 && shape[2] != 2))
        in.refuse_shapes("has the signal " + to_string(x) + "; it takes [batch, length, 1 or 2]");
    const std::size_t step = signal_length(in, 1, "the step");
    std::size_t length = shape[1];
    if (in.has_input(2)) {
        const any_tensor& window = in.input(2);
        if (window.type() != x.type() || window.shape().size() != 1) in.refuse("has the window " + to_string(window));
        length = window.elements();
    }
    if (in.has_input(3)) {
        const std::size_t given = signal_length(in, 3, "the length of a frame");
        if (in.has_input(2) && given != length)
            in.refuse_shapes("has a window of " + std::to_string(length) + " for frames of " + std::to_string(given));
        length = given;
    }
    if (length == 0 || length > shape[1]) {
        const std::string why = "has frames of " + std::to_string(length) + " elements and the signal " + to_string(x);
        if (in.has_input(3)) in.refuse_value(3, why);
        in.refuse_shapes(why);
    }
    const std::size_t frames = (shape[1] - length) / step + 1, parts = has_parts ? shape[2] : 1;
    const std::size_t frequencies = in.integer("onesided", 1) != 0 ? length / 2 + 1 : length;
    const any_tensor& y = in.make_output(0, x.type(), {shape[0], frames, frequencies, 2});
    const any_tensor roots = roots_of_one(in, length);
    static const any_tensor nothing;
    const any_tensor& window = in.has_input(2) ? in.input(2) : nothing;
    with_float(in, x, [&]<typename T>() {
        const signal_transform<T> kernel{.x = in.read<T>(x),
                                         .window = in.read<T>(window),
                                         .roots = in.read<double>(roots),
                                         .y = in.write<T>(y),
                                         .length = length,
                                         .given = length,
                                         .inner = frames,
                                         .frequencies = frequencies,
                                         .x_outer = shape[1] * parts,
                                         .x_inner = step * parts,
                                         .x_step = parts,
                                         .parts = parts,
                                         .y_outer = frames * frequencies * 2,
                                         .y_inner = frequencies * 2,
                                         .y_step = 2,
                                         .is_inverse = false,
                                         .gives_real = false};
        each(in, y.elements() / 2, kernel, {&x, &window, &roots}, {&y});
    });
}

// --- windows -----------------------------------------------------------------------------------------------------

io::dtype signal_type(const node_call& in) {
    using enum io::dtype;
    static constexpr std::pair<std::int64_t, io::dtype> types[] = {{1, f32},  {2, u8},   {3, i8},   {4, u16},
                                                                   {5, i16},  {6, i32},  {7, i64},  {10, f16},
                                                                   {11, f64}, {12, u32}, {13, u64}, {16, bf16}};
    const std::int64_t number = in.integer("output_datatype", 1);
    for (const auto& [known, type] : types)
        if (known == number) return type;
    in.refuse_unsupported("names the element type " + std::to_string(number) + ", which is not supported");
}

// first - second cos(2 pi i / period) + third cos(4 pi i / period)
template <typename T>
struct window_element {
    T* to;
    double first, second, third;
    std::size_t period;  // 0: the window of one element

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const double angle = period == 0 ? std::numbers::pi
                                         : 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
        const double made = first - second * std::cos(angle) + third * std::cos(2 * angle);
        // No rounding error becomes a negative number of an unsigned type.
        to[i] = static_cast<T>(static_cast<computed<T>>(std::is_unsigned_v<T> && made < 0 ? 0 : made));
    }
};

void make_window(node_call& in, double first, double second, double third) {
    const integers numbers = in.host_integers(0);
    if (numbers.size() != 1) in.refuse("has the input " + to_string(in.input(0)) + " for the length");
    if (numbers[0] < 0) in.refuse_value(0, "has " + std::to_string(numbers[0]) + " for the length");
    const auto size = static_cast<std::size_t>(numbers[0]);
    const any_tensor& made = in.make_output(0, signal_type(in), {size});
    const std::size_t period = in.integer("periodic", 1) != 0 || size == 0 ? size : size - 1;
    with_type(made.type(), [&]<typename T>() {
        each(in, size, window_element<T>{in.write<T>(made), first, second, third, period}, {}, {&made});
    });
}

void hann_window(node_call& in) { make_window(in, 0.5, 0.5, 0); }
void hamming_window(node_call& in) { make_window(in, 25.0 / 46, 21.0 / 46, 0); }
void blackman_window(node_call& in) { make_window(in, 0.42, 0.5, 0.08); }

// --- MelWeightMatrix ---------------------------------------------------------------------------------------------

// The triangles over the bins of a spectrum: [bins, triangles].
template <typename T>
struct mel_weight {
    T* to;
    std::size_t triangles;
    double lowest, step;  // in mel
    double length, rate;

    SLUICE_KERNEL double edge(std::size_t i) const {
        const double mel = lowest + static_cast<double>(i) * step;
        return std::floor((length + 1) * (700 * std::expm1(mel / 2595 * std::numbers::ln10)) / rate);
    }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t triangle = i % triangles;
        const double bin = static_cast<double>(i / triangles);
        const double low = edge(triangle), middle = edge(triangle + 1), high = edge(triangle + 2);
        double made = 0;
        if (bin >= low && bin <= middle) made = middle == low ? 1 : (bin - low) / (middle - low);
        if (bin >= middle && bin < high) made = (high - bin) / (high - middle);
        to[i] = static_cast<T>(static_cast<computed<T>>(made));
    }
};

void mel_weight_matrix(node_call& in) {
    const std::size_t triangles = signal_length(in, 0, "the number of bands");
    const std::size_t length = signal_length(in, 1, "the length"), rate = signal_length(in, 2, "the sample rate");
    const double low = in.host_number(3), high = in.host_number(4);
    if (!(low >= 0 && high >= low && std::isfinite(high)))
        in.refuse_value(high >= low ? 3 : 4,
                        "has the edges " + std::to_string(low) + " and " + std::to_string(high) + " Hz");
    const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::numbers::ln10; };
    const any_tensor& made = in.make_output(0, signal_type(in), {length / 2 + 1, triangles});
    with_type(made.type(), [&]<typename T>() {
        const mel_weight<T> kernel{.to = in.write<T>(made),
                                   .triangles = triangles,
                                   .lowest = mel(low),
                                   .step = (mel(high) - mel(low)) / (static_cast<double>(triangles) + 2),
                                   .length = static_cast<double>(length),
                                   .rate = static_cast<double>(rate)};
        each(in, made.elements(), kernel, {}, {&made});
    });
}

}  // namespace

std::span<const definition> signals() {
    constexpr std::uint32_t of_mel = input_bit(0) | input_bit(1) | input_bit(2) | input_bit(3) | input_bit(4);
    static const std::vector<definition> operators = {
        {.name = "DFT",
         .least_inputs = 1,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"axis", "inverse", "onesided"},
         .run = &fourier_transform,
         .host_inputs = input_bit(1) | input_bit(2),
         .since = 17},
        {.name = "STFT",
         .least_inputs = 2,
         .most_inputs = 4,
         .most_outputs = 1,
         .attributes = {"onesided"},
         .run = &short_time_transform,
         .host_inputs = input_bit(1) | input_bit(3),
         .since = 17},
        {"HannWindow", 1, 1, 1, {"output_datatype", "periodic"}, &hann_window, input_bit(0), none, 17},
        {"HammingWindow", 1, 1, 1, {"output_datatype", "periodic"}, &hamming_window, input_bit(0), none, 17},
        {"BlackmanWindow", 1, 1, 1, {"output_datatype", "periodic"}, &blackman_window, input_bit(0), none, 17},
        {"MelWeightMatrix", 5, 5, 1, {"output_datatype"}, &mel_weight_matrix, of_mel, none, 17},
    };
    return operators;
}

}  // namespace sluice::nn::operators
