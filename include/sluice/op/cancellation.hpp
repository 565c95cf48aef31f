// SPDX-License-Identifier: Apache-2.0
// timeout, timeout_at, stop_when: stop waiting for an operation.
//
// Work that a device has begun cannot be stopped. It is abandoned: the outputs are dropped and their memory is reused
// after the work, the operation's functions are destroyed, and then the waiter gets errc::timed_out or errc::canceled.
// A time that is not a number throws errc::invalid_argument. Host-driven, see or_else.
//
// Each costs what or_else costs: a few allocations and one wait for the device; a deadline also a timer, which takes
// O(log n), amortised, among the n timers that are set.
//
//     timeout(forward(x), 5ms).or_else(...)
//     stop_when(forward(x), stop_source.get_token())
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "sluice/base/deadline.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

// The operation that timeout, timeout_at and stop_when return.
template <operation Source>
class cancellable_operation : public operation_base<cancellable_operation<Source>> {
public:
    using output = output_of<Source>;

    cancellable_operation(Source source, std::optional<detail::deadline> deadline, std::stop_token stop)
        : source_(std::move(source)), deadline_(deadline), stop_(std::move(stop)) {}

    work_estimate estimate() const { return source_.estimate(); }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        return driver.run_until(std::move(source_), deadline_, stop_);
    }

private:
    Source source_;
    std::optional<detail::deadline> deadline_;
    std::stop_token stop_;
};

// Stops at the deadline. When it has passed already, nothing is submitted.
template <operation Source>
auto timeout_at(Source source, std::chrono::steady_clock::time_point deadline) {
    return cancellable_operation<Source>(std::move(source), detail::deadline(deadline), {});
}
// Stops after the given time, counted from this call.
template <operation Source, typename Rep, typename Period>
auto timeout(Source source, std::chrono::duration<Rep, Period> at_most) {
    return cancellable_operation<Source>(std::move(source), detail::deadline(std::chrono::duration<double>(at_most)),
                                         {});
}
// Stops when the token's source requests it.
template <operation Source>
auto stop_when(Source source, std::stop_token stop) {
    return cancellable_operation<Source>(std::move(source), {}, std::move(stop));
}

}  // namespace sluice
