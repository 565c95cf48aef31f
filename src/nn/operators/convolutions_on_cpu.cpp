// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/convolutions_on_cpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "nn/operators/convolution_loops.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/reduce.hpp"

namespace sluice::nn::operators {
namespace {

constexpr std::size_t nowhere_in_image = std::numeric_limits<std::size_t>::max();
constexpr std::size_t spare_floats = 16;  // a lane is read beyond the last output

// The part of an image that the windows of one row of planes read, with zeros around it. Columns that a stride apart
// are next to each other.
struct padded_form {
    std::size_t lines = 0, columns = 0;  // that the windows of one plane read
    std::size_t step = 1;                // of columns
    std::size_t apart = 0;               // floats between columns that are not a multiple of the step apart

    std::size_t line() const { return step * apart; }
    std::size_t place_of(std::size_t column) const { return column % step * apart + column / step; }
};

// What a convolution of either kind has in common. The windows of a transposed one are turned around, and slide over
// an image with zeros between its pixels.
struct direct_convolution {
    convolution_layout of;
    const float* x;
    const float* filter;
    const float* bias;  // or null
    float* y;
    in_word<bool> is_transposed;
    std::size_t work;  // of one plane of outputs of one group, in products

    static constexpr std::size_t products_of_number = 64, numbers_of_part = 16'384;
    std::size_t host_unit() const { return std::max<std::size_t>(1, work / products_of_number); }
    std::size_t planes() const { return of.images * of.groups * of.grid.output[0]; }
    void operator()(std::size_t) const {}  // a GPU has a kernel of its own

    void on_host(std::size_t first, std::size_t last) const {
        const padded_form form = padded();
        const std::size_t planes_of_window = of.channels * of.grid.window[0],
                          size = planes_of_window * form.lines * form.line();
        const std::vector<std::size_t> places = places_of(form);
        std::vector<float> image(size + spare_floats), weights(of.filters * places.size());
        // Where filters are not finite, zeros around the image would become NaN.
        std::vector<float> is_there;
        std::size_t packed_group = nowhere_in_image;
        for (std::size_t plane = first / host_unit(); plane < last / host_unit(); ++plane) {
            const std::size_t o0 = plane % of.grid.output[0], group = plane / of.grid.output[0] % of.groups,
                              which = plane / of.grid.output[0];  // image and group
            pack_image(form, x + which * of.channels * of.grid.input_size(), o0, image.data());
            if (group != packed_group && !pack_weights(group, weights.data())) {
                packed_group = nowhere_in_image;
                is_there.resize(image.size());
                pack_image(form, nullptr, o0, is_there.data());
                one_by_one(form, places, image, is_there, which, group, o0);
                continue;
            }
            packed_group = group;
            add_products(form, places, image.data(), weights.data(), which, group, o0);
        }
    }

    padded_form padded() const {
        const window_grid& grid = of.grid;
        padded_form made;
        made.lines = (grid.output[1] - 1) * stride(1) + (grid.window[1] - 1) * grid.dilation[1] + 1;
        made.columns = (grid.output[2] - 1) * stride(2) + (grid.window[2] - 1) * grid.dilation[2] + 1;
        made.step = stride(2);
        made.apart = (made.columns + made.step - 1) / made.step;
        return made;
    }

private:
    std::size_t stride(std::size_t d) const { return is_transposed ? 1 : of.grid.stride[d]; }
    std::size_t taps() const { return of.channels * of.grid.window_size(); }

    // The pixel at this place, along one dimension.
    std::size_t pixel(std::size_t place, std::size_t d) const {
        const window_grid& grid = of.grid;
        if (!is_transposed) {
            const bool is_inside = place >= grid.before[d] && place - grid.before[d] < grid.input[d];
            return is_inside ? place - grid.before[d] : nowhere_in_image;
        }
        const std::size_t reach = (grid.window[d] - 1) * grid.dilation[d], at = place + grid.before[d];
        if (at < reach || (at - reach) % grid.stride[d] != 0) return nowhere_in_image;
        const std::size_t made = (at - reach) / grid.stride[d];
        return made < grid.input[d] ? made : nowhere_in_image;
    }

