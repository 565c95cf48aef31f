// SPDX-License-Identifier: Apache-2.0
#include "runtime/completion_service.hpp"

#include <algorithm>

#include "runtime/clock_turns.hpp"
#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

using clock = timer::clock;

// How long to poll without a pause after the last event. The end of a kernel reaches the host in 8 us this way, and in
// 16 to 43 us through a host callback (measured on an H200 machine).
constexpr auto busy_poll_time = std::chrono::microseconds(200);
// The same while there are no waiters: a waiter that was resumed on another thread may soon wait again, and waking this
// thread for it would take longer than a small kernel.
constexpr auto idle_poll_time = std::chrono::microseconds(50);
// The pause between two polls after that.
constexpr auto nap = std::chrono::microseconds(20);
// How often the devices are queried although no completion was seen.
constexpr auto watchdog_period = std::chrono::milliseconds(2);

}  // namespace

class completion_service::core {
public:
    void post(work_item& item) noexcept;
    void watch(command_queue& queue) noexcept;
    void set(timer& due) noexcept;
    bool cancel_timer(timer& due) noexcept;
    clock::time_point next_due() noexcept;
    void close() noexcept;

    void run();
    bool run_posted() noexcept;
    bool post_due_timers(clock::time_point now) noexcept;
    void end() noexcept;
    bool look(bool ask_all) noexcept;

    bool is_own_thread() const noexcept {
        return own_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }

private:
    void wake() noexcept;
    void sleep_until(clock::time_point until);
    bool look_at(command_queue& queue, bool ask) noexcept;

    // Invariant: is_asleep_ is true from before the thread's last check for work until it has woken. A thread that adds
    // work adds it first and then reads is_asleep_. All accesses are sequentially consistent, so one side sees the
    // other.
    std::atomic<work_item*> posted_{nullptr};  // a stack, the latest first
    std::atomic<bool> is_asleep_{false};
    std::atomic<bool> is_closing_{false};
    std::atomic<bool> is_closed_{false};
    std::atomic<std::thread::id> own_thread_{};
    std::mutex mutex_;
    std::condition_variable wake_;
    bool was_woken_ = false;
    timer_queue timers_;                             // guarded by mutex_
    std::atomic<command_queue*> arriving_{nullptr};  // to be watched: a stack linked by next_watched_
    command_queue* watched_ = nullptr;               // the thread's own list, with the same link
};

void completion_service::core::post(work_item& item) noexcept {
    if (is_closed_.load()) return item.run();
    work_item* latest = posted_.load(std::memory_order_relaxed);
    do {
        item.next_ = latest;
    } while (!posted_.compare_exchange_weak(latest, &item));
    if (is_asleep_.load()) wake();
    // The service may have been closed meanwhile, after the thread's last check.
    if (is_closed_.load()) run_posted();
}

void completion_service::core::wake() noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (was_woken_) return;
        was_woken_ = true;
    }
    wake_.notify_one();
}

void completion_service::core::watch(command_queue& queue) noexcept {
    command_queue* latest = arriving_.load(std::memory_order_relaxed);
    do {
        queue.next_watched_ = latest;
    } while (!arriving_.compare_exchange_weak(latest, &queue));
    if (is_asleep_.load()) wake();
}

void completion_service::core::set(timer& due) noexcept {
    bool closed = false;
    {
        const std::lock_guard lock(mutex_);
        if (!is_closed_.load()) {
            timers_.insert(due);
        } else {
            closed = true;
        }
    }
    if (closed) return due.item().run();  // as post() does; no thread is left that would wait
    if (is_asleep_.load()) wake();
}

bool completion_service::core::cancel_timer(timer& due) noexcept {
    const std::lock_guard lock(mutex_);
    return timers_.remove(due);
}

clock::time_point completion_service::core::next_due() noexcept {
    const std::lock_guard lock(mutex_);
    return timers_.next_due();
}

void completion_service::core::close() noexcept {
    is_closing_.store(true);
    wake();
}

bool completion_service::core::run_posted() noexcept {
    work_item* latest = posted_.exchange(nullptr);
    if (latest == nullptr) return false;
    work_item* first = nullptr;  // in the order of posting
    while (latest != nullptr) {
        work_item* const before = latest->next_;
        latest->next_ = first;
        first = latest;
        latest = before;
    }
    while (first != nullptr) {
        work_item* const next = first->next_;
        first->run();
        first = next;
    }
    return true;
}

bool completion_service::core::post_due_timers(clock::time_point now) noexcept {
    bool rang = false;
    for (;;) {
        timer* due = nullptr;
        {
            const std::lock_guard lock(mutex_);
            due = timers_.take_due(now);
            if (due == nullptr) return rang;
            // With the lock held: when cancel_timer() returns false, the item has been posted.
            post(due->item());
        }
        rang = true;
    }
}

