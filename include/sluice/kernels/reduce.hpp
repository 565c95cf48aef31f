// SPDX-License-Identifier: Apache-2.0
// sum, mean, max, min, argmax: over the last dimension, which the output lacks, or over all elements, into a tensor of
// rank 0.
//
//     sum(x)                       // an operation, for a tensor or a shared one
//     mean(x, reduce_over::all)
//     op.and_then(sum())           // the same for the output of another operation
//     op.and_then(argmax(reduce_over::all))
//
// Elements are float, half or bfloat16. sum and mean are float, max and min of the elements' type, argmax is the place,
// counted from the row's beginning (over all: from the tensor's), as 64-bit integers.
//
// Sums carry their rounding errors along: for float elements the error is below 1e-6 of the sum plus 1e-12 of the sum
// of magnitudes (for 16-bit elements 1e-7 of that), whatever the length. One beyond float's range on the way is
// infinite. A NaN makes sum, mean, max and min NaN; argmax is the first NaN's place then, else the first of the
// largest. For max, min and argmax +0 is larger than -0 (IEEE 754-2019's maximum and minimum).
//
// Of no elements: sum is 0, mean is NaN; max, min and argmax are refused with errc::invalid_argument, unless there are
// no rows either. Errors, before anything is submitted: that one, errc::shape_mismatch for an output of another
// shape, and errc::invalid_argument for an output that is the input.
//
// On a GPU: up to 32 threads a row when it is short, a block when it is long, several blocks and a second pass when
// rows are too few to fill the GPU. The order of additions is the same from run to run.
//
// All functions here take constant time: they submit at most two commands, or return an operation that does and
// allocates its output.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/kernels/detail/operand.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// What is made of the elements. argmax is the place of the largest.
enum class reduction : unsigned char { sum, mean, max, min, argmax };

// Of which elements one number is made: those of each row, or all.
enum class reduce_over : unsigned char { last_dimension, all };

namespace detail {
template <typename T>
concept reducible = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

template <typename X>
concept reducible_operand = operand<X> && reducible<element_of<X>>;
}  // namespace detail

// What a reduction of T is made of.
template <reduction What, detail::reducible T>
using reduced = std::conditional_t<What == reduction::argmax, std::int64_t,
                                   std::conditional_t<What == reduction::max || What == reduction::min, T, float>>;

// The shape of a reduction's output.
shape reduced_shape(const shape& x, reduce_over which);

// The plain form: one command on a stream; two on a GPU when a row takes several blocks, with memory between them that
// is released after them. Does not block.
template <reduction What, detail::reducible T>
void reduce(stream on, const tensor<T>& x, tensor<reduced<What, T>>& out,
            reduce_over which = reduce_over::last_dimension, source_location location = source_location::current());

template <reduction What, detail::operand X>
class reduce_operation : public operation_base<reduce_operation<What, X>> {
public:
    using output = tensor<reduced<What, detail::element_of<X>>>;

    reduce_operation(X x, reduce_over which, source_location location)
        : x_(std::move(x)), which_(which), location_(location) {}

    output submit(execution_context& context) && {
        const auto& x = detail::read(x_);
        output out(context.stream(), reduced_shape(x.shape(), which_), {"reduce", {}, location_});
        reduce<What, detail::element_of<X>>(context.stream(), x, out, which_, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 2}; }

private:
    X x_;
    reduce_over which_;
    source_location location_;
};

// The operations: their output is a new tensor; x, a tensor or a shared one, is released after them.
template <detail::operand X>
auto sum(X x, reduce_over which = reduce_over::last_dimension, source_location location = source_location::current()) {
    return reduce_operation<reduction::sum, X>(std::move(x), which, location);
}
template <detail::operand X>
auto mean(X x, reduce_over which = reduce_over::last_dimension, source_location location = source_location::current()) {
    return reduce_operation<reduction::mean, X>(std::move(x), which, location);
}
template <detail::operand X>
auto max(X x, reduce_over which = reduce_over::last_dimension, source_location location = source_location::current()) {
    return reduce_operation<reduction::max, X>(std::move(x), which, location);
}
template <detail::operand X>
auto min(X x, reduce_over which = reduce_over::last_dimension, source_location location = source_location::current()) {
    return reduce_operation<reduction::min, X>(std::move(x), which, location);
}
template <detail::operand X>
auto argmax(X x, reduce_over which = reduce_over::last_dimension,
            source_location location = source_location::current()) {
    return reduce_operation<reduction::argmax, X>(std::move(x), which, location);
}

namespace detail {
template <reduction What>
auto reduction_over(reduce_over which, const source_location& location) {
    return [=]<reducible_operand X>(X x) { return reduce_operation<What, X>(std::move(x), which, location); };
}
}  // namespace detail

// Functions of the tensor, for and_then.
inline auto sum(reduce_over which = reduce_over::last_dimension,
                source_location location = source_location::current()) {
    return detail::reduction_over<reduction::sum>(which, location);
}
inline auto mean(reduce_over which = reduce_over::last_dimension,
                 source_location location = source_location::current()) {
    return detail::reduction_over<reduction::mean>(which, location);
}
inline auto max(reduce_over which = reduce_over::last_dimension,
                source_location location = source_location::current()) {
    return detail::reduction_over<reduction::max>(which, location);
}
inline auto min(reduce_over which = reduce_over::last_dimension,
                source_location location = source_location::current()) {
    return detail::reduction_over<reduction::min>(which, location);
}
inline auto argmax(reduce_over which = reduce_over::last_dimension,
                   source_location location = source_location::current()) {
    return detail::reduction_over<reduction::argmax>(which, location);
}

}  // namespace sluice
