// SPDX-License-Identifier: Apache-2.0
// tap: calls a function with a const reference to each output of an operation and passes the outputs on.
//
//     upload(x).tap([](const tensor<float>& input) { log(input.size()); }).and_then(...)
//     tap(upload(x), [](const tensor<float>& input) { log(input.size()); })
//
// The function runs on the submitting thread, at submission: it sees handles (tensors, pending values), never device
// data. What it returns is dropped. An exception that it throws leaves submit; what was submitted before it is released
// in stream order. In a compiled graph it runs when the operation is recorded, not at a launch. It costs one call of
// the function, and allocates nothing itself.
#pragma once

#include <coroutine>
#include <utility>

#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source, typename Function>
class tap_operation : public operation_base<tap_operation<Source, Function>> {
public:
    using output = output_of<Source>;
    static_assert(detail::can_spread<Function, const output&>(),
                  "tap: the function cannot be called with the operation's output(s)");

    tap_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    // 1. The usual form.
    output submit(execution_context& context) &&
    requires can_submit<Source>
    {
        output result = std::move(source_).submit(context);
        detail::spread(std::move(f_), std::as_const(result));
        return result;
    }
    work_estimate estimate() const { return source_.estimate(); }

    // 2. The host-driven form, for sources that recover, try again or give up.
    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        auto before = co_await driver.run(source_);
        driver.throw_if_abandoned();
        detail::spread(std::move(f_), std::as_const(before.output));
        co_return std::move(before);
    }

    // 3. For long chains of any_operation.
    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Source>
    {
        return source_.next_link(context);
    }

private:
    Source source_;
    Function f_;
};

template <operation Source, typename Function>
auto tap(Source source, Function f) {
    return tap_operation<Source, Function>(std::move(source), std::move(f));
}

template <typename Derived>
template <typename Function>
auto operation_base<Derived>::tap(Function f) && {
    return tap_operation<Derived, Function>(self(), std::move(f));
}

}  // namespace sluice
