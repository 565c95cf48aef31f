// SPDX-License-Identifier: Apache-2.0
// Operators whose outputs have places that no input gives: ConstantOfShape, EyeLike, Pad, Trilu; and ReverseSequence.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/movement.hpp"
#include "nn/operators/moves_on_cpu.hpp"
#include "nn/operators/number_checks.hpp"

namespace sluice::nn::operators {

std::uint64_t bits_of_number(io::dtype type, double number) {
    std::uint64_t bits = 0;
    with_type(type, [&]<typename T>() {
        const T element = static_cast<T>(static_cast<computed<T>>(number));
        std::memcpy(&bits, &element, sizeof(T));
    });
    return bits;
}

namespace {

// --- ConstantOfShape, EyeLike ------------------------------------------------------------------------------------

template <typename Word>
struct filled_with {
    Word* y;
    std::uint64_t value;
    SLUICE_KERNEL void operator()(std::size_t i) const { y[i] = static_cast<Word>(value); }
    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    void on_host(std::size_t first, std::size_t last) const {
        std::fill(y + first, y + last, static_cast<Word>(value));
    }
};

void constant_of_shape(node_call& in) {
    const lengths shape = lengths_of_input(in, 0);
    const nn::constant* const given = in.tensor_attribute("value");
    io::dtype type = io::dtype::f32;
    std::uint64_t value = 0;
    if (given != nullptr) {
        type = given->type;
        if (given->elements() != 1) in.refuse("has to have one number as value");
        std::memcpy(&value, given->raw().data(), io::size_of(type));
    }
    const any_tensor& y = in.make_output(0, type, shape);
    with_word(type,
              [&]<typename Word>() { each(in, y.elements(), filled_with<Word>{in.write<Word>(y), value}, {}, {&y}); });
}

template <typename Word>
struct with_diagonal {
    Word* y;
    std::size_t width;
    std::int64_t diagonal;
    std::uint64_t one;
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i / width, column = i - row * width;
        const bool is_on = static_cast<std::int64_t>(column) - static_cast<std::int64_t>(row) == diagonal;
        y[i] = static_cast<Word>(is_on ? one : 0);
    }
};

// ONNX's numbers of element types.
std::optional<io::dtype> eye_type_of_number(std::int64_t number) {
    using enum io::dtype;
    constexpr std::int64_t of_bfloat16 = 16;
    constexpr std::optional<io::dtype> types[] = {{}, f32, u8, i8, u16, i16, i32, i64, {}, boolean, f16, f64, u32, u64};
    if (number == of_bfloat16) return bf16;
    if (number < 0 || number >= static_cast<std::int64_t>(std::size(types))) return {};
    return types[number];
}

void eye_like(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.shape().size() != 2) in.refuse_shapes("has to have a matrix as input, not " + to_string(x));
    io::dtype type = x.type();
    if (in.has("dtype")) {
        const auto named = eye_type_of_number(in.integer("dtype", 0));
        if (!named) in.refuse_unsupported("names an element type that is not supported");
        type = *named;
    }
    const any_tensor& y = in.make_output(0, type, x.shape());
    with_word(type, [&]<typename Word>() {
        each(in, y.elements(),
             with_diagonal<Word>{in.write<Word>(y), x.shape()[1], in.integer("k", 0), bits_of_number(type, 1)}, {},
             {&y});
    });
}

// --- Pad ---------------------------------------------------------------------------------------------------------

enum class pad_mode : std::uint64_t { constant, reflect, edge, wrap };

struct padding_of_axis {
    std::size_t length = 0;    // of y
    std::size_t stride = 0;    // of x
    std::int64_t core = 0;     // the elements of x that are kept
    std::int64_t dropped = 0;  // those before them
    std::int64_t before = 0;   // what y has before them
};

template <typename Word>
struct padded_elements {
    static constexpr std::size_t max_rank = 8;

    const Word* x;
    const Word* value_at;  // null: it is value
    Word* y;
    std::uint64_t value;
    pad_mode mode;
    std::size_t rank;
    std::size_t length[max_rank], stride[max_rank];
    std::int64_t core[max_rank], dropped[max_rank], before[max_rank];

