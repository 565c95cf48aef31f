// retry: try again what has failed.
//
// Runs the operation that make() returns; when it fails, the one that make() returns then, up to `attempts` times in
// all. The last failure is the one that is told. A failure for which again(std::exception_ptr) says no is told at once.
// make runs on the thread that submits: first the caller's, then the runtime's completion thread. Staged, see or_else.
//
//     retry(3, [&] { return forward(x); })
#pragma once

#include <exception>
#include <type_traits>

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
    static constexpr bool is_staged = true;

    retry_operation(int attempts, Make make, Again again)
        : attempts_(attempts), make_(std::move(make)), again_(std::move(again)) {}

    work_estimate estimate() const { return {.commands = 1}; }

private:
    friend struct detail::staged_access;
    int attempts_;
    Make make_;
    Again again_;
};

// At least one attempt is made.
template <typename Make, typename Again = detail::always_again>
auto retry(int attempts, Make make, Again again = {}) {
    return retry_operation<Make, Again>(attempts, std::move(make), std::move(again));
}

}  // namespace sluice
