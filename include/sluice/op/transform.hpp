// SPDX-License-Identifier: Apache-2.0
// transform: map the output of an operation with a function on values.
//
// The function runs on the submitting thread when the operation is submitted: it sees handles (tensors,
// pending values), never device data. A function that returns nothing gives an operation without output.
//
// It costs one call of the function, and allocates nothing itself.
//
//     upload(x).transform([](auto input) { return std::move(input).reshape({8, 8}); })
#pragma once

#include <coroutine>

#include "sluice/op/operation.hpp"

namespace sluice {

// The operation that .transform(f) returns.
template <operation Source, typename Function>
class transform_operation : public operation_base<transform_operation<Source, Function>> {
    using result = detail::spread_result<Function, output_of<Source>>;

public:
    using output = std::conditional_t<std::is_void_v<result>, std::tuple<>, std::remove_cvref_t<result>>;

    transform_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    output submit(execution_context& context) &&
    requires can_submit<Source>
    {
        if constexpr (std::is_void_v<result>) {
            detail::spread(std::move(f_), std::move(source_).submit(context));
            return {};
        } else {
            return detail::spread(std::move(f_), std::move(source_).submit(context));
        }
    }
    work_estimate estimate() const { return source_.estimate(); }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        auto before = co_await driver.run(source_);
        driver.throw_if_abandoned();
        if constexpr (std::is_void_v<result>) {
            detail::spread(std::move(f_), std::move(before.output));
            co_return std::move(before).with(output());
        } else {
            output mapped = detail::spread(std::move(f_), std::move(before.output));
            co_return std::move(before).with(std::move(mapped));
        }
    }
    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Source>
    {
        return source_.next_link(context);
    }

private:
    Source source_;
    Function f_;
};

template <typename Derived>
template <typename Function>
auto operation_base<Derived>::transform(Function f) && {
    constexpr bool takes_output = detail::can_spread<Function, output_of<Derived>>();
    static_assert(takes_output, "transform: the function cannot be called with the operation's output(s)");
    if constexpr (takes_output) {
        constexpr bool gives_operation = operation<detail::spread_result<Function, output_of<Derived>>>;
        static_assert(!gives_operation,
                      "transform: the function returns an operation; to continue with it, use and_then");
        if constexpr (!gives_operation) return transform_operation<Derived, Function>(self(), std::move(f));
    }
}

}  // namespace sluice
