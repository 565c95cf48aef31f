// SPDX-License-Identifier: Apache-2.0
// Operators that move elements to other places, which depend on shapes and attributes only.
#include "nn/operators/movement.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/moves_on_cpu.hpp"
#include "nn/operators/reduce.hpp"
#include "sluice/kernels/detail/elements.hpp"

namespace sluice::nn::operators {

// --- views -------------------------------------------------------------------------------------------------------

integers signed_strides_of(const lengths& shape) {
    const lengths strides = strides_of(shape);
    return integers(strides.begin(), strides.end());
}

strided_view view_of(const node_call& in, const lengths& shape, const integers& strides, std::int64_t begin) {
    strided_view made;
    made.begin = begin;
    made.count = product_of(shape);
    if (made.count == 0) return made;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) continue;
        if (made.rank > 0) {
            const std::size_t last = made.rank - 1;
            if (made.stride[last] == strides[d] * static_cast<std::int64_t>(shape[d])) {
                made.length[last] *= shape[d];
                made.stride[last] = strides[d];
                continue;
            }
        }
        if (made.rank == strided_view::max_rank)
            in.refuse_unsupported("moves elements in more than " + std::to_string(strided_view::max_rank) +
                                  " dimensions");
        made.length[made.rank] = shape[d];
        made.stride[made.rank] = strides[d];
        ++made.rank;
    }
    return made;
}

namespace {

template <typename Word>
struct moved_by_view {
    const Word* x;
    Word* y;
    strided_view view;
    SLUICE_KERNEL void operator()(std::size_t i) const { y[i] = x[view(i)]; }

    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t host_unit() const { return unit_of_moves(view, sizeof(Word)); }
    void on_host(std::size_t first, std::size_t last) const { move_elements(x, y, view, first, last); }
};

// `Times` neighbours at once: one access of a GPU where memory is aligned for it, as it mostly is.
template <typename Word, std::size_t Times>
struct moved_in_runs {
    using run = kernels::piece<Word, Times>;

    const Word* x;
    Word* y;
    strided_view view;  // of runs
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const Word* const from = x + view(i) * static_cast<std::int64_t>(Times);
        Word* const to = y + i * Times;
        const auto places = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
        if (places % sizeof(run) == 0) {
            *reinterpret_cast<run*>(to) = *reinterpret_cast<const run*>(from);
        } else {
            for (std::size_t k = 0; k < Times; ++k) to[k] = from[k];
        }
    }
};

// The view as a view of runs of this many neighbours; nothing where it does not consist of whole ones.
std::optional<strided_view> in_runs(strided_view view, std::size_t times) {
    if (view.rank == 0) return {};
    const std::size_t last = view.rank - 1;
    const auto signed_times = static_cast<std::int64_t>(times);
    if (view.stride[last] != 1 || view.length[last] % times != 0 || view.begin % signed_times != 0) return {};
    for (std::size_t d = 0; d < last; ++d) {
        if (view.stride[d] % signed_times != 0) return {};
        view.stride[d] /= signed_times;
    }
    view.length[last] /= times;
    view.begin /= signed_times;
    view.count /= times;
    return view;
}

// Calls each() with as many neighbours at once as there are, and says whether there are any.
template <typename Word, std::size_t Bytes>
bool move_in_runs(const node_call& in, const any_tensor& x, const any_tensor& y, const strided_view& view) {
    constexpr std::size_t times = Bytes / sizeof(Word);
    if constexpr (times > 1) {
        if (const auto runs = in_runs(view, times)) {
            each(in, runs->count, moved_in_runs<Word, times>{in.read<Word>(x), in.write<Word>(y), *runs}, {&x}, {&y});
            return true;
        }
        return move_in_runs<Word, Bytes / 2>(in, x, y, view);
    } else {
        return false;
    }
}

}  // namespace

