// SPDX-License-Identifier: Apache-2.0
// Poolings: one number for each window of an image. A window with NaN makes NaN.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/poolings_on_cpu.hpp"
#include "nn/operators/table.hpp"
#include "nn/operators/windows.hpp"
#include "sluice/base/detail/is_nan.hpp"

namespace sluice::nn::operators {
namespace {

// --- kernels -----------------------------------------------------------------------------------------------------

constexpr std::size_t windows_at_once = 64;

// Splits the index of an output element: [planes, output...].
struct pooled_output {
    std::size_t plane, at[3];

    SLUICE_KERNEL pooled_output(std::size_t index, const window_grid& grid) {
        for (std::size_t d = 3; d-- > 0;) {
            at[d] = index % grid.output[d];
            index /= grid.output[d];
        }
        plane = index;
    }
};

// On a host, windows of one row side by side, for whole rows of outputs: calls begin(place, first, size) for the
// windows [first, first + size) of each row, whose outputs are from `place` on; then take(window - first, element) for
// each element of each of them, in the order of a window's elements; then end(place, first, size).
template <typename T, typename Begin, typename Take, typename End>
void for_rows(const window_grid& grid, const T* x, std::size_t first_output, std::size_t last_output,
              const Begin& begin, const Take& take, const End& end) {
    const std::size_t width = grid.output[2], most = windows_at_once;
    for (std::size_t row = first_output / width; row < last_output / width; ++row) {
        const pooled_output to(row * width, grid);
        const T* const plane = x + to.plane * grid.input_size();
        const auto r0 = grid.in_image(to.at[0], 0), r1 = grid.in_image(to.at[1], 1);
        for (std::size_t first = 0; first < width; first += most) {
            const std::size_t size = std::min(most, width - first), place = row * width + first;
            begin(place, first, size);
            for (std::size_t w0 = r0.first; w0 < r0.last; ++w0) {
                for (std::size_t w1 = r1.first; w1 < r1.last; ++w1) {
                    const std::size_t p0 = grid.place(to.at[0], w0, 0), p1 = grid.place(to.at[1], w1, 1);
                    const T* const line = plane + (p0 * grid.input[1] + p1) * grid.input[2];
                    for (std::size_t w2 = 0; w2 < grid.window[2]; ++w2) {
                        const auto with = grid.windows_with(w2, 2);
                        const std::size_t from = std::max(with.first, first), last = std::min(with.last, first + size);
                        if (from >= last) continue;
                        const T* const element = line + grid.place(from, w2, 2);
                        if (grid.stride[2] == 1) {
                            for (std::size_t o = 0; o < last - from; ++o) take(from - first + o, element[o]);
                        } else {
                            for (std::size_t o = 0; o < last - from; ++o)
                                take(from - first + o, element[o * grid.stride[2]]);
                        }
                    }
                }
            }
            end(place, first, size);
        }
    }
}

// Smaller than all others.
template <typename T>
SLUICE_KERNEL computed<T> lowest_of() {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(std::is_signed_v<T> ? -128 : 0);
    } else {
        return -static_cast<computed<T>>(INFINITY);
    }
}

template <typename T>
struct maximum_of_window {
    static_assert(!std::is_integral_v<T> || sizeof(T) == 1);

