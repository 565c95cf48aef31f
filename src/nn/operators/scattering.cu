// SPDX-License-Identifier: Apache-2.0
// Operators that give a copy of a tensor with other elements at places that another tensor gives.
//
// With a reduction one index carries out a line (scattering.hpp), in order. Without one, ONNX says that no place is
// named twice, and on a GPU each step is an index of its own.
#include <algorithm>
#include <string>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/movement.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/scattering.hpp"

namespace sluice::nn::operators {
namespace {

template <typename Word>
struct scattered_steps {
    const Word* updates;
    Word* y;
    scatter_lines at;
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t step = i / at.lines, line = i - step * at.lines;
        const std::int64_t target = at.target_of(line, step);
        if (target >= 0) y[target] = updates[at.update_of(line, step)];
    }
};

template <typename T>
struct scattered_lines {
    const T* updates;
    T* y;
    scatter_reduction how;
    scatter_lines at;

    SLUICE_KERNEL void operator()(std::size_t line) const {
        for (std::size_t step = 0; step < at.steps; ++step) {
            const std::int64_t target = at.target_of(line, step);
            if (target >= 0) y[target] = scattered(how, y[target], updates[at.update_of(line, step)]);
        }
    }
};

scatter_reduction scatter_reduction_of(const node_call& in) {
    const std::string name = in.text("reduction", "none");
    if (name == "none") return scatter_reduction::replace;
    if (name == "add") return scatter_reduction::add;
    if (name == "mul") return scatter_reduction::multiply;
    if (name == "min" && in.opset() >= 18) return scatter_reduction::least;
    if (name == "max" && in.opset() >= 18) return scatter_reduction::most;
    in.refuse("has the reduction '" + name + "', which its operator does not have");
}

// Into y, which is made. The indices are those of `at`.
void scatter_into_copy(node_call& in, const any_tensor& indices, const scatter_lines& at, const any_tensor& y) {
    const any_tensor &x = in.input(0), &updates = in.input(2);
    if (updates.type() != x.type()) in.refuse("writes " + to_string(updates) + " to " + to_string(x));
    const scatter_reduction how = scatter_reduction_of(in);
    in.copy(x, y);
    if (how != scatter_reduction::replace && x.type() == io::dtype::boolean) in.refuse_type(x);
    if (scatter_on_cpu(in, indices, updates, at, how, y)) return;
    if (how == scatter_reduction::replace) {
        with_word(x.type(), [&]<typename Word>() {
            each(in, at.lines * at.steps, scattered_steps<Word>{in.read<Word>(updates), in.write<Word>(y), at},
                 {&indices, &updates}, {&y});
        });
        return;
    }
    with_type(x.type(), [&]<typename T>() {
        each(in, at.lines, scattered_lines<T>{in.read<T>(updates), in.write<T>(y), how, at}, {&indices, &updates},
             {&y});
    });
}

void scatter_elements(node_call& in) {
    const any_tensor &x = in.input(0), &indices = in.input(1), &updates = in.input(2);
    const lengths &of_x = x.shape(), &shape = indices.shape();
    const std::size_t axis = in.axis(in.integer("axis", 0), of_x.size());
    bool fits = shape.size() == of_x.size() && updates.shape() == shape;
    for (std::size_t d = 0; fits && d < shape.size(); ++d) fits = d == axis || shape[d] <= of_x[d];
    if (!fits) {
        in.refuse_shapes("writes " + to_string(updates) + " to " + to_string(x) + " at places of " +
                         to_string(indices) + ", which do not fit");
    }
    const integers to = signed_strides_of(of_x), from = signed_strides_of(shape);
    scatter_lines at;
    at.indices = index_list_of(in, indices);
    at.steps = shape[axis];
    at.update_step = at.index_step = static_cast<std::size_t>(from[axis]);
    at.length = of_x[axis];
    at.stride = static_cast<std::size_t>(to[axis]);
    lengths of_lines = shape;
    of_lines[axis] = 1;
    at.lines = product_of(of_lines);
    at.target = view_of(in, of_lines, to);
    at.update = at.index = view_of(in, of_lines, from);
    at.run = axis + 1 == shape.size() ? 1 : shape.back();
    const any_tensor& y = in.make_output(0, x.type(), of_x);
    require_places(in, at.length, y);
    scatter_into_copy(in, indices, at, y);
}

void scatter_tuples(node_call& in) {
    const any_tensor &x = in.input(0), &indices = in.input(1), &updates = in.input(2);
    const lengths &of_x = x.shape(), &of_indices = indices.shape();
    const auto refuse = [&] {
        in.refuse_shapes("writes " + to_string(updates) + " to " + to_string(x) + " at places of " +
                         to_string(indices) + ", which do not fit");
    };
    if (of_indices.empty() || of_indices.back() > of_x.size()) refuse();
    const auto rest = std::span(of_x).subspan(of_indices.back());
    lengths expected(of_indices.begin(), of_indices.end() - 1);
    expected.insert(expected.end(), rest.begin(), rest.end());
    if (updates.shape() != expected) refuse();
    const any_tensor& y = in.make_output(0, x.type(), of_x);
    const any_tensor places = places_of_tuples(in, of_x, 0, y);
    scatter_lines at;
    at.indices = index_list_of(in, places);
    at.lines = at.stride = at.update_step = product_of(rest);
    at.steps = places.elements();
    at.is_of_runs = 1;
    at.index_step = 1;
    at.length = product_of(std::span(of_x).first(of_indices.back()));
    at.target = at.update = view_of(in, {at.lines}, {1});
    at.index = view_of(in, {at.lines}, {0});
    scatter_into_copy(in, places, at, y);
}

// --- TensorScatter -----------------------------------------------------------------------------------------------

template <typename Word>
struct scattered_sequences {
    const Word* updates;
    const std::int64_t* begins;  // of each batch; null: all are 0
    Word* y;
    std::size_t rows_of_batch, steps, length, inner;
    std::uint64_t is_circular;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t line = i / inner, row = line / steps, step = line - row * steps;
        const auto most = static_cast<std::int64_t>(length);
        std::int64_t begin = begins != nullptr ? begins[row / rows_of_batch] : 0;
        if (is_circular != 0) begin = (begin % most + most) % most;
        if (begin < 0 || begin >= most) return;
        std::int64_t place = begin + static_cast<std::int64_t>(step);
        if (place >= most && is_circular == 0) return;
        if (place >= most) place -= most;
        y[(row * length + static_cast<std::size_t>(place)) * inner + (i - line * inner)] = updates[i];
    }
};

