// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/detail/thread_duty.hpp"

#include <string>
#include <utility>

#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

struct thread_state {
    thread_duty duty = thread_duty::none;
    int starts = 0;  // of coroutines whose end the thread then waits for
};
thread_local thread_state mine;

}  // namespace

thread_duty duty_of_this_thread() noexcept { return mine.duty; }

duty_scope::duty_scope(thread_duty duty) noexcept : before_(std::exchange(mine.duty, duty)) {}
duty_scope::~duty_scope() { mine.duty = before_; }

start_before_wait::start_before_wait() noexcept {
    require_no_lock("for a task");
    ++mine.starts;
}
start_before_wait::~start_before_wait() { --mine.starts; }

start_without_wait::start_without_wait() noexcept : before_(std::exchange(mine.starts, 0)) {}
start_without_wait::~start_without_wait() { mine.starts = before_; }

bool is_starting_wait() noexcept { return mine.starts != 0; }
bool is_wait_with_duty() noexcept { return mine.starts != 0 && mine.duty != thread_duty::none; }

void require_may_wait_for_task(std::string_view operation) {
    require_no_lock("for a task");
    if (mine.duty == thread_duty::none) return;
    const std::string who = mine.duty == thread_duty::resumes_waiters
                                ? "the runtime's completion thread cannot wait for a task"
                                : "a thread that runs a device's commands cannot wait for a task";
    throw error(errc::invalid_argument,
                who +
                    " that has not ended, because the task may need this thread. co_await the task instead, or "
                    "continue on another executor first: co_await resume_on(executor)",
                {operation});
}

}  // namespace sluice::detail
