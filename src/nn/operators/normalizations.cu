// SPDX-License-Identifier: Apache-2.0
// Operators that bring elements to a common scale. Most are reductions (reduce.hpp) and an expression over the result.
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "nn/operators/expression.hpp"
#include "nn/operators/held_row.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/launch_rows.hpp"
#include "nn/operators/norms_on_cpu.hpp"
#include "nn/operators/numbers.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/row_sum.hpp"
#include "nn/operators/table.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/kernels/softmax.hpp"

namespace sluice::nn::operators {
namespace {

using axis_list = std::vector<std::size_t>;

void require_normalizable(const node_call& in, const any_tensor& x) {
    if (!is_float(x.type())) in.refuse_type(x);
}

// The type in which means and the like of x are kept.
io::dtype statistics_type(const any_tensor& x) { return x.type() == io::dtype::f64 ? io::dtype::f64 : io::dtype::f32; }

// A result for each place that is not reduced, in x's number of dimensions.
any_tensor reduced(const node_call& in, reduction what, const any_tensor& x, const axis_list& axes,
                   const reduce_options& options = {}) {
    any_tensor made = in.make(statistics_type(x), kept_lengths(x.shape(), axes));
    reduce(in, what, x, axes, made, options);
    return made;
}

double epsilon_of(const node_call& in) { return in.real("epsilon", 1e-5f); }

axis_list axes_from(std::size_t first, std::size_t rank) {
    axis_list made(rank - first);
    std::iota(made.begin(), made.end(), first);
    return made;
}

// --- rows made by one kernel -------------------------------------------------------------------------------------

// Element j of row r of the scale and of the bias is number r % period * of_row + j / inner.
struct row_factors {
    std::size_t period = 1, of_row = 0, inner = 1;

    SLUICE_KERNEL std::size_t at(std::size_t row, std::size_t j) const { return row % period * of_row + j / inner; }
    SLUICE_KERNEL bool is_plain() const { return of_row == 0 && inner == 1; }  // number j, whatever the row
};

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias of each row; without a centre the mean is taken as 0. The
// mean that is found first is rounded: what it misses is found with the variance.
template <typename T>
struct normalize_row {
    using number = float;

    const T *x, *scale, *bias;  // bias: or null
    T* y;
    number *means, *factors;  // or null: the mean, and 1 / sqrt(variance + epsilon)
    std::size_t width;
    row_factors of;
    double epsilon;
    in_word<bool> is_centred;

    template <typename Team>
    SLUICE_KERNEL void operator()(std::size_t row, const Team& team) const {
#if defined(__CUDA_ARCH__)
        if constexpr (Team::size() > 1) {
            if (width <= held_row<Team>::most_width) return hold(row, team);
        }
#endif
        const T* const from = x + row * width;
        const number share = 1 / static_cast<number>(width);  // before the sums, which could overflow
        number centre = 0;
        if (is_centred) {
            row_sum<number> sum;
            for (std::size_t j = team.rank(); j < width; j += team.size())
                sum.add(static_cast<number>(from[j]) * share);
            centre = team.join(sum.value(), added());
        }
        row_sum<number> distances, squares;
        for (std::size_t j = team.rank(); j < width; j += team.size()) {
            const number distance = static_cast<number>(from[j]) - centre;
            distances.add(distance * share);
            squares.add(distance * share * distance);
        }
        const number missed = is_centred ? team.join(distances.value(), added()) : number(0);
        const number variance = team.join(squares.value(), added()) - missed * missed;
        const number factor = 1 / std::sqrt((variance < 0 ? number(0) : variance) + static_cast<number>(epsilon));
        for (std::size_t j = team.rank(); j < width; j += team.size()) {
            const std::size_t at = of.at(row, j);
            number made = (static_cast<number>(from[j]) - centre - missed) * factor * static_cast<number>(scale[at]);
            if (bias != nullptr) made += static_cast<number>(bias[at]);
            y[row * width + j] = static_cast<T>(made);
        }
        if (team.rank() == 0) keep(row, centre + missed, factor);
    }

private:
    SLUICE_KERNEL void keep(std::size_t row, number mean, number factor) const {
        if (means != nullptr) means[row] = mean;
        if (factors != nullptr) factors[row] = factor;
    }
#if defined(__CUDACC__)
    template <typename Team>
    __device__ void hold(std::size_t row, const Team& team) const {
        held_row<Team> held(team, width);
        held.add(x + row * width);
        float mean;
        const float factor = held.centre(is_centred, static_cast<float>(epsilon), mean);
        if (of.is_plain()) {
            held.scale(factor, scale, bias);
        } else {
            held.scale(factor, scale, bias, [&](std::size_t j) { return of.at(row, j); });
        }
        held.store(y + row * width);
        if (team.rank() == 0) keep(row, mean, factor);
    }
#endif
};

// Element r of row (o, i) is at (o * width + r) * inner + i.
template <typename T>
struct softmax_row {
    using number = computed<T>;

