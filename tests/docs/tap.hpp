// SPDX-License-Identifier: Apache-2.0
// tap: calls a function with a const reference to each output of an operation and passes the outputs on.
//
//     tap(upload(x), [](const tensor<float>& input) { log(input.size()); }).and_then(...)
#pragma once

#include <coroutine>
#include <utility>

#include "sluice/op/operation.hpp"

template <sluice::operation Source, typename Function>
class tap_operation : public sluice::operation_base<tap_operation<Source, Function>> {
public:
    using output = sluice::output_of<Source>;
    static_assert(sluice::detail::can_spread<Function, const output&>(),
                  "tap: the function cannot be called with the operation's output(s)");

    tap_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    // 1. The usual form.
    output submit(sluice::execution_context& context) &&
    requires sluice::can_submit<Source>
    {
        output result = std::move(source_).submit(context);
        sluice::detail::spread(std::move(f_), std::as_const(result));
        return result;
    }
    sluice::work_estimate estimate() const { return source_.estimate(); }

    // 2. The host-driven form, for sources that recover, try again or give up.
    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        auto before = co_await driver.run(source_);
        driver.throw_if_abandoned();
        sluice::detail::spread(std::move(f_), std::as_const(before.output));
        co_return std::move(before);
    }

    // 3. For long chains of any_operation.
    sluice::detail::chain_link* next_link(sluice::execution_context*& context)
    requires sluice::detail::has_links<Source>
    {
        return source_.next_link(context);
    }

private:
    Source source_;
    Function f_;
};

template <sluice::operation Source, typename Function>
auto tap(Source source, Function f) {
    return tap_operation<Source, Function>(std::move(source), std::move(f));
}