    // The element of the core that stands for element i, or -1.
    SLUICE_KERNEL std::int64_t source_of(std::int64_t i, std::int64_t all) const {
        if (i >= 0 && i < all) return i;
        switch (mode) {
            case pad_mode::constant: return -1;
            case pad_mode::edge: return i < 0 ? 0 : all - 1;
            case pad_mode::wrap: return (i % all + all) % all;
            case pad_mode::reflect: break;
        }
        if (all == 1) return 0;
        const std::int64_t period = 2 * (all - 1), place = (i % period + period) % period;
        return place < all ? place : period - place;
    }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        std::size_t from = 0, rest = i;
        bool is_inside = true;
        for (std::size_t d = rank; d-- > 0;) {
            const std::size_t next = rest / length[d];
            const std::int64_t found =
                source_of(static_cast<std::int64_t>(rest - next * length[d]) - before[d], core[d]);
            is_inside = is_inside && found >= 0;
            if (is_inside) from += static_cast<std::size_t>(found + dropped[d]) * stride[d];
            rest = next;
        }
        y[i] = is_inside ? x[from] : value_at != nullptr ? *value_at : static_cast<Word>(value);
    }

    // Line by line: the last dimension that is padded, with those after it, whose elements stay together.
    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t last_padded() const {
        std::size_t d = rank;
        while (d > 1 && before[d - 1] == 0 && dropped[d - 1] == 0 &&
               core[d - 1] == static_cast<std::int64_t>(length[d - 1]) &&
               stride[d - 2] == stride[d - 1] * length[d - 1])
            --d;
        return d - 1;
    }
    std::size_t host_unit() const { return rank == 0 ? 1 : length[last_padded()] * stride[last_padded()]; }
    void on_host(std::size_t first, std::size_t last) const {
        if (rank == 0) return (*this)(0);
        const std::size_t d = last_padded(), run = stride[d], line = length[d] * run;
        const Word other = value_at != nullptr ? *value_at : static_cast<Word>(value);
        for (std::size_t at = first; at < last; at += line) {
            std::size_t from = 0, rest = at / line;
            bool is_inside = true;
            for (std::size_t k = d; k-- > 0 && is_inside; rest /= length[k]) {
                const std::int64_t found = source_of(static_cast<std::int64_t>(rest % length[k]) - before[k], core[k]);
                is_inside = found >= 0;
                if (is_inside) from += static_cast<std::size_t>(found + dropped[k]) * stride[k];
            }
            if (is_inside) {
                pad_line(x + from, y + at, d, other);
            } else {
                std::fill_n(y + at, line, other);
            }
        }
    }
    void pad_line(const Word* from, Word* to, std::size_t d, Word other) const {
        const std::size_t run = stride[d], kept = static_cast<std::size_t>(core[d]);
        const auto pad = [&](std::size_t first, std::size_t last) {
            for (std::size_t k = first; k < last; ++k) {
                const std::int64_t found = source_of(static_cast<std::int64_t>(k) - before[d], core[d]);
                if (found < 0) {
                    std::fill_n(to + k * run, run, other);
                } else {
                    copy_run(from + static_cast<std::size_t>(found + dropped[d]) * run, run, to + k * run);
                }
            }
        };
        const auto begin = static_cast<std::size_t>(before[d]);
        pad(0, begin);
        copy_run(from + static_cast<std::size_t>(dropped[d]) * run, kept * run, to + begin * run);
        pad(begin + kept, length[d]);
    }
};

pad_mode pad_mode_of(const node_call& in) {
    const std::string mode = in.text("mode", "constant");
    if (mode == "constant") return pad_mode::constant;
    if (mode == "reflect") return pad_mode::reflect;
    if (mode == "edge") return pad_mode::edge;
    if (mode == "wrap" && in.opset() >= 19) return pad_mode::wrap;
    in.refuse("has the mode '" + mode + "', which its operator does not have");
}