    window_grid grid;
    const T* x;
    T* y;
    std::int64_t* where;  // or null: the first maximum in the whole tensor; -1 of a window without elements
    in_word<bool> is_column_major;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const pooled_output to(index, grid);
        const T* const plane = x + to.plane * grid.input_size();
        const auto r0 = grid.in_image(to.at[0], 0), r1 = grid.in_image(to.at[1], 1), r2 = grid.in_image(to.at[2], 2);
        computed<T> most = lowest_of<T>();
        std::size_t at0 = 0, at1 = 0, at2 = 0;
        bool is_found = false;
        for (std::size_t w0 = r0.first; w0 < r0.last; ++w0) {
            const std::size_t p0 = grid.place(to.at[0], w0, 0);
            for (std::size_t w1 = r1.first; w1 < r1.last; ++w1) {
                const std::size_t p1 = grid.place(to.at[1], w1, 1);
                for (std::size_t w2 = r2.first; w2 < r2.last; ++w2) {
                    const std::size_t p2 = grid.place(to.at[2], w2, 2);
                    const auto value = static_cast<computed<T>>(plane[(p0 * grid.input[1] + p1) * grid.input[2] + p2]);
                    // The first NaN stays.
                    if (is_found && !(value > most || (sluice::detail::is_nan(value) && !sluice::detail::is_nan(most))))
                        continue;
                    is_found = true;
                    most = value;
                    at0 = p0;
                    at1 = p1;
                    at2 = p2;
                }
            }
        }
        y[index] = static_cast<T>(most);
        if (where == nullptr) return;
        // Column-major: the first dimension of the image is the innermost one.
        const std::size_t place =
            !is_column_major ? (at0 * grid.input[1] + at1) * grid.input[2] + at2 : column_major(at0, at1, at2);
        where[index] = is_found ? static_cast<std::int64_t>(to.plane * grid.input_size() + place) : -1;
    }

    static constexpr std::size_t numbers_of_part = 4'096;
    std::size_t host_unit() const { return grid.output[2]; }
    void on_host(std::size_t first_output, std::size_t last_output) const {
        if (where != nullptr) {
            for (std::size_t i = first_output; i < last_output; ++i) (*this)(i);
            return;
        }
        computed<T> most[windows_at_once];
        for_rows(
            grid, x, first_output, last_output,
            [&](std::size_t, std::size_t, std::size_t size) { std::fill_n(most, size, lowest_of<T>()); },
            [&](std::size_t window, T element) {
                const auto value = static_cast<computed<T>>(element);
                computed<T>& so_far = most[window];
                so_far = value > so_far || (sluice::detail::is_nan(value) && !sluice::detail::is_nan(so_far)) ? value
                                                                                                              : so_far;
            },
            [&](std::size_t place, std::size_t, std::size_t size) {
                for (std::size_t i = 0; i < size; ++i) y[place + i] = static_cast<T>(most[i]);
            });
    }

private:
    // Dimensions that the image does not have are 1, and the place in them 0.
    SLUICE_KERNEL std::size_t column_major(std::size_t at0, std::size_t at1, std::size_t at2) const {
        return at0 + grid.input[0] * (at1 + grid.input[1] * at2);
    }
};

template <typename T>
struct average_of_window {
    window_grid grid;
    const T* x;
    T* y;
    in_word<bool> counts_padding;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const pooled_output to(index, grid);
        const T* const plane = x + to.plane * grid.input_size();
        const auto r0 = grid.in_image(to.at[0], 0), r1 = grid.in_image(to.at[1], 1), r2 = grid.in_image(to.at[2], 2);
        double sum = 0;
        for (std::size_t w0 = r0.first; w0 < r0.last; ++w0) {
            for (std::size_t w1 = r1.first; w1 < r1.last; ++w1) {
                const std::size_t line =
                    (grid.place(to.at[0], w0, 0) * grid.input[1] + grid.place(to.at[1], w1, 1)) * grid.input[2];
                for (std::size_t w2 = r2.first; w2 < r2.last; ++w2)
                    sum += static_cast<double>(static_cast<computed<T>>(plane[line + grid.place(to.at[2], w2, 2)]));
            }
        }
        y[index] = mean_of(sum, counted(to));
    }

    static constexpr std::size_t numbers_of_part = 4'096;
    std::size_t host_unit() const { return grid.output[2]; }
    void on_host(std::size_t first_output, std::size_t last_output) const {
        double sums[windows_at_once];
        for_rows(
            grid, x, first_output, last_output,
            [&](std::size_t, std::size_t, std::size_t size) { std::fill_n(sums, size, 0.0); },
            [&](std::size_t window, T element) {
                sums[window] += static_cast<double>(static_cast<computed<T>>(element));
            },
            [&](std::size_t place, std::size_t, std::size_t size) {
                for (std::size_t i = 0; i < size; ++i)
                    y[place + i] = mean_of(sums[i], counted(pooled_output(place + i, grid)));
            });
    }

