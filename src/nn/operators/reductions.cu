// SPDX-License-Identifier: Apache-2.0
// Operators that make less of some dimensions: sums, extremes and their places; and those that go along one axis.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "nn/operators/extreme_index_on_cpu.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/numbers.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/table.hpp"
#include "nn/operators/top_k_on_cpu.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

// --- ReduceSum and the like --------------------------------------------------------------------------------------

template <reduction What, reduction_finish Finish = reduction_finish::nothing>
void reduce_operator(node_call& in) {
    constexpr bool is_extreme = What == reduction::maximum || What == reduction::minimum;
    constexpr bool is_identity_of_one =
        is_extreme || What == reduction::product ||
        (What == reduction::sum && Finish != reduction_finish::root && Finish != reduction_finish::logarithm);
    const any_tensor& x = in.input(0);
    if (!is_extreme && x.type() == io::dtype::boolean) in.refuse_type(x);
    const integers named = in.has_input(1) ? in.host_integers(1) : in.integer_list("axes");
    std::vector<std::size_t> axes = in.axes(named, x.shape().size(), in.from_input(1));
    if (named.empty() && in.integer("noop_with_empty_axes", 0) == 0)
        for (std::size_t d = 0; d < x.shape().size(); ++d) axes.push_back(d);
    const bool keeps = in.integer("keepdims", 1) != 0;
    if (is_identity_of_one && axes.empty()) return in.set_output(0, x);
    const any_tensor& y =
        in.make_output(0, x.type(), keeps ? kept_lengths(x.shape(), axes) : remaining_lengths(x.shape(), axes));
    reduce(in, What, x, axes, y, {.finish = Finish});
}

// --- the greatest elements along an axis: ArgMax, ArgMin, TopK, Hardmax ------------------------------------------

// How elements are ordered: the first are those that are wanted most. NaN is before all others where `nan_first`, else
// after them.
struct element_order {
    bool greatest_first, nan_first, later_first;  // later_first: of equal elements that with the greater index

    template <typename Number>
    SLUICE_KERNEL bool is_before(Number a, std::int64_t at_a, Number b, std::int64_t at_b) const {
        const bool a_is_nan = sluice::detail::is_nan(a), b_is_nan = sluice::detail::is_nan(b);
        if (a_is_nan != b_is_nan) return a_is_nan == nan_first;
        if (!a_is_nan && a != b) return (a > b) == greatest_first;
        return (at_a > at_b) == later_first;
    }
};

// Finds the first k elements of the order. Index i is part i % parts of row i / parts; a part looks at every parts-th
// element, or at every parts-th of the candidates, and gives k indices. They are a heap while it looks: the last of
// them in the order is at the root.
template <typename Number>
struct select_kernel {
    const void* x;
    const std::int64_t* candidates;  // null: all elements
    std::int64_t* to;
    io::dtype type;
    element_order order;
    bool is_sorted;
    std::size_t length, inner, candidate_count, parts, k;

    SLUICE_KERNEL bool before(std::size_t base, std::int64_t a, std::int64_t b) const {
        return order.is_before(load_number<Number>(x, type, base + static_cast<std::size_t>(a) * inner), a,
                               load_number<Number>(x, type, base + static_cast<std::size_t>(b) * inner), b);
    }

    SLUICE_KERNEL void sift_down(std::size_t base, std::int64_t* heap, std::size_t stride, std::size_t size) const {
        const std::int64_t moved = heap[0];
        std::size_t at = 0;
        for (;;) {
            std::size_t child = 2 * at + 1;
            if (child >= size) break;
            if (child + 1 < size && before(base, heap[child * stride], heap[(child + 1) * stride])) ++child;
            if (!before(base, moved, heap[child * stride])) break;
            heap[at * stride] = heap[child * stride];
            at = child;
        }
        heap[at * stride] = moved;
    }
    SLUICE_KERNEL void sift_up(std::size_t base, std::int64_t* heap, std::size_t stride, std::size_t at) const {
        const std::int64_t moved = heap[at * stride];
        while (at > 0) {
            const std::size_t above = (at - 1) / 2;
            if (!before(base, heap[above * stride], moved)) break;
            heap[at * stride] = heap[above * stride];
            at = above;
        }
        heap[at * stride] = moved;
    }

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i / parts, part = i % parts, of_outer = row / inner, of_inner = row % inner;
        const std::size_t base = of_outer * length * inner + of_inner;
        // Candidates are one row after the other; the result is where the operator's output has it.
        const bool is_last = parts == 1;
        std::int64_t* const heap = is_last ? to + of_outer * k * inner + of_inner : to + i * k;
        const std::size_t stride = is_last ? inner : 1;
        const std::size_t count = candidates != nullptr ? candidate_count : length;
        std::size_t size = 0;
        for (std::size_t r = part; r < count; r += parts) {
            const std::int64_t at =
                candidates != nullptr ? candidates[row * candidate_count + r] : static_cast<std::int64_t>(r);
            if (size < k) {
                heap[size * stride] = at;
                sift_up(base, heap, stride, size++);
            } else if (before(base, at, heap[0])) {
                heap[0] = at;
                sift_down(base, heap, stride, size);
            }
        }
        if (!is_sorted || !is_last) return;
        while (size > 1) {
            --size;
            const std::int64_t last = heap[0];
            heap[0] = heap[size * stride];
            heap[size * stride] = last;
            sift_down(base, heap, stride, size);
        }
    }
};

