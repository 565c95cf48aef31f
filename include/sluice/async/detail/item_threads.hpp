// SPDX-License-Identifier: Apache-2.0
// item_threads: the threads that run an executor's items, and how many of them wait for tasks that the same executor
// runs. When the last of them would wait too, no thread is left that could run the task: that wait throws.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <string_view>

#include "sluice/async/executor.hpp"

namespace sluice::detail {

class item_threads {
public:
    explicit item_threads(const executor& of) noexcept : of_(&of) {}
    item_threads(const item_threads&) = delete;  // threads point to it
    item_threads& operator=(const item_threads&) = delete;

    // The calling thread runs items while this exists.
    class entry {
    public:
        explicit entry(item_threads& of) noexcept;
        entry(const entry&) = delete;  // belongs to the thread
        entry& operator=(const entry&) = delete;
        ~entry();

    private:
        friend class item_threads;
        friend class task_wait;
        item_threads& of_;
        entry* const outer_;
    };
    // Whether the calling thread runs items here.
    bool is_own_thread() const noexcept { return of_this_thread(of_) != nullptr; }

private:
    friend class task_wait;
    friend void require_other_thread(const executor*, std::string_view);
    static item_threads* of_this_thread(const executor* runs) noexcept;
    bool is_another_free() const noexcept { return waiting_.load() + 1 < inside_.load(); }

    const executor* const of_;
    std::atomic<int> inside_{0};
    std::atomic<int> waiting_{0};
};

// While it exists, the calling thread waits for a task that this executor runs; null: none of ours. Throws
// errc::invalid_argument when it is the executor's last thread that does not wait.
class task_wait {
public:
    task_wait(const executor* runs, std::string_view operation);
    task_wait(const task_wait&) = delete;  // it is counted
    task_wait& operator=(const task_wait&) = delete;
    ~task_wait();

private:
    item_threads* const at_;
};

// For sync_wait, before a coroutine is posted to the executor: throws errc::invalid_argument where task_wait would.
void require_other_thread(const executor* runs, std::string_view operation);

}  // namespace sluice::detail
