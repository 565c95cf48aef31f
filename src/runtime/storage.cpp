// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/storage.hpp"

#include <thread>
#include <utility>
#include <vector>

#include "runtime/exclusive_use.hpp"
#include "runtime/foreign_storage.hpp"
#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/memory_pool.hpp"

namespace sluice {
namespace {

bool is_open(const stream_point& point) { return point.queue->passed() < point.queue->reached(point.upto); }
bool is_over(const stream_point& point) { return !is_open(point); }

// Called without the storage's guard: it blocks. A thread that holds locks of the library gives them up before it waits
// (memory_in_use).
void await_all(std::vector<stream_point> points) {
    if (!points.empty() && detail::holds_a_lock()) throw detail::memory_in_use(std::move(points));
    for (const stream_point& point : points) {
        detail::require_may_wait(point, "wait for memory");
        point.queue->wait(point.upto, point.queue->owner().default_wait_mode());
    }
}

// After a fault of the device its memory is never reused, so that is an end, too.
void await_without_memory(const stream_point& point) noexcept {
    device& on = point.queue->owner();
    while (is_open(point) && !on.is_poisoned()) {
        try {
            point.queue->wait(point.upto, on.default_wait_mode());
        } catch (...) {
            point.queue->poll();
            std::this_thread::yield();
        }
    }
}

// A compiled graph writes it at its launches, and would not know of parts.
void require_no_writing_graph(const storage& memory) {
    if (memory.lock() == nullptr) return;
    throw error(errc::invalid_argument, "a compiled graph writes this memory: it cannot be split, sliced or joined",
                {"split", memory.owner().name()});
}

std::atomic<std::size_t> latest_part{0};

}  // namespace

device& storage::owner() const noexcept { return pool_.owner(); }

void storage::await_all_uses() const {
    std::vector<stream_point> points;
    for_each_last_use([&](const stream_point& point) {
        if (is_open(point)) points.push_back(point);
    });
    await_all(std::move(points));
}

void storage::come_after(const storage& earlier) {
    detail::access_history theirs;
    {
        const std::lock_guard lock(earlier.guard_);
        theirs = earlier.history_;
    }
    const std::lock_guard lock(guard_);
    history_.adopt(theirs, is_over);
}

storage::written storage::last_write() const {
    const std::lock_guard lock(guard_);
    stream_point last = history_.last_write();
    if (last.queue != nullptr) last.upto = last.queue->reached(last.upto);
    return {last, outcome_};
}

void storage::await_last_write() const {
    std::vector<stream_point> points;
    for_each_last_write([&](const stream_point& point) {
        if (is_open(point)) points.push_back(point);
    });
    await_all(std::move(points));
}

void* storage::source_address() const noexcept {
    return is_foreign_ ? static_cast<const detail::foreign_storage*>(this)->known_as() : data_;
}

void storage::on_host_access(access_mode mode) const noexcept { pool_.source_.on_host_access(source_address(), mode); }

// --- parts --------------------------------------------------------------------------------------------------

storage::storage(storage& from, void* data, std::size_t bytes, std::shared_ptr<const void> owner, part)
    : pool_(from.pool_),
      data_(data),
      capacity_bytes_(bytes),
      is_planned_(from.is_planned_),
      whole_(from.whole_ ? from.whole_ : storage_ref(&from)),
      owner_(from.owner_ ? from.owner_ : decltype(owner)(std::move(owner))),
      part_number_(++latest_part) {
    const std::lock_guard lock(from.guard_);
    history_ = from.history_;
    outcome_ = from.outcome_;
    whole_->live_parts_.fetch_add(1, std::memory_order_relaxed);
}

std::size_t storage::latest_part_number() noexcept { return latest_part.load(); }

storage_ref storage::part_of(storage& from, std::size_t offset_bytes, std::size_t bytes,
                             std::shared_ptr<const void> owner) {
    require_no_writing_graph(from);
    auto* const data = static_cast<std::byte*>(from.data()) + offset_bytes;
    return storage_ref::adopt(new storage(from, data, bytes, std::move(owner), part{}));
}

storage_ref storage::join(std::span<const storage_ref> parts) {
    storage& first = *parts.front();
    detail::outcome_set outcomes;
    std::size_t bytes = 0;
    for (const storage_ref& each : parts) {
        require_no_writing_graph(*each);
        bytes += each->capacity_bytes();
        outcomes.add(each->last_write().depends_on);
    }
    const bool is_whole = bytes == first.whole_->capacity_bytes() &&
                          first.whole_->live_parts_.load(std::memory_order_acquire) == parts.size();
    storage_ref joined = is_whole ? first.whole_ : part_of(first, 0, bytes);
    {
        const std::lock_guard lock(joined->guard_);
        for (const storage_ref& each : parts) joined->history_.adopt(each->history_, is_over);
    }
    joined->depend_on(std::move(outcomes).merge(false));
    return joined;
}

// The block, and with it the next user of its memory, comes after the accesses of the part.
void storage::end_part() noexcept {
    try {
        const std::lock_guard lock(whole_->guard_);
        whole_->history_.adopt(history_, is_over);
    } catch (const std::bad_alloc&) {
        history_.for_each_last_use(await_without_memory);  // instead of noting them
    }
    whole_->live_parts_.fetch_sub(1, std::memory_order_release);
    delete this;  // may release the block
}

void storage::release() noexcept {
    if (whole_) {
        end_part();
    } else if (is_planned()) {
        delete this;
    } else if (is_foreign()) {
        static_cast<detail::foreign_storage*>(this)->end();
    } else {
        pool().give_back(this);
    }
}

}  // namespace sluice
