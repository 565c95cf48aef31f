// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/device.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/note_failure.hpp"
#include "runtime/runtime_state.hpp"
#include "runtime/staging_pool.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"

namespace sluice {

runtime_ref::runtime_ref(device& of) noexcept : of_(&of) { of.retain_runtime(); }
runtime_ref::~runtime_ref() { of_->release_runtime(); }

stream_lease::stream_lease(device& owner, const stream_options& options)
    : queue_(&owner.acquire_queue(options)), stream_(*queue_) {}

void stream_lease::give_back::operator()(command_queue* leased) const noexcept {
    leased->owner().release_queue(*leased);
}

device::device(detail::runtime_state& runtime, std::string name, std::unique_ptr<device_interpreter> interpreter)
    : runtime_(runtime),
      name_(std::move(name)),
      interpreter_(std::move(interpreter)),
      device_pool_(*this, interpreter_->device_memory()),
      host_pool_(*this, interpreter_->host_memory()),
      wait_mode_(interpreter_->default_wait_mode()) {}

device::~device() {
    // Streams are destroyed before the memory that their commands use; with them, workspaces return to the pool.
    for (stream_slot& slot : streams_) slot.owned->set_interpreter(nullptr);
}

priority_range device::priorities() const {
    using limits = std::numeric_limits<int>;
    return {.lowest = interpreter_->nearest({.priority = limits::max()}).priority,
            .highest = interpreter_->nearest({.priority = limits::min()}).priority};
}

memory_info device::memory() const {
    const auto ask = [this] {
        try {
            return interpreter_->device_memory().info();
        } catch (const device_error& failure) {
            for (const auto& each : runtime_.devices)
                if (each.get() == this) detail::note_failure(*each, failure);
            throw;
        }
    };
    memory_info info = ask();
    info.free_bytes += device_pool_.usage().cached_bytes;
    return info;
}

void device::trim(std::size_t keep_bytes) {
    if (detail::staging_pool* const made = existing_staging()) made->trim();
    device_pool_.trim(keep_bytes);
    host_pool_.trim(keep_bytes);
    for (command_queue* const each : all_queues()) each->interpreter().trim();
}

storage_ref device::collective_order() {
    {
        const std::lock_guard lock(mutex_);
        if (collective_order_) return collective_order_;
    }
    storage_ref made = device_pool_.allocate(1, queue_at(0), {"collective_order"});
    made->mark_scratch();
    made->share_among_writers(std::make_shared<detail::access_lock>());
    const std::lock_guard lock(mutex_);
    if (!collective_order_ && (state_.load(std::memory_order_acquire) & closed) == 0) {
        collective_order_ = made;
        device_pool_.note_own(*made);
    }
    return collective_order_ ? collective_order_ : made;
}

detail::staging_pool& device::staging() {
    const std::lock_guard lock(mutex_);
    if (!staging_) staging_ = std::make_unique<detail::staging_pool>(*this);
    return *staging_;
}

detail::staging_pool* device::existing_staging() const noexcept {
    const std::lock_guard lock(mutex_);
    return staging_.get();
}

command_queue& device::acquire_queue(const stream_options& options) {
    throw_if_refusing();
    const auto lease = [&]() -> command_queue& {
        const std::lock_guard lock(mutex_);
        // Once more, with the lock held: close() closes only the streams that exist by then.
        if ((state_.load(std::memory_order_acquire) & closed) != 0) {
            throw error(errc::runtime_closed, "the runtime that owned this device has been destroyed", {"", name_});
        }
        if (options.foreign && kind() == device_kind::cpu)
            throw error(errc::unsupported, "a CPU device has no streams of other code", {"stream", name_});
        const stream_options nearest = interpreter_->nearest(options);
        if (stream_slot* const free = free_slot(nearest)) {
            free->is_leased = true;
            retain_runtime();
            return *free->owned;
        }
        auto fresh = std::make_unique<command_queue>(*this, streams_.size());
        fresh->set_interpreter(interpreter_->make_stream(*fresh, nearest));
        streams_.push_back({std::move(fresh), nearest, true});
        retain_runtime();
        return *streams_.back().owned;
    };
    try {
        return lease();
    } catch (const device_error& failure) {
        if (!options.foreign) detail::note_failure(*this, failure);  // else it is about the caller's stream
        throw;
    }
}

// A free stream with these options; or an idle one whose options the backend can change.
device::stream_slot* device::free_slot(const stream_options& options) {
    const auto is_free = [&](const stream_slot& slot) {
        return !slot.is_leased && slot.options.foreign.has_value() == options.foreign.has_value();
    };
    if (options.foreign) {
        const auto slot = std::find_if(streams_.begin(), streams_.end(), is_free);
        if (slot == streams_.end()) return nullptr;
        slot->owned->interpreter().attach(options.foreign);
        // The waits that were made on the stream before are not made on this one.
        const std::lock_guard lock(slot->owned->mutex_);
        slot->owned->waited_for_.clear();
        return &*slot;
    }
    for (stream_slot& slot : streams_) {
        if (is_free(slot) && slot.options.priority == options.priority && slot.options.replays == options.replays)
            return &slot;
    }
    for (stream_slot& slot : streams_) {
        if (!is_free(slot) || slot.options.replays != options.replays || slot.owned->passed() < slot.owned->issued())
            continue;
        if (!slot.owned->interpreter().change(options)) continue;
        slot.options = options;
        return &slot;
    }
    return nullptr;
}

bool device::is_foreign(const command_queue& leased) const noexcept {
    const std::lock_guard lock(mutex_);
    return streams_[leased.index()].options.foreign.has_value();
}

void device::release_queue(command_queue& leased) noexcept {
    bool is_free = true;
    if (is_foreign(leased)) {
        try {
            leased.wait(leased.issued(), default_wait_mode());
            leased.interpreter().attach({});
        } catch (...) {
            is_free = false;  // its commands may still run, or the device has faulted: not to be used again
        }
    }
    if (is_free) {
        const std::lock_guard lock(mutex_);
        streams_[leased.index()].is_leased = false;
    }
    release_runtime();
}

std::vector<command_queue*> device::all_queues() const {
    const std::lock_guard lock(mutex_);
    std::vector<command_queue*> all;
    all.reserve(streams_.size());
    for (const stream_slot& slot : streams_) all.push_back(slot.owned.get());
    return all;
}

void device::synchronize() {
    for (command_queue* each : all_queues()) {
        const ticket last = runtime_.staying.last_to_wait_for(*each);
        detail::require_may_wait({each, last}, "synchronize");
        each->wait(last, default_wait_mode());
    }
    if (is_poisoned()) refuse();
}

void device::poison(std::exception_ptr cause) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (is_poisoned()) return;
        cause_ = std::move(cause);
        state_.fetch_or(poisoned, std::memory_order_release);
    }
    // Waiters are completed on another thread: this one may hold streams' locks, and waiters run code of their own.
    retain_runtime();  // the notice is part of the device
    runtime_.service.post(notice_);
}

