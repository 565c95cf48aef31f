// SPDX-License-Identifier: Apache-2.0
// cast: a tensor's elements as another type, between float, half, bfloat16 and int.
//
//     cast<half>(x)                // an operation, for a tensor or a shared one
//     op.and_then(cast<half>())    // the same for the output of another operation
//
// To floating point: rounded to nearest even, beyond the type's range infinity; int to half and bfloat16 through
// float. To int: towards zero; beyond the range its nearest end, and NaN is 0. On every device the same.
//
// Errors, before anything is submitted: errc::shape_mismatch when the shapes differ. No elements: nothing is submitted.
#pragma once

#include <concepts>

#include "sluice/kernels/arithmetic.hpp"

namespace sluice {

namespace detail {
template <typename To, typename From>
concept castable_from = arithmetic_element<To> && arithmetic_element<From> && !std::same_as<To, From>;

template <typename X, typename To>
concept operand_castable_to = operand<X> && castable_from<To, element_of<X>>;
}  // namespace detail

// The plain form: one command on a stream. Does not block. Costs one command.
template <typename From, detail::castable_from<From> To>
void cast(stream on, const tensor<From>& x, tensor<To>& out, source_location location = source_location::current());

template <typename To, detail::operand X>
class cast_operation : public operation_base<cast_operation<To, X>> {
public:
    using output = tensor<To>;

    cast_operation(X x, source_location location) : x_(std::move(x)), location_(location) {}

    output submit(execution_context& context) && {
        tensor<To> out(context.stream(), detail::read(x_).shape(), {"cast", {}, location_});
        cast(context.stream(), detail::read(x_), out, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    X x_;
    source_location location_;
};

// The operation, cast<half>(x): its output is a new tensor; x, a tensor or a shared one, is released after it.
// Submitting it costs a new tensor and one command.
template <typename To, detail::operand X>
requires detail::castable_from<To, detail::element_of<X>>
auto cast(X x, source_location location = source_location::current()) {
    return cast_operation<To, X>(std::move(x), location);
}
// The function of the tensor, for and_then. It costs what the operation costs.
template <detail::arithmetic_element To>
auto cast(source_location location = source_location::current()) {
    return [=]<detail::operand_castable_to<To> X>(X x) { return cast_operation<To, X>(std::move(x), location); };
}

}  // namespace sluice
