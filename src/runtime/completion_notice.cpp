// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/completion_notice.hpp"

#include "runtime/completion_service.hpp"

namespace sluice::detail {
namespace {

// The notices that the calling thread is posting: what an executor runs in post may post another one.
struct posting_scope {
    explicit posting_scope(const completion_notice& what) noexcept
        : notice(&what), outer(std::exchange(latest, this)) {}
    posting_scope(const posting_scope&) = delete;  // latest points to it
    posting_scope& operator=(const posting_scope&) = delete;
    ~posting_scope() { latest = outer; }

    static bool contains(const completion_notice& one) noexcept {
        for (const posting_scope* each = latest; each != nullptr; each = each->outer)
            if (each->notice == &one) return true;
        return false;
    }

    const completion_notice* const notice;
    posting_scope* const outer;
    static thread_local posting_scope* latest;
};
thread_local posting_scope* posting_scope::latest = nullptr;

}  // namespace

completion_notice::handle completion_notice::make(submission_ref of, executor* target, function tell, void* whom) {
    return handle(new completion_notice(std::move(of), target, tell, whom));
}

completion_notice::handle completion_notice::make(submission_ref of, std::shared_ptr<executor> target, function tell,
                                                  void* whom) {
    handle made = make(std::move(of), target.get(), tell, whom);
    made.get()->kept_ = std::move(target);
    return made;
}

completion_notice::completion_notice(submission_ref of, executor* target, function tell, void* whom)
    : work_item([](work_item& self) noexcept { static_cast<completion_notice&>(self).run_callback(); }),
      of_(std::move(of)),
      target_(target != nullptr ? target : &of_->home().service()),
      tell_(tell),
      whom_(whom) {
    complete = [](completion_waiter& self) noexcept { static_cast<completion_notice&>(self).step(); };
}

void completion_notice::start() noexcept {
    owners_.fetch_add(1, std::memory_order_relaxed);
    step();
}

// Waits for one open point after the other: each completion leads to the next step.
void completion_notice::step() noexcept {
    // Once the notice is added or posted, another thread may call the function, which may drop the last reference to
    // the runtime.
    const runtime_ref alive(of_->home());
    const stream_point open = of_->next_open();
    if (open.queue == nullptr || open.queue->owner().is_poisoned()) {
        post();
        return;
    }
    upto = open.upto;
    open.queue->add_waiter(*this);
}

void completion_notice::post() noexcept {
    // The runtime's own executor outlives the notice, so cancel() does not wait for this call. It may run other items
    // here, when it is closed: those may cancel this notice.
    const bool is_own = target_ == &of_->home().service();
    state waiting = state::waiting;
    if (!state_.compare_exchange_strong(waiting, is_own ? state::posted : state::posting, std::memory_order_acq_rel)) {
        return release();  // cancelled: the executor may be destroyed
    }
    if (is_own) return target_->post(*this);
    owners_.fetch_add(1, std::memory_order_relaxed);  // the call may release the notice before post() returns
    {
        const posting_scope scope(*this);
        target_->post(*this);
    }
    state posting = state::posting;
    if (state_.compare_exchange_strong(posting, state::posted, std::memory_order_acq_rel)) state_.notify_all();
    release();
}

bool completion_notice::cancel() noexcept {
    state now = state_.load(std::memory_order_acquire);
    for (;;) {
        switch (now) {
            case state::taken: return false;
            case state::posting:
                if (posting_scope::contains(*this)) {  // this thread: what the executor runs in post cancels it
                    if (state_.compare_exchange_weak(now, state::taken, std::memory_order_acq_rel)) return true;
                    break;
                }
                state_.wait(now, std::memory_order_acquire);
                now = state_.load(std::memory_order_acquire);
                break;
            default:
                if (state_.compare_exchange_weak(now, state::taken, std::memory_order_acq_rel)) return true;
        }
    }
}

void completion_notice::run_callback() noexcept {
    const state before = state_.exchange(state::taken, std::memory_order_acq_rel);
    if (before == state::posting) state_.notify_all();
    if (before != state::taken) tell_(whom_);
    release();
}

void completion_notice::release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace sluice::detail