void give_view(node_call& in, std::size_t output, const any_tensor& x, const lengths& shape, const integers& strides,
               std::int64_t begin, const lengths& as) {
    if (!io::byte_count(shape, x.type()))
        in.refuse_shapes("gives a tensor of shape " + to_string(std::span(shape)) + ", which has no memory");
    const strided_view view = view_of(in, shape, strides, begin);
    const bool is_in_order = view.rank == 0 || (view.rank == 1 && view.stride[0] == 1);
    if (view.count == x.elements() && view.begin == 0 && is_in_order) return in.set_output(output, x.with_shape(as));
    const any_tensor& y = in.make_output(output, x.type(), as);
    constexpr std::size_t widest_access = 16;
    with_word(x.type(), [&]<typename Word>() {
        if (is_on_gpu(in) && move_in_runs<Word, widest_access>(in, x, y, view)) return;
        each(in, view.count, moved_by_view<Word>{in.read<Word>(x), in.write<Word>(y), view}, {&x}, {&y});
    });
}

lengths lengths_of_input(const node_call& in, std::size_t input) {
    if (in.input(input).shape().size() != 1)
        in.refuse("has lengths that are " + to_string(in.input(input)) + "; they have to be a list");
    lengths made;
    for (const std::int64_t each : in.host_integers(input)) {
        if (each < 0) in.refuse_value(input, "has the length " + std::to_string(each));
        made.push_back(static_cast<std::size_t>(each));
    }
    return made;
}

namespace {

// --- Transpose, Expand, Tile -------------------------------------------------------------------------------------

void transpose(node_call& in) {
    const any_tensor& x = in.input(0);
    const std::size_t rank = x.shape().size();
    const integers own = signed_strides_of(x.shape());
    std::vector<std::size_t> order(rank);
    if (in.has("perm")) {
        const integers given = in.integer_list("perm");
        if (given.size() != rank || in.axes(given, rank).size() != rank)
            in.refuse("has an order of " + std::to_string(given.size()) + " dimensions for " + to_string(x));
        for (std::size_t d = 0; d < rank; ++d) order[d] = in.axis(given[d], rank);
    } else {
        for (std::size_t d = 0; d < rank; ++d) order[d] = rank - 1 - d;
    }
    lengths shape(rank);
    integers strides(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        shape[d] = x.shape()[order[d]];
        strides[d] = own[order[d]];
    }
    give_view(in, 0, x, shape, strides);
}

void expand(node_call& in) {
    const any_tensor& x = in.input(0);
    const lengths shape = broadcast(in, x.shape(), lengths_of_input(in, 1));
    const integers own = signed_strides_of(x.shape());
    integers strides(shape.size(), 0);
    const std::size_t more = shape.size() - own.size();
    for (std::size_t d = 0; d < own.size(); ++d) strides[more + d] = x.shape()[d] == 1 ? 0 : own[d];
    give_view(in, 0, x, shape, strides);
}

void tile(node_call& in) {
    const any_tensor& x = in.input(0);
    const lengths repeats = lengths_of_input(in, 1);
    const lengths& of_x = x.shape();
    if (repeats.size() != of_x.size())
        in.refuse_shapes("has " + std::to_string(repeats.size()) + " repeats for " + to_string(x));
    // Each dimension as two: the repeats, and the elements.
    lengths shape(of_x.size()), apart;
    integers strides;
    const integers own = signed_strides_of(of_x);
    for (std::size_t d = 0; d < of_x.size(); ++d) {
        if (of_x[d] != 0 && repeats[d] > std::numeric_limits<std::size_t>::max() / of_x[d])
            in.refuse_shapes("repeats " + to_string(x) + " too often");
        shape[d] = of_x[d] * repeats[d];
        apart.insert(apart.end(), {repeats[d], of_x[d]});
        strides.insert(strides.end(), {0, own[d]});
    }
    if (!io::byte_count(shape, x.type())) in.refuse_shapes("repeats " + to_string(x) + " too often");
    if (product_of(shape) == 0) {
        in.make_output(0, x.type(), shape);
        return;
    }
    give_view(in, 0, x, apart, strides, 0, shape);
}

// --- Slice, Split ------------------------------------------------------------------------------------------------

struct slice_of_axis {
    std::size_t begin = 0, length = 0;
    std::int64_t step = 1;
};

slice_of_axis slice_between(const node_call& in, std::int64_t start, std::int64_t end, std::int64_t step,
                            std::size_t length) {
    const auto count = static_cast<std::int64_t>(length);
    if (step == 0) in.refuse_value(4, "has steps of 0");
    if (start < 0) start += count;
    if (end < 0) end += count;
    slice_of_axis made;
    if (step > 0) {
        start = std::clamp<std::int64_t>(start, 0, count);
        end = std::clamp<std::int64_t>(end, 0, count);
        if (start < end) made.length = static_cast<std::size_t>((end - start - 1) / step + 1);
    } else if (count > 0) {
        start = std::clamp<std::int64_t>(start, 0, count - 1);
        end = std::clamp<std::int64_t>(end, -1, count - 1);
        // Without the sign: the least of all numbers has no opposite.
        const std::uint64_t size = 0 - static_cast<std::uint64_t>(step);
        if (start > end) made.length = static_cast<std::size_t>(static_cast<std::uint64_t>(start - end - 1) / size + 1);
    }
    made.begin = made.length == 0 ? 0 : static_cast<std::size_t>(start);
    made.step = made.length > 1 ? step : 1;
    return made;
}

void slice_elements(node_call& in) {
    const any_tensor& x = in.input(0);
    const bool has_inputs = in.opset() >= 10;
    const integers starts = has_inputs ? in.host_integers(1) : in.integer_list("starts"),
                   ends = has_inputs ? in.host_integers(2) : in.integer_list("ends");
    integers axes = has_inputs ? in.host_integers(3) : in.integer_list("axes"), steps = in.host_integers(4);
    const bool has_axes = has_inputs ? in.has_input(3) : in.has("axes");
    if (!has_axes)
        for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
    if (!in.has_input(4)) steps.assign(starts.size(), 1);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        in.refuse("has not as many starts as ends, axes and steps");
    const auto from = has_inputs ? in.from_input(3) : std::nullopt;
    in.axes(axes, x.shape().size(), from);  // refuses those that are named twice
    lengths shape = x.shape();
    integers strides = signed_strides_of(shape);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::size_t d = in.axis(axes[i], shape.size(), false, from);
        const slice_of_axis part = slice_between(in, starts[i], ends[i], steps[i], shape[d]);
        begin += static_cast<std::int64_t>(part.begin) * strides[d];
        shape[d] = part.length;
        strides[d] *= part.step;
    }
    give_view(in, 0, x, shape, strides, begin);
}

