// completion_notice: tells somebody, once, when a submission is complete or its device has faulted.
//
// Thread safety: start() and cancel() on the owner's thread, one after the other; the telling on a thread of the
// executor's. The notice lives until both the owner and the telling have let go of it.
#pragma once

#include <atomic>
#include <utility>

#include "sluice/async/executor.hpp"
#include "sluice/runtime/command_queue.hpp"
#include "sluice/runtime/submission.hpp"

namespace sluice::detail {

class completion_notice final : private work_item, private completion_waiter {
public:
    using function = void (*)(void* whom) noexcept;

    // Owns one half of a notice. Dropping it cancels.
    class handle {
    public:
        handle() = default;
        explicit handle(completion_notice* made) noexcept : notice_(made) {}
        handle(handle&& other) noexcept : notice_(std::exchange(other.notice_, nullptr)) {}
        handle& operator=(handle other) noexcept {
            std::swap(notice_, other.notice_);
            return *this;
        }
        ~handle() {
            if (notice_ == nullptr) return;
            notice_->cancel();
            notice_->release();
        }
        completion_notice* get() const noexcept { return notice_; }

    private:
        completion_notice* notice_ = nullptr;
    };

    // Will call tell(whom) on `where`, or on the runtime's completion thread when that is null.
    static handle make(submission_ref of, executor* where, function tell, void* whom);

    // At once or later; once. The owner may be gone when this returns.
    void start() noexcept;
    // Whether it will not be told, and was not. False: the telling is under way, or over.
    bool cancel() noexcept { return take(); }

private:
    completion_notice(submission_ref of, executor* where, function tell, void* whom);
    ~completion_notice() = default;

    bool take() noexcept { return !is_taken_.exchange(true, std::memory_order_acq_rel); }
    void step() noexcept;
    void run_told() noexcept;
    void release() noexcept;

    const submission_ref of_;
    executor* const where_;
    const function tell_;
    void* const whom_;
    std::atomic<bool> is_taken_{false};  // by the telling, or by cancel
    std::atomic<int> owners_{1};
};

}  // namespace sluice::detail
