// or_else: recover from a failure.
//
// When the operation before has failed (submitting it threw, a command of it failed, its device faulted), goes on with
// the operation that the function returns for the std::exception_ptr. To pass the failure on, rethrow it. The outputs
// must be of one type; where the first has a pending<T>, the second may have a plain T.
//
//     forward(x).or_else([](std::exception_ptr) { return value(std::vector<float>(10)); })
//
// The host has to know how the device has fared before it goes on. So such an operation is staged: it takes no thread
// while it waits, and what comes after it is submitted by the runtime's completion thread, on the same stream.
#pragma once

#include <exception>

#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source, typename Function>
class or_else_operation : public operation_base<or_else_operation<Source, Function>> {
public:
    using output = output_of<Source>;
    static constexpr bool is_staged = true;

    or_else_operation(Source source, Function f) : source_(std::move(source)), f_(std::move(f)) {}

    work_estimate estimate() const { return source_.estimate(); }

private:
    friend struct detail::staged_access;
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
