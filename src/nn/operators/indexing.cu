// SPDX-License-Identifier: Apache-2.0
// Operators that read elements at places that another tensor gives.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "nn/operators/index_places.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/movement.hpp"
#include "nn/operators/moves_on_cpu.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/numbers.hpp"

namespace sluice::nn::operators {

index_list index_list_of(const node_call& in, const any_tensor& indices) {
    if (indices.type() != io::dtype::i32 && indices.type() != io::dtype::i64) in.refuse_type(indices);
    return {in.read<void>(indices), indices.type() == io::dtype::i64};
}

void require_places(const node_call& in, std::size_t length, const any_tensor& y) {
    const auto all_places = static_cast<std::int64_t>(length);
    require_numbers(in, 1, {-all_places, all_places - 1}, y);
}

namespace {

struct tuples_as_numbers {
    static constexpr std::size_t max_length = 8;

    index_list indices;
    std::int64_t* to;
    std::size_t length, per_batch, places_of_batch, places;
    std::size_t limit[max_length], stride[max_length];

    SLUICE_KERNEL void operator()(std::size_t i) const {
        std::size_t place = i / per_batch * places_of_batch;
        bool is_there = true;
        for (std::size_t k = 0; k < length; ++k) {
            const std::int64_t part = indices.place_in(i * length + k, limit[k]);
            if (part >= 0) place += static_cast<std::size_t>(part) * stride[k];
            is_there = is_there && part >= 0;
        }
        to[i] = static_cast<std::int64_t>(is_there ? place : places);
    }

    void on_host(std::size_t first, std::size_t last) const {
        switch (length) {
            case 1: return of_length<1>(first, last);
            case 2: return of_length<2>(first, last);
            case 3: return of_length<3>(first, last);
            case 4: return of_length<4>(first, last);
            default:
                for (std::size_t i = first; i < last; ++i) (*this)(i);
        }
    }

private:
    template <std::size_t Length>
    void of_length(std::size_t first, std::size_t last) const {
        const auto none = static_cast<std::int64_t>(places);
        with_places(indices, 0, [&](const auto& list) {
            for (std::size_t i = first; i < last; ++i) {
                // (Batches are counted only where there are some.)
                std::uint64_t place = per_batch > i ? 0 : i / per_batch * places_of_batch;
                bool is_there = true;
                for (std::size_t k = 0; k < Length; ++k) {
                    const auto of_this = static_cast<std::int64_t>(limit[k]);
                    auto part = static_cast<std::int64_t>(list.at[i * Length + k]);
                    part += part < 0 ? of_this : 0;
                    is_there &= static_cast<std::uint64_t>(part) < limit[k];
                    place += static_cast<std::uint64_t>(part) * stride[k];
                }
                to[i] = is_there ? static_cast<std::int64_t>(place) : none;
            }
        });
    }
};

}  // namespace

static_assert(tuples_as_numbers::max_length <= number_rule::max_columns);

any_tensor places_of_tuples(const node_call& in, const lengths& shape, std::size_t batches, const any_tensor& y) {
    const any_tensor& indices = in.input(1);
    const std::size_t length = indices.shape().back(),
                      count = product_of(std::span(indices.shape()).first(indices.shape().size() - 1));
    if (length > tuples_as_numbers::max_length)
        in.refuse_unsupported("has indices of " + std::to_string(length) + " numbers, which are too many");
    tuples_as_numbers kernel{};
    kernel.indices = index_list_of(in, indices);
    kernel.length = length;
    const std::size_t all_batches = product_of(std::span(shape).first(batches));
    kernel.per_batch = all_batches == 0 ? 1 : count / all_batches;
    const lengths limits(shape.begin() + static_cast<std::ptrdiff_t>(batches),
                         shape.begin() + static_cast<std::ptrdiff_t>(batches + length));
    const lengths strides = strides_of(limits);
    kernel.places_of_batch = product_of(limits);
    kernel.places = all_batches * kernel.places_of_batch;
    number_rule rule;
    rule.columns = std::max<std::size_t>(length, 1);
    for (std::size_t k = 0; k < length; ++k) {
        kernel.limit[k] = limits[k];
        kernel.stride[k] = strides[k];
        const auto all_of_dimension = static_cast<std::int64_t>(limits[k]);
        rule.allowed[k] = {-all_of_dimension, all_of_dimension - 1};
    }
    require_numbers(in, 1, rule, y);
    any_tensor made = in.make(io::dtype::i64, {count});
    kernel.to = in.write<std::int64_t>(made);
    each(in, count, kernel, {&indices}, {&made});
    return made;
}

namespace {

// An element that a GPU reads at a place that is not there: NaN, or the number farthest from 0. (A CPU reads none.)
std::uint64_t nothing_of(io::dtype type) {
    std::uint64_t bits = 0;
    with_type(type, [&]<typename T>() {
        T element;
        if constexpr (std::is_unsigned_v<T>) {
            element = std::numeric_limits<T>::max();
        } else if constexpr (std::is_integral_v<T>) {
            element = std::numeric_limits<T>::min();
        } else {
            element = static_cast<T>(std::numeric_limits<computed<T>>::quiet_NaN());
        }
        std::memcpy(&bits, &element, sizeof(T));
    });
    return bits;
}

// --- Gather ------------------------------------------------------------------------------------------------------

template <typename Word>
struct gathered_rows {
    const Word* x;
    index_list indices;
    Word* y;
    std::size_t length, count, inner;  // of the axis, of the indices, of what follows the axis
    std::uint64_t nothing;             // for an index that is out of range

