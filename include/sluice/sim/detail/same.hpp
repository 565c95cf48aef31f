// SPDX-License-Identifier: Apache-2.0
// Compares two results of a pipeline with ==, element by element; NaN is the same as NaN.
#pragma once

#include <cmath>
#include <concepts>
#include <ranges>
#include <tuple>
#include <utility>

namespace sluice::sim::detail {

template <typename T>
constexpr bool is_comparable() {
    if constexpr (std::ranges::forward_range<const T>) {
        if constexpr (!std::same_as<std::ranges::range_value_t<const T>, T>)
            return is_comparable<std::ranges::range_value_t<const T>>();
        else
            return false;
    } else {
        return std::equality_comparable<T>;
    }
}
template <typename T>
inline constexpr bool comparable = is_comparable<T>();
template <typename... Ts>
inline constexpr bool comparable<std::tuple<Ts...>> = (comparable<Ts> && ...);
template <typename A, typename B>
inline constexpr bool comparable<std::pair<A, B>> = comparable<A> && comparable<B>;

template <typename T>
bool same(const T& a, const T& b);
template <typename... Ts>
bool same(const std::tuple<Ts...>& a, const std::tuple<Ts...>& b) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return (same(std::get<I>(a), std::get<I>(b)) && ...);
    }(std::index_sequence_for<Ts...>());
}
template <typename A, typename B>
bool same(const std::pair<A, B>& a, const std::pair<A, B>& b) {
    return same(a.first, b.first) && same(a.second, b.second);
}

template <typename T>
bool same(const T& a, const T& b) {
    if constexpr (std::floating_point<T>) {
        return a == b || (std::isnan(a) && std::isnan(b));
    } else if constexpr (std::ranges::forward_range<const T>) {
        auto left = std::ranges::begin(a);
        auto right = std::ranges::begin(b);
        for (; left != std::ranges::end(a) && right != std::ranges::end(b); ++left, ++right) {
            if (!same(*left, *right)) return false;
        }
        return left == std::ranges::end(a) && right == std::ranges::end(b);
    } else {
        return a == b;
    }
}

}  // namespace sluice::sim::detail
