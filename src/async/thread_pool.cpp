// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/thread_pool.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sluice/async/detail/item_threads.hpp"
#include "sluice/async/detail/work_queue.hpp"

namespace sluice {
namespace {

constexpr unsigned looks_between_yields = 64;

}  // namespace

class thread_pool::core {
public:
    core(const executor& pool, std::chrono::microseconds look) noexcept : look_(look), own_(pool) {}
    core(const core&) = delete;  // threads point to it
    core& operator=(const core&) = delete;
    ~core() = default;

    static void start(const std::shared_ptr<core>& self, std::size_t threads);
    void post(work_item& item) noexcept;
    void close() noexcept;

private:
    void work(std::latch& inside) noexcept;
    void run_rest() noexcept;
    void look_for_work(std::unique_lock<std::mutex>& lock) noexcept;

    const std::chrono::microseconds look_;
    std::mutex mutex_;
    std::condition_variable wake_;
    detail::work_queue posted_;
    // The number of spinning threads without, and with, an item left to them. The latter check the queue again before
    // they sleep, so leaving an item to one wakes no thread.
    std::size_t looking_ = 0;
    std::size_t promised_ = 0;
    std::atomic<std::size_t> changes_{0};  // counts what ends the spinning: items, and closing
    bool closing_ = false;
    std::size_t working_ = 0;  // threads that have not ended
    detail::item_threads own_;
    std::vector<std::thread> threads_;
};

thread_pool::thread_pool(std::size_t threads, std::chrono::microseconds look)
    : size_(threads), core_(std::make_shared<core>(*this, look)) {
    if (threads == 0) throw std::invalid_argument("a thread pool needs at least one thread");
    if (look.count() < 0) throw std::invalid_argument("a thread pool looks for work for a time that is not negative");
    core::start(core_, threads);
}

thread_pool::~thread_pool() { core_->close(); }

void thread_pool::post(work_item& item) noexcept { core_->post(item); }

void thread_pool::core::start(const std::shared_ptr<core>& self, std::size_t threads) {
    self->threads_.reserve(threads);
    // A thread counts as free once it is inside: so all are, before the first item asks.
    const auto inside = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(threads));
    try {
        for (std::size_t i = 0; i < threads; ++i) {
            self->threads_.emplace_back([self, inside] { self->work(*inside); });
            const std::lock_guard lock(self->mutex_);
            ++self->working_;
        }
    } catch (...) {  // the system gives no more threads: end the threads that were created
        self->close();
        throw;
    }
    inside->wait();
}

void thread_pool::core::post(work_item& item) noexcept {
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
void thread_pool::core::look_for_work(std::unique_lock<std::mutex>& lock) noexcept {
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

void thread_pool::core::work(std::latch& inside) noexcept {
    const detail::item_threads::entry here(own_);
    inside.count_down();
    std::unique_lock lock(mutex_);
    for (bool has_worked = false;; has_worked = true) {
        if (has_worked && posted_.empty() && !closing_ && look_.count() != 0) look_for_work(lock);
        wake_.wait(lock, [this] { return closing_ || !posted_.empty(); });
        work_item* const item = posted_.pop();
        if (!item) {  // an item that still runs on another thread is served by that thread
            --working_;
            wake_.notify_all();
            return;
        }
        lock.unlock();
        item->run();
        lock.lock();
    }
}

// Of a pool that is destroyed on one of its threads: items of the others may post more and wait for it, until these
// threads have ended.
void thread_pool::core::run_rest() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [this] { return !posted_.empty() || working_ == 1; });
        work_item* const item = posted_.pop();
        if (item == nullptr) return;
        lock.unlock();
        item->run();
        lock.lock();
    }
}

// Threads that run items may still post; the last of them to end has found no item.
void thread_pool::core::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        changes_.fetch_add(1, std::memory_order_release);
        wake_.notify_all();
    }
    if (own_.is_own_thread()) run_rest();
    for (std::thread& each : threads_) {
        if (each.get_id() == std::this_thread::get_id()) {
            each.detach();  // it keeps the core, and ends when it returns from the item that destroyed the pool
        } else {
            each.join();
        }
    }
    threads_.clear();
}

}  // namespace sluice
