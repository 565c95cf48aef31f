// SPDX-License-Identifier: Apache-2.0
// Operators whose outputs have as many elements as the inputs' numbers say. They run on the host.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "nn/operators/movement.hpp"
#include "sluice/base/detail/is_nan.hpp"

namespace sluice::nn::operators {
namespace {

void require_numbers_of(const node_call& in, const any_tensor& x) {
    if (!x.is_on_host() && x.elements() != 0)
        in.refuse_unsupported("gives as many elements as the numbers of its input say, which are not known beforehand");
}

// Elements as they are compared.
template <typename T>
std::vector<computed<T>> selection_numbers(const any_tensor& x) {
    std::vector<computed<T>> made(x.elements());
    const std::byte* const from = x.bytes().data();
    for (std::size_t i = 0; i < made.size(); ++i) {
        T element;
        std::memcpy(&element, from + i * sizeof(T), sizeof(T));
        made[i] = static_cast<computed<T>>(element);
    }
    return made;
}

// The output is these places of a dimension.
void give_places(node_call& in, const any_tensor& x, const lengths& shape, std::size_t axis,
                 const std::vector<std::size_t>& places) {
    lengths made = shape;
    made[axis] = places.size();
    const any_tensor& y = in.make_output(0, x.type(), made);
    if (in.where() != place::host || y.elements() == 0) return;
    const std::size_t bytes = product_of(std::span(shape).subspan(axis + 1)) * io::size_of(x.type());
    const std::size_t rows = product_of(std::span(shape).first(axis));
    const auto* const from = in.read<std::byte>(x);
    auto* to = in.write<std::byte>(y);
    for (std::size_t row = 0; row < rows; ++row) {
        for (const std::size_t each : places) {
            std::memcpy(to, from + (row * shape[axis] + each) * bytes, bytes);
            to += bytes;
        }
    }
}

void give_numbers(node_call& in, std::size_t output, const integers& numbers, lengths shape) {
    const any_tensor& y = in.make_output(output, io::dtype::i64, std::move(shape));
    if (in.where() == place::host && !numbers.empty())
        std::memcpy(in.write<std::byte>(y), numbers.data(), y.size_bytes());
}

void compress(node_call& in) {
    const any_tensor &x = in.input(0), &condition = in.input(1);
    if (condition.type() != io::dtype::boolean) in.refuse_type(condition);
    require_numbers_of(in, condition);
    const bool has_axis = in.has("axis");
    const lengths shape = has_axis ? x.shape() : lengths{x.elements()};
    const std::size_t axis = has_axis ? in.axis(in.integer("axis", 0), shape.size()) : 0;
    if (condition.shape().size() != 1 || condition.elements() > shape[axis])
        in.refuse_shapes("has conditions " + to_string(condition) + " for " + to_string(x));
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < condition.elements(); ++i)
        if (condition.bytes()[i] != std::byte{0}) places.push_back(i);
    give_places(in, x, shape, axis, places);
}

void non_zero(node_call& in) {
    const any_tensor& x = in.input(0);
    require_numbers_of(in, x);
    const lengths& shape = x.shape();
    with_type(x.type(), [&]<typename T>() {
        const auto numbers = selection_numbers<T>(x);
        const auto count =
            static_cast<std::size_t>(std::ranges::count_if(numbers, [](auto each) { return each != 0; }));
        integers made(shape.size() * count);
        // Row by row of the last dimension.
        const std::size_t width = shape.empty() ? 1 : shape.back();
        lengths at(shape.size(), 0);
        std::size_t next = 0;
        for (std::size_t row = 0; row < numbers.size(); row += width) {
            for (std::size_t i = 0; i < width; ++i) {
                if (!(numbers[row + i] != 0)) continue;
                for (std::size_t d = 0; d + 1 < shape.size(); ++d)
                    made[d * count + next] = static_cast<std::int64_t>(at[d]);
                if (!shape.empty()) made[(shape.size() - 1) * count + next] = static_cast<std::int64_t>(i);
                ++next;
            }
            for (std::size_t d = shape.size() - std::min<std::size_t>(1, shape.size()); d-- > 0;) {
                if (++at[d] < shape[d]) break;
                at[d] = 0;
            }
        }
        give_numbers(in, 0, made, {shape.size(), count});
    });
}

// The order of numbers, and NaN after them.
template <typename Number>
int selection_order(Number a, Number b) {
    if (a < b) return -1;
    if (b < a) return 1;
    return static_cast<int>(sluice::detail::is_nan(a)) - static_cast<int>(sluice::detail::is_nan(b));
}

// The parts of an axis in their order, equal ones in the order of their places.
template <typename T>
std::vector<std::size_t> sorted_parts(const any_tensor& x, std::size_t rows, std::size_t length, std::size_t inner,
                                      std::vector<bool>& equals_before) {
    const auto numbers = selection_numbers<T>(x);
    const auto order = [&](std::size_t a, std::size_t b) {
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t i = 0; i < inner; ++i) {
                const int found =
                    selection_order(numbers[(row * length + a) * inner + i], numbers[(row * length + b) * inner + i]);
                if (found != 0) return found;
            }
        }
        return 0;
    };
    std::vector<std::size_t> parts(length);
    std::iota(parts.begin(), parts.end(), std::size_t{0});
    std::ranges::sort(parts, [&](std::size_t a, std::size_t b) {
        const int found = order(a, b);
        return found != 0 ? found < 0 : a < b;
    });
    equals_before.assign(length, false);
    for (std::size_t i = 1; i < length; ++i) equals_before[i] = order(parts[i - 1], parts[i]) == 0;
    return parts;
}