private:
    SLUICE_KERNEL double counted(const pooled_output& to) const {
        double count = 1;
        for (std::size_t d = 0; d < 3; ++d) {
            const auto counted = counts_padding
                                     ? grid.within(to.at[d], d, 0, grid.before[d] + grid.input[d] + grid.after[d])
                                     : grid.in_image(to.at[d], d);
            count *= counted.last > counted.first ? static_cast<double>(counted.last - counted.first) : 0.0;
        }
        return count;
    }
    SLUICE_KERNEL static T mean_of(double sum, double count) {
        return static_cast<T>(static_cast<computed<T>>(count > 0 ? sum / count : 0.0));
    }
};

template <typename T>
struct norm_of_window {
    window_grid grid;
    const T* x;
    T* y;
    double p;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const pooled_output to(index, grid);
        const T* const plane = x + to.plane * grid.input_size();
        const auto r0 = grid.in_image(to.at[0], 0), r1 = grid.in_image(to.at[1], 1), r2 = grid.in_image(to.at[2], 2);
        double sum = 0;
        for (std::size_t w0 = r0.first; w0 < r0.last; ++w0) {
            for (std::size_t w1 = r1.first; w1 < r1.last; ++w1) {
                const std::size_t line =
                    (grid.place(to.at[0], w0, 0) * grid.input[1] + grid.place(to.at[1], w1, 1)) * grid.input[2];
                for (std::size_t w2 = r2.first; w2 < r2.last; ++w2) {
                    const double value =
                        static_cast<double>(static_cast<computed<T>>(plane[line + grid.place(to.at[2], w2, 2)]));
                    const double size = value < 0 ? -value : value;
                    sum += p == 1 ? size : p == 2 ? size * size : std::pow(size, p);
                }
            }
        }
        const double norm = p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
        y[index] = static_cast<T>(static_cast<computed<T>>(norm));
    }
};

// Element i goes to its index. Two elements have one index only where windows overlap: then they are equal.
template <typename Word>
struct unpooled_element {
    const Word* x;
    const std::int64_t* index;
    Word* y;
    std::size_t rank;
    std::size_t from[5], to[5];  // the shape in which an index counts; the shape of y

    SLUICE_KERNEL void operator()(std::size_t i) const {
        if (index[i] < 0) return;
        auto rest = static_cast<std::size_t>(index[i]);
        std::size_t at = 0, step = 1;
        for (std::size_t d = rank; d-- > 0;) {
            const std::size_t place = rest % from[d];
            rest /= from[d];
            if (place >= to[d]) return;
            at += place * step;
            step *= to[d];
        }
        if (rest == 0) y[at] = x[i];
    }
};

template <typename Word>
struct pool_zero {
    Word* y;
    SLUICE_KERNEL void operator()(std::size_t i) const { y[i] = 0; }
};

template <typename T>
struct maximum_of_region {
    std::size_t images, channels, height, width, down, across;
    in_word<float> scale;
    const T* x;
    const T* regions;
    T* y;

    // Region limits beyond this are outside of any image.
    SLUICE_KERNEL static double limited(double value) { return value > -1e9 ? (value < 1e9 ? value : 1e9) : -1e9; }
    SLUICE_KERNEL static std::int64_t clamped(double value, std::size_t size) {
        const auto last = static_cast<double>(size);
        return static_cast<std::int64_t>(value > 0 ? (value < last ? value : last) : 0.0);
    }
    // Where the region begins, or ends.
    SLUICE_KERNEL double border(const T* region, std::size_t i) const {
        // Half away from 0.
        return limited(
            std::round(static_cast<double>(static_cast<computed<T>>(region[i])) * static_cast<double>(scale)));
    }

