// SPDX-License-Identifier: Apache-2.0
// wait_driver: runs, on the thread that waits for a task, what the task waits for. The simulator is one: its devices
// exist only on that thread. Where a thread has drivers, sync_wait() and spawned::get() drive instead of sleeping.
//
// Thread safety: the functions concern the calling thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace sluice::detail {

class wait_driver {
public:
    wait_driver() = default;
    wait_driver(const wait_driver&) = delete;  // threads point to it
    wait_driver& operator=(const wait_driver&) = delete;
    virtual ~wait_driver() = default;

    // Runs until is_over() is true, or nothing more can happen here. Returns is_over().
    virtual bool run_until(const std::function<bool()>& is_over) = 0;
    // The same for at most that long, in the driver's own time.
    virtual bool run_until(const std::function<bool()>& is_over, std::chrono::steady_clock::time_point deadline) = 0;
    // Nothing more happens here, and what is waited for has not happened: throws.
    [[noreturn]] virtual void give_up() = 0;
};

// The calling thread has this driver as long as it lives.
void add_wait_driver(const std::shared_ptr<wait_driver>& driver);
bool has_wait_driver() noexcept;
// Drives until is_over() is true. When nothing more can happen here, waits three seconds for other threads; then
// throws.
void drive_until(const std::function<bool()>& is_over);
// The same for at most that long; returns is_over().
bool drive_until(const std::function<bool()>& is_over, std::chrono::steady_clock::time_point deadline);

}  // namespace sluice::detail
