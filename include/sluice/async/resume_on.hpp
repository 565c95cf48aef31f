// SPDX-License-Identifier: Apache-2.0
// resume_on: continues the coroutine on another executor.
//
//     co_await resume_on(pool);        // from here on, a thread of the pool
//
// Posts the rest of the coroutine to the executor, also when it runs there already (items that are queued already run
// first). Allocates nothing. Throws errc::invalid_argument where a sync_wait on the executor's last free thread waits
// for the coroutine, else nothing. With an executor that runs items inside post, such as inline_executor,
// the coroutine continues without being suspended, so that a loop of these needs no stack. The executor must live until
// then.
#pragma once

#include <coroutine>

#include "sluice/async/detail/active_call.hpp"
#include "sluice/async/detail/item_threads.hpp"
#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/async/executor.hpp"

namespace sluice {

namespace detail {
class resume_on_awaiter final : private work_item {
public:
    explicit resume_on_awaiter(executor& target) noexcept : work_item(&arrive), target_(&target) {}

    bool await_ready() const {
        if (is_starting_wait()) require_other_thread(target_, "sync_wait");
        return false;
    }

    bool await_suspend(std::coroutine_handle<> waiter) noexcept {
        active_call<resume_on_awaiter> call(this);
        waiter_ = waiter;
        call_ = &call;
        target_->post(*this);
        return !call.is_over();  // *this may be destroyed: only the call is read
    }

    void await_resume() const noexcept {}

private:
    static void arrive(work_item& item) noexcept {
        auto& self = static_cast<resume_on_awaiter&>(item);
        if (!active_call<resume_on_awaiter>::end_inside(self.call_, &self)) self.waiter_.resume();
    }

    executor* target_;
    std::coroutine_handle<> waiter_;
    const active_call<resume_on_awaiter>* call_ = nullptr;
};
}  // namespace detail

class [[nodiscard]] resume_on_operation {
public:
    explicit resume_on_operation(executor& target) noexcept : target_(&target) {}
    // Called by co_await. Costs O(1).
    detail::resume_on_awaiter operator co_await() const noexcept { return detail::resume_on_awaiter(*target_); }

private:
    executor* target_;
};

inline resume_on_operation resume_on(executor& target) noexcept { return resume_on_operation(target); }

}  // namespace sluice