// Writes the indices of the first k elements into `to`, whose axis has the length k.
void select_elements(const node_call& in, const any_tensor& x, const axis_view& view, std::size_t k,
                     const element_order& order, bool is_sorted, const any_tensor& to) {
    if (k == 0 || view.rows() == 0 || in.where() == place::nowhere) return;
    // In parts where few rows would leave a GPU idle. A part has several times as many elements as it gives.
    constexpr std::size_t threads = 32768, least_per_part = 32;
    std::size_t parts = 1;
    if (is_on_gpu(in) && view.rows() < threads)
        parts = std::max<std::size_t>(
            std::min({threads / view.rows(), view.length / std::max(4 * k, least_per_part), std::size_t{1024}}), 1);
    with_number(x.type(), [&]<typename Number>() {
        select_kernel<Number> kernel{.x = in.read<void>(x),
                                     .candidates = nullptr,
                                     .to = in.write<std::int64_t>(to),
                                     .type = x.type(),
                                     .order = order,
                                     .is_sorted = is_sorted,
                                     .length = view.length,
                                     .inner = view.inner,
                                     .candidate_count = parts * k,
                                     .parts = parts,
                                     .k = k};
        if (parts == 1) return each(in, view.rows(), kernel, {&x}, {&to});
        const any_tensor candidates = in.make(io::dtype::i64, {view.rows(), parts, k});
        kernel.to = in.write<std::int64_t>(candidates);
        each(in, view.rows() * parts, kernel, {&x}, {&candidates});
        kernel.candidates = in.read<std::int64_t>(candidates);
        kernel.to = in.write<std::int64_t>(to);
        kernel.parts = 1;
        each(in, view.rows(), kernel, {&x, &candidates}, {&to});
    });
}

template <bool Greatest>
void index_of_extreme(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.type() == io::dtype::boolean) in.refuse_type(x);
    const std::size_t axis = in.axis(in.integer("axis", 0), x.shape().size());
    const bool keeps = in.integer("keepdims", 1) != 0;
    const std::vector<std::size_t> axes{axis};
    const any_tensor& y =
        in.make_output(0, io::dtype::i64, keeps ? kept_lengths(x.shape(), axes) : remaining_lengths(x.shape(), axes));
    const axis_view view = view_along(x.shape(), axis);
    if (view.length == 0 && y.elements() != 0) in.refuse_shapes("looks for the greatest or least of no elements");
    const bool takes_last = in.integer("select_last_index", 0) != 0;
    if (extreme_index_on_cpu(in, x, view, {Greatest, takes_last}, y)) return;
    select_elements(in, x, view, 1, {Greatest, true, takes_last}, false, y);
}

// Element i of `to` is the element of x at index[i] along the axis.
template <typename Word>
struct selected_values_kernel {
    const Word* x;
    const std::int64_t* index;
    Word* to;
    std::size_t length, inner, k;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        to[i] = x[(i / inner / k * length + static_cast<std::size_t>(index[i])) * inner + i % inner];
    }
};

void top_k(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.type() == io::dtype::boolean) in.refuse_type(x);
    const std::size_t axis = in.axis(in.integer("axis", -1), x.shape().size());
    std::int64_t wanted = in.integer("k", 0);
    if (in.has_input(1)) {
        const integers given = in.host_integers(1);
        if (given.size() != 1) in.refuse("has " + std::to_string(given.size()) + " numbers K; it has to be one");
        wanted = given[0];
    } else if (!in.has("k")) {
        in.refuse("lacks the attribute k");
    }
    lengths shape = x.shape();
    if (wanted < 0 || static_cast<std::uint64_t>(wanted) > shape[axis])
        in.refuse_number(in.from_input(1),
                         "looks for " + std::to_string(wanted) + " of " + std::to_string(shape[axis]) + " elements");
    const auto k = shape[axis] = static_cast<std::size_t>(wanted);
    const any_tensor& values = in.make_output(0, x.type(), shape);
    const any_tensor indices =
        in.output_count() > 1 ? in.make_output(1, io::dtype::i64, shape) : in.make(io::dtype::i64, shape);
    const axis_view view = view_along(x.shape(), axis);
    const bool greatest = in.integer("largest", 1) != 0;
    if (top_k_on_cpu(in, x, view, k, greatest, values, indices)) return;
    // NaN is greater than all numbers.
    select_elements(in, x, view, k, {greatest, greatest, false}, in.integer("sorted", 1) != 0, indices);
    with_word(x.type(), [&]<typename Word>() {
        const selected_values_kernel<Word> kernel{
            in.read<Word>(x), in.read<std::int64_t>(indices), in.write<Word>(values), view.length, view.inner, k};
        each(in, values.elements(), kernel, {&x, &indices}, {&values});
    });
}

