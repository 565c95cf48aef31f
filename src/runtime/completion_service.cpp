#include "runtime/completion_service.hpp"

#include <algorithm>

#include "sluice/runtime/command_queue.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

using clock = alarm::clock;

// How long to look without a pause after the last thing that happened. A kernel's end reaches the host in 8 us this
// way, in 16 to 43 us by a host callback (measured on an H200 machine).
constexpr auto eager_for = std::chrono::microseconds(200);
// And how long to sleep in between after that.
constexpr auto nap = std::chrono::microseconds(20);
// How often the devices are asked although nothing was sighted.
constexpr auto watchdog_period = std::chrono::milliseconds(2);

}  // namespace

class completion_service::core {
public:
    void post(work_item& item) noexcept;
    void watch(command_queue& queue) noexcept;
    void set(alarm& due) noexcept;
    bool take_back(alarm& due) noexcept;
    clock::time_point next_due() noexcept;
    void close() noexcept;

    void run();
    bool run_posted() noexcept;
    bool ring_due(clock::time_point now) noexcept;
    bool look(bool ask_all) noexcept;

    bool is_own_thread() const noexcept {
        return own_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }

private:
    void wake() noexcept;
    void sleep_until(clock::time_point until);
    bool look_at(command_queue& queue, bool ask) noexcept;

    // Invariant: is_asleep_ is true from before the thread looks for work for the last time until it has woken. Who
    // brings work does so first and asks is_asleep_ then; both are sequentially consistent, so one of them sees the
    // other.
    std::atomic<work_item*> posted_{nullptr};  // a stack, the latest first
    std::atomic<bool> is_asleep_{false};
    std::atomic<bool> is_closing_{false};
    std::atomic<bool> is_closed_{false};
    std::atomic<std::thread::id> own_thread_{};
    std::mutex mutex_;
    std::condition_variable wake_;
    bool was_woken_ = false;
    alarm_list alarms_;                              // guarded by mutex_
    std::atomic<command_queue*> arriving_{nullptr};  // to be watched: a stack by next_watched_
    command_queue* watched_ = nullptr;               // the thread's own list, by the same link
};

void completion_service::core::post(work_item& item) noexcept {
    if (is_closed_.load()) return item.run();
    work_item* latest = posted_.load(std::memory_order_relaxed);
    do {
        item.next_ = latest;
    } while (!posted_.compare_exchange_weak(latest, &item));
    if (is_asleep_.load()) wake();
    // Closed meanwhile: the thread may have looked for the last time.
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

void completion_service::core::set(alarm& due) noexcept {
    {
        const std::lock_guard lock(mutex_);
        alarms_.insert(due);
    }
    if (is_asleep_.load()) wake();
}

bool completion_service::core::take_back(alarm& due) noexcept {
    const std::lock_guard lock(mutex_);
    return alarms_.remove(due);
}

clock::time_point completion_service::core::next_due() noexcept {
    const std::lock_guard lock(mutex_);
    return alarms_.next_due();
}

void completion_service::core::close() noexcept {
    is_closing_.store(true);
    wake();
}

bool completion_service::core::run_posted() noexcept {
    work_item* latest = posted_.exchange(nullptr);
    if (latest == nullptr) return false;
    work_item* first = nullptr;  // in the order they came
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

bool completion_service::core::ring_due(clock::time_point now) noexcept {
    bool rang = false;
    for (;;) {
        alarm* due = nullptr;
        {
            const std::lock_guard lock(mutex_);
            due = alarms_.take_due(now);
            if (due == nullptr) return rang;
            // With the lock held: who takes it back is told that it has rung, and the item is on its way by then.
            post(due->item());
        }
        rang = true;
    }
}

// Whether anything came.
bool completion_service::core::look_at(command_queue& queue, bool ask) noexcept {
    const ticket told = queue.waiters_.released();
    if (queue.interpreter().sighted() <= told && !ask) return false;
    queue.poll();  // the truth; a fault poisons the device, which tells everybody
    queue.release(queue.passed());
    return queue.passed() > told;
}

bool completion_service::core::look(bool ask_all) noexcept {
    for (command_queue* each = arriving_.exchange(nullptr); each != nullptr;) {
        command_queue* const next = std::exchange(each->next_watched_, watched_);
        watched_ = std::exchange(each, next);
    }
    bool sighted = false;
    for (command_queue** link = &watched_; *link != nullptr;) {
        command_queue& queue = **link;
        sighted = look_at(queue, ask_all) || sighted;
        if (!queue.waiters_.empty()) {
            link = &queue.next_watched_;
            continue;
        }
        *link = queue.next_watched_;
        device& owner = queue.owner();
        queue.is_watched_.store(false);
        // Whoever came in between saw it still watched.
        if (!queue.waiters_.empty() && !queue.is_watched_.exchange(true)) {
            watch(queue);
        } else {
            owner.release_runtime();  // the queue may be gone; those that are still in the list keep theirs
        }
    }
    return sighted;
}

void completion_service::core::sleep_until(clock::time_point until) {
    std::unique_lock lock(mutex_);
    is_asleep_.store(true);
    until = std::min(until, alarms_.next_due());
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
    own_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    auto last_event = clock::now();
    auto last_asked = last_event;
    for (int turn = 0;; ++turn) {
        bool busy = run_posted();
        busy = look(false) || busy;
        if (watched_ != nullptr && !busy && turn % 64 != 0) continue;  // asking the time costs more than looking
        const auto now = clock::now();
        busy = ring_due(now) || busy;
        if (busy) {
            last_event = now;
            continue;
        }
        if (watched_ == nullptr) {
            if (is_closing_.load()) break;
            sleep_until(clock::time_point::max());
            last_event = last_asked = clock::now();
            continue;
        }
        if (now - last_asked > watchdog_period) {
            last_asked = now;
            if (look(true)) last_event = now;
        }
        if (now - last_event > eager_for) sleep_until(now + nap);
    }
    is_closed_.store(true);
    run_posted();
}

completion_service::completion_service(mode how) : core_(std::make_shared<core>()) {
    if (how == mode::threaded) thread_ = std::thread([core = core_] { core->run(); });
}

completion_service::~completion_service() { close(); }

void completion_service::post(work_item& item) noexcept { core_->post(item); }
void completion_service::watch(command_queue& queue) noexcept { core_->watch(queue); }
void completion_service::set(alarm& due) noexcept { core_->set(due); }
bool completion_service::take_back(alarm& due) noexcept { return core_->take_back(due); }

bool completion_service::run_pending() {
    bool any = false;
    for (;;) {
        // Looking tells nothing of a device that has faulted, but posts that it has.
        const bool came = core_->run_posted() || core_->look(true) || core_->run_posted();
        if (!came) return any;
        any = true;
    }
}

void completion_service::advance_to(alarm::clock::time_point now) noexcept { core_->ring_due(now); }
alarm::clock::time_point completion_service::next_due() const noexcept { return core_->next_due(); }

void completion_service::close() noexcept {
    core_->close();
    if (!thread_.joinable()) return;
    if (core_->is_own_thread()) {
        thread_.detach();  // it ends when it comes back from whoever dropped the runtime on it
    } else {
        thread_.join();
    }
}

}  // namespace sluice::detail