std::vector<padding_of_axis> paddings_of(const node_call& in, pad_mode mode) {
    const any_tensor& x = in.input(0);
    const std::size_t rank = x.shape().size();
    const integers pads = in.opset() < 11 ? in.integer_list("pads") : in.host_integers(1);
    integers axes = in.host_integers(3);
    if (!in.has_input(3))
        for (std::size_t d = 0; d < rank; ++d) axes.push_back(static_cast<std::int64_t>(d));
    const auto named_by = in.from_input(3);
    in.axes(axes, rank, named_by);  // refuses those that are named twice
    if (pads.size() != 2 * axes.size())
        in.refuse("has " + std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) + " dimensions");
    const lengths strides = strides_of(x.shape());
    std::vector<padding_of_axis> made(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        made[d].length = x.shape()[d];
        made[d].stride = strides[d];
        made[d].core = static_cast<std::int64_t>(x.shape()[d]);
    }
    constexpr std::int64_t most = std::int64_t{1} << 60;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        padding_of_axis& axis = made[in.axis(axes[i], rank, false, named_by)];
        const std::int64_t before = pads[i], after = pads[axes.size() + i];
        const auto refuse = [&] {
            in.refuse_number(in.opset() < 11 ? std::nullopt : in.from_input(1),
                             "pads the length " + std::to_string(axis.core) + " by " + std::to_string(before) +
                                 " and " + std::to_string(after));
        };
        if (before < -most || before > most || after < -most || after > most || axis.core > most) refuse();
        // Negative ones drop elements first.
        axis.dropped = before < 0 ? -before : 0;
        const std::int64_t core = axis.core - axis.dropped - (after < 0 ? -after : 0);
        const bool is_padded = before > 0 || after > 0;
        if (core < 0 || (core == 0 && is_padded && mode != pad_mode::constant)) refuse();
        axis.core = core;
        axis.before = before < 0 ? 0 : before;
        axis.length = static_cast<std::size_t>(core + axis.before + (after < 0 ? 0 : after));
    }
    return made;
}

void pad_elements(node_call& in) {
    const any_tensor& x = in.input(0);
    const pad_mode mode = pad_mode_of(in);
    const auto paddings = paddings_of(in, mode);
    const bool has_value = in.has_input(2);
    if (has_value && (in.input(2).elements() != 1 || in.input(2).type() != x.type()))
        in.refuse("pads " + to_string(x) + " with " + to_string(in.input(2)));
    if (paddings.size() > padded_elements<float>::max_rank)
        in.refuse_unsupported("pads more than " + std::to_string(padded_elements<float>::max_rank) + " dimensions");
    lengths shape;
    for (const padding_of_axis& axis : paddings) shape.push_back(axis.length);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    const any_tensor& value = has_value ? in.input(2) : x;
    with_word(x.type(), [&]<typename Word>() {
        padded_elements<Word> kernel{};
        kernel.x = in.read<Word>(x);
        kernel.value_at = has_value ? in.read<Word>(value) : nullptr;
        kernel.y = in.write<Word>(y);
        kernel.value = bits_of_number(x.type(), in.real("value", 0));
        kernel.mode = mode;
        kernel.rank = paddings.size();
        for (std::size_t d = 0; d < paddings.size(); ++d) {
            kernel.length[d] = paddings[d].length;
            kernel.stride[d] = paddings[d].stride;
            kernel.core[d] = paddings[d].core;
            kernel.dropped[d] = paddings[d].dropped;
            kernel.before[d] = paddings[d].before;
        }
        each(in, y.elements(), kernel, {&x, &value}, {&y});
    });
}

// --- Trilu -------------------------------------------------------------------------------------------------------

template <typename Word>
struct one_side_of_diagonal {
    const Word* x;
    Word* y;
    std::size_t height, width;
    std::int64_t diagonal;
    std::uint64_t is_upper;
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i / width, column = i - row * width;
        const std::int64_t from_diagonal = static_cast<std::int64_t>(column) - static_cast<std::int64_t>(row % height);
        y[i] = (is_upper != 0 ? from_diagonal >= diagonal : from_diagonal <= diagonal) ? x[i] : Word{0};
    }

    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t host_unit() const { return width; }
    void on_host(std::size_t first, std::size_t last) const {
        const auto all = static_cast<std::int64_t>(width);
        for (std::size_t at = first; at < last; at += width) {
            const auto row = static_cast<std::int64_t>(at / width % height);
            // Where the diagonal is in this row: the first that the upper side has, or the one after the lower side.
            const std::int64_t edge = std::clamp<std::int64_t>(
                is_upper != 0 || diagonal == std::numeric_limits<std::int64_t>::max() ? diagonal : diagonal + 1, -row,
                all - row);
            const auto place = static_cast<std::size_t>(edge + row);
            const bool keeps_first = is_upper == 0;
            if (keeps_first) copy_run(x + at, place, y + at);
            std::fill(y + at + (keeps_first ? place : 0), y + at + (keeps_first ? width : place), Word{0});
            if (!keeps_first) copy_run(x + at + place, width - place, y + at + place);
        }
    }
};