void split_evenly(const node_call& in, std::size_t parts, bool last_may_be_smaller, std::size_t length, lengths& made) {
    if (parts == 0) in.refuse("splits into no parts");
    const std::size_t each = length / parts + (length % parts != 0 ? 1 : 0);
    if ((length % parts != 0 && !last_may_be_smaller) || each * (parts - 1) > length)
        in.refuse_shapes("splits " + std::to_string(length) + " into " + std::to_string(parts) + " parts");
    made.assign(parts, each);
    made.back() = length - each * (parts - 1);
}

void split_apart(node_call& in) {
    const any_tensor& x = in.input(0);
    const std::size_t axis = in.axis(in.integer("axis", 0), x.shape().size()), length = x.shape()[axis];
    const std::size_t outputs = in.output_count();
    lengths parts;
    if (in.has_input(1)) {
        if (in.has("num_outputs")) in.refuse("has lengths of the parts and a number of parts");
        parts = lengths_of_input(in, 1);
    } else if (in.has("split")) {
        for (const std::int64_t each : in.integer_list("split")) {
            if (each < 0) in.refuse("has a part of " + std::to_string(each));
            parts.push_back(static_cast<std::size_t>(each));
        }
    } else {
        const std::int64_t number = in.integer("num_outputs", static_cast<std::int64_t>(outputs));
        if (number != static_cast<std::int64_t>(outputs))
            in.refuse("splits into " + std::to_string(number) + " parts, and has " + std::to_string(outputs) +
                      " outputs");
        split_evenly(in, outputs, in.opset() >= 18, length, parts);
    }
    std::size_t left = length;
    bool fits = parts.size() == outputs;
    for (const std::size_t each : parts) {
        fits = fits && each <= left;
        left -= fits ? each : 0;
    }
    if (!fits || left != 0) {
        in.refuse_shapes("splits the length " + std::to_string(length) + " into " + to_string(std::span(parts)) +
                         " for " + std::to_string(outputs) + " outputs");
    }
    const integers strides = signed_strides_of(x.shape());
    std::size_t begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        lengths shape = x.shape();
        shape[axis] = parts[i];
        if (in.wants_output(i)) give_view(in, i, x, shape, strides, static_cast<std::int64_t>(begin) * strides[axis]);
        begin += parts[i];
    }
}

