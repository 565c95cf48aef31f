// device_future<T>: an operation that has been submitted and is on its way. spawn() makes one and returns at
// once. Wait for it on a thread, or await it in a coroutine:
//
//     auto first = spawn(forward(x), pool);
//     auto second = spawn(forward(y), pool);
//     std::vector<float> a = std::move(first).get();        // this thread waits
//     std::vector<float> b = co_await std::move(second);    // this coroutine waits, no thread does
//
// Where a coroutine goes on: on the runtime's completion thread, which tells all who wait; code there should be short
// and must not block. co_await std::move(future).resume_on(executor) goes on there instead. An operation that is
// complete already does not suspend the coroutine, which then goes on where it is. Pending values are opened there too,
// by whoever takes the value: a vector is made of downloaded data on the thread that calls get(), or in the coroutine.
// Large results are better awaited with resume_on, so that nobody else has to wait for the copy.
#pragma once

#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>

#include "sluice/op/deadline.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/completion_notice.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/staged.hpp"

namespace sluice {

namespace detail {
// Blocks until it is complete or the time has come; whether it is complete. A fault counts as complete.
bool await_until(const submission_ref& submitted, const deadline& until);
}  // namespace detail

// Its members throw errc::invalid_argument when the value has been taken, or moved from.
//
// Move-only. Dropping it, or a coroutine that awaits it, waits for nothing and frees its outputs in stream order. It
// may outlive its policy and its runtime.
template <typename Output>
class device_future {
public:
    using value_type = decltype(detail::open(std::declval<Output>()));

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
    // opened, or throws what went wrong.
    value_type get(std::optional<wait_mode> mode = {}) && {
        require_valid("get");
        const auto submitted = std::move(submitted_);  // from now on there is nothing to wait for
        submitted->await_completion(mode);
        return take(submitted, output_);
    }

    // Blocks until the operation is complete, or a command of it has failed: get() will tell, and not block. Throws
    // when a device has faulted.
    void wait(std::optional<wait_mode> mode = {}) const {
        require_valid("wait");
        submitted_->await_completion(mode);
    }
    // The same for at most so long: whether get() will not block. Does not throw for a fault; get() will.
    template <typename Rep, typename Period>
    bool wait_for(std::chrono::duration<Rep, Period> at_most) const {
        require_valid("wait_for");
        return detail::await_until(submitted_, detail::deadline(std::chrono::duration<double>(at_most)));
    }
    bool wait_until(std::chrono::steady_clock::time_point deadline) const {
        require_valid("wait_until");
        return detail::await_until(submitted_, detail::deadline(deadline));
    }

    // Whether it is known to be complete. Does not ask the device.
    bool is_ready() const {
        require_valid("is_ready");
        return submitted_->is_complete();
    }
    // Whether get() has not been called yet, nor has it been awaited.
    bool valid() const noexcept { return static_cast<bool>(submitted_); }
    // What it waits for; null unless valid(). For adaptors to other libraries.
    const detail::submission_ref& submission() const noexcept { return submitted_; }

    class awaiter {
    public:
        awaiter(detail::submission_ref submitted, Output output, executor* where)
            : submitted_(std::move(submitted)), output_(std::move(output)), where_(where) {}
        awaiter(awaiter&& other) noexcept  // only before it is awaited
            : submitted_(std::move(other.submitted_)), output_(std::move(other.output_)), where_(other.where_) {}

        bool await_ready() const noexcept { return submitted_->is_complete(); }
        void await_suspend(std::coroutine_handle<> waiter) {
            notice_ = detail::completion_notice::make(
                submitted_, where_,
                [](void* address) noexcept { std::coroutine_handle<>::from_address(address).resume(); },
                waiter.address());
            notice_.get()->start();  // from here on another thread may have resumed, and all this may be gone
        }
        value_type await_resume() { return take(submitted_, output_); }

    private:
        detail::submission_ref submitted_;
        Output output_;
        executor* where_;
        detail::completion_notice::handle notice_;  // a coroutine that is destroyed while it waits is not resumed
    };

    awaiter operator co_await() && { return std::move(*this).resume_on(nullptr); }
    // An awaitable that goes on as the executor says, which outlives the wait.
    awaiter resume_on(executor& where) && { return std::move(*this).resume_on(&where); }

private:
    static value_type take(const detail::submission_ref& submitted, Output& output) {
        submitted->rethrow_failure();
        return detail::open(std::move(output));
    }

    awaiter resume_on(executor* where) && {
        require_valid("await");
        return awaiter(std::move(submitted_), std::move(output_), where);
    }

    void require_valid(std::string_view what) const {
        if (!valid()) throw error(errc::invalid_argument, "a future gives its value once", {what});
    }

    detail::submission_ref submitted_;  // outlives the output, and keeps its streams alive
    Output output_;
};

// Submits the operation to the policy's next stream and returns without waiting for the device. Throws what
// submitting throws; what was submitted before that is abandoned, safely.
//
// An operation that recovers, tries again or gives up gives a spawned<T> instead, which is waited for in the same way
// (but a fault is told by get() only); its first part is submitted here, and exceptions of submitting it come with the
// result.
template <operation Op>
auto spawn(Op op, scheduling_policy& policy) {
    if constexpr (is_staged<Op>) {
        const auto at = std::make_shared<detail::stage>(policy);
        static inline_executor here;
        using part = detail::submitted_part<output_of<Op>>;
        using result = decltype(detail::open(std::declval<output_of<Op>>()));
        const auto open = [](detail::root<part>& ended) -> result {
            part done = ended.take();
            return detail::open(std::move(done.output));
        };
        auto running = detail::spawn_to_finish<result>(detail::staged_task(std::move(op), at), here, open);
        at->leave();
        return running;
    } else {
        execution_context context(policy);
        auto output = std::move(op).submit(context);
        return device_future<output_of<Op>>(std::move(context).submission(), std::move(output));
    }
}

}  // namespace sluice