template <typename Word>
struct hardmax_kernel {
    const std::int64_t* greatest;
    Word* to;
    std::size_t length, inner;
    in_word<Word> one;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = static_cast<std::int64_t>(i / inner % length);
        to[i] = greatest[i / inner / length * inner + i % inner] == at ? static_cast<Word>(one) : Word(0);
    }
};

void hardmax(node_call& in) {
    const any_tensor& x = in.input(0);
    if (!is_float(x.type())) in.refuse_type(x);
    // Before version 13 the tensor is taken as a matrix: the axes before this one, and those from it on.
    const bool is_flat = in.opset() < 13;
    const std::size_t axis = in.axis(in.integer("axis", is_flat ? 1 : -1), x.shape().size(), is_flat);
    axis_view view;
    if (is_flat) {
        for (std::size_t d = 0; d < x.shape().size(); ++d) (d < axis ? view.outer : view.length) *= x.shape()[d];
    } else {
        view = view_along(x.shape(), axis);
    }
    const any_tensor& y = in.make_output(0, x.type(), x.shape());
    if (y.elements() == 0 || in.where() == place::nowhere) return;
    const any_tensor greatest = in.make(io::dtype::i64, {view.rows()});
    select_elements(in, x, view, 1, {true, true, false}, false, greatest);
    with_word(x.type(), [&]<typename Word>() {
        std::uint64_t one = 0;
        switch (x.type()) {
            case io::dtype::f16: one = half(1.0f).bits(); break;
            case io::dtype::bf16: one = bfloat16(1.0f).bits(); break;
            case io::dtype::f32: one = 0x3f80'0000; break;
            default: one = 0x3ff0'0000'0000'0000;
        }
        const hardmax_kernel<Word> kernel{in.read<std::int64_t>(greatest), in.write<Word>(y), view.length, view.inner,
                                          static_cast<Word>(one)};
        each(in, y.elements(), kernel, {&greatest}, {&y});
    });
}

// --- CumSum, CumProd ---------------------------------------------------------------------------------------------

// One row for each index. Integers wrap around, so that unsigned arithmetic serves all of them.
template <typename Number, bool IsProduct>
struct cumulative_kernel {
    const void* x;
    void* to;
    in_word<io::dtype> type;
    std::size_t length, inner;
    in_word<bool> is_exclusive, is_reversed;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t base = i / inner * length * inner + i % inner;
        Number so_far = IsProduct ? 1 : 0;
        for (std::size_t r = 0; r < length; ++r) {
            const std::size_t at = base + (is_reversed ? length - 1 - r : r) * inner;
            const Number own = load_number<Number>(x, type, at);
            const Number next = IsProduct ? times(so_far, own) : plus(so_far, own);
            store_number<Number>(to, type, at, is_exclusive ? so_far : next);
            so_far = next;
        }
    }
};

template <bool IsProduct>
void cumulative(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.type() == io::dtype::boolean) in.refuse_type(x);
    const integers given = in.host_integers(1);
    if (given.size() != 1) in.refuse("has " + std::to_string(given.size()) + " axes; it has to be one");
    const axis_view view = view_along(x.shape(), in.axis(given[0], x.shape().size(), false, 1));
    const any_tensor& y = in.make_output(0, x.type(), x.shape());
    if (y.elements() == 0) return;
    const auto run = [&]<typename Number>() {
        const cumulative_kernel<Number, IsProduct> kernel{.x = in.read<void>(x),
                                                          .to = in.write<void>(y),
                                                          .type = x.type(),
                                                          .length = view.length,
                                                          .inner = view.inner,
                                                          .is_exclusive = in.integer("exclusive", 0) != 0,
                                                          .is_reversed = in.integer("reverse", 0) != 0};
        each(in, view.rows(), kernel, {&x}, {&y});
    };
    if (is_float(x.type())) {
        run.template operator()<double>();
    } else {
        run.template operator()<std::uint64_t>();
    }
}

// --- Det ---------------------------------------------------------------------------------------------------------

