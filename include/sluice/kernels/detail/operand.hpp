// SPDX-License-Identifier: Apache-2.0
// What an operation that only reads a tensor takes: the tensor itself, or a shared one.
#pragma once

#include <concepts>
#include <type_traits>

#include "sluice/runtime/tensor.hpp"

namespace sluice::detail {

template <typename T>
const tensor<T>& read(const tensor<T>& x) {
    return x;
}
template <typename T>
const tensor<T>& read(const shared_tensor<T>& x) {
    return *x;
}

template <typename X>
concept operand = requires(const X& x) { detail::read(x); };

template <operand X>
using element_of = typename std::remove_cvref_t<decltype(detail::read(std::declval<const X&>()))>::value_type;

template <typename X, typename T>
concept operand_of = operand<X> && std::same_as<element_of<X>, T>;

}  // namespace sluice::detail
