// resume_on: go on elsewhere.
//
//     co_await resume_on(pool);        // from here on, a thread of the pool
//
// Posts the rest of the coroutine to the executor, also when it runs there already (others that are queued go first).
// Allocates nothing and throws nothing. With an executor that runs items inside post, such as inline_executor, the
// coroutine goes on without being suspended, so that a loop of these needs no stack. The executor must live until then.
#pragma once

#include <coroutine>

#include "sluice/async/executor.hpp"

namespace sluice {

namespace detail {
class resume_on_awaiter final : private work_item {
public:
    explicit resume_on_awaiter(executor& target) noexcept : work_item(&arrive), target_(&target) {}

    bool await_ready() const noexcept { return false; }

    bool await_suspend(std::coroutine_handle<> waiter) noexcept {
        call_of_post call(this);
        waiter_ = waiter;
        call_ = &call;
        target_->post(*this);
        return !call.arrived_inside;  // *this may be gone: only the call is looked at
    }

    void await_resume() const noexcept {}

private:
    // A call of post that has not returned, on the posting thread's stack.
    class call_of_post {
    public:
        explicit call_of_post(const resume_on_awaiter* posted) noexcept : who(posted), outer(innermost) {
            innermost = this;
        }
        call_of_post(const call_of_post&) = delete;  // awaiters point to it
        call_of_post& operator=(const call_of_post&) = delete;
        ~call_of_post() { innermost = outer; }

        const resume_on_awaiter* const who;
        call_of_post* const outer;
        bool arrived_inside = false;

        static inline thread_local call_of_post* innermost = nullptr;
    };

    static void arrive(work_item& item) noexcept {
        auto& self = static_cast<resume_on_awaiter&>(item);
        call_of_post* const call = call_of_post::innermost;
        // Only the thread that posted this very item, and has not returned from post, passes: both pointers agree,
        // and no other thread's call can have the address of one on this stack.
        if (call && call == self.call_ && call->who == &self) {
            call->arrived_inside = true;
        } else {
            self.waiter_.resume();
        }
    }

    executor* target_;
    std::coroutine_handle<> waiter_;
    call_of_post* call_ = nullptr;
};
}  // namespace detail

class [[nodiscard]] resume_on_operation {
public:
    explicit resume_on_operation(executor& target) noexcept : target_(&target) {}
    detail::resume_on_awaiter operator co_await() const noexcept { return detail::resume_on_awaiter(*target_); }

private:
    executor* target_;
};

inline resume_on_operation resume_on(executor& target) noexcept { return resume_on_operation(target); }

}  // namespace sluice
