#include "sluice/runtime/storage.hpp"

#include <vector>

#include "sluice/runtime/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/memory_pool.hpp"

namespace sluice {
namespace {

bool is_open(const stream_point& point) { return point.where->passed() < point.where->reached(point.upto); }

// Waiting happens outside the storage's guard.
void await_all(const std::vector<stream_point>& points) {
    for (const stream_point& point : points) {
        point.where->await(point.upto, point.where->owner().default_wait_mode());
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
    if (last.where != nullptr) last.upto = last.where->reached(last.upto);
    return {last, outcome_};
}

void storage::await_last_write() const {
    const stream_point last = last_write().last;
    if (last.where != nullptr && is_open(last)) await_all({last});
}

void storage::touched_by_host(access_mode mode) const noexcept { pool_.source_.touched_by_host(data_, mode); }

void storage_ref::give_back() noexcept {
    if (storage_->is_planned()) {
        delete storage_;
    } else {
        storage_->pool().give_back(storage_);
    }
}

}  // namespace sluice