// Returns whether commands have completed.
bool completion_service::core::look_at(command_queue& queue, bool ask) noexcept {
    const ticket told = queue.waiters_.released();
    if (queue.interpreter().last_flag() <= told && !ask) return false;
    queue.poll();  // the query decides; a fault poisons the device, which reports it to each waiter
    queue.release(queue.passed());
    return queue.passed() > told;
}

bool completion_service::core::look(bool ask_all) noexcept {
    for (command_queue* each = arriving_.exchange(nullptr); each != nullptr;) {
        command_queue* const next = std::exchange(each->next_watched_, watched_);
        watched_ = std::exchange(each, next);
    }
    bool has_passed = false;
    for (command_queue** link = &watched_; *link != nullptr;) {
        command_queue& queue = **link;
        has_passed = look_at(queue, ask_all) || has_passed;
        if (!queue.waiters_.empty()) {
            link = &queue.next_watched_;
            continue;
        }
        *link = queue.next_watched_;
        device& owner = queue.owner();
        queue.is_watched_.store(false);
        // A waiter that was added in between found the queue still watched.
        if (!queue.waiters_.empty() && !queue.is_watched_.exchange(true)) {
            watch(queue);
        } else {
            owner.release_runtime();  // may destroy the queue; the queues still in the list keep their runtime
        }
    }
    return has_passed;
}

void completion_service::core::sleep_until(clock::time_point until) {
    std::unique_lock lock(mutex_);
    is_asleep_.store(true);
    until = std::min(until, timers_.next_due());
    const auto has_work = [&] {
        return was_woken_ || posted_.load() != nullptr || arriving_.load() != nullptr || is_closing_.load();
    };
    if (until == clock::time_point::max()) {
        wake_.wait(lock, has_work);
    } else {
        wake_.wait_until(lock, until, has_work);
    }
    is_asleep_.store(false);
    was_woken_ = false;
}

void completion_service::core::run() {
    const duty_scope duty(thread_duty::resumes_waiters);
    own_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    auto last_event = clock::now();
    auto last_asked = last_event;
    for (clock_turns turns;;) {
        bool busy = run_posted();
        busy = look(false) || busy;
        if (!turns.next() && !busy) continue;
        const auto now = clock::now();
        busy = post_due_timers(now) || busy;
        if (busy) {
            last_event = now;
            continue;
        }
        if (watched_ == nullptr) {
            if (is_closing_.load()) break;
            if (now - last_event < idle_poll_time) {
                std::this_thread::yield();
                continue;
            }
            sleep_until(clock::time_point::max());
            last_event = last_asked = clock::now();
            continue;
        }
        if (now - last_asked > watchdog_period) {
            last_asked = now;
            if (look(true)) last_event = now;
        }
        if (now - last_event > busy_poll_time) sleep_until(now + nap);
    }
    end();
}

// From here on items run on the threads that post them. The timers are due at once: no thread would see their time.
void completion_service::core::end() noexcept {
    {
        const std::lock_guard lock(mutex_);  // so that set() sees it, or the timer is in the queue
        is_closed_.store(true);
    }
    run_posted();
    for (;;) {
        timer* next = nullptr;
        {
            const std::lock_guard lock(mutex_);
            next = timers_.take_due(clock::time_point::max());
        }
        if (next == nullptr) return;
        next->item().run();
    }
}

completion_service::completion_service(mode how) : mode_(how), core_(std::make_shared<core>()) {
    if (how == mode::threaded) thread_ = std::thread([core = core_] { core->run(); });
}

completion_service::~completion_service() { close(); }

void completion_service::post(work_item& item) noexcept { core_->post(item); }
void completion_service::watch(command_queue& queue) noexcept { core_->watch(queue); }
void completion_service::set(timer& due) noexcept { core_->set(due); }
bool completion_service::cancel_timer(timer& due) noexcept { return core_->cancel_timer(due); }

bool completion_service::run_pending() {
    bool any = false;
    for (;;) {
        // look() does not report a fault; poison() posts an item instead, so run posted items again.
        const bool came = core_->run_posted() || core_->look(true) || core_->run_posted();
        if (!came) return any;
        any = true;
    }
}

void completion_service::advance_to(timer::clock::time_point now) noexcept { core_->post_due_timers(now); }
timer::clock::time_point completion_service::next_due() const noexcept { return core_->next_due(); }

bool completion_service::is_own_thread() const noexcept { return core_->is_own_thread(); }

void completion_service::close() noexcept {
    core_->close();
    if (mode_ == mode::driven) return core_->end();
    if (!thread_.joinable()) return;
    if (core_->is_own_thread()) {
        thread_.detach();  // it ends when it returns from the function that dropped the runtime on it
    } else {
        thread_.join();
    }
}

}  // namespace sluice::detail