// One matrix for each index: Gaussian elimination with the greatest pivot of the column.
struct determinant_kernel {
    const void* x;
    void* to;
    double* work;  // as many elements as x
    in_word<io::dtype> type;
    std::size_t n;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        double* const a = work + i * n * n;
        for (std::size_t k = 0; k < n * n; ++k) a[k] = load_number<double>(x, type, i * n * n + k);
        double result = 1;
        for (std::size_t column = 0; column < n; ++column) {
            std::size_t pivot = column;
            for (std::size_t row = column + 1; row < n; ++row)
                if (std::fabs(a[row * n + column]) > std::fabs(a[pivot * n + column])) pivot = row;
            if (pivot != column) {
                result = -result;
                for (std::size_t k = column; k < n; ++k) {
                    const double held = a[column * n + k];
                    a[column * n + k] = a[pivot * n + k];
                    a[pivot * n + k] = held;
                }
            }
            const double divisor = a[column * n + column];
            result *= divisor;
            if (divisor == 0) break;
            for (std::size_t row = column + 1; row < n; ++row) {
                const double factor = a[row * n + column] / divisor;
                for (std::size_t k = column + 1; k < n; ++k) a[row * n + k] -= factor * a[column * n + k];
            }
        }
        store_number<double>(to, type, i, result);
    }
};

void determinant(node_call& in) {
    const any_tensor& x = in.input(0);
    if (!is_float(x.type())) in.refuse_type(x);
    lengths shape = x.shape();
    if (shape.size() < 2 || shape[shape.size() - 1] != shape[shape.size() - 2])
        in.refuse_shapes("takes square matrices, and is given " + to_string(x));
    const std::size_t n = shape.back();
    shape.resize(shape.size() - 2);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    if (in.where() == place::nowhere) return;
    const any_tensor work = in.make(io::dtype::f64, {x.elements()});
    each(in, y.elements(), determinant_kernel{in.read<void>(x), in.write<void>(y), in.write<double>(work), x.type(), n},
         {&x}, {&y, &work});
}

// --- the table ---------------------------------------------------------------------------------------------------

// The axes are an attribute before the version, and an input since.
template <reduction What, reduction_finish Finish = reduction_finish::nothing>
void add_reduction(std::vector<definition>& to, std::string_view name, std::int64_t version = 18) {
    to.push_back({.name = name,
                  .least_inputs = 1,
                  .most_inputs = 1,
                  .most_outputs = 1,
                  .attributes = {"axes", "keepdims"},
                  .run = &reduce_operator<What, Finish>,
                  .until = version - 1});
    to.push_back({.name = name,
                  .least_inputs = 1,
                  .most_inputs = 2,
                  .most_outputs = 1,
                  .attributes = {"keepdims", "noop_with_empty_axes"},
                  .run = &reduce_operator<What, Finish>,
                  .host_inputs = input_bit(1),
                  .since = version});
}

std::vector<definition> list_of_reductions() {
    std::vector<definition> made = {
        {"ArgMax", 1, 1, 1, {"axis", "keepdims", "select_last_index"}, &index_of_extreme<true>},
        {"ArgMin", 1, 1, 1, {"axis", "keepdims", "select_last_index"}, &index_of_extreme<false>},
        {.name = "TopK",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 2,
         .attributes = {"axis", "k"},
         .run = &top_k,
         .until = 9},
        {.name = "TopK",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 2,
         .attributes = {"axis", "largest", "sorted"},
         .run = &top_k,
         .host_inputs = input_bit(1),
         .since = 10},
        {"Hardmax", 1, 1, 1, {"axis"}, &hardmax},
        {"CumSum", 2, 2, 1, {"exclusive", "reverse"}, &cumulative<false>, input_bit(1)},
        {"CumProd", 2, 2, 1, {"exclusive", "reverse"}, &cumulative<true>, input_bit(1)},
        {"Det", 1, 1, 1, {}, &determinant},
    };
    add_reduction<reduction::sum>(made, "ReduceSum", 13);
    add_reduction<reduction::sum, reduction_finish::mean>(made, "ReduceMean");
    add_reduction<reduction::maximum>(made, "ReduceMax");
    add_reduction<reduction::minimum>(made, "ReduceMin");
    add_reduction<reduction::product>(made, "ReduceProd");
    add_reduction<reduction::absolute_sum>(made, "ReduceL1");
    add_reduction<reduction::square_sum, reduction_finish::root>(made, "ReduceL2");
    add_reduction<reduction::square_sum>(made, "ReduceSumSquare");
    add_reduction<reduction::sum, reduction_finish::logarithm>(made, "ReduceLogSum");
    add_reduction<reduction::log_exponential_sum>(made, "ReduceLogSumExp");
    return made;
}

}  // namespace

std::span<const definition> reductions() {
    static const std::vector<definition> known = list_of_reductions();
    return known;
}

}  // namespace sluice::nn::operators
