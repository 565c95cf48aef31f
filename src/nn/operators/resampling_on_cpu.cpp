// SPDX-License-Identifier: Apache-2.0
// Resize on a CPU. A range of the output is taken apart into rectangles: some rows, and of each the same columns. Where
// a column comes from, and with which weights, is computed once for up to 512 columns and all rows of a rectangle. The
// results are those of the kernels, bit by bit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nn/operators/resampling_kernels.hpp"

namespace sluice::nn::operators {
namespace {

constexpr std::size_t most_columns = 512;  // of a table
constexpr std::size_t from_outside = ~std::size_t{0};

// Calls the function with each rectangle of these places in rows of `columns`: first row, end row, first column, end
// column.
template <typename Function>
void for_rectangles(std::size_t first, std::size_t last, std::size_t columns, const Function& function) {
    while (first < last) {
        const std::size_t row = first / columns, column = first % columns;
        const bool is_whole = column == 0 && last - first >= columns;
        const std::size_t end_row = is_whole ? last / columns : row + 1;
        const std::size_t end_column = is_whole ? columns : std::min(columns, column + last - first);
        for (std::size_t k = column; k < end_column; k += most_columns)
            function(row, end_row, k, std::min(end_column, k + most_columns));
        first = is_whole ? end_row * columns : row * columns + end_column;
    }
}

// --- nearest -----------------------------------------------------------------------------------------------------

std::size_t column_axis(const resample_axis* axes, std::size_t rank) {
    std::size_t d = rank;
    while (d > 1 && axes[d - 1].is_kept) --d;
    return d - 1;
}

std::size_t elements_after(const resample_axis* axes, std::size_t rank, std::size_t axis) {
    std::size_t made = 1;
    for (std::size_t d = axis + 1; d < rank; ++d) made *= axes[d].to;
    return made;
}

std::size_t nearest_place(const resample_axis& axis, resample_rounding how, std::size_t k) {
    if (axis.is_kept) return k;
    const double position = axis.position(k);
    return axis.is_outside(position) ? from_outside : axis.clamped(resample_round(how, position));
}

// The row of the input that each row of the output is of, one after the other. Rows of the last of these axes that come
// again and again are looked up.
class source_rows {
public:
    source_rows(const resample_axis* axes, const resample_rounding* rounding, std::size_t count, std::size_t row,
                std::size_t end_row)
        : axes_(axes), rounding_(rounding), count_(count) {
        if (count == 0) return;
        const resample_axis& last = axes[count - 1];
        has_table_ = last.to <= most_columns && last.to <= end_row - row;
        for (std::size_t d = count; d-- > 0; row /= axes[d].to) at_[d] = row % axes[d].to;
        for (std::size_t k = 0; k < last.to && has_table_; ++k) table_[k] = nearest_place(last, rounding[count - 1], k);
        set_outer();
        set_source();
    }

    // from_outside: the row is of no row.
    std::size_t source() const { return source_; }
    void next() {
        for (std::size_t d = count_; d-- > 0;) {
            if (++at_[d] < axes_[d].to) {
                if (d + 1 < count_) set_outer();
                return set_source();
            }
            at_[d] = 0;
        }
    }

private:
    void set_outer() {
        outer_ = 0;
        for (std::size_t d = 0; d + 1 < count_; ++d) {
            const std::size_t place = nearest_place(axes_[d], rounding_[d], at_[d]);
            if (place == from_outside) outer_ = from_outside;
            if (outer_ != from_outside) outer_ = outer_ * axes_[d].from + place;
        }
    }
    void set_source() {
        const std::size_t d = count_ - 1;
        const std::size_t place = has_table_ ? table_[at_[d]] : nearest_place(axes_[d], rounding_[d], at_[d]);
        source_ = outer_ == from_outside || place == from_outside ? from_outside : outer_ * axes_[d].from + place;
    }

