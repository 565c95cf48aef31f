// SPDX-License-Identifier: Apache-2.0
// then: one operation after another, without data between them.
//
//     reset_counters().then(zip(left(x), right(y))).then(report())
//
// Each command of the second operation runs after all commands of the first one, on every stream: eagerly, in a
// compiled graph and in the simulator. The output is that of the second operation; the outputs of the first are
// released when the device is done with them. Operations that pass data on do not need it: and_then is ordered by the
// data.
//
// The order is all that connects the two: when a command of the first one fails, the second still runs. (Not where one
// of them recovers, tries again or gives up: then the second is submitted when the first has succeeded.) A waiter waits
// for both, and receives the first failure. What throws while the first is submitted leaves the second unsubmitted.
//
// Outside a graph it costs a few allocations, and one command order for each stream of the first operation and each
// stream of the second. In a graph it costs edges only.
#pragma once

#include <coroutine>

#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

// The operation that .then(second) returns.
template <operation First, operation Second>
class then_operation : public operation_base<then_operation<First, Second>> {
public:
    using output = output_of<Second>;

    then_operation(First first, Second second) : first_(std::move(first)), second_(std::move(second)) {}

    output submit(execution_context& context) &&
    requires can_submit<First, Second>
    {
        detail::order_scope scope(context);
        static_cast<void>(std::move(first_).submit(scope.first()));
        scope.end_first();
        return std::move(second_).submit(context);
    }
    work_estimate estimate() const { return first_.estimate() + second_.estimate(); }

    // When one of them recovers, tries again or gives up: the second is submitted when the first is complete.
    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        {
            auto whole = driver.run_to_its_end(std::move(first_));
            auto before = co_await std::move(whole);
        }
        driver.throw_if_abandoned();
        auto after = co_await driver.run(second_);
        co_return std::move(after);
    }

private:
    First first_;
    Second second_;
};

template <typename Derived>
template <typename Second>
auto operation_base<Derived>::then(Second second) && {
    static_assert(operation<Second>,
                  "then: the argument is an operation; to continue with a function of the output, use and_then");
    if constexpr (operation<Second>) return then_operation<Derived, Second>(self(), std::move(second));
}

}  // namespace sluice