    template <typename Index>
    SLUICE_KERNEL void write(Index i) const {
        const auto all_inner = static_cast<Index>(inner), all = static_cast<Index>(count);
        const Index row = i / all_inner, outer = row / all;
        const std::int64_t at = indices.place_in(row - outer * all, length);
        y[i] = at < 0 ? static_cast<Word>(nothing)
                      : x[(outer * length + static_cast<std::size_t>(at)) * inner + (i - row * all_inner)];
    }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        if (i <= 0xffff'ffffu && count <= 0xffff'ffffu && inner <= 0xffff'ffffu)
            return write(static_cast<std::uint32_t>(i));
        write(i);
    }

    // Row by row.
    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t host_unit() const { return inner; }
    void on_host(std::size_t first, std::size_t last) const {
        with_places(indices, length, [&](const auto& place_of) {
            std::size_t row = first / inner, outer = row / count, of_row = row - outer * count;
            for (const std::size_t end = last / inner; row < end;) {
                const std::size_t rows = std::min(end - row, count - of_row);
                inner == 1 ? elements(place_of, of_row, rows, outer, y + row)
                           : runs(place_of, of_row, rows, outer, y + row * inner);
                row += rows;
                of_row = 0;
                ++outer;
            }
        });
    }

private:
    // For the indices [first, first + rows).
    template <typename Places>
    void elements(const Places& place_of, std::size_t first, std::size_t rows, std::size_t outer, Word* to) const {
        const Word* const from = x + outer * length;
        for (std::size_t i = 0; i < rows; ++i) {
            const std::int64_t at = place_of(first + i);
            to[i] = at < 0 ? static_cast<Word>(nothing) : from[at];
        }
    }
    template <typename Places>
    void runs(const Places& place_of, std::size_t first, std::size_t rows, std::size_t outer, Word* to) const {
        const Word* const from = x + outer * length * inner;
        for (std::size_t i = 0; i < rows; ++i, to += inner) {
            const std::int64_t at = place_of(first + i);
            if (at < 0) {
                std::fill_n(to, inner, static_cast<Word>(nothing));
            } else {
                copy_run(from + static_cast<std::size_t>(at) * inner, inner, to);
            }
        }
    }
};

void gather(node_call& in) {
    const any_tensor &x = in.input(0), &indices = in.input(1);
    const lengths& of_x = x.shape();
    const std::size_t axis = in.axis(in.integer("axis", 0), of_x.size());
    lengths shape(of_x.begin(), of_x.begin() + static_cast<std::ptrdiff_t>(axis));
    shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
    shape.insert(shape.end(), of_x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, of_x.end());
    const any_tensor& y = in.make_output(0, x.type(), shape);
    require_places(in, of_x[axis], y);
    const std::size_t inner = product_of(std::span(of_x).subspan(axis + 1));
    with_word(x.type(), [&]<typename Word>() {
        each(in, y.elements(),
             gathered_rows<Word>{in.read<Word>(x), index_list_of(in, indices), in.write<Word>(y), of_x[axis],
                                 indices.elements(), inner, nothing_of(x.type())},
             {&x, &indices}, {&y});
    });
}

// --- GatherND ----------------------------------------------------------------------------------------------------

void gather_tuples(node_call& in) {
    const any_tensor &x = in.input(0), &indices = in.input(1);
    const lengths &of_x = x.shape(), &of_indices = indices.shape();
    const std::int64_t given = in.integer("batch_dims", 0);
    const auto refuse = [&] {
        in.refuse_shapes("takes " + to_string(indices) + " as indices of " + to_string(x) + ", which do not fit");
    };
    if (of_x.empty() || of_indices.empty() || given < 0) refuse();
    const auto batches = static_cast<std::size_t>(given);
    if (batches >= of_x.size() || batches >= of_indices.size()) refuse();
    const std::size_t length = of_indices.back();
    if (length > of_x.size() - batches || !std::equal(of_x.begin(), of_x.begin() + given, of_indices.begin())) refuse();
    lengths shape(of_indices.begin(), of_indices.end() - 1);
    const auto rest = std::span(of_x).subspan(batches + length);
    shape.insert(shape.end(), rest.begin(), rest.end());
    const any_tensor& y = in.make_output(0, x.type(), shape);
    const any_tensor places = places_of_tuples(in, of_x, batches, y);
    with_word(x.type(), [&]<typename Word>() {
        each(in, y.elements(),
             gathered_rows<Word>{in.read<Word>(x), index_list_of(in, places), in.write<Word>(y),
                                 product_of(std::span(of_x).first(batches + length)), places.elements(),
                                 product_of(rest), nothing_of(x.type())},
             {&x, &places}, {&y});
    });
}

// --- GatherElements ----------------------------------------------------------------------------------------------

template <typename Word>
struct gathered_elements {
    const Word* x;
    index_list indices;
    Word* y;
    std::size_t length, stride;  // of the axis
    strided_view others;         // where x has the element, but for the axis
    std::uint64_t nothing;       // for an index that is out of range
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::int64_t at = indices.place_in(i, length);
        y[i] = at < 0 ? static_cast<Word>(nothing) : x[others(i) + at * static_cast<std::int64_t>(stride)];
    }