void trilu(node_call& in) {
    const any_tensor& x = in.input(0);
    const std::size_t rank = x.shape().size();
    if (rank < 2) in.refuse_shapes("has to have matrices as input, not " + to_string(x));
    std::int64_t diagonal = 0;
    if (in.has_input(1)) {
        const integers given = in.host_integers(1);
        if (given.size() != 1) in.refuse("has to have one diagonal");
        diagonal = given[0];
    }
    const any_tensor& y = in.make_output(0, x.type(), x.shape());
    const bool is_upper = in.integer("upper", 1) != 0;
    with_word(x.type(), [&]<typename Word>() {
        each(in, y.elements(),
             one_side_of_diagonal<Word>{in.read<Word>(x), in.write<Word>(y), x.shape()[rank - 2], x.shape()[rank - 1],
                                        diagonal, is_upper ? 1u : 0u},
             {&x}, {&y});
    });
}

// --- ReverseSequence ---------------------------------------------------------------------------------------------

template <typename Word>
struct reversed_sequences {
    const Word* x;
    Word* y;
    const std::int64_t* until;         // of each batch: the number of elements that are reversed
    std::size_t first, second, inner;  // the lengths of the axes and of what follows
    std::uint64_t time_is_first;
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t outer = i / inner, rest = i - outer * inner, row = outer / second,
                          column = outer - row * second;
        const std::size_t time = time_is_first != 0 ? row : column, batch = time_is_first != 0 ? column : row;
        const std::int64_t length = until[batch], place = static_cast<std::int64_t>(time);
        const std::int64_t most = static_cast<std::int64_t>(time_is_first != 0 ? first : second);
        const bool is_reversed = place < length && length <= most;
        const std::size_t from = is_reversed ? static_cast<std::size_t>(length - 1 - place) : time;
        y[i] = x[((time_is_first != 0 ? from * second + column : row * second + from)) * inner + rest];
    }
};

void reverse_sequence(node_call& in) {
    const any_tensor &x = in.input(0), &until = in.input(1);
    const lengths& shape = x.shape();
    const std::int64_t time_axis = in.integer("time_axis", 0), batch_axis = in.integer("batch_axis", 1);
    if (shape.size() < 2 || time_axis + batch_axis != 1 || time_axis * batch_axis != 0)
        in.refuse("has the axes " + std::to_string(time_axis) + " and " + std::to_string(batch_axis) + " for " +
                  to_string(x));
    if (until.type() != io::dtype::i64 || until.shape() != lengths{shape[batch_axis == 0 ? 0 : 1]})
        in.refuse_shapes("has the lengths " + to_string(until) + " for " + to_string(x));
    const any_tensor& y = in.make_output(0, x.type(), shape);
    require_numbers(in, 1, number_rule({0, static_cast<std::int64_t>(shape[time_axis == 0 ? 0 : 1])}, "length"), y);
    with_word(x.type(), [&]<typename Word>() {
        each(in, y.elements(),
             reversed_sequences<Word>{in.read<Word>(x), in.write<Word>(y), in.read<std::int64_t>(until), shape[0],
                                      shape[1], product_of(std::span(shape).subspan(2)), time_axis == 0 ? 1u : 0u},
             {&x, &until}, {&y});
    });
}

}  // namespace

const std::vector<definition>& filling() {
    static const std::vector<definition> list = {
        {.name = "ConstantOfShape",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"value"},
         .run = &constant_of_shape,
         .host_inputs = input_bit(0)},
        {.name = "EyeLike",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"dtype", "k"},
         .run = &eye_like,
         .shape_inputs = input_bit(0)},
        {.name = "Pad",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"mode", "pads", "value"},
         .run = &pad_elements,
         .since = 2,
         .until = 10},
        {.name = "Pad",
         .least_inputs = 2,
         .most_inputs = 4,
         .most_outputs = 1,
         .attributes = {"mode"},
         .run = &pad_elements,
         .host_inputs = input_bit(1) | input_bit(3),
         .since = 11},
        {.name = "Trilu",
         .least_inputs = 1,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"upper"},
         .run = &trilu,
         .host_inputs = input_bit(1)},
        {"ReverseSequence", 2, 2, 1, {"time_axis", "batch_axis"}, &reverse_sequence},
    };
    return list;
}

}  // namespace sluice::nn::operators
