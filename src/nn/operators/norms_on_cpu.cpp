// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/norms_on_cpu.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reduction/row_math.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/reduce.hpp"

namespace sluice::nn::operators {
namespace {

using kernels::row_math;

struct row_norm_kernel {
    const float *x, *scale, *bias;
    float *to, *means, *factors;
    std::size_t length;
    double epsilon;
    in_word<bool> subtracts_mean;
    std::size_t period, per_row, run;

    // The numbers are elements.
    static constexpr std::size_t numbers_of_part = 32'768;
    std::size_t host_unit() const { return length; }
    void operator()(std::size_t) const {}  // for a CPU only

    void on_host(std::size_t first, std::size_t last) const {
        const row_math& math = kernels::row_math_of_this_processor();
        const auto count = static_cast<double>(length);
        for (std::size_t row = first / length; row < last / length; ++row) {
            const float* const from = x + row * length;
            const double mean = subtracts_mean ? math.sum.of_row(from, length, 0) / count : 0;
            const double variance = math.square_sum.of_row(from, length, mean) / count;
            const auto factor = static_cast<float>(1 / std::sqrt(variance + epsilon));
            // The mean as two floats: what the first one lacks is the second one.
            const auto high = static_cast<float>(mean), low = static_cast<float>(mean - static_cast<double>(high));
            if (means != nullptr) means[row] = high;
            if (factors != nullptr) factors[row] = factor;
            scale_row(math, from, to + row * length, row % period * per_row, high, low, factor);
        }
    }
    void scale_row(const row_math& math, const float* from, float* made, std::size_t numbers, float high, float low,
                   float factor) const {
        const float* const scales = scale + numbers;
        const float* const biases = bias != nullptr ? bias + numbers : nullptr;
        if (run == 1) return math.normalize(from, made, length, high, low, factor, scales, biases);
        for (std::size_t k = 0; k < length; k += run)
            math.normalize_alike(from + k, made + k, run, high, low, factor, scales[k / run],
                                 biases != nullptr ? biases[k / run] : 0.0f);
    }
};

struct softmax_on_axis {
    const float* x;
    float* to;
    std::size_t length, inner;  // inner 1: of the logarithm, and of short rows
    in_word<bool> is_logarithm;

    // The numbers are elements, of which a column has `length`.
    static constexpr std::size_t numbers_of_part = 32'768;
    std::size_t host_unit() const { return length; }
    void operator()(std::size_t) const {}  // for a CPU only

    void on_host(std::size_t first, std::size_t last) const {
        const row_math& math = kernels::row_math_of_this_processor();
        if (inner == 1 && length <= row_math::short_row) return short_rows(math, first / length, last / length);
        for (std::size_t i = first / length, end = last / length; i < end;) {
            const std::size_t count = std::min({end - i, inner - i % inner, row_math::most_columns});
            const std::size_t at = i / inner * length * inner + i % inner;
            if (inner == 1) {
                log_softmax(math, x + at, to + at);
            } else {
                math.softmax_columns(x + at, to + at, inner, length, count, is_logarithm);
            }
            i += count;
        }
    }
    void short_rows(const row_math& math, std::size_t first, std::size_t last) const {
        constexpr std::size_t most = row_math::most_columns;
        float turned[row_math::short_row * most], made[row_math::short_row * most];
        for (std::size_t i = first; i < last; i += most) {
            const std::size_t count = std::min(last - i, most);
            math.turn(x + i * length, length, turned, most, count, length);
            math.softmax_columns(turned, made, most, length, count, is_logarithm);
            math.turn(made, most, to + i * length, length, length, count);
        }
    }
    void log_softmax(const row_math& math, const float* from, float* made) const {
        const double most = math.maximum.of_row(from, length, 0);
        const double sum = math.exponential_sum.of_row(from, length, most);
        math.normalize(from, made, length, static_cast<float>(most), static_cast<float>(std::log(sum)), 1, nullptr,
                       nullptr);
    }
};

}  // namespace

bool normalize_on_cpu(const node_call& in, const row_norm& how, const norm_tensors& of) {
    const auto is_f32 = [](const any_tensor& each) { return !each || each.type() == io::dtype::f32; };
    if (is_on_gpu(in) || !is_f32(of.x) || !is_f32(of.scale) || !is_f32(of.bias) || how.length == 0) return false;
    each(in, of.x.elements(),
         row_norm_kernel{.x = in.read<float>(of.x),
                         .scale = in.read<float>(of.scale),
                         .bias = of.bias ? in.read<float>(of.bias) : nullptr,
                         .to = in.write<float>(of.to),
                         .means = of.means ? in.write<float>(of.means) : nullptr,
                         .factors = of.factors ? in.write<float>(of.factors) : nullptr,
                         .length = how.length,
                         .epsilon = how.epsilon,
                         .subtracts_mean = how.subtracts_mean,
                         .period = how.period,
                         .per_row = how.per_row,
                         .run = how.run},
         {&of.x, &of.scale, of.bias ? &of.bias : &of.scale},
         {&of.to, of.means ? &of.means : &of.to, of.factors ? &of.factors : &of.to});
    return true;
}

bool softmax_on_cpu(const node_call& in, const any_tensor& x, std::size_t axis, bool is_logarithm,
                    const any_tensor& to) {
    const axis_view view = view_along(x.shape(), axis);
    if (is_on_gpu(in) || x.type() != io::dtype::f32 || x.elements() == 0) return false;
    if (view.inner == 1 && view.length > row_math::short_row && !is_logarithm) return false;  // the library's
    each(in, x.elements(),
         softmax_on_axis{in.read<float>(x), in.write<float>(to), view.length, view.inner, is_logarithm}, {&x}, {&to});
    return true;
}

}  // namespace sluice::nn::operators