    const resample_axis* const axes_;
    const resample_rounding* const rounding_;
    const std::size_t count_;
    std::size_t at_[resample_rank] = {}, outer_ = 0, source_ = 0, table_[most_columns];
    bool has_table_ = false;
};

// Where the columns come from.
struct nearest_columns {
    std::size_t places[most_columns];
    std::size_t count = 0;
    bool has_outside = false;
    bool is_twice = true;  // each place two times, and then the next one

    nearest_columns(const resample_axis& axis, resample_rounding how, std::size_t first, std::size_t last)
        : count(last - first) {
        for (std::size_t i = 0; i < count; ++i) {
            places[i] = nearest_place(axis, how, first + i);
            has_outside = has_outside || places[i] == from_outside;
            is_twice = is_twice && places[i] == places[0] + i / 2;
        }
    }

    template <typename Word>
    void copy(const Word* from, std::size_t inner, Word outside, Word* to) const {
        if (has_outside) {
            for (std::size_t i = 0; i < count; ++i) {
                for (std::size_t k = 0; k < inner; ++k)
                    to[i * inner + k] = places[i] == from_outside ? outside : from[places[i] * inner + k];
            }
        } else if (inner != 1) {
            for (std::size_t i = 0; i < count; ++i) std::copy_n(from + places[i] * inner, inner, to + i * inner);
        } else if (is_twice) {
            const Word* const line = from + places[0];
            for (std::size_t i = 0; i < count / 2; ++i) to[2 * i] = to[2 * i + 1] = line[i];
            if (count % 2 != 0) to[count - 1] = line[count / 2];
        } else {
            for (std::size_t i = 0; i < count; ++i) to[i] = from[places[i]];
        }
    }
};

// --- linear and cubic --------------------------------------------------------------------------------------------

// What the columns are made of: up to `taps` elements each. Its arrays have the taps one after the other.
template <typename Number>
struct weighted_columns {
    static constexpr std::size_t most = 2 * most_columns;  // of taps for all columns

    std::size_t places[most];
    Number weights[most];
    Number sums[most_columns];
    std::uint16_t used[most_columns];  // 0: the column is outside
    std::size_t first = 0, count = 0;
    bool all_have_two = true;

