// SPDX-License-Identifier: Apache-2.0
// fill: every element of a tensor that exists, or of a part of one, becomes the same value.
//
//     fill(std::move(x), 1.f)              // an operation, which takes the tensor over and gives it back
//     op.and_then(fill(1.f))               // the same for the output of another operation
//     fill(on, x, 1.f)                     // the plain form: submits to a stream at once; x stays the caller's
//
// It costs one command on a stream, and does not block. Elements are of 1, 2, 4 or 8 bytes: numbers, half, small
// structures. The value converts to the element type; a floating-point value for integers does not compile. A new
// tensor is full or zeros.
//
// Errors, before anything is submitted: errc::invalid_argument for a tensor that was moved from.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "sluice/kernels/elementwise.hpp"
#include "sluice/op/detail/single_use.hpp"

namespace sluice {

namespace detail {
template <typename V, typename T>
concept fill_value_for = std::convertible_to<V, T> && std::is_trivially_copyable_v<T> &&
                         (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8) &&
                         !(std::floating_point<V> && std::integral<T>);
}  // namespace detail

template <typename T, detail::fill_value_for<T> V>
void fill(stream on, tensor<T>& x, const V& value, source_location location = source_location::current()) {
    detail::require_held(x, {"fill", detail::device_name(on), location});
    const T element = static_cast<T>(value);
    fill_elements(on, *x.memory(), x.size(), &element, sizeof(T), location, "fill");
}

template <typename T>
class fill_operation : public operation_base<fill_operation<T>> {
public:
    using output = tensor<T>;

    fill_operation(tensor<T> x, T value, const source_location& location)
        : x_(std::move(x)), value_(value), location_(location) {}

    output submit(execution_context& context) && {
        once_.use("fill");
        fill(context.stream(), x_, value_, location_);
        return std::move(x_);
    }
    work_estimate estimate() const { return {1, x_.size_bytes()}; }

private:
    tensor<T> x_;
    T value_;
    source_location location_;
    detail::single_use once_;
};

template <typename T, detail::fill_value_for<T> V>
auto fill(tensor<T> x, const V& value, source_location location = source_location::current()) {
    return fill_operation<T>(std::move(x), static_cast<T>(value), location);
}

// The function of a tensor, for and_then. It costs what the operation costs.
template <typename V>
class fill_with {
public:
    // Called by fill. Costs O(1).
    fill_with(const V& value, const source_location& location) : value_(value), location_(location) {}

    template <typename T>
    requires detail::fill_value_for<V, T>
    auto operator()(tensor<T> x) const {
        return fill_operation<T>(std::move(x), static_cast<T>(value_), location_);
    }

private:
    V value_;
    source_location location_;
};

template <typename V>
requires std::is_trivially_copyable_v<V>
auto fill(const V& value, source_location location = source_location::current()) {
    return fill_with<V>(value, location);
}

}  // namespace sluice
