// SPDX-License-Identifier: Apache-2.0
// Operators that read elements at places that another tensor gives.
#include <string>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/movement.hpp"

namespace sluice::nn::operators {

index_list index_list_of(const node_call& in, const any_tensor& indices) {
    if (indices.type() != io::dtype::i32 && indices.type() != io::dtype::i64) in.refuse_type(indices);
    return {in.read<void>(indices), indices.type() == io::dtype::i64};
}

void require_places(const node_call& in, const any_tensor& indices, std::size_t length) {
    const index_list list = index_list_of(in, indices);
    if (in.where() != place::host) return;
    for (std::size_t i = 0; i < indices.elements(); ++i) {
        if (list.place_in(i, length) < 0)
            in.refuse("has the index " + std::to_string(list[i]) + " of a length of " + std::to_string(length));
    }
}

namespace {

// --- Gather ------------------------------------------------------------------------------------------------------

template <typename Word>
struct gathered_rows {
    const Word* x;
    index_list indices;
    Word* y;
    std::size_t length, count, inner;  // of the axis, of the indices, of what follows the axis

    template <typename Index>
    SLUICE_KERNEL void write(Index i) const {
        const auto all_inner = static_cast<Index>(inner), all = static_cast<Index>(count);
        const Index row = i / all_inner, outer = row / all;
        const std::int64_t at = indices.place_in(row - outer * all, length);
        y[i] = at < 0 ? Word{0} : x[(outer * length + static_cast<std::size_t>(at)) * inner + (i - row * all_inner)];
    }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        if (i <= 0xffff'ffffu && count <= 0xffff'ffffu && inner <= 0xffff'ffffu)
            return write(static_cast<std::uint32_t>(i));
        write(i);
    }
};

void gather(node_call& in) {
    const any_tensor &x = in.input(0), &indices = in.input(1);
    const lengths& of_x = x.shape();
    const std::size_t axis = in.axis(in.integer("axis", 0), of_x.size());
    lengths shape(of_x.begin(), of_x.begin() + static_cast<std::ptrdiff_t>(axis));
    shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
    shape.insert(shape.end(), of_x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, of_x.end());
    require_places(in, indices, of_x[axis]);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    const std::size_t inner = product_of(std::span(of_x).subspan(axis + 1));
    with_word(x.type(), [&]<typename Word>() {
        each(in, y.elements(),
             gathered_rows<Word>{in.read<Word>(x), index_list_of(in, indices), in.write<Word>(y), of_x[axis],
                                 indices.elements(), inner},
             {&x, &indices}, {&y});
    });
}

}  // namespace

const std::vector<definition>& indexing() {
    static const std::vector<definition> list = {
        {"Gather", 2, 2, 1, {"axis"}, &gather},
    };
    return list;
}

}  // namespace sluice::nn::operators
