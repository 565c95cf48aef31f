// SPDX-License-Identifier: Apache-2.0
#include "cpu/worker_pool.hpp"

#include <algorithm>
#include <utility>

#include "cpu/cpu_stream.hpp"

namespace sluice::cpu {
namespace {

constexpr int looks_before_sleep = 50;

thread_local const worker_pool* helped = nullptr;  // by this thread

}  // namespace

worker_pool::worker_pool(std::size_t workers) : workers_(workers) {
    std::fegetenv(&environment_);
    threads_.reserve(workers);
    ids_.reserve(workers);
    try {
        for (std::size_t i = 0; i < workers; ++i) ids_.push_back(threads_.emplace_back([this] { work(); }).get_id());
    } catch (...) {  // the system provides no more threads: end those already started
        close();
        throw;
    }
}

void worker_pool::schedule(place& ready) noexcept {
    {
        const std::lock_guard lock(mutex_);
        ready.rank_ = ready.urgency();
        ready.turn_ = ++turns_;
        ready.is_ready_ = true;
        ready_.push(ready);
    }
    wake_.notify_one();
}

void worker_pool::raise_urgency(place& one) noexcept {
    const std::lock_guard lock(mutex_);
    if (!one.is_ready_ || one.urgency() >= one.rank_) return;
    ready_.remove(one);
    one.rank_ = one.urgency();
    ready_.push(one);
}

void worker_pool::work() {
    const detail::duty_scope duty(detail::thread_duty::runs_commands);
    std::unique_lock lock(mutex_);
    for (;;) {
        // Check a few times before sleeping: waking a thread costs more than most commands.
        for (int look = 0; look < looks_before_sleep && ready_.empty() && !closing_; ++look) {
            lock.unlock();
            std::this_thread::yield();
            lock.lock();
        }
        wake_.wait(lock, [&] { return !ready_.empty() || closing_; });
        if (ready_.empty()) return;
        place& next = *ready_.pop();
        next.is_ready_ = false;
        lock.unlock();
        next.of_.run();
        lock.lock();
    }
}

bool worker_pool::take(place& ready) noexcept {
    const std::lock_guard lock(mutex_);
    if (!ready.is_ready_) return false;
    ready_.remove(ready);
    ready.is_ready_ = false;
    return true;
}

worker_pool::helper::helper(const worker_pool& of) noexcept
    : before_(std::exchange(helped, &of)), duty_(detail::thread_duty::runs_commands) {
    std::fegetenv(&environment_);
    std::fesetenv(&of.environment_);
}
worker_pool::helper::~helper() {
    std::fesetenv(&environment_);
    helped = before_;
}

bool worker_pool::is_worker() const noexcept {
    return helped == this || std::ranges::find(ids_, std::this_thread::get_id()) != ids_.end();
}

void worker_pool::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    wake_.notify_all();
    for (std::thread& each : threads_) each.join();
    threads_.clear();
}

}  // namespace sluice::cpu
