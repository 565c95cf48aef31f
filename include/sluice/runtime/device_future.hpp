// SPDX-License-Identifier: Apache-2.0
// device_future<T>: an operation that has been submitted and is in flight. spawn() creates one and returns at once.
// Wait for it on a thread, or await it in a coroutine:
//
//     auto first = spawn(forward(x), pool);
//     auto second = spawn(forward(y), pool);
//     std::vector<float> a = std::move(first).get();        // this thread waits
//     std::vector<float> b = co_await std::move(second);    // this coroutine waits, no thread does
//
// A coroutine continues on the runtime's completion thread, which resumes all waiters; code there should be short and
// must not block. co_await std::move(future).resume_on(executor) continues on the executor instead. An operation that
// is complete already does not suspend the coroutine. The thread that takes the value also opens what is pending in it:
// downloaded data becomes a vector on the thread that calls get(), or in the coroutine. Await large results with
// resume_on, so that no other waiter has to wait for the copy.
//
// All members take time at most linear in the number of queues that the operation uses, without the waiting; get and
// await_resume also open what is pending.
#pragma once

#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>

#include "sluice/base/deadline.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/completion_notice.hpp"
#include "sluice/runtime/detail/host_driven.hpp"
#include "sluice/runtime/detail/timed_wait.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"

namespace sluice {

// Its members throw errc::invalid_argument when the value has been taken, or moved from.
//
// Move-only. Dropping it waits for nothing and frees its outputs in stream order; so does dropping a coroutine that
// awaits it, when no thread is about to resume that (see task.hpp). It may outlive its policy and its runtime.
//
// While the operation is not complete, get, wait, wait_for and wait_until throw errc::invalid_argument on a worker
// thread of the device and in a host call; the last two also on the runtime's completion thread, unless the time is
// zero.
template <typename Output>
class device_future {
public:
    using value_type = decltype(detail::open(std::declval<Output>()));  // the output with everything pending opened

    // Made by spawn, of what an operation has submitted and returned.
    device_future(detail::submission_ref submitted, Output output)
        : submitted_(std::move(submitted)), output_(std::move(output)) {
        detail::reach_pending(*submitted_, output_);
    }
    device_future(device_future&&) noexcept = default;
    device_future& operator=(device_future&&) noexcept = default;
    device_future(const device_future&) = delete;  // one waiter gets the value
    device_future& operator=(const device_future&) = delete;
    ~device_future() = default;

    // Blocks the calling thread until the operation is complete; returns its output with everything pending
    // opened, or throws its failure. Then it takes time linear in the bytes that the operation downloads, because it
    // copies them.
    value_type get(std::optional<wait_mode> mode = {}) && {
        require_may_block("get");
        const auto submitted = std::move(submitted_);  // from now on the future is not valid
        submitted->await_completion(mode);
        return take(submitted, output_);
    }

    // Blocks until the operation is complete, or a command of it has failed: then get() throws and does not block.
    // Throws when a device has faulted.
    void wait(std::optional<wait_mode> mode = {}) const {
        require_may_block("wait");
        submitted_->await_completion(mode);
    }
    // The same for at most the given time; returns whether get() will not block. Does not throw for a fault; get()
    // will. With a time of zero it polls the device and does not block.
    template <typename Rep, typename Period>
    bool wait_for(std::chrono::duration<Rep, Period> at_most) const {
        require_valid("wait_for");
        return timed_wait_.until(submitted_, detail::deadline(std::chrono::duration<double>(at_most)));
    }
    // The same until that time; a time that has passed polls the device and does not block.
    bool wait_until(std::chrono::steady_clock::time_point deadline) const {
        require_valid("wait_until");
        return timed_wait_.until(submitted_, detail::deadline(deadline));
    }

    // Whether it is known to be complete. Does not poll the device. Linear in the number of queues that the operation
    // uses.
    bool is_ready() const {
        require_valid("is_ready");
        return submitted_->is_complete();
    }
    // Whether get() has not been called yet, nor has it been awaited.
    bool valid() const noexcept { return static_cast<bool>(submitted_); }
    // What it waits for; null unless valid(). For adaptors to other libraries.
    const detail::submission_ref& submission() const noexcept { return submitted_; }

    // What co_await waits with, in the place of the future. A coroutine needs nothing of it.
    class awaiter {
    public:
        // Made by the future. A null `target`: the waiter continues on the runtime's completion thread.
        awaiter(detail::submission_ref submitted, Output output, executor* target)
            : submitted_(std::move(submitted)), output_(std::move(output)), target_(target) {}
        awaiter(awaiter&& other) noexcept  // only before it is awaited
            : submitted_(std::move(other.submitted_)), output_(std::move(other.output_)), target_(other.target_) {}

        // Whether the operation is complete. Throws errc::invalid_argument on a thread that must not wait.
        bool await_ready() const {
            if (submitted_->is_complete()) return true;
            detail::require_may_await(*submitted_, target_);
            return false;
        }
        // Has the waiter resumed when the operation is complete.
        void await_suspend(std::coroutine_handle<> waiter) {
            notice_ = detail::completion_notice::make(
                submitted_, target_,
                [](void* address) noexcept { std::coroutine_handle<>::from_address(address).resume(); },
                waiter.address());
            notice_.get()->start();  // from here on another thread may have resumed the waiter and destroyed *this
        }
        // The output, opened; or throws the operation's failure.
        value_type await_resume() { return take(submitted_, output_); }

    private:
        detail::submission_ref submitted_;
        Output output_;
        executor* target_;
        detail::completion_notice::handle notice_;  // a coroutine that is destroyed while it waits is not resumed
    };

    // Takes the value; once. Continues on the runtime's completion thread, or at once when the operation is complete.
    awaiter operator co_await() && { return std::move(*this).resume_on(nullptr); }
    // An awaitable that continues on the executor, which outlives the wait.
    awaiter resume_on(executor& target) && { return std::move(*this).resume_on(&target); }

private:
    static value_type take(const detail::submission_ref& submitted, Output& output) {
        submitted->rethrow_failure();
        return detail::open(std::move(output));
    }

    awaiter resume_on(executor* target) && {
        require_valid("await");
        return awaiter(std::move(submitted_), std::move(output_), target);
    }

    void require_valid(std::string_view what) const {
        if (!valid()) throw error(errc::invalid_argument, "a future gives its value once", {what});
    }

    void require_may_block(std::string_view what) const {
        require_valid(what);
        if (!submitted_->is_complete()) detail::require_may_wait(*submitted_, what);
    }

    detail::submission_ref submitted_;  // outlives the output, and keeps its streams alive
    Output output_;
    detail::timed_wait timed_wait_;
};

// Submits the operation to the policy's next stream and returns without waiting for the device. Throws what
// submitting throws; what was submitted before that is abandoned, safely. Costs on the host what submitting the
// operation costs.
//
// An operation that recovers, tries again or gives up gives a spawned<T> instead, which is waited for in the same way
// (but only get() throws a fault, and it must not be waited for on the completion thread). Its first part is submitted
// here; exceptions of that are given with the result. Dropping the spawned<T> ends the operation: when the drop
// returns, none of its functions runs or will run, and what they hold is destroyed. The drop waits for a function that
// is running, unless that function itself drops it. See docs/errors.md.
template <operation Op>
auto spawn(Op op, scheduling_policy& policy) {
    if constexpr (is_host_driven<Op>) {
        return detail::spawn_host_driven(std::move(op), policy);
    } else {
        execution_context context(policy);
        auto output = std::move(op).submit(context);
        return device_future<output_of<Op>>(std::move(context).submission(), std::move(output));
    }
}

}  // namespace sluice
