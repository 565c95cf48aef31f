// stage: where the parts of a staged operation are submitted, one after the other, by the thread that spawns it and
// later by the runtime's completion thread. settlement: awaits that what was submitted is complete.
#pragma once

#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <thread>

#include "sluice/runtime/completion_notice.hpp"
#include "sluice/runtime/error.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::detail {

// Thread safety: the parts of one operation may be submitted by several threads.
class stage {
public:
    explicit stage(scheduling_policy& policy) : home_(policy.next().queue()), alive_(home_.owner()), policy_(&policy) {}
    explicit stage(sluice::stream& on) : home_(on.queue()), alive_(home_.owner()) {}
    // A part of another one, which can be abandoned by itself.
    explicit stage(std::shared_ptr<const stage> outer)
        : home_(outer->home_),
          alive_(home_.owner()),
          policy_(outer->policy_),
          submitter_(outer->submitter_),
          outer_(std::move(outer)) {}
    stage(const stage&) = delete;  // shared
    stage& operator=(const stage&) = delete;

    // Where the first parts go, which the caller submits, branches may use the policy's other streams. Later the policy
    // may be gone, and everything goes to the first stream.
    void leave() noexcept { has_left_ = true; }

    command_queue& home() const noexcept { return home_; }
    device& owner() const noexcept { return home_.owner(); }

    // Throws when the operation has been abandoned. Asked before each part, and before each function of the user's that
    // makes one: what that refers to need only live as long as somebody waits.
    void require_wanted() const {
        if (!is_abandoned()) return;
        throw error(errc::canceled, "the operation was abandoned before this part", {"", owner().name()});
    }
    bool is_abandoned() const noexcept {
        return is_abandoned_.load(std::memory_order_acquire) || (outer_ && outer_->is_abandoned());
    }

    // A new part's context. Throws when the operation has been abandoned.
    execution_context enter() const {
        require_wanted();
        if (policy_ != nullptr && std::this_thread::get_id() == submitter_ && !has_left()) {
            return execution_context(home_.handle(), policy_);
        }
        return execution_context(home_.handle());
    }
    // Nothing more of it is to be submitted.
    void abandon() noexcept { is_abandoned_.store(true, std::memory_order_release); }

private:
    bool has_left() const noexcept { return outer_ ? outer_->has_left() : has_left_; }

    command_queue& home_;
    const runtime_ref alive_;
    scheduling_policy* const policy_ = nullptr;
    const std::thread::id submitter_ = std::this_thread::get_id();
    const std::shared_ptr<const stage> outer_;
    bool has_left_ = false;  // the submitter's
    std::atomic<bool> is_abandoned_{false};
};

using stage_ref = std::shared_ptr<stage>;

// co_await settlement(submitted): goes on, on the completion thread, when all of it is complete. Throws what failed.
class settlement {
public:
    explicit settlement(submission_ref submitted) noexcept : submitted_(std::move(submitted)) {}
    settlement(const settlement&) = delete;  // lives in the waiter's frame
    settlement& operator=(const settlement&) = delete;

    bool await_ready() const noexcept { return submitted_->is_complete(); }
    void await_suspend(std::coroutine_handle<> waiter) {
        notice_ = completion_notice::make(
            submitted_, nullptr,
            [](void* address) noexcept { std::coroutine_handle<>::from_address(address).resume(); }, waiter.address());
        notice_.get()->start();  // from here on all this may be gone
    }
    void await_resume() const { submitted_->rethrow_failure(); }

private:
    submission_ref submitted_;
    completion_notice::handle notice_;
};

// The output of a part, and the work that is to be complete before it counts.
template <typename Output>
class submitted_part {
public:
    submitted_part(Output made, submission_ref submitted) : output(std::move(made)), work(std::move(submitted)) {}
    submitted_part(submitted_part&&) = default;
    submitted_part& operator=(submitted_part&&) = default;
    ~submitted_part() = default;

    Output output;
    submission_ref work;
};

}  // namespace sluice::detail
