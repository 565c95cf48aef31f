// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/run_loop.hpp"

#include "sluice/async/detail/thread_duty.hpp"

namespace sluice {

void run_loop::post(work_item& item) noexcept {
    const std::lock_guard lock(mutex_);
    posted_.push(item);
    wake_.notify_one();  // under the lock: the item may be what lets the loop be destroyed
}

void run_loop::run() noexcept {
    const detail::item_threads::entry here(threads_);  // also while it waits for items: it is free then
    while (run_one()) {
    }
}

bool run_loop::run_one() noexcept {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return finished_ || !posted_.empty(); });
    work_item* const item = posted_.pop();
    lock.unlock();
    if (item) {
        const detail::item_threads::entry here(threads_);
        const detail::start_without_wait others_wait;  // a sync_wait around this does not wait for what the item starts
        item->run();
    }
    return item != nullptr;
}

std::size_t run_loop::run_pending() noexcept {
    auto pending = [this] {
        const std::lock_guard lock(mutex_);
        return detail::work_queue(std::move(posted_));
    }();
    const detail::item_threads::entry here(threads_);
    const detail::start_without_wait others_wait;
    std::size_t count = 0;
    for (work_item* item = pending.pop(); item; item = pending.pop()) {
        item->run();
        ++count;
    }
    return count;
}

void run_loop::finish() noexcept {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    wake_.notify_all();
}

}  // namespace sluice
