// SPDX-License-Identifier: Apache-2.0
// retry: try an operation again when it has failed.
//
// Runs the operation that make() returns. When it has failed, and all that it submitted has ended (but for what a
// timeout or stop_when inside abandoned), runs the operation that the next call of make() returns, up to `attempts`
// times in all. The waiter gets the last failure. A failure for which again(std::exception_ptr) returns false is the
// last one. make runs first on the caller's thread, then on the runtime's completion thread. Host-driven, see or_else;
// so it does not compile inside a compiled graph.
//
// With a growing_delay each further attempt comes after a delay, a timer that no thread waits for; in the simulator it
// is virtual time. A timeout, a stop or a dropped future ends it, and so does the end of the runtime.
//
// Costs at most `attempts` times what the operation costs. Each attempt also costs what or_else costs: a few
// allocations and one wait for the device.
//
//     retry(3, [&] { return forward(x); })
//     retry(8, growing_delay{.first = 1ms, .most = 100ms, .seed = id}, [&] { return forward(x); },
//           failed_with<errc::out_of_memory>)
#pragma once

#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/growing_delay.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

namespace detail {
struct always_again {
    bool operator()(const std::exception_ptr&) const noexcept { return true; }
};
}  // namespace detail

// For retry's `again`: whether the failure is a sluice::error with one of these codes.
template <errc... Codes>
bool failed_with(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const error& its) {
        return ((its.code() == Codes) || ...);
    } catch (...) {
        return false;
    }
}

template <typename Make, typename Again>
class retry_operation : public operation_base<retry_operation<Make, Again>> {
    static_assert(operation<std::invoke_result_t<Make&>>, "retry: the function must return an operation");

public:
    using output = output_of<std::invoke_result_t<Make&>>;

    retry_operation(int attempts, const growing_delay& delay, Make make, Again again)
        : attempts_(attempts), delays_(delay), make_(std::move(make)), again_(std::move(again)) {}

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
            // again may drop the operation's own future; and much may happen in the pause.
            if (left <= 1 || driver.is_over() || !again_(failure) || driver.is_over()) std::rethrow_exception(failure);
            auto pause = driver.pause(delays_.next());
            co_await pause;
            if (driver.is_over()) std::rethrow_exception(failure);
        }
    }

private:
    int attempts_;
    detail::delays delays_;
    Make make_;
    Again again_;
    detail::single_use once_;
};

// At least one attempt is made.
template <typename Make, typename Again = detail::always_again>
auto retry(int attempts, Make make, Again again = {}) {
    const growing_delay none{.first = {}};
    return retry_operation<Make, Again>(attempts, none, std::move(make), std::move(again));
}
// The same with a delay before each further attempt. Throws errc::invalid_argument for delays that cannot be.
template <typename Make, typename Again = detail::always_again>
auto retry(int attempts, const growing_delay& delay, Make make, Again again = {}) {
    return retry_operation<Make, Again>(attempts, delay, std::move(make), std::move(again));
}

}  // namespace sluice
