// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/strided_value.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using operators::integers;
using operators::lengths;

// The axis of an attribute, if it is one.
std::optional<std::size_t> axis_of(std::int64_t given, std::size_t rank) {
    const auto all = static_cast<std::int64_t>(rank);
    if (given < 0) given += all;
    return given >= 0 && given < all ? std::optional(static_cast<std::size_t>(given)) : std::nullopt;
}

// Neighbours that count on become one.
void join_digits(strided_value::digits& in) {
    strided_value::digits made;
    for (const strided_value::digit& each : in) {
        if (!made.empty() && made.back().stride == each.stride * static_cast<std::int64_t>(each.length)) {
            made.back() = {made.back().length * each.length, each.stride};
        } else {
            made.push_back(each);
        }
    }
    in = std::move(made);
}

}  // namespace

strided_value strided_value::of(const any_tensor& x) {
    const lengths strides = operators::strides_of(x.shape());
    strided_value made{x, x.shape(), {}, 0};
    for (std::size_t d = 0; d < strides.size(); ++d) {
        made.dimensions.emplace_back();
        if (x.shape()[d] != 1) made.dimensions.back().push_back({x.shape()[d], static_cast<std::int64_t>(strides[d])});
    }
    return made;
}

std::optional<strided_value> strided_value::reshaped(const lengths& to) const {
    digits rest;  // the first one last
    for (const digits& each : dimensions) rest.insert(rest.end(), each.begin(), each.end());
    join_digits(rest);
    std::ranges::reverse(rest);
    strided_value made{memory, to, {}, begin};
    for (std::size_t length : to) {
        digits own;
        while (length != 1) {
            if (rest.empty()) return {};
            digit& next = rest.back();
            if (length == 0 || next.length == 0) return {};  // without elements the steps do it
            if (length % next.length == 0) {
                own.push_back(next);
                length /= next.length;
                rest.pop_back();
            } else if (next.length % length == 0) {
                const std::size_t inner = next.length / length;
                own.push_back({length, next.stride * static_cast<std::int64_t>(inner)});
                next.length = inner;
                length = 1;
            } else {
                return {};
            }
        }
        join_digits(own);
        made.dimensions.push_back(std::move(own));
    }
    return rest.empty() ? std::optional(std::move(made)) : std::nullopt;
}

std::optional<strided_value> strided_value::in_order(const std::vector<std::size_t>& order) const {
    if (order.size() != shape.size()) return {};
    strided_value made{memory, {}, {}, begin};
    for (const std::size_t each : order) {
        if (each >= shape.size()) return {};
        made.shape.push_back(shape[each]);
        made.dimensions.push_back(dimensions[each]);
    }
    return made;
}

std::vector<std::size_t> order_of_transpose(const step& what, std::size_t rank) {
    std::vector<std::size_t> made;
    if (const auto* const given = what.from->find<integers>("perm")) {
        for (const std::int64_t each : *given) made.push_back(static_cast<std::size_t>(each));
    } else {
        for (std::size_t d = rank; d-- > 0;) made.push_back(d);
    }
    return made;
}

bool is_view(const step& what) {
    static constexpr std::array<std::string_view, 9> known{"Reshape",   "Flatten", "Squeeze", "Unsqueeze", "Identity",
                                                           "Transpose", "Split",   "Gather",  "Slice"};
    return std::ranges::any_of(known, [&](std::string_view op) { return is(what, op); });
}

std::optional<strided_value> seen_by(const step& what, const strided_value& x, const lengths& shape,
                                     const view_numbers& numbers) {
    if (is(what, "Transpose")) return x.in_order(order_of_transpose(what, x.shape.size()));
    const bool is_split = is(what, "Split"), is_slice = is(what, "Slice");
    if (!is_split && !is_slice && !is(what, "Gather")) return x.reshaped(shape);
    if (!is_split && !numbers.first) return {};
    const auto axis = axis_of(is_split ? integer(what, "axis", 0) : numbers.first->axis, x.shape.size());
    if (!axis || x.dimensions[*axis].size() > 1) return {};
    strided_value made = x;
    strided_value::digits& own = made.dimensions[*axis];
    const std::int64_t stride = own.empty() ? 0 : own.front().stride;
    own.clear();
    if (is_split || is_slice) {
        const auto all = static_cast<std::int64_t>(x.shape[*axis]);
        auto before = static_cast<std::int64_t>(numbers.before);
        if (is_slice) {
            const std::int64_t given = numbers.first->place;
            before = std::clamp<std::int64_t>(given < 0 ? given + all : given, 0, all);
        }
        if (shape.size() != x.shape.size() || before + static_cast<std::int64_t>(shape[*axis]) > all) return {};
        made.begin += before * stride;
        made.shape = shape;
        if (shape[*axis] != 1) own.push_back({shape[*axis], stride});
        return made;
    }
    const auto place = axis_of(numbers.first->place, x.shape[*axis]);
    if (!place) return {};
    made.begin += static_cast<std::int64_t>(*place) * stride;
    made.shape[*axis] = 1;
    return made.reshaped(shape);
}

std::optional<strided_value> seen_before(const step& what, const strided_value& y, const lengths& shape) {
    if (!is(what, "Transpose")) return y.reshaped(shape);
    const std::vector<std::size_t> order = order_of_transpose(what, y.shape.size());
    std::vector<std::size_t> back(order.size());
    for (std::size_t d = 0; d < order.size(); ++d) back[order[d]] = d;
    return y.in_order(back);
}

}  // namespace sluice::nn::detail
