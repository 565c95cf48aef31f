// SPDX-License-Identifier: Apache-2.0
// retry: try an operation again when it has failed.
//
// Runs the operation that make() returns. When it fails, runs the operation that the next call of make() returns, up to
// `attempts` times in all. The waiter gets the last failure. A failure for which again(std::exception_ptr) returns
// false is the last one. make runs on the thread that submits: first the caller's, then the runtime's completion
// thread. Host-driven, see or_else.
//
// Costs at most `attempts` times what the operation costs. Each attempt also costs what or_else costs: a few
// allocations and one wait for the device.
//
//     retry(3, [&] { return forward(x); })
#pragma once

#include <coroutine>
#include <exception>
#include <type_traits>

#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

namespace detail {
struct always_again {
    bool operator()(const std::exception_ptr&) const noexcept { return true; }
};
}  // namespace detail

template <typename Make, typename Again>
class retry_operation : public operation_base<retry_operation<Make, Again>> {
    static_assert(operation<std::invoke_result_t<Make&>>, "retry: the function must return an operation");

public:
    using output = output_of<std::invoke_result_t<Make&>>;

    retry_operation(int attempts, Make make, Again again)
        : attempts_(attempts), make_(std::move(make)), again_(std::move(again)) {}

    work_estimate estimate() const { return {.commands = 1}; }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        once_.use("retry");
        for (int left = attempts_;; --left) {
            std::exception_ptr failure;
            try {
                auto attempt = driver.run_to_its_end(make_());
                auto done = co_await std::move(attempt);
                co_return std::move(done);
            } catch (...) {
                failure = std::current_exception();
            }
            // A device that has faulted refuses all further attempts. Nothing waits for them once the operation is
            // abandoned.
            if (left <= 1 || driver.is_poisoned() || driver.is_abandoned() || !again_(failure))
                std::rethrow_exception(failure);
        }
    }

private:
    int attempts_;
    Make make_;
    Again again_;
    detail::single_use once_;
};

// At least one attempt is made.
template <typename Make, typename Again = detail::always_again>
auto retry(int attempts, Make make, Again again = {}) {
    return retry_operation<Make, Again>(attempts, std::move(make), std::move(again));
}

}  // namespace sluice