    SLUICE_KERNEL void operator()(std::size_t index) const {
        const std::size_t o1 = index % across, o0 = index / across % down, c = index / across / down % channels;
        const T* const region = regions + index / across / down / channels * 5;
        const double image = static_cast<double>(static_cast<computed<T>>(region[0]));
        computed<T> most = 0;
        if (image >= 0 && image < static_cast<double>(images)) {
            const double left = border(region, 1), top = border(region, 2), right = border(region, 3),
                         bottom = border(region, 4);
            const double tall = bottom - top + 1 > 1 ? bottom - top + 1 : 1,
                         wide = right - left + 1 > 1 ? right - left + 1 : 1;
            const double step0 = tall / static_cast<double>(down), step1 = wide / static_cast<double>(across);
            const std::int64_t begin0 = clamped(std::floor(static_cast<double>(o0) * step0) + top, height),
                               end0 = clamped(std::ceil(static_cast<double>(o0 + 1) * step0) + top, height),
                               begin1 = clamped(std::floor(static_cast<double>(o1) * step1) + left, width),
                               end1 = clamped(std::ceil(static_cast<double>(o1 + 1) * step1) + left, width);
            const T* const plane = x + (static_cast<std::size_t>(image) * channels + c) * height * width;
            bool is_found = false;
            for (std::int64_t row = begin0; row < end0; ++row) {
                for (std::int64_t column = begin1; column < end1; ++column) {
                    const auto value = static_cast<computed<T>>(
                        plane[static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column)]);
                    if (is_found && !(value > most || (sluice::detail::is_nan(value) && !sluice::detail::is_nan(most))))
                        continue;
                    is_found = true;
                    most = value;
                }
            }
        }
        y[index] = static_cast<T>(most);
    }
};

// --- MaxPool, AveragePool, LpPool --------------------------------------------------------------------------------

window_grid pooling_grid(const node_call& in, const any_tensor& x) {
    const std::size_t rank = window_rank(in, x);
    if (!in.has("kernel_shape")) in.refuse("has no attribute kernel_shape");
    const lengths window = window_numbers(in, "kernel_shape", rank, 1, 1);
    const window_grid grid = windows_of(in, std::span(x.shape()).subspan(2), window, true);
    for (std::size_t d = 0; d < 3; ++d) {
        const std::size_t reach = (grid.window[d] - 1) * grid.dilation[d] + 1;
        if (grid.before[d] >= reach || (grid.after[d] >= reach && auto_padding_of(in) == auto_padding::not_set))
            in.refuse_unsupported("has a padding as large as its window");
    }
    return grid;
}

lengths pooled_shape(const any_tensor& x, const window_grid& grid) {
    return window_output_shape(grid, x.shape()[0], x.shape()[1], x.shape().size() - 2);
}

// MaxPool's types: floating point and integers of 8 bits.
template <typename Function>
void with_pooled_type(const node_call& in, const any_tensor& x, const Function& function) {
    switch (x.type()) {
        case io::dtype::i8: return function.template operator()<std::int8_t>();
        case io::dtype::u8: return function.template operator()<std::uint8_t>();
        default: return with_float(in, x, function);
    }
}

void maximum_by(node_call& in, const window_grid& grid, const lengths& shape, bool has_index) {
    const any_tensor& x = in.input(0);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    const any_tensor* where = has_index ? &in.make_output(1, io::dtype::i64, y.shape()) : nullptr;
    if (!has_index && pool_on_cpu(in, grid, pooled::largest, x, y)) return;
    const bool is_column_major = in.integer("storage_order", 0) != 0;
    with_pooled_type(in, x, [&]<typename T>() {
        each(in, y.elements(),
             maximum_of_window<T>{grid, in.read<T>(x), in.write<T>(y),
                                  where != nullptr ? in.write<std::int64_t>(*where) : nullptr, is_column_major},
             {&x}, {&y, where != nullptr ? where : &y});
    });
}

