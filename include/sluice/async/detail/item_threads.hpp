// SPDX-License-Identifier: Apache-2.0
// item_threads: the threads that run an executor's items, and how many of them wait for tasks that the same executor
// runs. When the last of them would wait too, no thread is left that could run the task: that wait throws.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

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
        friend class wait_for_start;
        void begin_wait(std::string_view operation);
        void end_wait() noexcept;

        item_threads& of_;
        entry* const outer_;
        int waits_ = 0;  // of this thread; only the first one counts
    };
    // Whether the calling thread runs items here.
    bool is_own_thread() const noexcept { return entry_of_this_thread(of_) != nullptr; }

private:
    friend class task_wait;
    friend class wait_for_start;
    // The outermost one of the calling thread; null when it runs no items of this executor.
    static entry* entry_of_this_thread(const executor* runs) noexcept;

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
    item_threads::entry* const at_;
};

// For sync_wait. From before the coroutine starts until it has ended: what the coroutine awaited of executors while it
// was started here (require_other_thread) counts as a task_wait there. Also when that has come, because the coroutine
// may need the executor again.
class wait_for_start {
public:
    wait_for_start() noexcept;
    wait_for_start(const wait_for_start&) = delete;  // belongs to the thread
    wait_for_start& operator=(const wait_for_start&) = delete;
    ~wait_for_start();

private:
    friend void require_other_thread(const executor*, std::string_view);
    void add(const executor* runs, std::string_view operation);

    wait_for_start* const outer_;
    std::vector<item_threads::entry*> at_;
};

// While a sync_wait starts a coroutine here (is_starting_wait), and before that one is posted to the executor: throws
// errc::invalid_argument where task_wait would.
void require_other_thread(const executor* runs, std::string_view operation);

}  // namespace sluice::detail
