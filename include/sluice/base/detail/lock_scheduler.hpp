// SPDX-License-Identifier: Apache-2.0
// Locks that the simulator's host threads can wait for. Those threads run one at a time (simulator::run_threads), and
// one may stop while it holds a lock. Another that wants the lock must then let the first one run instead of sleeping.
//
// On every other thread a lock behaves as its mutex does. It costs one more comparison only when the mutex is
// contended.
#pragma once

namespace sluice::detail {

class lock_scheduler {
public:
    // Lets other threads run; returns when the simulator schedules this thread again.
    virtual void let_others_run() noexcept = 0;

protected:
    ~lock_scheduler() = default;
};

// The calling thread's lock_scheduler; null on every thread that is not a host thread of a simulator.
lock_scheduler* lock_scheduler_of_this_thread() noexcept;
void set_lock_scheduler_of_this_thread(lock_scheduler* turns) noexcept;

template <typename Mutex>
class schedulable_lock {
public:
    void lock() {
        if (mutex_.try_lock()) return;
        lock_scheduler* const turns = lock_scheduler_of_this_thread();
        if (turns == nullptr) return mutex_.lock();
        while (!mutex_.try_lock()) turns->let_others_run();
    }
    bool try_lock() { return mutex_.try_lock(); }
    void unlock() { mutex_.unlock(); }

private:
    Mutex mutex_;
};

}  // namespace sluice::detail
