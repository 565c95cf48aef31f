// SPDX-License-Identifier: Apache-2.0
// thread_duty: what the calling thread does for a device or a runtime. A thread with a duty must not wait for work that
// may need it.
#pragma once

#include <string_view>

namespace sluice::detail {

enum class thread_duty : unsigned char {
    none,
    runs_commands,    // a worker of a CPU device, or a thread of a GPU's driver while it runs a host call
    resumes_waiters,  // the completion thread of a runtime
};

thread_duty duty_of_this_thread() noexcept;

// The calling thread has the duty while this exists.
class duty_scope {
public:
    explicit duty_scope(thread_duty duty) noexcept;
    duty_scope(const duty_scope&) = delete;  // belongs to the thread
    duty_scope& operator=(const duty_scope&) = delete;
    ~duty_scope();

private:
    const thread_duty before_;
};

// While it exists, the calling thread starts coroutines whose end it then waits for (sync_wait). An awaiter that would
// suspend one of them until this very thread continues throws instead.
class start_before_wait {
public:
    start_before_wait() noexcept;
    start_before_wait(const start_before_wait&) = delete;  // belongs to the thread
    start_before_wait& operator=(const start_before_wait&) = delete;
    ~start_before_wait();
};
// While it exists, the calling thread starts coroutines for others: it does not wait for their end.
class start_without_wait {
public:
    start_without_wait() noexcept;
    start_without_wait(const start_without_wait&) = delete;  // belongs to the thread
    start_without_wait& operator=(const start_without_wait&) = delete;
    ~start_without_wait();

private:
    const int before_;
};
// Whether the calling thread waits for what it starts now; and whether it also has a duty.
bool is_starting_wait() noexcept;
bool is_wait_with_duty() noexcept;

// Throws errc::invalid_argument on a thread with a duty: a task that has not ended may need this thread.
void require_may_wait_for_task(std::string_view operation);

}  // namespace sluice::detail
