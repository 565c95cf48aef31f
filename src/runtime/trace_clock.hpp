// The clock of a traced device: what its marks say, in microseconds since the log was made.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "sluice/runtime/command_queue.hpp"
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
    // Measures from now on: `on` has not been given a command yet, nor has any other stream of the device. Does nothing
    // where there is a base. Throws what mark() does.
    void set_base(stream_interpreter& on, const command_queue& owner);
    // Whether the base is known to be passed, so that read() blocks for its own marks only.
    bool is_running() noexcept;

    // Blocks until both marks are passed. Throws what they throw. There must be a base.
    trace_interval read(std::unique_ptr<timed_mark> start, std::unique_ptr<timed_mark> end);

private:
    const host_clock::time_point epoch_;
    std::atomic<bool> has_base_{false};
    std::atomic<bool> is_running_{false};
    std::mutex mutex_;  // guards what follows
    std::unique_ptr<timed_mark> base_;
    double base_us_ = 0;
    const command_queue* first_queue_ = nullptr;  // the base was passed when this one has passed its first command
    ticket first_ticket_ = 0;
};

}  // namespace sluice::detail