    const T* x;
    T* y;
    std::size_t width, inner;
    in_word<bool> is_logarithm;

    template <typename Team>
    SLUICE_KERNEL void operator()(std::size_t row, const Team& team) const {
        const std::size_t base = row / inner * width * inner + row % inner;
        number greatest = -greatest_number<number>;
        for (std::size_t j = team.rank(); j < width; j += team.size())
            greatest = greater(greatest, static_cast<number>(x[base + j * inner]));
        greatest = team.join(greatest, [](number a, number b) { return greater(a, b); });
        row_sum<number> share;
        for (std::size_t j = team.rank(); j < width; j += team.size())
            share.add(std::exp(static_cast<number>(x[base + j * inner]) - greatest));
        const number sum = team.join(share.value(), added());
        const number scale = 1 / sum, logarithm = is_logarithm ? std::log(sum) : number(0);
        for (std::size_t j = team.rank(); j < width; j += team.size()) {
            const number distance = static_cast<number>(x[base + j * inner]) - greatest;
            y[base + j * inner] = static_cast<T>(is_logarithm ? distance - logarithm : std::exp(distance) * scale);
        }
    }
    SLUICE_KERNEL static number greater(number a, number b) {
        return sluice::detail::is_nan(a) ? a : sluice::detail::is_nan(b) ? b : (a < b ? b : a);
    }
};

// --- Softmax, LogSoftmax -----------------------------------------------------------------------------------------

bool softmax_of_library(const node_call& in, const any_tensor& x, std::size_t axis, const any_tensor& y) {
    const bool is_last = product_of(std::span(x.shape()).subspan(axis + 1)) == 1;
    if (in.where() != place::device || is_on_gpu(in) || x.type() != io::dtype::f32 || !is_last || x.elements() == 0)
        return false;
    in.copy(x, y);
    const std::size_t width = x.shape()[axis];
    tensor<float> rows(buffer<float>(y.shared_memory(), y.elements()), shape{y.elements() / width, width});
    softmax(in.context().stream(), rows);
    return true;
}

template <bool IsLogarithm>
void softmax_operator(node_call& in) {
    require_normalizable(in, in.input(0));
    // Before version 13 the tensor is taken as a matrix: the axes before this one, and those from it on.
    const bool is_flat = in.opset() < 13;
    any_tensor x = in.input(0);
    std::size_t axis = in.axis(in.integer("axis", is_flat ? 1 : -1), x.shape().size(), is_flat);
    const any_tensor y = in.make_output(0, x.type(), x.shape());
    if (x.elements() == 0) return;
    if (is_flat) {
        const std::size_t rows = product_of(std::span(x.shape()).first(axis));
        x = x.with_shape({rows, x.elements() / rows});
        axis = 1;
    }
    if (softmax_on_cpu(in, x, axis, IsLogarithm, y)) return;
    if (!IsLogarithm && softmax_of_library(in, x, axis, y)) return;
    const axis_view view = view_along(x.shape(), axis);
    constexpr std::size_t neighbours = 8;  // rows that many threads read side by side
    with_float(in, x, [&]<typename T>() {
        const softmax_row<T> kernel{in.read<T>(x), in.write<T>(y), view.length, view.inner, IsLogarithm};
        each_row(in, view.rows(), view.length, view.inner >= neighbours ? 1 : team_of(view.length), kernel, {&x}, {&y});
    });
}

void lp_normalization(node_call& in) {
    const any_tensor& x = in.input(0);
    require_normalizable(in, x);
    const std::int64_t p = in.integer("p", 2);
    if (p != 1 && p != 2) in.refuse("has p = " + std::to_string(p) + "; 1 and 2 are possible");
    const std::size_t axis = in.axis(in.integer("axis", -1), x.shape().size());
    const any_tensor norm = p == 1 ? reduced(in, reduction::absolute_sum, x, {axis})
                                   : reduced(in, reduction::square_sum, x, {axis}, {.finish = reduction_finish::root});
    expression e(in);
    const auto own = e.input(x), length = e.input(norm);
    const auto zero = e.constant(0);
    const auto scaled = e.apply(opcode::divide, own, length);
    e.give(0, x.type(), e.apply(opcode::choose, e.apply(opcode::equal, length, zero), zero, scaled));
    e.run();
}

// Whether all are of one type, but not f64, which is the reference of the others.
bool can_normalize_rows(const any_tensor& x, const any_tensor& scale, const any_tensor& bias) {
    return x.type() != io::dtype::f64 && scale.type() == x.type() && (!bias || bias.type() == x.type()) &&
           x.elements() != 0;
}

// One kernel; for what can_normalize_rows accepts.
void normalize_rows(const node_call& in, const any_tensor& x, std::size_t width, const row_factors& of,
                    const any_tensor& scale, const any_tensor& bias, const any_tensor& y, bool is_centred,
                    const any_tensor& means = {}, const any_tensor& factors = {}) {
    const row_norm how{.length = width,
                       .epsilon = epsilon_of(in),
                       .subtracts_mean = is_centred,
                       .period = of.period,
                       .per_row = of.of_row,
                       .run = of.inner};
    if (normalize_on_cpu(in, how, {x, scale, bias, y, means, factors})) return;
    const auto run = [&]<typename T>() {
        const normalize_row<T> kernel{.x = in.read<T>(x),
                                      .scale = in.read<T>(scale),
                                      .bias = in.read<T>(bias),
                                      .y = in.write<T>(y),
                                      .means = in.write<float>(means),
                                      .factors = in.write<float>(factors),
                                      .width = width,
                                      .of = of,
                                      .epsilon = epsilon_of(in),
                                      .is_centred = is_centred};
        each_row(in, x.elements() / width, width, team_of(width), kernel, {&x, &scale, &bias}, {&y, &means, &factors});
    };
    switch (x.type()) {
        case io::dtype::f16: run.template operator()<half>(); break;
        case io::dtype::bf16: run.template operator()<bfloat16>(); break;
        default: run.template operator()<float>();
    }
}

// --- mean 0 and variance 1 ---------------------------------------------------------------------------------------

struct moments {
    any_tensor mean, variance;
};

moments moments_of(const node_call& in, const any_tensor& x, const axis_list& axes) {
    any_tensor mean = reduced(in, reduction::sum, x, axes, {.finish = reduction_finish::mean});
    any_tensor variance =
        reduced(in, reduction::square_sum, x, axes, {.finish = reduction_finish::mean, .centre = &mean});
    return {std::move(mean), std::move(variance)};
}

// to = (x - mean) / sqrt(variance + epsilon) * scale + bias; all are broadcast to x's shape.
void write_normalized(node_call& in, const any_tensor& x, const moments& of, double epsilon, const any_tensor& scale,
                      const any_tensor& bias, const any_tensor& to) {
    expression e(in);
    const auto own = e.input(x), mean = e.input(of.mean), variance = e.input(of.variance);
    expression::value factor = 0, added = 0;
    if (scale) factor = e.input(scale);
    if (bias) added = e.input(bias);
    if (e.shape() != x.shape())
        in.refuse_shapes("scales " + to_string(x) + " by numbers that do not fit: " + to_string(scale) +
                         (bias ? " and " + to_string(bias) : ""));
    const auto deviation = e.apply(opcode::square_root, e.apply(opcode::add, variance, e.constant(epsilon)));
    auto made = e.apply(opcode::divide, e.apply(opcode::subtract, own, mean), deviation);
    if (scale) made = e.apply(opcode::multiply, made, factor);
    if (bias) made = e.apply(opcode::add, made, added);
    e.give(to, made);
    e.run();
}

void require_float_stash(const node_call& in) {
    const std::int64_t type = in.integer("stash_type", 1);
    if (type != 1) in.refuse_unsupported("computes in the element type " + std::to_string(type) + ", not in float");
}

// The product of the lengths from an axis on.
std::size_t width_from(const any_tensor& x, std::size_t axis) { return product_of(std::span(x.shape()).subspan(axis)); }
bool has_factor_of_each(const any_tensor& x, std::size_t axis, const any_tensor& factor) {
    return std::ranges::equal(factor.shape(), std::span(x.shape()).subspan(axis));
}

void layer_normalization(node_call& in) {
    const any_tensor& x = in.input(0);
    for (std::size_t i = 0; i < in.input_count(); ++i)
        if (in.has_input(i)) require_normalizable(in, in.input(i));
    require_float_stash(in);
    const std::size_t rank = x.shape().size(), axis = in.axis(in.integer("axis", -1), rank);
    const any_tensor& y = in.make_output(0, x.type(), x.shape());
    const axis_list axes = axes_from(axis, rank);
    const any_tensor &scale = in.input(1), bias = in.has_input(2) ? in.input(2) : any_tensor();
    if (can_normalize_rows(x, scale, bias) && has_factor_of_each(x, axis, scale) &&
        (!bias || has_factor_of_each(x, axis, bias))) {
        const lengths kept = kept_lengths(x.shape(), axes);
        const any_tensor means = in.wants_output(1) ? in.make_output(1, io::dtype::f32, kept) : any_tensor();
        const any_tensor factors = in.wants_output(2) ? in.make_output(2, io::dtype::f32, kept) : any_tensor();
        return normalize_rows(in, x, width_from(x, axis), {}, scale, bias, y, true, means, factors);
    }
    const moments of = moments_of(in, x, axes);
    write_normalized(in, x, of, epsilon_of(in), scale, bias, y);
    if (in.wants_output(1)) {
        expression e(in);
        const auto mean = e.input(of.mean);
        e.give(1, io::dtype::f32, mean);
        e.run();
    }
    if (in.wants_output(2)) {
        expression e(in);
        const auto variance = e.input(of.variance);
        const auto deviation = e.apply(opcode::square_root, e.apply(opcode::add, variance, e.constant(epsilon_of(in))));
        e.give(2, io::dtype::f32, e.apply(opcode::reciprocal, deviation));
        e.run();
    }
}

void rms_normalization(node_call& in) {
    const any_tensor &x = in.input(0), &scale = in.input(1);
    require_normalizable(in, x);
    require_normalizable(in, scale);
    require_float_stash(in);
    const std::size_t rank = x.shape().size(), axis = in.axis(in.integer("axis", -1), rank);
    if (can_normalize_rows(x, scale, {}) && has_factor_of_each(x, axis, scale)) {
        const any_tensor& y = in.make_output(0, x.type(), x.shape());
        return normalize_rows(in, x, width_from(x, axis), {}, scale, {}, y, false);
    }
    const any_tensor squares =
        reduced(in, reduction::square_sum, x, axes_from(axis, rank), {.finish = reduction_finish::mean});
    expression e(in);
    const auto own = e.input(x), mean = e.input(squares), factor = e.input(scale);
    if (e.shape() != x.shape())
        in.refuse_shapes("scales " + to_string(x) + " by numbers that do not fit: " + to_string(scale));
    const auto root = e.apply(opcode::square_root, e.apply(opcode::add, mean, e.constant(epsilon_of(in))));
    // Its type is the scale's, which differs from x's in few models.
    e.give(0, scale.type(), e.apply(opcode::multiply, e.apply(opcode::divide, own, root), factor));
    e.run();
}

// One number for each channel, as a tensor that is broadcast to [batch, channels, others].
any_tensor of_channels(const node_call& in, std::size_t input, std::size_t channels, lengths seen_as) {
    const any_tensor& given = in.input(input);
    require_normalizable(in, given);
    if (given.elements() != channels || given.shape().size() != 1)
        in.refuse_shapes("has " + std::to_string(channels) + " channels, and input " + std::to_string(input) + " is " +
                         to_string(given));
    return given.with_shape(std::move(seen_as));
}

// The tensor as [batch, channels, all other dimensions].
any_tensor as_channels(const node_call& in, const any_tensor& x, bool may_be_list = false) {
    const lengths& shape = x.shape();
    if (shape.size() == 1 && may_be_list) return x.with_shape({shape[0], 1, 1});
    if (shape.size() < 2) in.refuse_shapes("takes a batch with channels, and is given " + to_string(x));
    return x.with_shape({shape[0], shape[1], product_of(std::span(shape).subspan(2))});
}

void instance_normalization(node_call& in) {
    require_normalizable(in, in.input(0));
    const any_tensor x = as_channels(in, in.input(0));
    const std::size_t channels = x.shape()[1];
    const any_tensor scale = of_channels(in, 1, channels, {channels, 1}),
                     bias = of_channels(in, 2, channels, {channels, 1});
    const any_tensor& y = in.make_output(0, x.type(), in.input(0).shape());
    const std::size_t width = x.shape()[2];
    const row_factors of{.period = channels, .of_row = 1, .inner = width};
    if (can_normalize_rows(x, scale, bias)) return normalize_rows(in, x, width, of, scale, bias, y, true);
    write_normalized(in, x, moments_of(in, x, {2}), epsilon_of(in), scale, bias, y);
}

void group_normalization(node_call& in) {
    require_normalizable(in, in.input(0));
    require_float_stash(in);
    const any_tensor whole = as_channels(in, in.input(0));
    const std::size_t channels = whole.shape()[1];
    const std::int64_t given = in.integer("num_groups", 0);
    if (given <= 0 || channels % static_cast<std::size_t>(given) != 0)
        in.refuse("has " + std::to_string(given) + " groups of " + std::to_string(channels) + " channels");
    const auto groups = static_cast<std::size_t>(given);
    const std::size_t of_group = channels / groups;
    const any_tensor x = whole.with_shape({whole.shape()[0], groups, of_group, whole.shape()[2]});
    // Before version 21 there is one number for each group.
    const bool has_one_for_group = in.opset() < 21;
    const lengths seen_as{groups, has_one_for_group ? 1 : of_group, 1};
    const std::size_t numbers = has_one_for_group ? groups : channels;
    const any_tensor scale = of_channels(in, 1, numbers, seen_as), bias = of_channels(in, 2, numbers, seen_as);
    const any_tensor& y = in.make_output(0, x.type(), in.input(0).shape());
    const std::size_t pixels = x.shape()[3], width = of_group * pixels;
    const row_factors of{
        .period = groups, .of_row = has_one_for_group ? 1 : of_group, .inner = has_one_for_group ? width : pixels};
    if (can_normalize_rows(x, scale, bias)) return normalize_rows(in, x, width, of, scale, bias, y, true);
    write_normalized(in, x, moments_of(in, x, {2, 3}), epsilon_of(in), scale, bias, y);
}

void mean_variance_normalization(node_call& in) {
    const any_tensor& x = in.input(0);
    require_normalizable(in, x);
    const axis_list axes = in.axes(in.has("axes") ? in.integer_list("axes") : integers{0, 2, 3}, x.shape().size());
    const moments of = moments_of(in, x, axes);
    expression e(in);
    const auto own = e.input(x), mean = e.input(of.mean), variance = e.input(of.variance);
    const auto deviation = e.apply(opcode::add, e.apply(opcode::square_root, variance), e.constant(1e-9));
    e.give(0, x.type(), e.apply(opcode::divide, e.apply(opcode::subtract, own, mean), deviation));
    e.run();
}

// --- BatchNormalization ------------------------------------------------------------------------------------------

// old * momentum + now * (1 - momentum)
void write_running(node_call& in, std::size_t output, const any_tensor& old, const any_tensor& now) {
    const double momentum = in.real("momentum", 0.9f);
    expression e(in);
    const auto before = e.input(old), seen = e.input(now.with_shape(old.shape()));
    e.give(output, old.type(),
           e.apply(opcode::add, e.apply(opcode::multiply, before, e.constant(momentum)),
                   e.apply(opcode::multiply, seen, e.constant(1 - momentum))));
    e.run();
}

void batch_normalization(node_call& in) {
    require_normalizable(in, in.input(0));
    any_tensor x = as_channels(in, in.input(0), true);
    // Until version 8 each element of a sample may have its own numbers.
    std::size_t batch = x.shape()[0], numbers = x.shape()[1], others = x.shape()[2];
    const bool is_spatial = in.integer("spatial", 1) != 0;
    if (!is_spatial) {
        numbers *= others;
        others = 1;
        x = x.with_shape({batch, numbers, others});
    }
    std::array<any_tensor, 5> given;
    for (std::size_t i = 1; i < 5; ++i) {
        const any_tensor& each = in.input(i);
        require_normalizable(in, each);
        if (each.elements() != numbers || (is_spatial && each.shape().size() != 1))
            in.refuse_shapes("has " + std::to_string(numbers) + " channels, and input " + std::to_string(i) + " is " +
                             to_string(each));
        given[i] = each.with_shape({numbers, 1});
    }
    // Training is an attribute since version 14, and in version 6; between them it is that there are more outputs.
    const bool is_training = in.opset() >= 14  ? in.integer("training_mode", 0) != 0
                             : in.opset() >= 7 ? in.output_count() > 1
                                               : in.integer("is_test", 0) == 0;
    if (is_training && in.opset() < 14)
        in.refuse_unsupported("trains, in a version before 14 of the operator set, which is not supported");
    if (!is_training && in.output_count() > 1) in.refuse("has outputs that there are in training only");
    const any_tensor& y = in.make_output(0, x.type(), in.input(0).shape());
    if (!is_training) return write_normalized(in, x, {given[3], given[4]}, epsilon_of(in), given[1], given[2], y);
    const moments of = moments_of(in, x, {0, 2});
    write_normalized(in, x, of, epsilon_of(in), given[1], given[2], y);
    if (in.wants_output(1)) write_running(in, 1, in.input(3), of.mean);
    if (in.wants_output(2)) write_running(in, 2, in.input(4), of.variance);
}

// Of constant numbers: x * factor + addend, for each channel. Inputs 1 and 3 are the factors and addends of f32, 2 and
// 4 the same of f64.
void scale_channels(node_call& in) {
    const any_tensor& x = in.input(0);
    require_normalizable(in, x);
    const std::size_t rank = x.shape().size();
    if (rank == 0) in.refuse_shapes("takes a batch with channels, and is given " + to_string(x));
    lengths seen_as(rank == 1 ? 1 : rank - 1, 1);
    if (rank > 1) seen_as[0] = x.shape()[1];
    const bool is_double = x.type() == io::dtype::f64;
    const any_tensor &factor = in.input(is_double ? 2 : 1), &addend = in.input(is_double ? 4 : 3);
    if (factor.elements() != seen_as[0]) {
        in.refuse_shapes("has " + std::to_string(seen_as[0]) + " channels, and " + std::to_string(factor.elements()) +
                         " numbers of each kind for them");
    }
    expression e(in);
    const auto own = e.input(0), by = e.input(factor.with_shape(seen_as)), added = e.input(addend.with_shape(seen_as));
    e.give(0, x.type(), e.apply(opcode::add, e.apply(opcode::multiply, own, by), added));
    e.run();
}

// --- LRN ---------------------------------------------------------------------------------------------------------

// x / (bias + alpha / size * sum of squares of the channels around)^beta
struct channel_response_kernel {
    const void* x;
    void* to;
    in_word<io::dtype> type;
    std::size_t channels, others, before, after;
    double bias, alpha, beta;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t channel = i / others % channels, base = i - channel * others;
        const std::size_t first = channel < before ? 0 : channel - before;
        const std::size_t last = channels - 1 - channel < after ? channels - 1 : channel + after;
        double sum = 0;
        for (std::size_t c = first; c <= last; ++c) {
            const double each = load_number<double>(x, type, base + c * others);
            sum += each * each;
        }
        store_number<double>(to, type, i, load_number<double>(x, type, i) / std::pow(bias + alpha * sum, beta));
    }
};

void local_response_normalization(node_call& in) {
    require_normalizable(in, in.input(0));
    const any_tensor x = as_channels(in, in.input(0));
    const std::int64_t size = in.integer("size", 0);
    if (size <= 0) in.refuse("has the size " + std::to_string(size));
    const any_tensor& y = in.make_output(0, x.type(), in.input(0).shape());
    const auto neighbours = static_cast<std::size_t>(size) - 1;
    const channel_response_kernel kernel{.x = in.read<void>(x),
                                         .to = in.write<void>(y),
                                         .type = x.type(),
                                         .channels = x.shape()[1],
                                         .others = x.shape()[2],
                                         .before = neighbours / 2,
                                         .after = neighbours - neighbours / 2,
                                         .bias = in.real("bias", 1),
                                         .alpha = in.real("alpha", 1e-4f) / static_cast<double>(size),
                                         .beta = in.real("beta", 0.75f)};
    each(in, y.elements(), kernel, {&x}, {&y});
}

const std::vector<definition>& list_of_normalizations() {
    static const std::vector<definition> known = {
        {"Softmax", 1, 1, 1, {"axis"}, &softmax_operator<false>},
        {"LogSoftmax", 1, 1, 1, {"axis"}, &softmax_operator<true>},
        {"LpNormalization", 1, 1, 1, {"axis", "p"}, &lp_normalization},
        {"LayerNormalization", 2, 3, 3, {"axis", "epsilon", "stash_type"}, &layer_normalization},
        {"RMSNormalization", 2, 2, 1, {"axis", "epsilon", "stash_type"}, &rms_normalization},
        {"InstanceNormalization", 3, 3, 1, {"epsilon"}, &instance_normalization},
        {"GroupNormalization", 3, 3, 1, {"epsilon", "num_groups", "stash_type"}, &group_normalization},
        {"MeanVarianceNormalization", 1, 1, 1, {"axes"}, &mean_variance_normalization},
        {"BatchNormalization",
         5,
         5,
         5,
         {"epsilon", "momentum", "spatial", "is_test", "training_mode"},
         &batch_normalization},
        {"LRN", 1, 1, 1, {"alpha", "beta", "bias", "size"}, &local_response_normalization},
    };
    return known;
}

}  // namespace

const definition& folded_batch_normalization() {
    static const definition made = {.name = "BatchNormalization",
                                    .least_inputs = 5,
                                    .most_inputs = 5,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &scale_channels,
                                    .fused_inputs = input_bit(0)};
    return made;
}

std::span<const definition> normalizations() { return list_of_normalizations(); }

}  // namespace sluice::nn::operators
