// The thread of a runtime that tells waiters. It runs the continuations that are posted to it, watches the streams
// that cannot tell by themselves when their commands are complete, and keeps the time for deadlines.
//
// While nobody waits it sleeps. While somebody waits for a watched stream it looks at a word of memory for each such
// stream, again and again; what it sees there wakes a waiter only after the device was asked (poll). Now and then it
// asks the device all the same: after a fault nothing ever arrives by itself. When nothing has come for a while it
// sleeps in between.
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
#include "sluice/op/deadline.hpp"
#include "sluice/runtime/alarm.hpp"

namespace sluice {
class command_queue;
}

namespace sluice::detail {

// Whoever drives a service that has no thread: keeps its time, and makes things happen while a thread waits.
class service_driver {
public:
    virtual alarm::clock::time_point now() const noexcept = 0;
    virtual alarm::clock::time_point due(const deadline& until) const noexcept = 0;
    // Until it is over, or this time has come: whether it is over. Throws when it is not and can never be.
    virtual bool run_until(const std::function<bool()>& is_over, alarm::clock::time_point deadline) = 0;

protected:
    ~service_driver() = default;
};

class completion_service final : public executor {
public:
    enum class mode {
        threaded,
        driven,  // no thread: whoever owns it calls run_pending(). For the simulator.
    };

    explicit completion_service(mode how);
    completion_service(const completion_service&) = delete;  // threads point to it
    completion_service& operator=(const completion_service&) = delete;
    ~completion_service();

    // Runs the item on the service's thread; once closed, on the caller's.
    void post(work_item& item) noexcept override;
    // Until nobody waits for it any more.
    void watch(command_queue& queue) noexcept;
    // Posts the alarm's item when it is due, unless it was taken back before.
    void set(alarm& due) noexcept;
    // Whether it was still to come: then it will not.
    bool take_back(alarm& due) noexcept;

    // Runs what is posted now, and what that posts. Says whether there was anything.
    bool run_pending();

    // For a driven service.

    void be_driven_by(service_driver* driver) noexcept { driver_ = driver; }
    // Null for one with a thread, and for one that nobody drives any more.
    service_driver* driver() const noexcept { return driver_; }
    // Posts the alarms that are due.
    void advance_to(alarm::clock::time_point now) noexcept;
    // The next alarm's time; the latest there is, when there is none.
    alarm::clock::time_point next_due() const noexcept;

    // The time, and when that is in it.
    alarm::clock::time_point now() const noexcept { return driver_ != nullptr ? driver_->now() : alarm::clock::now(); }
    alarm::clock::time_point due(const deadline& until) const noexcept {
        return driver_ != nullptr ? driver_->due(until) : until.at();
    }

    // Runs what is still posted, and ends the thread. The streams are idle.
    void close() noexcept;

private:
    class core;
    const std::shared_ptr<core> core_;  // the thread's too: the last runtime may be dropped on it
    std::thread thread_;
    service_driver* driver_ = nullptr;
};

}  // namespace sluice::detail
