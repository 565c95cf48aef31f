// SPDX-License-Identifier: Apache-2.0
// part_context: where the parts of a host-driven operation are submitted, one after the other: first by the thread that
// spawns it, later by the runtime's completion thread. completion_awaiter: awaits the completion of what was submitted.
//
// Functions of a host-driven operation are called by the thread that is inside the operation's serial_executor, so one
// at a time. Another thread ends this: it enters the executor and destroys the operation's coroutines, with all that
// they hold. That is how a future is dropped, and how timeout and stop_when stop waiting. Only a function of the
// operation itself cannot destroy its own coroutines: it marks the context as abandoned, and no further function is
// called.
#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <thread>

#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/completion_notice.hpp"
#include "sluice/runtime/detail/serial_executor.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::detail {

// Thread safety: owner() and serial() may be called on any thread, the other members inside serial().
class part_context {
public:
    explicit part_context(scheduling_policy& policy) : part_context(policy.next().queue(), &policy) {}
    explicit part_context(sluice::stream on) : part_context(on.queue(), nullptr) {}
    // Of a part of another operation; can be abandoned by itself.
    explicit part_context(std::shared_ptr<const part_context> outer)
        : home_(outer->home_),
          alive_(home_.owner()),
          policy_(outer->policy_),
          submitter_(outer->submitter_),
          serial_(outer->serial_),
          outer_(std::move(outer)) {}
    part_context(const part_context&) = delete;  // shared
    part_context& operator=(const part_context&) = delete;

    // The spawning call has submitted what it submits. Until then branches may use other streams of the policy; later
    // the policy may be destroyed, and everything is submitted to the first stream.
    void detach_policy() noexcept { is_detached_ = true; }

    device& owner() const noexcept { return home_.owner(); }
    // Runs all that belongs to the operation.
    const std::shared_ptr<serial_executor>& serial() const noexcept { return serial_; }

    // Called before each part, and before each function of the user's.
    void throw_if_abandoned() const {
        if (!is_abandoned()) return;
        throw error(errc::canceled, "the operation was abandoned before this part", {"", owner().name()});
    }
    bool is_abandoned() const noexcept { return is_abandoned_ || (outer_ && outer_->is_abandoned()); }
    // Whether memory may come back: on a device of the runtime that has not faulted, a command is not complete, or more
    // memory is in use than what the library keeps for itself (memory_pool::statistics::own_bytes).
    bool may_memory_come() const;
    // A number of the first stream.
    std::size_t number() const noexcept { return home_.number(); }
    // From now on nothing more of the operation is submitted.
    void abandon() noexcept { is_abandoned_ = true; }

    // The context for a new part. Throws when the operation has been abandoned.
    execution_context new_context() const {
        throw_if_abandoned();
        if (policy_ != nullptr && std::this_thread::get_id() == submitter_ && !is_detached()) {
            return execution_context(sluice::stream(home_), policy_);
        }
        return execution_context(sluice::stream(home_));
    }

private:
    part_context(command_queue& home, scheduling_policy* policy)
        : home_(home),
          alive_(home.owner()),
          policy_(policy),
          serial_(std::make_shared<serial_executor>(home.owner())) {}

    bool is_detached() const noexcept { return outer_ ? outer_->is_detached() : is_detached_; }

    command_queue& home_;
    const runtime_ref alive_;
    scheduling_policy* const policy_ = nullptr;
    const std::thread::id submitter_ = std::this_thread::get_id();
    const std::shared_ptr<serial_executor> serial_;
    const std::shared_ptr<const part_context> outer_;
    bool is_detached_ = false;
    bool is_abandoned_ = false;
};

using part_context_ref = std::shared_ptr<part_context>;

// co_await completion_awaiter(submitted, at): resumes, inside the serial executor, when all of it is complete. Throws
// what failed.
class completion_awaiter {
public:
    completion_awaiter(submission_ref submitted, const part_context_ref& at) noexcept
        : submitted_(std::move(submitted)), serial_(at->serial()) {}
    completion_awaiter(const completion_awaiter&) = delete;  // lives in the waiter's frame
    completion_awaiter& operator=(const completion_awaiter&) = delete;

    bool await_ready() const noexcept { return submitted_->is_complete(); }
    void await_suspend(std::coroutine_handle<> waiter) {
        notice_ = completion_notice::make(
            submitted_, serial_,
            [](void* address) noexcept { std::coroutine_handle<>::from_address(address).resume(); }, waiter.address());
        notice_.get()->start();  // from here on *this may be destroyed
    }
    void await_resume() const { submitted_->rethrow_failure(); }

private:
    submission_ref submitted_;
    std::shared_ptr<serial_executor> serial_;
    completion_notice::handle notice_;
};

// The same, and failures are ignored.
class end_awaiter : public completion_awaiter {
public:
    using completion_awaiter::completion_awaiter;
    void await_resume() const noexcept {}
};

// The output of a part, and the work that must be complete before it counts.
template <typename Output>
class submitted_part {
public:
    submitted_part(Output made, submission_ref submitted) : output(std::move(made)), work(std::move(submitted)) {}
    submitted_part(submitted_part&&) = default;
    submitted_part& operator=(submitted_part&&) = default;
    ~submitted_part() = default;

    // The same work with another output.
    template <typename Other>
    submitted_part<Other> with(Other replacement) && {
        return submitted_part<Other>(std::move(replacement), std::move(work));
    }
    // This output counts when the earlier part's work is complete, too.
    template <typename Other>
    void join(submitted_part<Other>&& earlier) {
        work->join(std::move(earlier.work));
    }

    Output output;
    submission_ref work;
};

}  // namespace sluice::detail
