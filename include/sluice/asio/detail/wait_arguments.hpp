// SPDX-License-Identifier: Apache-2.0
// The arguments of a handler: the exception, or null, and the values, as device_future::get() would return them. A
// tuple is spread, so that several values are several arguments, and no value is no argument. With an exception the
// values are default-constructed; a type without a default constructor is given as a std::optional of it, empty then.
#pragma once

#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice::detail {

template <typename T>
using wait_argument = std::conditional_t<std::is_default_constructible_v<T>, T, std::optional<T>>;

template <typename Result>
struct wait_arguments_of {
    static_assert(std::is_object_v<Result>, "async_wait: what is awaited gives a reference; give a value or a pointer");
    using type = std::tuple<wait_argument<Result>>;
};
template <>
struct wait_arguments_of<void> {
    using type = std::tuple<>;
};
template <typename... Ts>
struct wait_arguments_of<std::tuple<Ts...>> {
    using type = std::tuple<wait_argument<Ts>...>;
};
template <typename Result>
using wait_arguments = typename wait_arguments_of<Result>::type;

template <typename Arguments>
struct wait_signature_of;
template <typename... Arguments>
struct wait_signature_of<std::tuple<Arguments...>> {
    using type = void(std::exception_ptr, Arguments...);
};
template <typename Result>
using wait_signature = typename wait_signature_of<wait_arguments<Result>>::type;

// Takes the result, or throws the failure.
template <typename Waited>
wait_arguments<typename Waited::result> take_arguments(Waited& from) {
    using arguments = wait_arguments<typename Waited::result>;
    if constexpr (std::is_void_v<typename Waited::result>) {
        from.take();
        return {};
    } else {
        return arguments(from.take());
    }
}

}  // namespace sluice::detail
