// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/thread_pool.hpp"

#include <stdexcept>

namespace sluice {
namespace {

constexpr unsigned looks_between_yields = 64;

}  // namespace

thread_pool::thread_pool(std::size_t threads, std::chrono::microseconds look) : look_(look) {
    if (threads == 0) throw std::invalid_argument("a thread pool needs at least one thread");
    if (look.count() < 0) throw std::invalid_argument("a thread pool looks for work for a time that is not negative");
    threads_.reserve(threads);
    try {
        for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // the system gives no more threads: end the threads that were created
        close();
        throw;
    }
}

void thread_pool::post(work_item& item) noexcept {
    const std::lock_guard lock(mutex_);
    posted_.push(item);
    changes_.fetch_add(1, std::memory_order_release);
    if (looking_ != 0) {
        --looking_;
        ++promised_;
    } else {
        wake_.notify_one();  // under the lock: the item may be what lets the pool be destroyed
    }
}

// Spins without the lock, until something is posted or the time has passed.
void thread_pool::look_for_work(std::unique_lock<std::mutex>& lock) noexcept {
    const std::size_t known = changes_.load(std::memory_order_relaxed);
    ++looking_;
    lock.unlock();
    const auto until = std::chrono::steady_clock::now() + look_;
    for (unsigned turn = 1; changes_.load(std::memory_order_acquire) == known; ++turn) {
        if (turn % looks_between_yields != 0) continue;
        if (std::chrono::steady_clock::now() >= until) break;
        std::this_thread::yield();
    }
    lock.lock();
    --(promised_ != 0 ? promised_ : looking_);
}

void thread_pool::work() noexcept {
    std::unique_lock lock(mutex_);
    for (bool has_worked = false;; has_worked = true) {
        if (has_worked && posted_.empty() && !closing_ && look_.count() != 0) look_for_work(lock);
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
        changes_.fetch_add(1, std::memory_order_release);
        wake_.notify_all();
    }
    for (std::thread& each : threads_) each.join();
    threads_.clear();
}

}  // namespace sluice