void average_by(node_call& in, const window_grid& grid, const lengths& shape, bool counts_padding) {
    const any_tensor& x = in.input(0);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    if (pool_on_cpu(in, grid, counts_padding ? pooled::mean_with_padding : pooled::mean, x, y)) return;
    with_float(in, x, [&]<typename T>() {
        each(in, y.elements(), average_of_window<T>{grid, in.read<T>(x), in.write<T>(y), counts_padding}, {&x}, {&y});
    });
}

void norm_by(node_call& in, const window_grid& grid, const lengths& shape) {
    const any_tensor& x = in.input(0);
    // Version 1 has a real p.
    const double p = in.opset() < 2 ? static_cast<double>(in.real("p", 2)) : static_cast<double>(in.integer("p", 2));
    if (!(p > 0)) in.refuse("has the norm " + std::to_string(p) + "; it has to be positive");
    const any_tensor& y = in.make_output(0, x.type(), shape);
    with_float(in, x, [&]<typename T>() {
        each(in, y.elements(), norm_of_window<T>{grid, in.read<T>(x), in.write<T>(y), p}, {&x}, {&y});
    });
}

void max_pool(node_call& in) {
    const window_grid grid = pooling_grid(in, in.input(0));
    maximum_by(in, grid, pooled_shape(in.input(0), grid), in.wants_output(1));
}
void average_pool(node_call& in) {
    const window_grid grid = pooling_grid(in, in.input(0));
    average_by(in, grid, pooled_shape(in.input(0), grid), in.integer("count_include_pad", 0) != 0);
}
void lp_pool(node_call& in) {
    const window_grid grid = pooling_grid(in, in.input(0));
    norm_by(in, grid, pooled_shape(in.input(0), grid));
}

// --- global poolings ---------------------------------------------------------------------------------------------

// One window: the whole image, of any number of dimensions. Gives the shape of the result.
lengths whole_image(const node_call& in, window_grid& grid) {
    const any_tensor& x = in.input(0);
    if (x.shape().size() < 2) in.refuse_shapes("takes images [images, channels, ...], and is given " + to_string(x));
    const std::size_t size = product_of(std::span(x.shape()).subspan(2));
    if (size == 0) in.refuse_shapes("pools an image without elements, " + to_string(x));
    grid.input[2] = grid.window[2] = size;
    lengths made = x.shape();
    std::fill(made.begin() + 2, made.end(), 1);
    return made;
}

void global_max_pool(node_call& in) {
    window_grid grid;
    const lengths shape = whole_image(in, grid);
    if (!is_float(in.input(0).type())) in.refuse_type(in.input(0));
    maximum_by(in, grid, shape, false);
}
void global_average_pool(node_call& in) {
    window_grid grid;
    const lengths shape = whole_image(in, grid);
    average_by(in, grid, shape, false);
}
void global_lp_pool(node_call& in) {
    window_grid grid;
    const lengths shape = whole_image(in, grid);
    norm_by(in, grid, shape);
}

// --- MaxUnpool ---------------------------------------------------------------------------------------------------

