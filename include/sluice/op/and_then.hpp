// SPDX-License-Identifier: Apache-2.0
// and_then: continue with another operation.
//
// Completes with the output of the operation that the function returned. An exception thrown by the
// function leaves submit; what was submitted before it is released in stream order. It costs one call of the function,
// and what the operation costs that the function returns; it allocates nothing itself.
//
//     upload(x).and_then([](auto input) { return launch(my_kernel{}, each_of(input), std::move(input)); })
//              .and_then(relu)
#pragma once

#include <coroutine>

#include "sluice/op/operation.hpp"

namespace sluice {

namespace detail {
template <typename Function>
concept takes_source_line = requires(const Function& f, const source_location& location) {
    { f.called_from(location) } -> std::same_as<Function>;
};
// A function without a source line of its own (relu) takes over that of the and_then.
template <typename Function>
Function located(Function f, [[maybe_unused]] const source_location& location) {
    if constexpr (takes_source_line<Function>) {
        return f.called_from(location);
    } else {
        return f;
    }
}
}  // namespace detail

// The operation that .and_then(f) returns.
template <operation Source, typename Function>
class and_then_operation : public operation_base<and_then_operation<Source, Function>> {
    using next_operation = detail::spread_result<Function, output_of<Source>>;

public:
    using output = output_of<next_operation>;

    and_then_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    output submit(execution_context& context) &&
    requires can_submit<Source, next_operation>
    {
        return detail::spread(std::move(f_), std::move(source_).submit(context)).submit(context);
    }
    // The continuation is not known yet; it counts as one command.
    work_estimate estimate() const { return source_.estimate() + work_estimate{.commands = 1}; }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        auto before = co_await driver.run(source_);
        driver.throw_if_abandoned();
        auto next = detail::spread(std::move(f_), std::move(before.output));
        auto after = co_await driver.run(next);
        after.join(std::move(before));
        co_return std::move(after);
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
auto operation_base<Derived>::and_then(Function f, const source_location& location) && {
    constexpr bool takes_output = detail::can_spread<Function, output_of<Derived>>();
    static_assert(takes_output, "and_then: the function cannot be called with the operation's output(s)");
    if constexpr (takes_output) {
        constexpr bool gives_operation = operation<detail::spread_result<Function, output_of<Derived>>>;
        static_assert(gives_operation,
                      "and_then: the function must return an operation; to map a value, use transform");
        if constexpr (gives_operation) {
            return and_then_operation<Derived, Function>(self(), detail::located(std::move(f), location));
        }
    }
}

}  // namespace sluice