    // Run by run of the last dimension.
    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t host_unit() const { return others.rank != 0 ? others.length[others.rank - 1] : 1; }
    void on_host(std::size_t first, std::size_t last) const {
        const std::size_t run = host_unit();
        const std::int64_t step = others.rank != 0 ? others.stride[others.rank - 1] : 0;
        with_places(indices, length, [&](const auto& place_of) {
            for (std::size_t i = first; i < last; i += run) {
                const Word* const from = x + others(i);
                if (step == 0 && stride == 1) {
                    take(place_of, i, run, [&](std::size_t, std::int64_t at) { return from[at]; });
                } else {
                    const auto by_place = static_cast<std::int64_t>(stride);
                    take(place_of, i, run, [&](std::size_t k, std::int64_t at) {
                        return from[static_cast<std::int64_t>(k) * step + at * by_place];
                    });
                }
            }
        });
    }

private:
    template <typename Places, typename From>
    void take(const Places& place_of, std::size_t i, std::size_t run, const From& from) const {
        for (std::size_t k = 0; k < run; ++k) {
            const std::int64_t at = place_of(i + k);
            y[i + k] = at < 0 ? static_cast<Word>(nothing) : from(k, at);
        }
    }
};

void gather_elements(node_call& in) {
    const any_tensor &x = in.input(0), &indices = in.input(1);
    const lengths &of_x = x.shape(), &shape = indices.shape();
    const std::size_t axis = in.axis(in.integer("axis", 0), of_x.size());
    bool fits = shape.size() == of_x.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) fits = d == axis || shape[d] <= of_x[d];
    if (!fits)
        in.refuse_shapes("takes " + to_string(indices) + " as indices of " + to_string(x) + ", which do not fit");
    integers strides = signed_strides_of(of_x);
    const auto of_axis = static_cast<std::size_t>(strides[axis]);
    strides[axis] = 0;
    const strided_view others = view_of(in, shape, strides);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    require_places(in, of_x[axis], y);
    with_word(x.type(), [&]<typename Word>() {
        each(in, y.elements(),
             gathered_elements<Word>{in.read<Word>(x), index_list_of(in, indices), in.write<Word>(y), of_x[axis],
                                     of_axis, others, nothing_of(x.type())},
             {&x, &indices}, {&y});
    });
}