// --- Concat ------------------------------------------------------------------------------------------------------

// Rows of y that are put together of rows of some inputs.
template <typename Word>
struct joined_rows {
    static constexpr std::size_t max_inputs = 8;

    const Word* from[max_inputs] = {};
    std::size_t end[max_inputs] = {};  // of each input's part, in a row
    Word* y = nullptr;
    std::size_t width = 0, row_of_y = 0, begin = 0;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i / width, column = i - row * width;
        std::size_t k = 0, first = 0;
        while (column >= end[k]) first = end[k++];
        y[row * row_of_y + begin + column] = from[k][row * (end[k] - first) + column - first];
    }

    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t host_unit() const { return width; }
    void on_host(std::size_t first_index, std::size_t last_index) const {
        for (std::size_t row = first_index / width; row < last_index / width; ++row) {
            Word* const to = y + row * row_of_y + begin;
            for (std::size_t k = 0, first = 0; first < width; first = end[k++])
                copy_run(from[k] + row * (end[k] - first), end[k] - first, to + first);
        }
    }
};

template <typename Word>
void join_rows(node_call& in, const std::vector<const any_tensor*>& parts, const any_tensor& y, std::size_t rows) {
    constexpr std::size_t most = joined_rows<Word>::max_inputs;
    joined_rows<Word> next;
    std::array<const any_tensor*, most> read;
    std::size_t used = 0;
    next.y = in.write<Word>(y);
    next.row_of_y = y.elements() / rows;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        next.from[used] = in.read<Word>(*parts[k]);
        next.width += parts[k]->elements() / rows;
        next.end[used] = next.width;
        read[used++] = parts[k];
        if (used != most && k + 1 != parts.size()) continue;
        std::fill(read.begin() + static_cast<std::ptrdiff_t>(used), read.end(), read[0]);
        // A command has no address of memory that it does not say it uses: else each launch would record it again.
        std::fill(next.from + used, next.from + most, nullptr);
        each(in, rows * next.width, next, {read[0], read[1], read[2], read[3], read[4], read[5], read[6], read[7]},
             {&y});
        next.begin += next.width;
        next.width = used = 0;
    }
}

void concat(node_call& in) {
    const any_tensor& first = in.input(0);
    const std::size_t rank = first.shape().size();
    if (!in.has("axis")) in.refuse("has no axis");
    const std::size_t axis = in.axis(in.integer("axis", 0), rank);
    lengths shape = first.shape();
    shape[axis] = 0;
    std::vector<const any_tensor*> parts;  // those with elements
    for (std::size_t i = 0; i < in.input_count(); ++i) {
        if (!in.has_input(i)) in.refuse("leaves out its input " + std::to_string(i));
        const any_tensor& x = in.input(i);
        bool fits = x.type() == first.type() && x.shape().size() == rank;
        for (std::size_t d = 0; fits && d < rank; ++d) fits = d == axis || x.shape()[d] == shape[d];
        if (!fits) in.refuse_shapes("puts " + to_string(x) + " after " + to_string(first) + ", which does not fit");
        shape[axis] += x.shape()[axis];
        if (x.elements() != 0) parts.push_back(&x);
    }
    if (parts.size() == 1) return in.set_output(0, *parts[0]);
    const any_tensor& y = in.make_output(0, first.type(), shape);
    if (parts.empty()) return;
    const std::size_t rows = product_of(std::span(shape).first(axis));
    with_word(first.type(), [&]<typename Word>() { join_rows<Word>(in, parts, y, rows); });
}

// --- DepthToSpace, SpaceToDepth ----------------------------------------------------------------------------------

std::size_t block_size_of(const node_call& in) {
    const std::int64_t size = in.integer("blocksize", 0);
    if (size <= 0 || size > std::int64_t{1} << 20) in.refuse("has blocks of " + std::to_string(size));
    return static_cast<std::size_t>(size);
}

// Columns first: the depth is [column of the block, row of the block, depth], else [depth, column, row].
bool depth_is_last(const node_call& in, const char* otherwise) {
    const std::string mode = in.text("mode", otherwise);
    if (mode != "DCR" && mode != "CRD") in.refuse("has the mode '" + mode + "'; 'DCR' and 'CRD' are possible");
    return mode == "DCR";
}

