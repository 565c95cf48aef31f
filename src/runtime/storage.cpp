// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/storage.hpp"

#include <vector>

#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/memory_pool.hpp"

namespace sluice {
namespace {

bool is_open(const stream_point& point) { return point.queue->passed() < point.queue->reached(point.upto); }

// Called without the storage's guard: it blocks.
void await_all(const std::vector<stream_point>& points) {
    for (const stream_point& point : points) {
        point.queue->wait(point.upto, point.queue->owner().default_wait_mode());
    }
}

}  // namespace

device& storage::owner() const noexcept { return pool_.owner(); }

void storage::await_all_uses() const {
    std::vector<stream_point> points;
    for_each_last_use([&](const stream_point& point) {
        if (is_open(point)) points.push_back(point);
    });
    await_all(points);
}

storage::written storage::last_write() const {
    const std::lock_guard lock(guard_);
    stream_point last = history_.last_write();
    if (last.queue != nullptr) last.upto = last.queue->reached(last.upto);
    return {last, outcome_};
}

void storage::await_last_write() const {
    const stream_point last = last_write().last;
    if (last.queue != nullptr && is_open(last)) await_all({last});
}

void storage::on_host_access(access_mode mode) const noexcept { pool_.source_.on_host_access(data_, mode); }

void storage::release() noexcept {
    if (is_planned()) {
        delete this;
    } else {
        pool().give_back(this);
    }
}

}  // namespace sluice
