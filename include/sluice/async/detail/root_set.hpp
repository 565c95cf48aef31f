// SPDX-License-Identifier: Apache-2.0
// Several roots for when_all and when_any: a std::tuple or a std::vector of them.
#pragma once

#include <functional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/async/detail/root.hpp"

namespace sluice::detail {

// The type of a result inside a tuple, a vector or a variant.
template <typename T>
class stored_result {
public:
    using type = T;
};
template <typename T>
class stored_result<T&> {
public:
    using type = std::reference_wrapper<T>;
};
template <>
class stored_result<void> {
public:
    using type = std::monostate;
};
template <awaitable T>
using stored_result_t = typename stored_result<kept_result_t<T>>::type;

// The result of a root that has ended; throws what it ended with.
template <typename T>
typename stored_result<T>::type take_stored(root<T>& ended) {
    if constexpr (std::is_void_v<T>) {
        ended.take();
        return {};
    } else {
        return typename stored_result<T>::type(ended.take());
    }
}

template <typename... Ts>
constexpr std::size_t count_of(const std::tuple<root<Ts>...>&) noexcept {
    return sizeof...(Ts);
}
template <typename T>
std::size_t count_of(const std::vector<root<T>>& roots) noexcept {
    return roots.size();
}

// Calls f(root, index) for each, in order.
template <typename... Ts, typename Function>
void for_each_root(std::tuple<root<Ts>...>& roots, Function f) {
    std::size_t index = 0;
    std::apply([&](auto&... each) { (f(each, index++), ...); }, roots);
}
template <typename T, typename Function>
void for_each_root(std::vector<root<T>>& roots, Function f) {
    for (std::size_t index = 0; index < roots.size(); ++index) f(roots[index], index);
}

template <typename T>
std::vector<root<kept_result_t<T>>> make_roots(std::vector<T> sources) {
    std::vector<root<kept_result_t<T>>> roots;
    roots.reserve(sources.size());
    for (T& each : sources) roots.push_back(make_root<T>(std::move(each)));
    return roots;
}

}  // namespace sluice::detail
