// SPDX-License-Identifier: Apache-2.0
#include "sluice/op/detail/runtime_hooks.hpp"

#include <condition_variable>
#include <mutex>

#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

// A thread that waits for another thread's submission; an object on its stack.
struct waiting_thread {
    std::thread::id id;
    const submission_once* at;
    waiting_thread* next;
};

// One for the process, so that a circle of threads that would wait for one another is seen before it closes. The lock
// is held for some pointer moves; no user code runs meanwhile.
struct waiting_list {
    std::mutex mutex;
    std::condition_variable some_ended;
    waiting_thread* waiting = nullptr;
};

waiting_list& all_waiting() {
    static waiting_list& all = *new waiting_list;  // operations may be submitted while statics are destroyed
    return all;
}

// What the thread waits for, or null.
const submission_once* what_blocks(std::thread::id thread) {
    for (const waiting_thread* each = all_waiting().waiting; each != nullptr; each = each->next) {
        if (each->id == thread) return each->at;
    }
    return nullptr;
}

}  // namespace

// Follows the chain: the thread that runs this one, what that thread waits for, the thread that runs that...
void submission_once::refuse_circle() const {
    const std::thread::id self = std::this_thread::get_id();
    for (const submission_once* at = this; at != nullptr; at = what_blocks(at->runner_)) {
        if (at->runner_ == self)
            throw error(errc::invalid_argument,
                        "a shared operation is used while it is submitted, by a function of its own: it would wait for "
                        "itself",
                        {"share"});
    }
}

bool submission_once::begin() {
    if (state_.load(std::memory_order_acquire) == state::over) return false;
    waiting_list& all = all_waiting();
    std::unique_lock lock(all.mutex);
    if (state_.load(std::memory_order_relaxed) == state::open) {
        state_.store(state::running, std::memory_order_relaxed);
        runner_ = std::this_thread::get_id();
        return true;
    }
    const auto is_over = [this] { return state_.load(std::memory_order_acquire) == state::over; };
    if (is_over()) return false;
    refuse_circle();
    waiting_thread self{std::this_thread::get_id(), this, all.waiting};
    all.waiting = &self;
    all.some_ended.wait(lock, is_over);
    waiting_thread** link = &all.waiting;
    while (*link != &self) link = &(*link)->next;
    *link = self.next;
    return false;
}

void submission_once::end() noexcept {
    waiting_list& all = all_waiting();
    {
        const std::lock_guard lock(all.mutex);
        state_.store(state::over, std::memory_order_release);
        runner_ = {};
        if (all.waiting == nullptr) return;
    }
    all.some_ended.notify_all();
}

}  // namespace sluice::detail
