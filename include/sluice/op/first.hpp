// SPDX-License-Identifier: Apache-2.0
// first, last: one output of an operation with several. The others are released after it, in stream order.
//
//     launch(sum_and_difference{}, ...).first()        // the sum; also first(launch(...))
//     zip(upload(x), upload(y)).last()                 // y
//
// Both cost nothing on the device and allocate nothing. To use several of them, see unzip. An operation with one output
// does not compile.
#pragma once

#include <tuple>
#include <utility>

#include "sluice/op/transform.hpp"

namespace sluice {

namespace detail {
// Takes one of its arguments, counted from the front or from the back.
struct take_first {
    template <typename First, typename... Others>
    First operator()(First taken, Others...) const {
        return taken;
    }
};
struct take_last {
    template <typename... Outputs>
    auto operator()(Outputs... all) const {
        return std::get<sizeof...(Outputs) - 1>(std::tuple<Outputs...>(std::move(all)...));
    }
};

template <typename Output>
inline constexpr bool has_several = false;
template <typename First, typename Second, typename... Others>
inline constexpr bool has_several<std::tuple<First, Second, Others...>> = true;
}  // namespace detail

template <operation Source>
auto first(Source source) {
    constexpr bool has_several = detail::has_several<output_of<Source>>;
    static_assert(has_several, "first: the operation does not have several outputs");
    if constexpr (has_several)
        return transform_operation<Source, detail::take_first>(std::move(source), detail::take_first());
}
template <operation Source>
auto last(Source source) {
    constexpr bool has_several = detail::has_several<output_of<Source>>;
    static_assert(has_several, "last: the operation does not have several outputs");
    if constexpr (has_several)
        return transform_operation<Source, detail::take_last>(std::move(source), detail::take_last());
}

template <typename Derived>
auto operation_base<Derived>::first() && {
    return sluice::first(static_cast<Derived>(self()));
}
template <typename Derived>
auto operation_base<Derived>::last() && {
    return sluice::last(static_cast<Derived>(self()));
}

}  // namespace sluice