    // `from` null: ones.
    void pack_image(const padded_form& form, const float* from, std::size_t o0, float* to) const {
        const window_grid& grid = of.grid;
        std::vector<std::size_t> columns(form.columns);
        for (std::size_t p = 0; p < form.columns; ++p) columns[p] = pixel(p, 2);
        std::fill_n(to, of.channels * grid.window[0] * form.lines * form.line(), 0.0f);
        for (std::size_t c = 0; c < of.channels; ++c) {
            for (std::size_t w0 = 0; w0 < grid.window[0]; ++w0) {
                const std::size_t p0 = pixel(o0 * stride(0) + w0 * grid.dilation[0], 0);
                for (std::size_t p = 0; p < form.lines; ++p, to += form.line()) {
                    const std::size_t p1 = pixel(p, 1);
                    if (p0 == nowhere_in_image || p1 == nowhere_in_image) continue;
                    const std::size_t at = ((c * grid.input[0] + p0) * grid.input[1] + p1) * grid.input[2];
                    pack_line(form, columns, from != nullptr ? from + at : nullptr, to);
                }
            }
        }
    }
    void pack_line(const padded_form& form, const std::vector<std::size_t>& columns, const float* from,
                   float* to) const {
        if (form.step == 1 && !is_transposed && from != nullptr) {
            const std::size_t begin = of.grid.before[2], end = std::min(form.columns, begin + of.grid.input[2]);
            if (begin < end) std::copy_n(from, end - begin, to + begin);
            return;
        }
        for (std::size_t p = 0; p < form.columns; ++p)
            if (columns[p] != nowhere_in_image) to[form.place_of(p)] = from != nullptr ? from[columns[p]] : 1.0f;
    }

    float weight(std::size_t group, std::size_t filter_of_group, std::size_t tap) const {
        const std::size_t window = of.grid.window_size();
        if (!is_transposed) return filter[(group * of.filters + filter_of_group) * taps() + tap];
        const std::size_t channel = group * of.channels + tap / window;
        return filter[(channel * of.filters + filter_of_group) * window + window - 1 - tap % window];
    }
    // False where one is not finite.
    bool pack_weights(std::size_t group, float* to) const {
        const std::size_t together = convolution_loops_of_this_processor().together, count = taps();
        bool is_finite = true;
        for (std::size_t f = 0; f < of.filters;) {
            const std::size_t block = of.filters - f >= together ? together : 1;
            for (std::size_t t = 0; t < count; ++t) {
                for (std::size_t k = 0; k < block; ++k) {
                    *to = weight(group, f + k, t);
                    is_finite = is_finite && std::isfinite(*to++);
                }
            }
            f += block;
        }
        return is_finite;
    }

    // Where each number of a filter finds its pixel, from that of the first.
    std::vector<std::size_t> places_of(const padded_form& form) const {
        const window_grid& grid = of.grid;
        std::vector<std::size_t> made;
        for (std::size_t plane = 0; plane < of.channels * grid.window[0]; ++plane)
            for (std::size_t w1 = 0; w1 < grid.window[1]; ++w1)
                for (std::size_t w2 = 0; w2 < grid.window[2]; ++w2)
                    made.push_back((plane * form.lines + w1 * grid.dilation[1]) * form.line() +
                                   form.place_of(w2 * grid.dilation[2]));
        return made;
    }

    float* outputs(std::size_t which, std::size_t filter_of_group, std::size_t o0, std::size_t o1) const {
        const window_grid& grid = of.grid;
        return y +
               (((which * of.filters + filter_of_group) * grid.output[0] + o0) * grid.output[1] + o1) * grid.output[2];
    }
    float bias_of(std::size_t group, std::size_t filter_of_group) const {
        return bias != nullptr ? bias[group * of.filters + filter_of_group] : 0.0f;
    }

