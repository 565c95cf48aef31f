// SPDX-License-Identifier: Apache-2.0
// or_else: recover from a failure.
//
// When the source has failed (submitting it threw, a command of it failed, or its device faulted), continues with the
// operation that the function returns for the std::exception_ptr. To pass the failure on, rethrow it. The outputs
// must be of one type; where the first has a pending<T>, the second may have a plain T.
//
//     forward(x).or_else([](std::exception_ptr) { return value(std::vector<float>(10)); })
//
// The host must know whether the device has succeeded before it continues, so such an operation is host-driven: it
// takes no thread while it waits, and the runtime's completion thread submits what comes next, on the same stream.
// It costs a few allocations for coroutine frames, and one wait for the device, whether the source fails or not.
// Functions of one host-driven operation are called one at a time, and none is called after its future was dropped: see
// docs/errors.md.
#pragma once

#include <coroutine>
#include <exception>

#include "sluice/op/operation.hpp"

namespace sluice {

namespace detail {
// Whether the recovery's output may take the place of the source's. The runtime adds that a T may, of a pending<T>.
template <typename Output, typename Recovery>
inline constexpr bool can_replace = std::is_same_v<Output, Recovery>;
template <typename... Outputs, typename... Recoveries>
requires(sizeof...(Outputs) == sizeof...(Recoveries))
inline constexpr bool can_replace<std::tuple<Outputs...>, std::tuple<Recoveries...>> =
    (can_replace<Outputs, Recoveries> && ...);
}  // namespace detail

// The operation that .or_else(f) returns.
template <operation Source, typename Function>
class or_else_operation : public operation_base<or_else_operation<Source, Function>> {
    using recovery = std::invoke_result_t<Function, std::exception_ptr>;

public:
    using output = output_of<Source>;
    static_assert(detail::can_replace<output, output_of<recovery>>,
                  "or_else: the recovery gives another type of output than what failed");

    or_else_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    work_estimate estimate() const { return source_.estimate(); }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        std::exception_ptr failure;
        try {
            auto attempt = driver.run_to_its_end(std::move(source_));
            auto done = co_await std::move(attempt);
            co_return std::move(done);
        } catch (...) {
            failure = std::current_exception();
        }
        if (driver.is_abandoned()) std::rethrow_exception(failure);
        auto next = std::move(f_)(std::move(failure));
        auto recovered = co_await driver.run(next);
        output result(std::move(recovered.output));
        co_return std::move(recovered).with(std::move(result));
    }

private:
    Source source_;
    Function f_;
};

template <typename Derived>
template <typename Function>
auto operation_base<Derived>::or_else(Function f) && {
    constexpr bool takes_failure = std::is_invocable_v<Function, std::exception_ptr>;
    static_assert(takes_failure, "or_else: the function must take a std::exception_ptr");
    if constexpr (takes_failure) {
        constexpr bool gives_operation = operation<std::invoke_result_t<Function, std::exception_ptr>>;
        static_assert(gives_operation, "or_else: the function must return an operation, such as value(...)");
        if constexpr (gives_operation) return or_else_operation<Derived, Function>(self(), std::move(f));
    }
}

}  // namespace sluice
