// SPDX-License-Identifier: Apache-2.0
// sync: run an operation and wait for it on the calling thread.
//
// Returns the operation's output with everything pending opened: pending<std::vector<float>> becomes
// std::vector<float>; tensors and other handles are returned as they are; several outputs are a tuple. Throws
// what submitting threw, or what failed on the device; then nothing leaks.
//
// A wait that could never end throws errc::invalid_argument, names sync and the device, and submits nothing: in a host
// call of the device, and on its worker threads (in a coroutine that was resumed there by an inline_executor); and, for
// an operation that recovers, tries again or gives up, on the runtime's completion thread (in a coroutine after
// co_await, unless it was resumed elsewhere by resume_on). Any other operation may be waited for there, because streams
// need no thread of the runtime; but until then that thread resumes no other waiter.
//
// All functions here take on the host what submitting the operation takes, and time linear in the bytes that it
// downloads.
//
//     std::vector<float> y = sync(forward(x), pool);
#pragma once

#include <optional>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/driven_wait.hpp"
#include "sluice/runtime/detail/host_driven.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"

namespace sluice {

namespace detail {
template <operation Op>
auto sync_in(Op op, execution_context& context, std::optional<wait_mode> mode) {
    require_may_wait(context.device(), "sync");
    const auto finish = [&] {
        context.submission()->await_completion(mode);
        context.submission()->rethrow_failure();
    };
    auto output = [&] {
        try {
            auto made = std::move(op).submit(context);
            reach_pending(*context.submission(), made);
            return made;
        } catch (...) {
            // Part of it may be running, safely. Its failure on the device, should there be one, is the
            // better explanation.
            finish();
            throw;
        }
    }();
    finish();
    return open(std::move(output));
}
}  // namespace detail

// On the policy's next stream. Blocks the calling thread in the given way, or in the device's usual one.
template <operation Op>
auto sync(Op op, scheduling_policy& policy, std::optional<wait_mode> mode = {}) {
    if constexpr (is_host_driven<Op>) {
        return detail::sync_host_driven(std::move(op), std::make_shared<detail::part_context>(policy));
    } else {
        execution_context context(policy);
        return detail::sync_in(std::move(op), context, mode);
    }
}

// On this very stream.
template <operation Op>
auto sync_on(Op op, stream on, std::optional<wait_mode> mode = {}) {
    if constexpr (is_host_driven<Op>) {
        return detail::sync_host_driven(std::move(op), std::make_shared<detail::part_context>(on));
    } else {
        execution_context context(on);
        return detail::sync_in(std::move(op), context, mode);
    }
}

}  // namespace sluice
