// and_then: continue with another operation.
//
// Completes with the output of the operation that the function returned. An exception thrown by the
// function leaves submit; what was submitted before it is released in stream order.
//
//     upload(x).and_then([](auto input) { return launch(relu{}, each_of(input), std::move(input)); })
#pragma once

#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source, typename Function>
class and_then_operation : public operation_base<and_then_operation<Source, Function>> {
    using next_operation = detail::spread_result<Function, output_of<Source>>;

public:
    using output = output_of<next_operation>;
    static constexpr bool is_staged = sluice::is_staged<Source> || sluice::is_staged<next_operation>;

    and_then_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    output submit(execution_context& context) &&
        requires(!is_staged) {
            return detail::spread(std::move(f_), std::move(source_).submit(context)).submit(context);
        }
        // The continuation is not known yet; it counts as one command.
        work_estimate estimate() const {
        return source_.estimate() + work_estimate{.commands = 1};
    }

private:
    friend struct detail::staged_access;
    Source source_;
    Function f_;
};

template <typename Derived>
template <typename Function>
auto operation_base<Derived>::and_then(Function f) && {
    constexpr bool takes_output = detail::can_spread<Function, output_of<Derived>>::value;
    static_assert(takes_output, "and_then: the function cannot be called with the operation's output(s)");
    if constexpr (takes_output) {
        constexpr bool gives_operation = operation<detail::spread_result<Function, output_of<Derived>>>;
        static_assert(gives_operation,
                      "and_then: the function must return an operation; to map a value, use transform");
        if constexpr (gives_operation) return and_then_operation<Derived, Function>(self(), std::move(f));
    }
}

}  // namespace sluice
