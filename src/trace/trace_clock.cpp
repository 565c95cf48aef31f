// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_clock.hpp"

#include <algorithm>

namespace sluice::detail {
namespace {

// CUDA returns the time between two marks as a float of milliseconds: up to a second, that is exact to 0.06 us.
constexpr double longest_us = 1e6;

}  // namespace

void trace_clock::set_base(stream_interpreter& on, const command_queue& owner) {
    const std::lock_guard lock(mutex_);
    if (base_ != nullptr) return;
    base_us_ = std::chrono::duration<double, std::micro>(host_clock::now() - epoch_).count();
    base_ = on.mark();
    first_queue_ = &owner;
    first_ticket_ = owner.issued() + 1;
    has_base_.store(true, std::memory_order_release);
}

bool trace_clock::is_running() noexcept {
    if (is_running_.load(std::memory_order_relaxed)) return true;
    // Written once, before has_base_.
    if (!has_base() || first_queue_->passed() < first_ticket_) return false;
    is_running_.store(true, std::memory_order_relaxed);
    return true;
}

trace_interval trace_clock::read(std::unique_ptr<timed_mark> start, std::unique_ptr<timed_mark> end) {
    start->wait();
    end->wait();
    const double length_us = std::max(0.0, end->since(*start).count());
    std::shared_ptr<timed_mark> base;
    double base_us = 0;
    {
        const std::lock_guard lock(mutex_);
        base = base_;
        base_us = base_us_;
    }
    base->wait();  // without the lock: the device may need a thread that wants it
    const double start_us = base_us + start->since(*base).count();
    const std::lock_guard lock(mutex_);
    if (start_us - base_us_ > longest_us) {
        base_ = std::move(start);
        base_us_ = start_us;
    }
    return {start_us, start_us + length_us};
}

}  // namespace sluice::detail