void depth_to_space(node_call& in) {
    const any_tensor& x = in.input(0);
    const std::size_t block = block_size_of(in);
    const lengths& of_x = x.shape();
    if (of_x.size() != 4 || of_x[1] % (block * block) != 0)
        in.refuse_shapes("takes blocks of " + std::to_string(block) + " from " + to_string(x));
    const std::size_t depth = of_x[1] / (block * block);
    const integers s = signed_strides_of(of_x);
    const bool is_last = depth_is_last(in, "DCR");
    const auto of_depth = is_last ? s[1] : s[1] * static_cast<std::int64_t>(block * block);
    const auto of_row =
        is_last ? s[1] * static_cast<std::int64_t>(block * depth) : s[1] * static_cast<std::int64_t>(block);
    const auto of_column = is_last ? s[1] * static_cast<std::int64_t>(depth) : s[1];
    give_view(in, 0, x, {of_x[0], depth, of_x[2], block, of_x[3], block},
              {s[0], of_depth, s[2], of_row, s[3], of_column}, 0, {of_x[0], depth, of_x[2] * block, of_x[3] * block});
}

void space_to_depth(node_call& in) {
    const any_tensor& x = in.input(0);
    const std::size_t block = block_size_of(in);
    const lengths& of_x = x.shape();
    if (of_x.size() != 4 || of_x[2] % block != 0 || of_x[3] % block != 0)
        in.refuse_shapes("makes blocks of " + std::to_string(block) + " of " + to_string(x));
    const integers s = signed_strides_of(of_x);
    const std::size_t height = of_x[2] / block, width = of_x[3] / block;
    const auto by_block = static_cast<std::int64_t>(block);
    const lengths made = {of_x[0], of_x[1] * block * block, height, width};
    if (depth_is_last(in, "DCR")) {
        give_view(in, 0, x, {of_x[0], block, block, of_x[1], height, width},
                  {s[0], s[2], s[3], s[1], s[2] * by_block, s[3] * by_block}, 0, made);
    } else {
        give_view(in, 0, x, {of_x[0], of_x[1], block, block, height, width},
                  {s[0], s[1], s[2], s[3], s[2] * by_block, s[3] * by_block}, 0, made);
    }
}

const std::vector<definition>& own_operators() {
    static const std::vector<definition> list = {
        {"Transpose", 1, 1, 1, {"perm"}, &transpose},
        {.name = "Expand",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {},
         .run = &expand,
         .host_inputs = input_bit(1)},
        {.name = "Tile",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {},
         .run = &tile,
         .host_inputs = input_bit(1),
         .since = 6},
        {.name = "Slice",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"starts", "ends", "axes"},
         .run = &slice_elements,
         .until = 9},
        {.name = "Slice",
         .least_inputs = 3,
         .most_inputs = 5,
         .most_outputs = 1,
         .attributes = {},
         .run = &slice_elements,
         .host_inputs = input_bit(1) | input_bit(2) | input_bit(3) | input_bit(4),
         .since = 10},
        {.name = "Split",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = any_number,
         .attributes = {"axis", "split"},
         .run = &split_apart,
         .until = 12},
        {.name = "Split",
         .least_inputs = 1,
         .most_inputs = 2,
         .most_outputs = any_number,
         .attributes = {"axis"},
         .run = &split_apart,
         .host_inputs = input_bit(1),
         .since = 13,
         .until = 17},
        {.name = "Split",
         .least_inputs = 1,
         .most_inputs = 2,
         .most_outputs = any_number,
         .attributes = {"axis", "num_outputs"},
         .run = &split_apart,
         .host_inputs = input_bit(1),
         .since = 18},
        {"Concat", 1, any_number, 1, {"axis"}, &concat},
        {"DepthToSpace", 1, 1, 1, {"blocksize", "mode"}, &depth_to_space},
        {"SpaceToDepth", 1, 1, 1, {"blocksize", "mode"}, &space_to_depth},
    };
    return list;
}

}  // namespace

std::span<const definition> movement() {
    static const std::vector<definition> list = [] {
        std::vector<definition> made;
        for (const auto part : {&own_operators, &filling, &indexing, &scattering, &selection})
            made.insert(made.end(), part().begin(), part().end());
        return made;
    }();
    return list;
}

}  // namespace sluice::nn::operators