    void set(const interpolating_kernel<Number>& of, std::size_t begin, std::size_t end) {
        first = begin;
        count = end - begin;
        all_have_two = true;
        for (std::size_t i = 0; i < count; ++i) {
            set_column(of, i);
            all_have_two = all_have_two && used[i] == 2;
        }
    }

private:
    void set_column(const interpolating_kernel<Number>& of, std::size_t i) {
        const double position = of.axis.position(first + i);
        used[i] = 0;
        sums[i] = 0;
        if (of.axis.is_outside(position)) return;
        const double base = std::ceil(position) - 1;
        const Number part = static_cast<Number>(position - base);
        for (std::int64_t offset = 1 - of.filter.half; offset <= of.filter.half; ++offset) {
            const double at = base + static_cast<double>(offset);
            if (of.filter.leaves_out_outside && !(at >= 0 && at < static_cast<double>(of.axis.from))) continue;
            const Number weight =
                of.filter.weight((static_cast<Number>(offset) - part) * static_cast<Number>(of.filter.stretch));
            sums[i] += weight;
            places[used[i] * count + i] = of.axis.clamped(at) * of.inner;
            weights[used[i] * count + i] = weight;
            ++used[i];
        }
    }
};

// Elements of one column, next to each other.
template <typename Number>
void interpolate_run(const interpolating_kernel<Number>& of, const weighted_columns<Number>& columns, std::size_t i,
                     const Number* line, Number* to) {
    const std::size_t count = columns.count, used = columns.used[i], inner = of.inner;
    const Number sum = columns.sums[i];
    if (used == 0 && of.axis.is_outside(of.axis.position(columns.first + i))) {
        std::fill_n(to, inner, static_cast<Number>(of.outside));
        return;
    }
    if (used == 2) {
        const Number *const a = line + columns.places[i], *const b = line + columns.places[count + i];
        const Number x = columns.weights[i], y = columns.weights[count + i];
        for (std::size_t c = 0; c < inner; ++c) to[c] = Number(0) + x * a[c] + y * b[c];
    } else {
        std::fill_n(to, inner, Number(0));
        for (std::size_t t = 0; t < used; ++t) {
            const Number* const a = line + columns.places[t * count + i];
            const Number x = columns.weights[t * count + i];
            for (std::size_t c = 0; c < inner; ++c) to[c] += x * a[c];
        }
    }
    if (!of.filter.is_scaled) return;
    for (std::size_t c = 0; c < inner; ++c) to[c] = sum != 0 ? to[c] / sum : 0;
}

template <typename Number>
void interpolate_row(const interpolating_kernel<Number>& of, const weighted_columns<Number>& columns,
                     const Number* line, Number* to) {
    const std::size_t count = columns.count;
    if (of.inner != 1 || !columns.all_have_two || of.filter.is_scaled) {
        for (std::size_t i = 0; i < count; ++i) interpolate_run(of, columns, i, line, to + i * of.inner);
        return;
    }
    const std::size_t *const a = columns.places, *const b = columns.places + count;
    const Number *const x = columns.weights, *const y = columns.weights + count;
    for (std::size_t i = 0; i < count; ++i) to[i] = Number(0) + x[i] * line[a[i]] + y[i] * line[b[i]];
}

}  // namespace

template <typename Word>
std::size_t nearest_kernel<Word>::host_unit() const {
    return elements_after(axes, rank, column_axis(axes, rank));
}

template <typename Word>
void nearest_kernel<Word>::on_host(std::size_t first, std::size_t last) const {
    const std::size_t d = column_axis(axes, rank), inner = elements_after(axes, rank, d), length = axes[d].to;
    for_rectangles(first / inner, last / inner, length,
                   [&](std::size_t row, std::size_t end_row, std::size_t column, std::size_t end_column) {
                       const nearest_columns columns(axes[d], rounding[d], column, end_column);
                       const std::size_t size = columns.count * inner;
                       source_rows sources(axes, rounding, d, row, end_row);
                       const Word* before = nullptr;
                       for (std::size_t source_before = from_outside; row < end_row; ++row, sources.next()) {
                           Word* const made = to + (row * length + column) * inner;
                           const std::size_t source = sources.source();
                           if (source == from_outside) {
                               std::fill_n(made, size, static_cast<Word>(outside));
                           } else if (source == source_before) {
                               std::memcpy(made, before, size * sizeof(Word));
                           } else {
                               columns.copy(from + source * axes[d].from * inner, inner, static_cast<Word>(outside),
                                            made);
                           }
                           before = made;
                           source_before = source;
                       }
                   });
}

template <typename Number>
void interpolating_kernel<Number>::on_host(std::size_t first, std::size_t last) const {
    using table = weighted_columns<Number>;
    const std::size_t taps = 2 * static_cast<std::size_t>(filter.half);
    if (taps > table::most) {
        for (std::size_t i = first; i < last; ++i) (*this)(i);
        return;
    }
    const std::size_t at_once = std::min(most_columns, table::most / taps);
    table columns;
    for_rectangles(first / inner, last / inner, axis.to,
                   [&](std::size_t row, std::size_t end_row, std::size_t begin, std::size_t end) {
                       for (std::size_t k = begin; k < end; k += at_once) {
                           columns.set(*this, k, std::min(end, k + at_once));
                           for (std::size_t r = row; r < end_row; ++r)
                               interpolate_row(*this, columns, from + r * axis.from * inner,
                                               to + (r * axis.to + k) * inner);
                       }
                   });
}

template struct nearest_kernel<std::uint8_t>;
template struct nearest_kernel<std::uint16_t>;
template struct nearest_kernel<std::uint32_t>;
template struct nearest_kernel<std::uint64_t>;
template struct interpolating_kernel<float>;
template struct interpolating_kernel<double>;

}  // namespace sluice::nn::operators
