// SPDX-License-Identifier: Apache-2.0
// Reductions of f32 on a CPU: results whose elements are next to each other are rows; others are columns, up to 256 of
// which take one row after the other. Short rows are turned, and are columns too.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/reduction/row_math.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/numbers.hpp"
#include "nn/operators/reduce_layout.hpp"

namespace sluice::nn::operators {
namespace {

using kernels::row_math;

struct cpu_reduction {
    const float* from;
    void* to;
    const void* centre;
    in_word<io::dtype> to_type, centre_type;
    in_word<reduction> what;
    in_word<reduction_finish> finish;
    reduce_layout layout;

    // The numbers are elements, of which a result has `layout.count`.
    static constexpr std::size_t numbers_of_part = 65'536;
    std::size_t host_unit() const { return layout.count; }
    void operator()(std::size_t) const {}  // a GPU has a kernel of its own

    void on_host(std::size_t first, std::size_t last) const {
        const bool is_of_rows = layout.reduced.rank != 0 && layout.reduced.stride[layout.reduced.rank - 1] == 1;
        const bool is_short = is_of_rows && layout.reduced.rank == 1 && layout.count <= row_math::short_row;
        for (std::size_t i = first / layout.count, end = last / layout.count; i < end;) {
            if (is_of_rows && !is_short) {
                give(i, row(layout.kept.offset(i), centre_of(i)));
                ++i;
            } else {
                const std::size_t length = layout.kept.rank == 0 ? 1 : layout.kept.length[layout.kept.rank - 1];
                const std::size_t count = std::min({end - i, length - i % length, row_math::most_columns});
                const float* const begin = from + layout.kept.offset(i);
                if (is_short) {
                    short_rows(i, begin, count);
                } else {
                    columns(i, count, [&](std::size_t r) { return begin + layout.reduced.offset(r); });
                }
                i += count;
            }
        }
    }

private:
    double centre_of(std::size_t i) const {
        return centre != nullptr ? load_number<double>(centre, centre_type, i) : 0;
    }
    void give(std::size_t i, double made) const {
        if (finish == reduction_finish::mean) made /= static_cast<double>(layout.count);
        if (finish == reduction_finish::root) made = std::sqrt(made);
        if (finish == reduction_finish::logarithm) made = std::log(made);
        store_number<double>(to, to_type, i, made);
    }
    bool is_extreme() const { return what == reduction::maximum || what == reduction::minimum; }

    static const row_math::reduction& loops(reduction of) {
        const row_math& math = kernels::row_math_of_this_processor();
        switch (of) {
            case reduction::absolute_sum: return math.absolute_sum;
            case reduction::square_sum: return math.square_sum;
            case reduction::exponential_sum: return math.exponential_sum;
            case reduction::maximum: return math.maximum;
            case reduction::minimum: return math.minimum;
            default: return math.sum;
        }
    }

    // One result of several runs of elements.
    double runs(reduction of, std::size_t base, double middle) const {
        const auto& loop = loops(of);
        const std::size_t length = layout.reduced.length[layout.reduced.rank - 1], count = layout.count / length;
        double made = loop.of_row(from + base + layout.reduced.offset(0), length, middle);
        for (std::size_t r = 1; r < count; ++r) {
            const double next = loop.of_row(from + base + layout.reduced.offset(r * length), length, middle);
            if (of == reduction::maximum || of == reduction::minimum) {
                const bool is_next = of == reduction::maximum ? made < next : next < made;
                made = made != made ? made : next != next || is_next ? next : made;
            } else {
                made += next;
            }
        }
        return made;
    }
    double row(std::size_t base, double middle) const {
        if (what != reduction::log_exponential_sum) return runs(what, base, middle);
        const double most = runs(reduction::maximum, base, 0);
        if (!std::isfinite(most)) return most;
        return most + std::log(runs(reduction::exponential_sum, base, most));
    }

    // Rows next to each other.
    void short_rows(std::size_t i, const float* begin, std::size_t count) const {
        float turned[row_math::short_row * row_math::most_columns];
        kernels::row_math_of_this_processor().turn(begin, layout.count, turned, row_math::most_columns, count,
                                                   layout.count);
        columns(i, count, [&](std::size_t r) { return turned + r * row_math::most_columns; });
    }

    template <typename RowAt>
    void rows_of_columns(reduction of, const RowAt& row_at, std::size_t count, const double* middles,
                         double* made) const {
        const auto& loop = loops(of);
        for (std::size_t r = 0; r < layout.count; ++r) loop.of_columns(row_at(r), made, middles, count);
    }
    template <typename RowAt>
    void columns(std::size_t i, std::size_t count, const RowAt& row_at) const {
        double made[row_math::most_columns], middles[row_math::most_columns];
        const bool is_log = what == reduction::log_exponential_sum;
        for (std::size_t k = 0; k < count; ++k) middles[k] = centre_of(i + k);
        if (is_log || is_extreme()) {
            const bool is_minimum = what == reduction::minimum;
            std::fill_n(made, count, is_minimum ? greatest_number<double> : least_number<double>);
            rows_of_columns(is_minimum ? reduction::minimum : reduction::maximum, row_at, count, middles, made);
        }
        if (is_log) std::copy_n(made, count, middles);
        if (is_log || !is_extreme()) {
            std::fill_n(made, count, 0.0);
            rows_of_columns(is_log ? reduction::exponential_sum : reduction(what), row_at, count, middles, made);
        }
        for (std::size_t k = 0; k < count; ++k) {
            if (is_log) made[k] = std::isfinite(middles[k]) ? middles[k] + std::log(made[k]) : middles[k];
            give(i + k, made[k]);
        }
    }
};

}  // namespace

reduce_layout layout_of(const node_call& in, const lengths& shape, const std::vector<std::size_t>& axes) {
    reduce_layout made;
    const lengths strides = strides_of(shape);
    bool was_reduced = false, has_previous = false;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool is_reduced = std::ranges::find(axes, d) != axes.end();
        (is_reduced ? made.count : made.results) *= shape[d];
        if (shape[d] == 1) continue;
        auto& own = is_reduced ? made.reduced : made.kept;
        if (has_previous && was_reduced == is_reduced) {
            own.length[own.rank - 1] *= shape[d];
            own.stride[own.rank - 1] = strides[d];
        } else {
            if (own.rank == reduce_layout::max_rank) in.refuse_unsupported("reduces more than 6 parts of a shape");
            own.length[own.rank] = shape[d];
            own.stride[own.rank++] = strides[d];
        }
        was_reduced = is_reduced;
        has_previous = true;
    }
    return made;
}

bool reduce_on_cpu(const node_call& in, reduction what, const any_tensor& x, const reduce_layout& layout,
                   const any_tensor& to, const reduce_options& options) {
    if (is_on_gpu(in) || x.type() != io::dtype::f32 || what == reduction::product || x.elements() < 2) return false;
    const any_tensor* const centre = options.centre;
    each(in, x.elements(),
         cpu_reduction{.from = in.read<float>(x),
                       .to = in.write<void>(to),
                       .centre = centre != nullptr ? in.read<void>(*centre) : nullptr,
                       .to_type = to.type(),
                       .centre_type = centre != nullptr ? centre->type() : io::dtype::f32,
                       .what = what,
                       .finish = options.finish,
                       .layout = layout},
         {&x, centre != nullptr ? centre : &x}, {&to});
    return true;
}

}  // namespace sluice::nn::operators