void unique(node_call& in) {
    const any_tensor& x = in.input(0);
    require_numbers_of(in, x);
    const bool has_axis = in.has("axis");
    const lengths shape = has_axis ? x.shape() : lengths{x.elements()};
    const std::size_t axis = has_axis ? in.axis(in.integer("axis", 0), shape.size()) : 0;
    std::vector<std::size_t> parts;
    std::vector<bool> equals_before;
    with_type(x.type(), [&]<typename T>() {
        parts = sorted_parts<T>(x, product_of(std::span(shape).first(axis)), shape[axis],
                                product_of(std::span(shape).subspan(axis + 1)), equals_before);
    });
    // Each kind's first place and number, and the kind of each place.
    struct kind {
        std::size_t first;
        std::int64_t count;
        std::size_t number;
    };
    std::vector<kind> kinds;
    integers kind_of(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!equals_before[i]) kinds.push_back({parts[i], 0, kinds.size()});
        ++kinds.back().count;
        kind_of[parts[i]] = static_cast<std::int64_t>(kinds.back().number);
    }
    if (in.integer("sorted", 1) == 0) {
        std::ranges::sort(kinds, {}, &kind::first);
        integers renamed(kinds.size());
        for (std::size_t i = 0; i < kinds.size(); ++i) renamed[kinds[i].number] = static_cast<std::int64_t>(i);
        for (std::int64_t& each : kind_of) each = renamed[static_cast<std::size_t>(each)];
    }
    std::vector<std::size_t> places;
    integers firsts, counts;
    for (const kind& each : kinds) {
        places.push_back(each.first);
        firsts.push_back(static_cast<std::int64_t>(each.first));
        counts.push_back(each.count);
    }
    give_places(in, x, shape, axis, places);
    if (in.wants_output(1)) give_numbers(in, 1, firsts, {firsts.size()});
    if (in.wants_output(2)) give_numbers(in, 2, kind_of, {kind_of.size()});
    if (in.wants_output(3)) give_numbers(in, 3, counts, {counts.size()});
}

}  // namespace

const std::vector<definition>& selection() {
    static const std::vector<definition> list = {
        {.name = "Compress",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"axis"},
         .run = &compress,
         .host_inputs = all},
        {.name = "NonZero",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {},
         .run = &non_zero,
         .host_inputs = all},
        {.name = "Unique",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 4,
         .attributes = {"axis", "sorted"},
         .run = &unique,
         .host_inputs = all},
    };
    return list;
}

}  // namespace sluice::nn::operators
