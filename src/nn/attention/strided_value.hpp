// SPDX-License-Identifier: Apache-2.0
// strided_value: elements of a tensor in memory, seen in another order. Nodes that only move elements change how they
// are seen, and copy nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nn/operators/node_call.hpp"
#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

struct strided_value {
    // A dimension is several where two of them that do not lie one after the other have become one: then its numbers
    // are counted like digits, the last one fastest. It is none where its length is 1.
    struct digit {
        std::size_t length;
        std::int64_t stride;  // in elements
    };
    using digits = std::vector<digit>;

    any_tensor memory;
    operators::lengths shape;
    std::vector<digits> dimensions;  // as many as the shape has
    std::int64_t begin = 0;

    // The tensor as it is.
    static strided_value of(const any_tensor& x);
    // In another shape of as many elements. Nothing where digits say it no more.
    std::optional<strided_value> reshaped(const operators::lengths& to) const;
    // With the dimensions in this order; nothing if it is none.
    std::optional<strided_value> in_order(const std::vector<std::size_t>& order) const;
};

// The order in which a Transpose of that many dimensions has them.
std::vector<std::size_t> order_of_transpose(const step& what, std::size_t rank);

// Whether the step only moves elements in one of the ways that seen_by knows: Reshape, Flatten, Squeeze, Unsqueeze,
// Identity, Transpose, Split, Gather of one place along an axis, and Slice of neighbours along one.
bool is_view(const step& what);

// Where a Gather has its place, or a Slice its first one. Both are counted from the end if negative.
struct view_place {
    std::int64_t axis = 0, place = 0;
};
struct view_numbers {
    std::optional<view_place> first = {};
    std::size_t before = 0;  // of an output of Split: how long the ones before it are together
};

// x, the step's first input, as an output of this shape shows it. Nothing where digits cannot say it, or where the
// place is not there.
std::optional<strided_value> seen_by(const step& what, const strided_value& x, const operators::lengths& shape,
                                     const view_numbers& numbers);
// The input of this shape as memory has it where the step's output, of Transpose or of what only gives another shape,
// is y. Nothing where digits cannot say it.
std::optional<strided_value> seen_before(const step& what, const strided_value& y, const operators::lengths& shape);

}  // namespace sluice::nn::detail
