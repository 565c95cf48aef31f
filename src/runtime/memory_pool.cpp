// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/memory_pool.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

#include "runtime/foreign_storage.hpp"
#include "runtime/free_blocks.hpp"
#include "runtime/runtime_state.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

constexpr std::size_t smallest_block_bytes = 512;

// False when the device has faulted: then it may still access the block, which must never be reused. False also on a
// thread that cannot wait for the device.
bool await_uses(const storage& block) noexcept {
    try {
        block.await_all_uses();
        return true;
    } catch (...) {
        return false;
    }
}

// Uses the user's name for the operation, if there is one.
error_context context_of(const command_info& info, const device& of) {
    return {info.operation.empty() ? info.name : info.operation, of.name(), info.location};
}

}  // namespace

memory_pool::memory_pool(device& owner, memory_source& source) noexcept : owner_(owner), source_(source) {}

std::size_t memory_pool::class_of(std::size_t bytes) {
    bytes = std::max(bytes, smallest_block_bytes);
    // bytes - 1 lies in [2^power, 2^(power + 1)); the steps divide that range evenly, upper ends included.
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
    const std::size_t step = (bytes - 1 - (std::size_t{1} << power)) / ((std::size_t{1} << power) / steps);
    return power * steps + step;
}

std::size_t memory_pool::bytes_of_class(std::size_t index) {
    const std::size_t base = std::size_t{1} << (index / steps);
    return base + (index % steps + 1) * (base / steps);
}

storage_ref memory_pool::allocate(std::size_t bytes, const command_queue* user, const command_info& info) {
    owner_.throw_if_refusing();
    if (bytes > std::size_t{1} << 60) throw out_of_memory(bytes, source_.info().free_bytes, context_of(info, owner_));
    const std::size_t index = class_of(bytes);
    storage* block = take_cached(index, user);
    if (block == nullptr) {
        block = make(bytes, bytes_of_class(index), info);
        const std::lock_guard lock(guard_);
        if (count_in_use(*block)) owner_.retain_runtime();
    }
    block->references_.store(1, std::memory_order_relaxed);
    source_.on_allocate(block->data(), bytes, user == nullptr);
    return storage_ref::adopt(block);
}

bool memory_pool::count_in_use(const storage& block) noexcept {
    usage_.in_use_bytes += block.capacity_bytes();
    return blocks_in_use_++ == 0;
}

detail::free_blocks& memory_pool::free_of(std::size_t index) {
    if (!free_[index]) free_[index] = std::make_unique<detail::free_blocks>();
    return *free_[index];
}

// The lock is not held while streams are queried: such a call of the driver may wait until the GPU is idle, the GPU may
// wait for a host call, and what the host call's thread destroys returns to this pool.
storage* memory_pool::take_cached(std::size_t index, const command_queue* user) {
    const auto take = [&]() -> storage* {
        storage* const block = free_of(index).take(user);
        if (block == nullptr) return nullptr;
        usage_.cached_bytes -= block->capacity_bytes();
        if (count_in_use(*block)) owner_.retain_runtime();
        return block;
    };
    detail::free_blocks::queues_to_poll queues;
    bool any = false;
    {
        const std::lock_guard lock(guard_);
        ++usage_.allocations;  // once for each call of allocate
        if (storage* const block = take()) return block;
        any = free_of(index).next_queues(queues);
    }
    while (any) {
        for (std::size_t i = 0; i < queues.count; ++i) queues.all[i]->interpreter().poll();
        const std::lock_guard lock(guard_);
        if (storage* const block = take()) return block;
        any = free_of(index).next_queues(queues);
    }
    return nullptr;
}

// A call of the driver may be the first to see a fault. Then the streams are polled, so that the device knows the
// cause, and every caller receives the same one.
void* memory_pool::allocate_from_source(std::size_t bytes) {
    try {
        return source_.allocate(bytes);
    } catch (const device_error&) {
        owner_.poll();
        owner_.throw_if_poisoned();
        throw;
    }
}

storage* memory_pool::make(std::size_t requested_bytes, std::size_t bytes, const command_info& info) {
    void* data = allocate_from_source(bytes);
    if (data == nullptr) {
        // Memory is short: return cached blocks to the source first. Other threads may take that memory, so repeat
        // while there are cached blocks.
        const std::lock_guard alone(shortage_mutex_);
        data = allocate_from_source(bytes);
        while (data == nullptr && release(bytes) != 0) data = allocate_from_source(bytes);
    }
    {
        const std::lock_guard lock(guard_);
        ++usage_.source_calls;
    }
    if (data == nullptr) {
        owner_.poll();
        owner_.throw_if_refusing();  // a fault may be the reason for the shortage, and is then the first cause
        throw out_of_memory(requested_bytes, source_.info().free_bytes, context_of(info, owner_));
    }
    auto* const block = new (std::nothrow) storage(*this, data, bytes);
    if (block == nullptr) {
        source_.free(data, bytes);
        throw std::bad_alloc();
    }
    return block;
}

