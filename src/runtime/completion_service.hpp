// SPDX-License-Identifier: Apache-2.0
// completion_service: the thread of a runtime that completes waiters. It runs the work items that are posted to it,
// polls the streams that do not report completion by themselves, and fires timers.
//
// It sleeps while there are no waiters. While there are waiters for a watched stream, it polls one word of memory for
// each such stream. A change there completes a waiter only after a query of the device (poll). Every few milliseconds
// it queries the devices anyway: after a fault the word never changes. When nothing has happened for a while, it pauses
// between polls.
//
// Thread safety: all members may be called on any thread; close() once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sluice/async/executor.hpp"
#include "sluice/base/deadline.hpp"
#include "sluice/runtime/detail/timer.hpp"

namespace sluice {
class command_queue;
}

namespace sluice::detail {

// Drives a service that has no thread: keeps its time, and runs the device while a host thread waits.
class service_driver {
public:
    virtual ~service_driver() = default;

    virtual timer::clock::time_point now() const noexcept = 0;
    virtual timer::clock::time_point due(const deadline& until) const noexcept = 0;
    // Runs until is_over() is true or this time has come; returns is_over(). Throws when it can never become true.
    virtual bool run_until(const std::function<bool()>& is_over, timer::clock::time_point deadline) = 0;
};

class completion_service final : public executor {
public:
    enum class mode {
        threaded,
        driven,  // no thread: the owner calls run_pending(). For the simulator.
    };

    explicit completion_service(mode how);
    completion_service(const completion_service&) = delete;  // threads point to it
    completion_service& operator=(const completion_service&) = delete;
    ~completion_service() override;

    // Runs the item on the service's thread; once closed, on the caller's.
    void post(work_item& item) noexcept override;
    // Watches the queue until it has no waiters.
    void watch(command_queue& queue) noexcept;
    // Posts the timer's item when it is due, unless it is cancelled before. When the service is closed, all are due.
    void set(timer& due) noexcept;
    // True: the timer was set, and its item will not be posted. False: its item has already been posted.
    bool cancel_timer(timer& due) noexcept;

    // Runs the posted items, and the items that they post. Returns whether there were any.
    bool run_pending();

    // For a driven service.

    void be_driven_by(service_driver* driver) noexcept { driver_ = driver; }
    // Null for a service with a thread, and for one that no longer has a driver.
    service_driver* driver() const noexcept { return driver_; }
    // Posts the items of the timers that are due.
    void advance_to(timer::clock::time_point now) noexcept;
    // The time of the next timer; time_point::max() when there is none.
    timer::clock::time_point next_due() const noexcept;

    // The current time, and a deadline in it: the driver's time, if there is one.
    timer::clock::time_point now() const noexcept { return driver_ != nullptr ? driver_->now() : timer::clock::now(); }
    timer::clock::time_point due(const deadline& until) const noexcept {
        return driver_ != nullptr ? driver_->due(until) : until.at();
    }

    // Whether the calling thread is the service's.
    bool is_own_thread() const noexcept;

    // Runs the items that are still posted and those of all timers, and ends the thread. The streams are idle.
    void close() noexcept;

private:
    class core;
    const mode mode_;
    const std::shared_ptr<core> core_;  // shared with the thread: the runtime may be dropped on that thread
    std::thread thread_;
    service_driver* driver_ = nullptr;
};

}  // namespace sluice::detail
