// SPDX-License-Identifier: Apache-2.0
// access_lock: lets several threads submit commands that use the same storage, where one of them writes.
//
// A history is correct when every entry that a thread reads has an issued ticket. With one submitting thread at a time
// this is always true. Storage that several threads may write at the same time has an access_lock: storage that a graph
// captured and writes, the state of a graph that kernels launch, a device's collective order.
//
// Invariant: command_queue::submit holds the locks of all storage that a command names, from before it reads the first
// history until the command's ticket is issued. It takes them in the order of their addresses, and before the queue's
// own lock, so that no two submissions wait for each other.
//
// Several storages may share one access_lock. A thread that holds it may submit several commands that name them, and no
// other thread's command comes in between. These commands must not name storage with another access_lock.
//
// Thread safety: as a std::recursive_mutex.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/detail/lock_scheduler.hpp"

namespace sluice::detail {

class access_lock {
public:
    void lock() {
        mutex_.lock();
        ++held_here_;
    }
    void unlock() {
        --held_here_;
        mutex_.unlock();
    }

    // While a thread wants the memory for itself (exclusive_use), other threads pause before they submit more.
    void want() noexcept { wanted_.fetch_add(1, std::memory_order_relaxed); }
    void end_want() noexcept { wanted_.fetch_sub(1, std::memory_order_relaxed); }
    bool is_wanted() const noexcept { return wanted_.load(std::memory_order_relaxed) != 0; }
    // Whether the calling thread holds a lock of this kind.
    static bool is_held_here() noexcept { return held_here_ != 0; }

private:
    // recursive: commands of the thread that holds it take it again
    noted_lock<schedulable_lock<std::recursive_mutex>> mutex_{"that of memory with several writers"};
    std::atomic<int> wanted_{0};
    static inline thread_local int held_here_ = 0;
};

// The locks that one command needs, each once. The destructor unlocks them. A template so that the simulator's explorer
// of interleavings can run it with its own lock.
template <typename Lock>
class lock_set {
public:
    lock_set() = default;
    lock_set(const lock_set&) = delete;  // it holds locks
    lock_set& operator=(const lock_set&) = delete;
    ~lock_set() {
        while (locked_ != 0) at(--locked_).unlock();
    }

    // To be called before lock().
    void add(Lock& one) {
        if (count_ < few_.size()) {
            few_[count_] = &one;
        } else {
            if (more_.empty()) more_.assign(few_.begin(), few_.end());
            more_.push_back(&one);
        }
        ++count_;
    }
    void lock() {
        if (count_ == 0) return;
        Lock** const first = more_.empty() ? few_.data() : more_.data();
        std::sort(first, first + count_);
        count_ = static_cast<std::size_t>(std::unique(first, first + count_) - first);
        for (; locked_ < count_; ++locked_) at(locked_).lock();
    }

private:
    Lock& at(std::size_t index) noexcept { return *(more_.empty() ? few_[index] : more_[index]); }

    std::array<Lock*, 4> few_;
    std::vector<Lock*> more_;  // all of them, where there are more than a few
    std::size_t count_ = 0;
    std::size_t locked_ = 0;
};

using access_locks = lock_set<access_lock>;

}  // namespace sluice::detail