void memory_pool::give_back(storage* block) noexcept {
    // There is no other reference to the block, so its own guard is not needed. The next owner writes new contents.
    block->outcome_ = {};
    block->holds_data_ = true;
    block->lock_ = {};
    source_.on_free(block->data());
    bool was_last = false;
    {
        const std::lock_guard lock(guard_);
        usage_.in_use_bytes -= block->capacity_bytes();
        put(*block);
        was_last = --blocks_in_use_ == 0;
    }
    if (was_last) owner_.release_runtime();  // at the end: this may destroy the pool
}

storage_ref memory_pool::adopt(void* data, std::size_t bytes, std::shared_ptr<const void> owner,
                               const command_info& info) {
    owner_.throw_if_refusing();
    std::string why = owner_.interpreter().why_unusable(data, bytes);
    for (const auto& each : owner_.runtime_.devices) {
        if (why.empty() && each.get() != &owner_ && bytes != 0 && each->interpreter().owns(data))
            why = "it is memory of " + each->name() + ": adopt it there, then copy it";
    }
    if (!why.empty()) throw error(errc::invalid_argument, why, context_of(info, owner_));
    auto made = std::make_unique<detail::foreign_storage>(*this, data, bytes, std::move(owner));
    made->be_known_as(source_.on_adopt(data, bytes));
    try {
        list(*made);
    } catch (...) {
        source_.on_release(made->known_as());
        throw;
    }
    owner_.retain_runtime();
    return storage_ref::adopt(made.release());
}

void memory_pool::list(detail::foreign_storage& made) {
    const std::lock_guard lock(foreign_mutex_);
    const auto* const begin = static_cast<const std::byte*>(made.data());
    for (const storage* each = latest_foreign_; each != nullptr; each = each->older_) {
        const auto* const theirs = static_cast<const std::byte*>(each->data());
        if (theirs < begin + made.capacity_bytes() && begin < theirs + each->capacity_bytes()) made.come_after(*each);
    }
    storage& listed = made;
    listed.older_ = latest_foreign_;
    if (latest_foreign_ != nullptr) latest_foreign_->newer_ = &listed;
    latest_foreign_ = &listed;
}

void memory_pool::end(detail::foreign_storage& over) noexcept {
    {
        const std::lock_guard lock(foreign_mutex_);
        storage& listed = over;
        (listed.newer_ != nullptr ? listed.newer_->older_ : latest_foreign_) = listed.older_;
        if (listed.older_ != nullptr) listed.older_->newer_ = listed.newer_;
    }
    source_.on_release(over.known_as());
    delete &over;
    owner_.release_runtime();  // at the end: this may destroy the pool
}

void memory_pool::keep_until_closed(detail::foreign_storage& lost) noexcept {
    if (!owner_.runtime_.keep(lost)) end(lost);
}

// Lock held.
void memory_pool::put(storage& block) noexcept {
    free_[class_of(block.capacity_bytes())]->put(block);
    usage_.cached_bytes += block.capacity_bytes();
}

// The largest cached block; null when there is none.
storage* memory_pool::take_largest() noexcept {
    const std::lock_guard lock(guard_);
    for (std::size_t index = class_count; index != 0; --index) {
        storage* const block = free_[index - 1] ? free_[index - 1]->take_any() : nullptr;
        if (block == nullptr) continue;
        usage_.cached_bytes -= block->capacity_bytes();
        return block;
    }
    return nullptr;
}

std::size_t memory_pool::trim() {
    const std::lock_guard alone(shortage_mutex_);
    return release(std::numeric_limits<std::size_t>::max());
}

// One block after the other, so that the rest stays available while this waits for one.
std::size_t memory_pool::release(std::size_t at_least) {
    std::size_t returned = 0;
    std::size_t cached = usage().cached_bytes;  // blocks that are returned from now on stay cached
    detail::free_blocks faulted;
    while (returned < at_least && cached != 0) {
        storage* const block = take_largest();
        if (block == nullptr) break;
        const std::size_t bytes = block->capacity_bytes();
        cached -= std::min(cached, bytes);
        if (await_uses(*block)) {
            source_.free(block->data(), bytes);
            returned += bytes;
            delete block;
        } else {
            faulted.put(*block);
        }
    }
    // Kept, with their histories, until a later call or until the pool is destroyed. A poisoned device refuses
    // allocations, so they are never handed out.
    const std::lock_guard lock(guard_);
    while (storage* const block = faulted.take_any()) put(*block);
    return returned;
}

memory_pool::statistics memory_pool::usage() const {
    const std::lock_guard lock(guard_);
    return usage_;
}

// The streams have been destroyed by now, and all uses of the blocks have ended with them.
memory_pool::~memory_pool() {
    while (storage* const block = take_largest()) {
        source_.free(block->data(), block->capacity_bytes());
        delete block;
    }
}

}  // namespace sluice
