#include "sluice/async/thread_pool.hpp"

#include <stdexcept>

namespace sluice {

thread_pool::thread_pool(std::size_t threads) {
    if (threads == 0) throw std::invalid_argument("a thread pool needs at least one thread");
    threads_.reserve(threads);
    try {
        for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // the system gives no more threads: end those that there are
        close();
        throw;
    }
}

void thread_pool::post(work_item& item) noexcept {
    const std::lock_guard lock(mutex_);
    posted_.push(item);
    wake_.notify_one();  // under the lock: the item may be what lets the pool be destroyed
}

void thread_pool::work() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [this] { return closing_ || !posted_.empty(); });
        work_item* const item = posted_.pop();
        if (!item) return;  // an item that still runs on another thread is served by that thread
        lock.unlock();
        item->run();
        lock.lock();
    }
}

void thread_pool::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        wake_.notify_all();
    }
    for (std::thread& each : threads_) each.join();
    threads_.clear();
}

}  // namespace sluice
