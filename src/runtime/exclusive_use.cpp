// SPDX-License-Identifier: Apache-2.0
#include "runtime/exclusive_use.hpp"

#include <chrono>
#include <thread>

#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

constexpr auto longest_pause = std::chrono::milliseconds(20);
constexpr auto pause_step = std::chrono::microseconds(50);

bool is_in_use(const stream_point& point) { return point.queue->passed() < point.queue->reached(point.upto); }

void add_open_points(const storage& memory, access_mode mode, std::vector<stream_point>& to) {
    const auto add = [&](const stream_point& point) {
        if (is_in_use(point)) to.push_back(point);
    };
    if (mode == access_mode::read) {
        memory.for_each_last_write(add);
    } else {
        memory.for_each_last_use(add);
    }
}

void await_points(const std::vector<stream_point>& points) {
    for (const stream_point& point : points) {
        if (!is_in_use(point)) continue;
        require_may_wait(point, "wait for memory");
        point.queue->wait(point.upto, point.queue->owner().default_wait_mode());
    }
}

class want {
public:
    explicit want(access_lock& of) noexcept : of_(of) {}
    want(const want&) = delete;  // it is counted
    want& operator=(const want&) = delete;
    ~want() {
        if (is_told_) of_.end_want();
    }
    void tell() noexcept {
        if (!std::exchange(is_told_, true)) of_.want();
    }

private:
    access_lock& of_;
    bool is_told_ = false;
};

}  // namespace

void memory_in_use::wait() const { await_points(by_); }

// The histories are read with the lock held: only then have all their tickets been issued.
exclusive_use::exclusive_use(std::span<storage* const> memory, access_mode mode)
    : lock_(*memory.front()->lock(), std::defer_lock) {
    want told(*memory.front()->lock());
    for (std::vector<stream_point> open;; open.clear()) {
        lock_.lock();
        for (const storage* const each : memory) add_open_points(*each, mode, open);
        if (open.empty()) break;
        lock_.unlock();
        if (holds_a_lock()) throw memory_in_use(std::move(open));
        await_points(open);
        told.tell();
    }
    for (const storage* const each : memory) each->owner().throw_if_poisoned();
}

void give_way(const access_lock& wanted) noexcept {
    if (!wanted.is_wanted() || access_lock::is_held_here()) return;
    if (duty_of_this_thread() != thread_duty::none || lock_scheduler_of_this_thread() != nullptr) return;
    const auto until = std::chrono::steady_clock::now() + longest_pause;
    while (wanted.is_wanted() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(pause_step);
}

}  // namespace sluice::detail