device::poison_notice::poison_notice(device& faulted) noexcept
    : work_item([](work_item& self) noexcept { static_cast<poison_notice&>(self).of.report_poison(); }), of(faulted) {}

void device::report_poison() noexcept {
    runtime_.log.write({.level = log_level::critical, .event = log_event::device_fault, .device = name_},
                       [this] { return name_ + " is lost: " + detail::message_of(cause()); });
    for (std::size_t i = 0; command_queue* const each = queue_at(i); ++i) {
        each->interpreter().abandon();
        each->release(no_ticket);  // no more commands will pass
    }
    // Commands of another device that wait for results of this one never run, nor do the commands after them.
    // (Not peers(), which allocates: memory may be what is short.)
    for (const auto& each : runtime_.devices) {
        if (each.get() == this || !is_peer_of(*each) || each->is_poisoned()) continue;
        if (!interpreter_->fails_alone() || each->needs(*this)) each->poison(cause());
    }
    release_runtime();  // may be the last reference
}

detail::completion_service& device::service() noexcept { return runtime_.service; }
detail::runtime_log& device::log() const noexcept { return runtime_.log; }

command_queue* device::queue_at(std::size_t index) const noexcept {
    const std::lock_guard lock(mutex_);
    return index < streams_.size() ? streams_[index].owned.get() : nullptr;
}

// Polls each device once, whatever the dependencies between them.
void device::poll() noexcept {
    std::array<device*, 64> all{this};
    std::size_t count = 1;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; command_queue* const each = all[i]->queue_at(j); ++j) {
            each->interpreter().poll();
            if (!all[i]->has_depended_on_others()) continue;
            each->for_each_dependency([&](device& other) {
                const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
                if (count < all.size() && std::find(all.begin(), end, &other) == end) all[count++] = &other;
            });
        }
    }
}

std::vector<device*> device::peers() const {
    std::vector<device*> all;
    for (const auto& each : runtime_.devices) {
        if (each.get() != this && is_peer_of(*each)) all.push_back(each.get());
    }
    return all;
}

bool device::depends_on_others() const noexcept {
    if (!has_depended_on_others()) return false;
    bool any = false;
    for (std::size_t i = 0; command_queue* const each = queue_at(i); ++i)
        each->for_each_dependency([&](const device&) { any = true; });
    return any;
}

bool device::needs(const device& other) const noexcept {
    for (std::size_t i = 0; command_queue* const each = queue_at(i); ++i) {
        each->poll();
        if (each->needs(other)) return true;
    }
    return false;
}

std::exception_ptr device::cause() const noexcept {
    const std::lock_guard lock(mutex_);
    return cause_;
}

void device::refuse() const {
    if (!is_poisoned())
        throw error(errc::runtime_closed, "the runtime that owned this device has been destroyed", {"", name_});
    std::rethrow_exception(cause());
}

void device::close() noexcept {
    {
        const std::lock_guard lock(mutex_);  // no stream is leased from now on
        state_.fetch_or(closed, std::memory_order_release);
    }
    runtime_.staying.end_all_of(*this);
    // The list of streams does not change any more.
    for (const stream_slot& slot : streams_) {
        slot.owned->close();
        slot.owned->interpreter().abandon();  // owners of host memory may own memory of this device
    }
    if (detail::staging_pool* const made = existing_staging()) made->close();
    storage_ref order;  // a reference to our own memory, which would keep the runtime alive for ever
    {
        const std::lock_guard lock(mutex_);
        std::swap(order, collective_order_);
    }
    interpreter_->close();
}

void device::retain_runtime() noexcept { runtime_.retain(); }
void device::release_runtime() noexcept { runtime_.release(); }

}  // namespace sluice
