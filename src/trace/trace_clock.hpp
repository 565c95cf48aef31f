// SPDX-License-Identifier: Apache-2.0
// trace_clock: the clock of a traced device. It converts marks to microseconds since the construction of the log.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::detail {

struct trace_interval {
    double start_us;
    double end_us;
};

class trace_clock {
public:
    using host_clock = std::chrono::steady_clock;

    explicit trace_clock(host_clock::time_point epoch) : epoch_(epoch) {}

    bool has_base() const noexcept { return has_base_.load(std::memory_order_acquire); }
    // Enqueues the base mark, before the first command of `on` and of any other stream of the device. Does nothing when
    // there is a base. Throws what mark() throws.
    void set_base(stream_interpreter& on, const command_queue& owner);
    // Whether the base is known to be passed, so that read() waits only for its own marks.
    bool is_running() noexcept;

    // Blocks until both marks are passed. Throws what they throw. Requires a base.
    trace_interval read(std::unique_ptr<timed_mark> start, std::unique_ptr<timed_mark> end);

private:
    const host_clock::time_point epoch_;
    std::atomic<bool> has_base_{false};
    std::atomic<bool> is_running_{false};
    std::mutex mutex_;                  // guards what follows
    std::shared_ptr<timed_mark> base_;  // shared with those who wait for it without the lock
    double base_us_ = 0;
    const command_queue* first_queue_ = nullptr;  // when this queue has passed its first command, the base has passed
    ticket first_ticket_ = 0;
};

}  // namespace sluice::detail
