// sync: run an operation and wait for it on the calling thread.
//
// Returns the operation's output with everything pending opened: pending<std::vector<float>> becomes
// std::vector<float>; tensors and other handles come as they are; several outputs come as a tuple. Throws
// what submitting threw, or what went wrong on the device; then nothing is returned and nothing leaks.
//
//     std::vector<float> y = sync(forward(x), pool);
#pragma once

#include <optional>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/driven_wait.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/staged.hpp"

namespace sluice {

namespace detail {
template <operation Op>
auto sync_in(Op op, execution_context& context, std::optional<wait_mode> mode) {
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
    if constexpr (is_staged<Op>) {
        const auto at = std::make_shared<detail::stage>(policy);
        auto done = detail::await_task(detail::staged_task(std::move(op), at), at->owner());
        return detail::open(std::move(done.output));
    } else {
        execution_context context(policy);
        return detail::sync_in(std::move(op), context, mode);
    }
}

// On this very stream.
template <operation Op>
auto sync_on(Op op, stream& on, std::optional<wait_mode> mode = {}) {
    if constexpr (is_staged<Op>) {
        const auto at = std::make_shared<detail::stage>(on);
        auto done = detail::await_task(detail::staged_task(std::move(op), at), at->owner());
        return detail::open(std::move(done.output));
    } else {
        execution_context context(on);
        return detail::sync_in(std::move(op), context, mode);
    }
}

}  // namespace sluice
