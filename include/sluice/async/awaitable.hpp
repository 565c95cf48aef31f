// SPDX-License-Identifier: Apache-2.0
// awaitable: the types that can be awaited, and the result of awaiting them.
//
// A type is awaitable when `co_await` accepts it in any coroutine: it is an awaiter itself (await_ready,
// await_suspend, await_resume), or has a member or a free `operator co_await` that gives one. The concept
// checks an rvalue; `awaitable<T&>` checks an lvalue.
#pragma once

#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

namespace sluice {

namespace detail {
template <typename T>
inline constexpr bool is_coroutine_handle = false;
template <typename Promise>
inline constexpr bool is_coroutine_handle<std::coroutine_handle<Promise>> = true;

template <typename T>
concept await_suspend_result = std::is_void_v<T> || std::same_as<T, bool> || is_coroutine_handle<T>;

template <typename T>
concept awaiter = requires(std::remove_reference_t<T>& each, std::coroutine_handle<> waiter) {
    each.await_ready() ? 1 : 0;
    requires await_suspend_result<decltype(each.await_suspend(waiter))>;
    each.await_resume();
};

template <typename T>
concept has_member_co_await = requires { std::declval<T>().operator co_await(); };
template <typename T>
concept has_free_co_await = requires { operator co_await(std::declval<T>()); };

template <typename T>
struct awaiter_of {
    using type = T;
};
template <has_member_co_await T>
struct awaiter_of<T> {
    using type = decltype(std::declval<T>().operator co_await());
};
template <typename T>
requires(!has_member_co_await<T> && has_free_co_await<T>)
struct awaiter_of<T> {
    using type = decltype(operator co_await(std::declval<T>()));
};
}  // namespace detail

template <typename T>
concept awaitable = detail::awaiter<typename detail::awaiter_of<T>::type>;

// The type of `co_await std::declval<T>()`.
template <awaitable T>
using await_result_t =
    decltype(std::declval<std::remove_reference_t<typename detail::awaiter_of<T>::type>&>().await_resume());

namespace detail {
// The type that keeps the result after the await expression. The awaiter is destroyed, and with it the object that an
// rvalue reference refers to, so that becomes a value.
template <awaitable T>
using kept_result_t = std::conditional_t<std::is_rvalue_reference_v<await_result_t<T>>,
                                         std::remove_cvref_t<await_result_t<T>>, await_result_t<T>>;
}  // namespace detail

}  // namespace sluice
