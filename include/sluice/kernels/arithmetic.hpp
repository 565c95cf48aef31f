// SPDX-License-Identifier: Apache-2.0
// add, subtract, multiply: two tensors of one shape, element by element, into the first; scale: a tensor times a
// number, in place. There is no broadcasting.
//
//     add(x, y)                    // an operation; x a tensor, y a tensor or a shared one
//     op.and_then(add(y))          // the same for the output of another operation; y a shared tensor
//     op.and_then(scale(0.5f))
//
// Elements are float, half, bfloat16 or int. 16-bit elements are computed in float and rounded once; ints wrap
// around. NaN and infinities propagate. On a GPU each thread loads 16 bytes at a time.
//
// Errors, before anything is submitted: errc::shape_mismatch when the shapes differ. No elements: nothing is submitted.
//
// All functions here take constant time: they submit one command, or return an operation that does.
#pragma once

#include <concepts>
#include <string>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/kernels/detail/operand.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// What combine makes of two elements: x + y, x - y or x * y.
enum class arithmetic : unsigned char { add, subtract, multiply };

namespace detail {
template <typename T>
concept arithmetic_element =
    std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16> || std::same_as<T, int>;

// What a tensor of T is scaled by.
template <arithmetic_element T>
using factor_for = std::conditional_t<std::same_as<T, int>, int, float>;
}  // namespace detail

// The plain forms: one command on a stream. They do not block. y may be x.
template <detail::arithmetic_element T>
void combine(stream on, arithmetic what, tensor<T>& x, const tensor<T>& y,
             source_location location = source_location::current());
// The same for x = factor * x.
template <detail::arithmetic_element T>
void scale(stream on, tensor<T>& x, detail::factor_for<T> factor,
           source_location location = source_location::current());

template <detail::arithmetic_element T, detail::operand_of<T> Y>
class combine_operation : public operation_base<combine_operation<T, Y>> {
public:
    using output = tensor<T>;

    combine_operation(arithmetic what, tensor<T> x, Y y, source_location location)
        : what_(what), x_(std::move(x)), y_(std::move(y)), location_(location) {}

    output submit(execution_context& context) && {
        combine(context.stream(), what_, x_, detail::read(y_), location_);
        return std::move(x_);
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    arithmetic what_;
    tensor<T> x_;
    Y y_;
    source_location location_;
};

template <detail::arithmetic_element T>
class scale_operation : public operation_base<scale_operation<T>> {
public:
    using output = tensor<T>;

    scale_operation(tensor<T> x, detail::factor_for<T> factor, source_location location)
        : x_(std::move(x)), factor_(factor), location_(location) {}

    output submit(execution_context& context) && {
        scale(context.stream(), x_, factor_, location_);
        return std::move(x_);
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    tensor<T> x_;
    detail::factor_for<T> factor_;
    source_location location_;
};

// The operations: x is taken over and given back; y, a tensor or a shared one, is released after them.
template <detail::arithmetic_element T, detail::operand_of<T> Y>
auto add(tensor<T> x, Y y, source_location location = source_location::current()) {
    return combine_operation<T, Y>(arithmetic::add, std::move(x), std::move(y), location);
}
template <detail::arithmetic_element T, detail::operand_of<T> Y>
auto subtract(tensor<T> x, Y y, source_location location = source_location::current()) {
    return combine_operation<T, Y>(arithmetic::subtract, std::move(x), std::move(y), location);
}
template <detail::arithmetic_element T, detail::operand_of<T> Y>
auto multiply(tensor<T> x, Y y, source_location location = source_location::current()) {
    return combine_operation<T, Y>(arithmetic::multiply, std::move(x), std::move(y), location);
}
template <detail::arithmetic_element T>
auto scale(tensor<T> x, detail::factor_for<T> factor, source_location location = source_location::current()) {
    return scale_operation<T>(std::move(x), factor, location);
}

namespace detail {
template <arithmetic_element T>
auto combined_with(arithmetic what, shared_tensor<T> y, const source_location& location) {
    return [=](tensor<T> x) { return combine_operation<T, shared_tensor<T>>(what, std::move(x), y, location); };
}
template <typename Factor, typename T>
concept scales = arithmetic_element<T> && std::convertible_to<Factor, factor_for<T>> &&
                 !(std::floating_point<Factor> && std::integral<factor_for<T>>);
[[noreturn]] void refuse_factor(const std::string& factor, const source_location& location);
template <typename T, typename Factor>
factor_for<T> factor_of(Factor factor, const source_location& location) {
    const auto made = static_cast<factor_for<T>>(factor);
    if constexpr (std::integral<Factor> && std::integral<factor_for<T>>) {
        if (static_cast<Factor>(made) != factor || (made < 0) != (factor < 0))
            refuse_factor(std::to_string(factor), location);
    }
    return made;
}
}  // namespace detail

// Functions of the tensor x, for and_then. A floating-point factor for ints does not compile, and an integer that they
// cannot hold throws errc::invalid_argument.
template <detail::arithmetic_element T>
auto add(shared_tensor<T> y, source_location location = source_location::current()) {
    return detail::combined_with(arithmetic::add, std::move(y), location);
}
template <detail::arithmetic_element T>
auto subtract(shared_tensor<T> y, source_location location = source_location::current()) {
    return detail::combined_with(arithmetic::subtract, std::move(y), location);
}
template <detail::arithmetic_element T>
auto multiply(shared_tensor<T> y, source_location location = source_location::current()) {
    return detail::combined_with(arithmetic::multiply, std::move(y), location);
}
template <typename Factor>
requires std::is_arithmetic_v<Factor>
auto scale(Factor factor, source_location location = source_location::current()) {
    return [=]<typename T>(tensor<T> x)
    requires detail::scales<Factor, T>
    { return scale_operation<T>(std::move(x), detail::factor_of<T>(factor, location), location); };
}

}  // namespace sluice
