// transform: map the output of an operation with a function on values.
//
// The function runs on the submitting thread when the operation is submitted: it sees handles (tensors,
// pending values), never device data. A function that returns nothing gives an operation without output.
//
//     upload(x).transform([](auto input) { return std::move(input).reshape({8, 8}); })
#pragma once

#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source, typename Function>
class transform_operation : public operation_base<transform_operation<Source, Function>> {
    using result = detail::spread_result<Function, output_of<Source>>;

public:
    using output = std::conditional_t<std::is_void_v<result>, std::tuple<>, std::remove_cvref_t<result>>;

    static constexpr bool is_staged = sluice::is_staged<Source>;

    transform_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    output submit(execution_context& context) && requires(!is_staged) {
        if constexpr (std::is_void_v<result>) {
            detail::spread(std::move(f_), std::move(source_).submit(context));
            return {};
        } else {
            return detail::spread(std::move(f_), std::move(source_).submit(context));
        }
    } work_estimate estimate() const {
        return source_.estimate();
    }

private:
    friend struct detail::staged_access;
    Source source_;
    Function f_;
};

template <typename Derived>
template <typename Function>
auto operation_base<Derived>::transform(Function f) && {
    constexpr bool takes_output = detail::can_spread<Function, output_of<Derived>>::value;
    static_assert(takes_output, "transform: the function cannot be called with the operation's output(s)");
    if constexpr (takes_output) {
        constexpr bool gives_operation = operation<detail::spread_result<Function, output_of<Derived>>>;
        static_assert(!gives_operation,
                      "transform: the function returns an operation; to continue with it, use and_then");
        if constexpr (!gives_operation) return transform_operation<Derived, Function>(self(), std::move(f));
    }
}

}  // namespace sluice
