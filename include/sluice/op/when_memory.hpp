// SPDX-License-Identifier: Apache-2.0
// when_memory: wait for memory instead of failing.
//
//     when_memory([&] { return zeros<float>({n}).and_then(work); })
//
// Runs the operation that make() returns. When it fails with out_of_memory, it is released, and when all that it
// submitted has ended, the operation of the next call of make() runs after a delay, which grows from 0.1 ms to 10 ms:
// so it continues within 10 ms after there is memory. The delay is a timer that no thread waits for. (An allocation
// waits for commands that use free memory, as everywhere: docs/memory.md.) Host-driven, and make runs on the threads,
// as in retry; each attempt costs what one of retry costs.
//
// It waits as long as memory may come back: while a command of this runtime is not complete (a kernel that stays is
// one), or memory of its devices is in use by a tensor, a buffer, a future, a graph or another object. What the library
// keeps for itself does not count (memory_pool::statistics::own_bytes), nor does memory of other programs. So these
// fail with out_of_memory: an allocation of more than there is in all, at once; and an operation that does not fit
// although nothing of the runtime is in use, after a few attempts. Where something stays in use, one that can never fit
// waits until a timeout or stop_when gives it up; that includes what make itself keeps.
//
// There is no queue: operations that need little may pass one that needs much. An operation that waits holds nothing,
// so operations in when_memory do not wait for each other for ever. Others may wait for what its caller holds: take all
// memory in one operation.
#pragma once

#include <chrono>
#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/growing_delay.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

template <typename Make>
class when_memory_operation : public operation_base<when_memory_operation<Make>> {
    static_assert(operation<std::invoke_result_t<Make&>>, "when_memory: the function must return an operation");

public:
    using output = output_of<std::invoke_result_t<Make&>>;

    explicit when_memory_operation(Make make) : make_(std::move(make)) {}

    work_estimate estimate() const { return {.commands = 1}; }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        once_.use("when_memory");
        detail::delays delays({.first = std::chrono::microseconds(100),
                               .most = std::chrono::milliseconds(10),
                               .seed = driver.delay_seed()});
        // The attempts in turn before which nothing was in use. Others may take memory and release it during one, so
        // one alone says little.
        int for_nothing = 0;
        for (;;) {
            std::exception_ptr failure;
            bool is_too_much = false;
            try {
                auto attempt = driver.run_to_its_end(make_());
                auto done = co_await std::move(attempt);
                co_return std::move(done);
            } catch (const out_of_memory& its) {
                failure = std::current_exception();
                is_too_much = its.total_bytes() != 0 && its.requested_bytes() > its.total_bytes();
            }
            if (driver.is_over() || is_too_much || for_nothing == most_for_nothing) std::rethrow_exception(failure);
            auto pause = driver.pause(delays.next());
            co_await pause;
            if (driver.is_over()) std::rethrow_exception(failure);
            for_nothing = driver.may_memory_come() ? 0 : for_nothing + 1;
        }
    }

private:
    static constexpr int most_for_nothing = 4;

    Make make_;
    detail::single_use once_;
};

template <typename Make>
auto when_memory(Make make) {
    return when_memory_operation<Make>(std::move(make));
}

}  // namespace sluice