void max_unpool(node_call& in) {
    const any_tensor &x = in.input(0), &index = in.input(1);
    if (!is_float(x.type())) in.refuse_type(x);
    if (index.type() != io::dtype::i64) in.refuse_type(index);
    if (index.shape() != x.shape()) in.refuse_shapes("has the indices " + to_string(index) + " for " + to_string(x));
    const std::size_t rank = window_rank(in, x);
    if (!in.has("kernel_shape")) in.refuse("has no attribute kernel_shape");
    const window_grid grid =
        unpadded_grid(in, std::span(x.shape()).subspan(2), window_numbers(in, "kernel_shape", rank, 1, 1));
    const lengths pads = window_numbers(in, "pads", 2 * rank, 0, 0);
    // The image that was pooled, as far as its result says it.
    lengths pooled{x.shape()[0], x.shape()[1]};
    for (std::size_t d = 0; d < rank; ++d) {
        const std::size_t at = 3 - rank + d;
        const std::size_t full = grid.input[at] == 0 ? 0 : (grid.input[at] - 1) * grid.stride[at] + grid.window[at];
        if (full <= pads[d] + pads[rank + d]) in.refuse_shapes("has so much padding that nothing is left");
        pooled.push_back(full - pads[d] - pads[rank + d]);
    }
    lengths shape = pooled;
    if (in.has_input(2)) {
        const integers given = in.host_integers(2);
        if (given.size() != pooled.size()) in.refuse_shapes("has an output_shape that does not fit " + to_string(x));
        for (std::size_t d = 0; d < given.size(); ++d) {
            shape[d] = static_cast<std::size_t>(given[d]);
            if (given[d] < 0 || shape[d] < pooled[d] || (d < 2 && shape[d] != pooled[d])) {
                in.refuse_value(2,
                                "has the length " + std::to_string(given[d]) + " of dimension " + std::to_string(d) +
                                    " of its output",
                                "it has to hold " + to_string(std::span(pooled)));
            }
        }
    }
    const any_tensor& y = in.make_output(0, x.type(), shape);
    require_numbers(in, 1, {0, static_cast<std::int64_t>(product_of(pooled)) - 1}, y);
    with_word(x.type(), [&]<typename Word>() {
        unpooled_element<Word> kernel{
            in.read<Word>(x), in.read<std::int64_t>(index), in.write<Word>(y), shape.size(), {}, {}};
        std::ranges::copy(pooled, kernel.from);
        std::ranges::copy(shape, kernel.to);
        each(in, y.elements(), pool_zero<Word>{in.write<Word>(y)}, {}, {&y});
        each(in, x.elements(), kernel, {&x, &index}, {&y});
    });
}

// --- MaxRoiPool --------------------------------------------------------------------------------------------------

void max_roi_pool(node_call& in) {
    const any_tensor &x = in.input(0), &regions = in.input(1);
    if (!is_float(x.type())) in.refuse_type(x);
    if (regions.type() != x.type()) in.refuse("has regions of another type than the image's");
    if (x.shape().size() != 4 || regions.shape().size() != 2 || regions.shape()[1] != 5)
        in.refuse_shapes("has the image " + to_string(x) + " and the regions " + to_string(regions));
    if (!in.has("pooled_shape")) in.refuse("has no attribute pooled_shape");
    const lengths pooled = window_numbers(in, "pooled_shape", 2, 1, 1);
    const lengths& image = x.shape();
    const any_tensor& y = in.make_output(0, x.type(), {regions.shape()[0], image[1], pooled[0], pooled[1]});
    // Of each region the first number says which image it is in.
    number_rule rule({0, static_cast<std::int64_t>(image[0]) - 1});
    rule.columns = 5;
    require_numbers(in, 1, rule, y);
    with_float(in, x, [&]<typename T>() {
        each(in, y.elements(),
             maximum_of_region<T>{image[0], image[1], image[2], image[3], pooled[0], pooled[1],
                                  in.real("spatial_scale", 1), in.read<T>(x), in.read<T>(regions), in.write<T>(y)},
             {&x, &regions}, {&y});
    });
}

}  // namespace

std::span<const definition> poolings() {
    static const std::vector<definition> known = {
        {"MaxPool",
         1,
         1,
         2,
         {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"},
         &max_pool},
        {"AveragePool",
         1,
         1,
         1,
         {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"},
         &average_pool},
        {"LpPool", 1, 1, 1, {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "p", "pads", "strides"}, &lp_pool},
        {"GlobalMaxPool", 1, 1, 1, {}, &global_max_pool},
        {"GlobalAveragePool", 1, 1, 1, {}, &global_average_pool},
        {"GlobalLpPool", 1, 1, 1, {"p"}, &global_lp_pool},
        {.name = "MaxUnpool",
         .least_inputs = 2,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"kernel_shape", "pads", "strides"},
         .run = &max_unpool,
         .host_inputs = input_bit(2),
         .since = 9},
        {"MaxRoiPool", 2, 2, 1, {"pooled_shape", "spatial_scale"}, &max_roi_pool},
    };
    return known;
}

}  // namespace sluice::nn::operators
