// SPDX-License-Identifier: Apache-2.0
#include "cpu/worker_pool.hpp"

#include <algorithm>
#include <utility>

#include "cpu/cpu_stream.hpp"

namespace sluice::cpu {
namespace {

constexpr int looks_before_sleep = 200;

}  // namespace

worker_pool::worker_pool(std::size_t workers) : workers_(workers) {
    threads_.reserve(workers);
    try {
        for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
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
        note_ready();
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
    const detail::part_runner_scope runner(this);
    const auto has_work = [this] { return !ready_.empty() || closing_ || parts_to_join() != nullptr; };
    std::unique_lock lock(mutex_);
    for (;;) {
        // Check a few times before sleeping: waking a thread costs more than most commands.
        ++looking_;
        for (int look = 0; look < looks_before_sleep && !has_work(); ++look) {
            lock.unlock();
            std::this_thread::yield();
            lock.lock();
        }
        --looking_;
        ++asleep_;
        wake_.wait(lock, has_work);
        --asleep_;
        if (!ready_.empty()) {
            place& next = *ready_.pop();
            next.is_ready_ = false;
            note_ready();
            lock.unlock();
            next.of_.run();
            lock.lock();
        } else if (shared_parts* const work = parts_to_join()) {
            join(*work, lock, false);
        } else {
            return;
        }
    }
}

worker_pool::shared_parts* worker_pool::parts_to_join() const noexcept {
    shared_parts* found = shared_;
    while (found != nullptr && found->threads >= workers_) found = found->next_shared;
    return found;
}

void worker_pool::stop_sharing(shared_parts& work) noexcept {
    for (shared_parts** link = &shared_; *link != nullptr; link = &(*link)->next_shared) {
        if (*link != &work) continue;
        *link = work.next_shared;
        return;
    }
}

void worker_pool::join(shared_parts& work, std::unique_lock<std::mutex>& lock, bool is_of_this_thread) {
    if (!is_of_this_thread) ++work.threads;
    while (work.next < work.parts && (is_of_this_thread || ready_.empty())) {
        const std::size_t part = work.next++;
        if (work.next == work.parts) stop_sharing(work);
        lock.unlock();
        std::exception_ptr failure;
        try {
            work.function(part);
        } catch (...) {
            failure = std::current_exception();
        }
        lock.lock();
        if (!failure) continue;
        if (!work.failure) work.failure = std::move(failure);
        work.next = work.parts;
        stop_sharing(work);
    }
    --work.threads;
    // From here on the thread that shares may end the work, unless it is this one.
    if (!is_of_this_thread && work.threads == 0) parts_over_.notify_all();
}

void worker_pool::run_parts(std::size_t parts, detail::part_function function) {
    if (workers_ == 1) {
        for (std::size_t part = 0; part < parts; ++part) function(part);
        return;
    }
    // This thread counts from the start: with one more than there are workers, one of them would wait for a core.
    shared_parts work{.function = function, .parts = parts, .threads = 1};
    std::unique_lock lock(mutex_);
    work.next_shared = shared_;
    shared_ = &work;
    // A worker that looks for work needs no wake-up; one that is woken for nothing takes time from those that compute.
    const std::size_t wanted = std::min(parts - 1, workers_ - 1);
    const std::size_t others = std::min(wanted - std::min(wanted, looking_), asleep_);
    lock.unlock();
    for (std::size_t i = 0; i < others; ++i) wake_.notify_one();
    lock.lock();
    join(work, lock, true);
    // The others are in their last parts.
    for (int look = 0; look < looks_before_sleep && work.threads != 0; ++look) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
    }
    parts_over_.wait(lock, [&] { return work.threads == 0; });
    if (work.failure) std::rethrow_exception(std::move(work.failure));
}

bool worker_pool::take(place& ready) noexcept {
    const std::lock_guard lock(mutex_);
    if (!ready.is_ready_) return false;
    ready_.remove(ready);
    ready.is_ready_ = false;
    note_ready();
    return true;
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
