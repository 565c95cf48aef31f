// SPDX-License-Identifier: Apache-2.0
// with_context: gives a function the execution context (stream, device, memory) at submission.
//
// The function gets the context and returns either an operation, which is then submitted to it, or a value.
// Operations that submit commands to the stream themselves are also written with it.
//
// It costs one call of the function, and what the operation that it returns costs.
//
//     with_context([](execution_context& context) { return zeros<float>({rows_for(context.device()), 64}); })
#pragma once

#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

namespace detail {
template <typename Result>
struct with_context_output {
    using type = std::remove_cvref_t<Result>;
};
template <operation Result>
struct with_context_output<Result> {
    using type = output_of<Result>;
};
template <>
struct with_context_output<void> {
    using type = std::tuple<>;
};
}  // namespace detail

template <typename Function>
class with_context_operation : public operation_base<with_context_operation<Function>> {
    using result = std::invoke_result_t<Function, execution_context&>;

public:
    using output = typename detail::with_context_output<result>::type;

    with_context_operation(Function f, work_estimate estimate) : f_(std::move(f)), estimate_(estimate) {}

    output submit(execution_context& context) && {
        once_.use("with_context");
        if constexpr (operation<result>) {
            return std::move(f_)(context).submit(context);
        } else if constexpr (std::is_void_v<result>) {
            std::move(f_)(context);
            return {};
        } else {
            return std::move(f_)(context);
        }
    }
    work_estimate estimate() const { return estimate_; }

private:
    Function f_;
    work_estimate estimate_;
    detail::single_use once_;
};

// `estimate` is the device work that the function will submit, as far as it is known beforehand.
template <typename Function>
auto with_context(Function f, work_estimate estimate = {.commands = 1}) {
    static_assert(std::is_invocable_v<Function, execution_context&>,
                  "with_context: the function must take an execution_context&");
    return with_context_operation<Function>(std::move(f), estimate);
}

}  // namespace sluice
