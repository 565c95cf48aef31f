// SPDX-License-Identifier: Apache-2.0
// Whether an argument of a compiled graph has its previous value, so that nothing need be recorded again.
//
// == alone would be wrong for numbers: -0 == 0, though 1 / -0 is not 1 / 0, and NaN != NaN. So trivially copyable
// values are compared by their bytes, and the elements of ranges and tuples likewise. Where the bytes differ but the
// values do not, the operation is recorded once more than necessary.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/runtime/detail/closure.hpp"

namespace sluice::detail {

template <typename T>
concept has_elements = std::ranges::forward_range<const T&> && !std::same_as<std::ranges::range_value_t<const T&>, T>;
template <typename T>
concept has_parts = requires { std::tuple_size<T>::value; };

template <typename T>
bool is_same_value(const T& before, const T& now) {
    if constexpr (std::is_trivially_copyable_v<T> && !std::is_array_v<T>) {
        T a = before, b = now;
        clear_padding(a);
        clear_padding(b);
        return std::memcmp(&a, &b, sizeof(T)) == 0;
    } else if constexpr (has_elements<T>) {
        return before == now &&
               std::ranges::equal(before, now, [](const auto& x, const auto& y) { return is_same_value(x, y); });
    } else if constexpr (has_parts<T>) {
        return before == now && [&]<std::size_t... Is>(std::index_sequence<Is...>) {
            return (is_same_value(std::get<Is>(before), std::get<Is>(now)) && ...);
        }(std::make_index_sequence<std::tuple_size<T>::value>());
    } else {
        return before == now;
    }
}

}  // namespace sluice::detail