    void add_products(const padded_form& form, const std::vector<std::size_t>& places, const float* image,
                      const float* weights, std::size_t which, std::size_t group, std::size_t o0) const {
        constexpr std::size_t most_together = 16;
        const convolution_loops& loops = convolution_loops_of_this_processor();
        const std::size_t count = taps(), width = of.grid.output[2];
        for (std::size_t f = 0; f < of.filters;) {
            const bool is_block = of.filters - f >= loops.together;
            const std::size_t block = is_block ? loops.together : 1;
            float biases[most_together];
            for (std::size_t k = 0; k < block; ++k) biases[k] = bias_of(group, f + k);
            for (std::size_t o1 = 0; o1 < of.grid.output[1]; ++o1) {
                const float* const from = image + o1 * stride(1) * form.line();
                float* const to = outputs(which, f, o0, o1);
                if (is_block) {
                    loops.of_several(from, places.data(), weights, count, biases, to, of.grid.output_size(), width);
                } else {
                    loops.of_one(from, places.data(), weights, count, biases[0], to, width);
                }
            }
            weights += block * count;
            f += block;
        }
    }
    void one_by_one(const padded_form& form, const std::vector<std::size_t>& places, const std::vector<float>& image,
                    const std::vector<float>& is_there, std::size_t which, std::size_t group, std::size_t o0) const {
        for (std::size_t f = 0; f < of.filters; ++f) {
            for (std::size_t o1 = 0; o1 < of.grid.output[1]; ++o1) {
                for (std::size_t o2 = 0; o2 < of.grid.output[2]; ++o2) {
                    float sum = bias_of(group, f);
                    for (std::size_t t = 0; t < places.size(); ++t) {
                        const std::size_t at = o1 * stride(1) * form.line() + places[t] + o2;
                        if (is_there[at] != 0) sum += image[at] * weight(group, f, t);
                    }
                    outputs(which, f, o0, o1)[o2] = sum;
                }
            }
        }
    }
};

bool convolve_directly(const node_call& in, const convolution_layout& of, const any_tensor& x, const any_tensor& filter,
                       const any_tensor* bias, const any_tensor& y, bool is_transposed) {
    constexpr std::size_t few_channels = 4;
    constexpr double most_floats = 1 << 26;
    if (is_on_gpu(in) || in.where() == place::nowhere || x.type() != io::dtype::f32 || x.elements() == 0 ||
        y.elements() == 0 || of.channels == 0 || (of.rank != 3 && (of.groups == 1 || of.channels > few_channels)))
        return false;
    const window_grid& grid = of.grid;
    direct_convolution kernel{of,
                              in.read<float>(x),
                              in.read<float>(filter),
                              bias != nullptr ? in.read<float>(*bias) : nullptr,
                              in.write<float>(y),
                              is_transposed,
                              0};
    const padded_form form = kernel.padded();
    const double planes = static_cast<double>(of.channels) * static_cast<double>(grid.window[0]);
    if (planes * static_cast<double>(form.lines) * static_cast<double>(form.line()) > most_floats) return false;
    kernel.work = of.channels * of.filters * grid.window_size() * grid.output[1] * grid.output[2];
    each(in, kernel.planes() * kernel.host_unit(), kernel, {&x, &filter, bias != nullptr ? bias : &filter}, {&y});
    return true;
}

}  // namespace

bool convolve_on_cpu(const node_call& in, const convolution_layout& of, const any_tensor& x, const any_tensor& filter,
                     const any_tensor* bias, const any_tensor& y) {
    return convolve_directly(in, of, x, filter, bias, y, false);
}
bool convolve_transposed_on_cpu(const node_call& in, const convolution_layout& of, const any_tensor& x,
                                const any_tensor& filter, const any_tensor* bias, const any_tensor& y) {
    return convolve_directly(in, of, x, filter, bias, y, true);
}

}  // namespace sluice::nn::operators
