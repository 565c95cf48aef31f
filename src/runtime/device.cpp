#include "sluice/runtime/device.hpp"

#include <algorithm>
#include <array>

#include "runtime/runtime_state.hpp"
#include "runtime/staging_pool.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {

runtime_ref::runtime_ref(device& of) noexcept : of_(&of) { of.retain_runtime(); }
runtime_ref::~runtime_ref() { of_->release_runtime(); }

stream_lease::stream_lease(device& owner, const stream_options& options) : stream_(owner.lend(options)) {}

void stream_lease::give_back::operator()(stream* lent) const noexcept { lent->owner().take_back(lent); }

device::device(detail::runtime_state& runtime, std::string name, std::unique_ptr<device_interpreter> interpreter)
    : runtime_(runtime),
      name_(std::move(name)),
      interpreter_(std::move(interpreter)),
      device_pool_(*this, interpreter_->device_memory()),
      host_pool_(*this, interpreter_->host_memory()) {}

device::~device() {
    // Streams go before the memory that their commands use; workspaces go back to the pool with them.
    for (stream_slot& slot : streams_) slot.owned->set_interpreter(nullptr);
}

memory_info device::memory() const {
    memory_info info = interpreter_->device_memory().info();
    info.free_bytes += device_pool_.usage().cached_bytes;
    return info;
}

void device::trim() {
    if (detail::staging_pool* const made = made_staging()) made->trim();
    device_pool_.trim();
    host_pool_.trim();
}

storage_ref device::turn() {
    {
        const std::lock_guard lock(mutex_);
        if (turn_) return turn_;
    }
    storage_ref made = device_pool_.allocate(1, queue_at(0), {"turn"});
    made->holds_no_data();
    const std::lock_guard lock(mutex_);
    if (!turn_ && (state_.load(std::memory_order_acquire) & closed) == 0) turn_ = made;
    return turn_ ? turn_ : made;
}

detail::staging_pool& device::staging() {
    const std::lock_guard lock(mutex_);
    if (!staging_) staging_ = std::make_unique<detail::staging_pool>(*this);
    return *staging_;
}

detail::staging_pool* device::made_staging() const noexcept {
    const std::lock_guard lock(mutex_);
    return staging_.get();
}

stream* device::lend(const stream_options& options) {
    throw_if_refusing();
    const std::lock_guard lock(mutex_);
    // Once more, with the lock held: close() goes through the streams that there are.
    if ((state_.load(std::memory_order_acquire) & closed) != 0) {
        throw error(errc::runtime_closed, "the runtime that owned this device is gone", {"", name_});
    }
    for (stream_slot& slot : streams_) {
        if (!slot.lent && slot.options.priority == options.priority) {
            slot.lent = true;
            retain_runtime();
            return &slot.owned->handle();
        }
    }
    auto fresh = std::make_unique<command_queue>(*this, streams_.size());
    fresh->set_interpreter(interpreter_->make_stream(*fresh, options));
    streams_.push_back({std::move(fresh), options, true});
    retain_runtime();
    return &streams_.back().owned->handle();
}

void device::take_back(stream* lent) noexcept {
    {
        const std::lock_guard lock(mutex_);
        streams_[lent->index()].lent = false;
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
    for (command_queue* each : all_queues()) each->await(each->issued(), default_wait_mode());
    if (is_poisoned()) refuse();
}

void device::poison(std::exception_ptr cause) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (is_poisoned()) return;
        cause_ = std::move(cause);
        state_.fetch_or(poisoned, std::memory_order_release);
    }
    // On another thread: the streams' locks may be held here, and whoever waits has code of its own to run.
    retain_runtime();  // the notice is part of it
    runtime_.service.post(notice_);
}

device::poison_notice::poison_notice(device& faulted) noexcept
    : work_item([](work_item& self) noexcept { static_cast<poison_notice&>(self).of.tell_of_poison(); }), of(faulted) {}

void device::tell_of_poison() noexcept {
    for (std::size_t i = 0; command_queue* const each = queue_at(i); ++i) {
        each->interpreter().abandon();
        each->release(no_ticket);  // nothing more will be passed
    }
    // What waits on another device for what is not there now never runs, and stands before all that comes after it.
    for (device* const each : beside()) {
        if (!each->is_poisoned() && (!interpreter_->fails_alone() || each->needs(*this))) each->poison(cause());
    }
    release_runtime();  // it may have been the last
}

detail::completion_service& device::service() noexcept { return runtime_.service; }

command_queue* device::queue_at(std::size_t index) const noexcept {
    const std::lock_guard lock(mutex_);
    return index < streams_.size() ? streams_[index].owned.get() : nullptr;
}

// Each device once, however they hang on each other.
void device::poll() noexcept {
    std::array<device*, 64> all{this};
    std::size_t count = 1;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; command_queue* const each = all[i]->queue_at(j); ++j) {
            each->interpreter().poll();
            if (!all[i]->reaches_others()) continue;
            each->for_each_needed([&](device& other) {
                const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
                if (count < all.size() && std::find(all.begin(), end, &other) == end) all[count++] = &other;
            });
        }
    }
}

std::vector<device*> device::beside() const {
    std::vector<device*> all;
    for (const auto& each : runtime_.devices) {
        if (each.get() != this && is_beside(*each)) all.push_back(each.get());
    }
    return all;
}

bool device::hangs_on_others() const noexcept {
    if (!reaches_others()) return false;
    bool any = false;
    for (std::size_t i = 0; command_queue* const each = queue_at(i); ++i)
        each->for_each_needed([&](const device&) { any = true; });
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
    if (!is_poisoned()) throw error(errc::runtime_closed, "the runtime that owned this device is gone", {"", name_});
    std::rethrow_exception(cause());
}

void device::close() noexcept {
    {
        const std::lock_guard lock(mutex_);  // no stream is lent from now on
        state_.fetch_or(closed, std::memory_order_release);
    }
    // The list changes no more.
    for (const stream_slot& slot : streams_) {
        slot.owned->close();
        slot.owned->interpreter().abandon();  // kept owners of host memory may own memory of ours
    }
    if (detail::staging_pool* const made = made_staging()) made->close();
    storage_ref turn;  // a reference to our own memory: kept, it would keep the runtime for ever
    {
        const std::lock_guard lock(mutex_);
        std::swap(turn, turn_);
    }
    interpreter_->close();
}

void device::retain_runtime() noexcept { runtime_.retain(); }
void device::release_runtime() noexcept { runtime_.release(); }

}  // namespace sluice