void tensor_scatter(node_call& in) {
    const any_tensor &x = in.input(0), &updates = in.input(1);
    const lengths &of_x = x.shape(), &shape = updates.shape();
    const std::size_t axis = in.axis(in.integer("axis", -2), of_x.size());
    const std::string mode = in.text("mode", "linear");
    if (mode != "linear" && mode != "circular")
        in.refuse("has the mode '" + mode + "'; 'linear' and 'circular' are possible");
    bool fits = axis > 0 && shape.size() == of_x.size() && updates.type() == x.type();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) fits = d == axis ? shape[d] <= of_x[d] : shape[d] == of_x[d];
    const bool has_begins = in.has_input(2);
    if (fits && has_begins) fits = in.input(2).type() == io::dtype::i64 && in.input(2).shape() == lengths{of_x[0]};
    if (!fits) in.refuse_shapes("writes " + to_string(updates) + " to " + to_string(x) + ", which does not fit");
    const any_tensor& begins = has_begins ? in.input(2) : x;
    const any_tensor& y = in.make_output(0, x.type(), of_x);
    if (has_begins && mode == "linear")
        require_numbers(in, 2, {0, static_cast<std::int64_t>(of_x[axis] - shape[axis])}, y);
    in.copy(x, y);
    const std::size_t inner = product_of(std::span(of_x).subspan(axis + 1));
    with_word(x.type(), [&]<typename Word>() {
        each(in, updates.elements(),
             scattered_sequences<Word>{in.read<Word>(updates), has_begins ? in.read<std::int64_t>(begins) : nullptr,
                                       in.write<Word>(y), product_of(std::span(of_x).subspan(1, axis - 1)), shape[axis],
                                       of_x[axis], inner, mode == "circular" ? 1u : 0u},
             {&updates, &begins}, {&y});
    });
}

}  // namespace

const std::vector<definition>& scattering() {
    static const std::vector<definition> list = {
        {"Scatter", 3, 3, 1, {"axis"}, &scatter_elements},
        {"ScatterElements", 3, 3, 1, {"axis", "reduction"}, &scatter_elements},
        {"ScatterND", 3, 3, 1, {"reduction"}, &scatter_tuples},
        {"TensorScatter", 2, 3, 1, {"axis", "mode"}, &tensor_scatter},
    };
    return list;
}

}  // namespace sluice::nn::operators