// --- OneHot ------------------------------------------------------------------------------------------------------

template <typename Word>
struct one_hot_elements {
    const void* indices;
    const Word* values;  // off, on
    Word* y;
    std::size_t depth, inner;
    in_word<io::dtype> type;  // of the indices
    in_word<bool> wraps;      // negative ones count from the end

    // Fractions are cut off.
    SLUICE_KERNEL double index_at(std::size_t i) const {
        const double at = std::trunc(load_number<double>(indices, type, i));
        return at < 0 && wraps ? at + static_cast<double>(depth) : at;
    }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i / inner, outer = row / depth, place = row - outer * depth;
        const double at = index_at(outer * inner + (i - row * inner));
        y[i] = values[at == static_cast<double>(place) ? 1 : 0];
    }

    // All of one index: off, and then one of them on.
    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t host_unit() const { return depth * inner; }
    void on_host(std::size_t first, std::size_t last) const {
        const auto all_places = static_cast<double>(depth);
        std::fill(y + first, y + last, values[0]);
        for (std::size_t outer = first / host_unit(); outer < last / host_unit(); ++outer) {
            for (std::size_t k = 0; k < inner; ++k) {
                const double at = index_at(outer * inner + k);
                if (!(at >= 0 && at < all_places)) continue;
                y[(outer * depth + static_cast<std::size_t>(at)) * inner + k] = values[1];
            }
        }
    }
};

void one_hot(node_call& in) {
    const any_tensor &indices = in.input(0), &values = in.input(2);
    const double depth = in.host_number(1);
    if (!(depth >= 0 && depth < 0x1p53)) in.refuse_value(1, "has the depth " + std::to_string(depth));
    if (values.shape() != lengths{2}) in.refuse_shapes("has to have two values, not " + to_string(values));
    const std::size_t axis = in.axis(in.integer("axis", -1), indices.shape().size() + 1);
    lengths shape = indices.shape();
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::size_t>(depth));
    const any_tensor& y = in.make_output(0, values.type(), shape);
    const std::size_t inner = product_of(std::span(shape).subspan(axis + 1));
    with_word(values.type(), [&]<typename Word>() {
        each(in, y.elements(),
             one_hot_elements<Word>{in.read<void>(indices), in.read<Word>(values), in.write<Word>(y), shape[axis],
                                    inner, indices.type(), in.opset() >= 11},
             {&indices, &values}, {&y});
    });
}

}  // namespace

const std::vector<definition>& indexing() {
    static const std::vector<definition> list = {
        {"Gather", 2, 2, 1, {"axis"}, &gather},
        {"GatherND", 2, 2, 1, {"batch_dims"}, &gather_tuples},
        {"GatherElements", 2, 2, 1, {"axis"}, &gather_elements},
        {.name = "OneHot",
         .least_inputs = 3,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"axis"},
         .run = &one_hot,
         .host_inputs = input_bit(1)},
    };
    return list;
}

}  // namespace sluice::nn::operators
