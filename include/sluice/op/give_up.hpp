// timeout, stop_when: give up waiting for an operation.
//
// Work that a device has begun cannot be stopped. It is abandoned: the waiter gets errc::timed_out or errc::canceled,
// the outputs are dropped when they come and their memory is reused behind the work, and nothing more of the operation
// is submitted. Staged, see or_else.
//
//     timeout(forward(x), 5ms).or_else(...)
//     stop_when(forward(x), stop_source.get_token())
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "sluice/op/deadline.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source>
class give_up_operation : public operation_base<give_up_operation<Source>> {
public:
    using output = output_of<Source>;
    static constexpr bool is_staged = true;

    give_up_operation(Source source, std::optional<detail::deadline> deadline, std::stop_token stop)
        : source_(std::move(source)), deadline_(deadline), stop_(std::move(stop)) {}

    work_estimate estimate() const { return source_.estimate(); }

private:
    friend struct detail::staged_access;
    Source source_;
    std::optional<detail::deadline> deadline_;
    std::stop_token stop_;
};

// Gives up at the time. A deadline that has passed already gives up before anything is submitted.
template <operation Source>
auto give_up_at(Source source, std::chrono::steady_clock::time_point deadline) {
    return give_up_operation<Source>(std::move(source), detail::deadline(deadline), {});
}
// Gives up so long from now: the time runs from this call.
template <operation Source, typename Rep, typename Period>
auto timeout(Source source, std::chrono::duration<Rep, Period> at_most) {
    return give_up_operation<Source>(std::move(source), detail::deadline(std::chrono::duration<double>(at_most)), {});
}
// Gives up when the token's source asks to stop.
template <operation Source>
auto stop_when(Source source, std::stop_token stop) {
    return give_up_operation<Source>(std::move(source), {}, std::move(stop));
}

}  // namespace sluice
