// SPDX-License-Identifier: Apache-2.0
#include "runtime/exclusive_use.hpp"

#include <vector>

#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

void add_points(const storage& memory, access_mode mode, std::vector<stream_point>& to) {
    if (mode == access_mode::read) {
        const stream_point last = memory.last_write().last;
        if (last.queue != nullptr) to.push_back(last);
    } else {
        memory.for_each_last_use([&](const stream_point& point) { to.push_back(point); });
    }
}

}  // namespace

// The histories are read with the lock held: only then have all their tickets been issued. The long wait is without the
// lock, so that other threads can submit commands meanwhile; the second wait is for those.
exclusive_use::exclusive_use(std::span<storage* const> memory, access_mode mode) : lock_(*memory.front()->lock()) {
    std::vector<stream_point> points;
    for (const storage* const each : memory) add_points(*each, mode, points);
    lock_.unlock();
    for (const stream_point& point : points) {
        if (point.queue->passed() >= point.queue->reached(point.upto)) continue;
        require_may_wait(point, "wait for memory");
        point.queue->wait(point.upto, point.queue->owner().default_wait_mode());
    }
    lock_.lock();
    for (const storage* const each : memory) {
        if (mode == access_mode::read) {
            each->await_last_write();
        } else {
            each->await_all_uses();
        }
    }
}

}  // namespace sluice::detail
