// SPDX-License-Identifier: Apache-2.0
// completion_notice: calls a function once, when a submission is complete or its device has faulted.
//
// Thread safety: start() and cancel() on the owner's thread, one after the other; the call runs on a thread of the
// executor. The notice lives until both the owner and the call have released it.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "sluice/async/executor.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/submission.hpp"

namespace sluice::detail {

class completion_notice final : private work_item, private completion_waiter {
public:
    using function = void (*)(void* whom) noexcept;

    // The owner's half of a notice. Dropping it cancels the notice.
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

    // The notice calls tell(whom) on `target`, or on the runtime's completion thread when that is null.
    static handle make(submission_ref of, executor* target, function tell, void* whom);
    // The same; the notice also keeps the executor alive until then.
    static handle make(submission_ref of, std::shared_ptr<executor> target, function tell, void* whom);

    // The call comes during this function or later; once. It may destroy the owner before this returns.
    void start() noexcept;
    // True: the function was not and will not be called, and the executor is not used after this returns, except for
    // an item that it holds. Waits while another thread posts to an executor of the user's. False: the call is running
    // or has completed.
    bool cancel() noexcept;

private:
    completion_notice(submission_ref of, executor* target, function tell, void* whom);
    ~completion_notice() = default;

    enum class state : unsigned char { waiting, posting, posted, taken };  // taken: by the call, or by cancel()

    void step() noexcept;
    void post() noexcept;
    void run_callback() noexcept;
    void release() noexcept;

    const submission_ref of_;
    std::shared_ptr<executor> kept_;  // target_ or null
    executor* const target_;
    const function tell_;
    void* const whom_;
    std::atomic<state> state_{state::waiting};
    std::atomic<int> owners_{1};
};

}  // namespace sluice::detail
