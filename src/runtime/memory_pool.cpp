// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/memory_pool.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "runtime/foreign_storage.hpp"
#include "runtime/note_failure.hpp"
#include "runtime/pool_blocks.hpp"
#include "runtime/runtime_state.hpp"
#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

// The question may be the first call that meets a fault.
memory_info info_of(memory_source& source, device& owner) {
    try {
        return source.info();
    } catch (const device_error& failure) {
        detail::note_failure(owner, failure);
        throw;
    }
}

// A pool of less memory than this does not divide blocks while the source has more: exact sizes are reused faster.
constexpr std::size_t small_pool_bytes = std::size_t{64} << 20;
constexpr std::size_t most_bytes = std::size_t{1} << 60;  // no source has as much
constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

// False when the device has faulted: then it may still access the memory, which must never be reused. False also on a
// thread that cannot wait for the device, and on one that holds a lock.
bool wait_for_uses(const std::vector<stream_point>& uses) noexcept {
    if (detail::holds_a_lock()) return false;
    try {
        for (const stream_point& use : uses) {
            detail::require_may_wait(use, "wait for memory");
            use.queue->wait(use.upto, use.queue->owner().default_wait_mode());
        }
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

class memory_pool::core {
public:
    core(memory_pool& pool, device& owner, memory_source& source) : blocks_(pool), owner_(owner), source_(source) {}
    core(const core&) = delete;  // blocks point to it
    core& operator=(const core&) = delete;
    // The streams have been destroyed by now, and all uses of the blocks have ended with them.
    ~core();

    // Null when no block of the class is ready. Counts a call of allocate.
    storage* take_cached(std::size_t size_class, const command_queue* user);
    storage* make(std::size_t requested_bytes, std::size_t bytes, const command_queue* user, const command_info& info);
    void put(storage& block) noexcept;
    void note_own(const storage& block) noexcept;
    void forget_own(const storage& block) noexcept;
    std::size_t trim(std::size_t keep_bytes);
    bool make_room(std::size_t bytes);
    statistics usage() const;
    [[noreturn]] void throw_shortage(std::size_t requested_bytes, const command_info& info);

    detail::noted_lock<std::mutex> foreign{"that of a device's adopted memory"};
    storage* latest_foreign = nullptr;  // guarded by `foreign`; linked by older_ and newer_

private:
    // What became of one chunk of free memory.
    struct freed {
        bool any = false;                // there was one
        bool is_refused = false;         // this thread could not wait for its uses
        std::size_t waited_bytes = 0;    // it is ready now, in the lists
        std::size_t returned_bytes = 0;  // to the source
    };

    void count_in_use() noexcept;  // lock held
    bool may_grow(std::size_t bytes) const noexcept;
    // Whether little memory will be left when that much more is in use.
    bool is_crowded(std::size_t bytes) const noexcept;
    void* ask_source(std::size_t bytes);
    storage* take_from_source(std::size_t bytes);
    storage* carve(std::size_t bytes, const command_queue* user) noexcept;
    storage* make_when_short(std::size_t bytes, const command_queue* user, std::size_t known_returns);
    enum class used : bool { wait_for, pass_over };  // a chunk that may still be used
    freed free_one(std::size_t bytes, std::size_t call, used next);
    // Waits for the uses of a chunk that is free as a whole; then keeps it, or returns it to the source. One without
    // uses is returned.
    enum class then : bool { keep, give_back };
    freed wait_for_or_return(detail::pool_chunk& chosen, std::size_t call, then next,
                             std::unique_lock<detail::spin_lock>& lock);
    freed return_to_source(detail::pool_chunk& unused, std::unique_lock<detail::spin_lock>& lock);
    bool await_divided(std::size_t bytes);
    bool await_others_return(std::size_t& known) const noexcept;
    std::size_t count_returns() const noexcept;

    // Guards all below; not held during calls of the driver, and not over a wait.
    mutable detail::spin_lock guard_;
    detail::pool_blocks blocks_;
    device& owner_;
    memory_source& source_;
    std::size_t allocations_ = 0;
    std::size_t source_calls_ = 0;
    std::size_t own_bytes_ = 0;                    // of those in use
    std::size_t most_in_use_bytes_ = 0;            // at the same time, since the last trim
    std::size_t blocks_in_use_ = 0;                // while this is not 0, the pool keeps the runtime alive
    std::size_t source_has_less_than_ = no_limit;  // by what it refused, gave and got back; others may use it too
    std::size_t returning_ = 0;                    // threads that return memory to the source at this moment
    std::size_t returns_ = 0;                      // calls of the source that returned memory
    std::size_t calls_ = 0;                        // of those that free memory
};

// --- allocation ---------------------------------------------------------------------------------------------

void memory_pool::core::count_in_use() noexcept {
    most_in_use_bytes_ = std::max(most_in_use_bytes_, blocks_.total_bytes() - blocks_.free_bytes());
    if (blocks_in_use_++ == 0) owner_.retain_runtime();
}

// The lock is not held while streams are queried: such a call of the driver may wait until the GPU is idle, the GPU may
// wait for a host call, and what the host call's thread destroys returns to this pool.
storage* memory_pool::core::take_cached(std::size_t size_class, const command_queue* user) {
    const auto take = [&]() -> storage* {
        storage* const block = blocks_.take(size_class, user);
        if (block != nullptr) count_in_use();
        return block;
    };
    detail::free_blocks::queues_to_poll queues;
    bool any = false;
    {
        const std::lock_guard lock(guard_);
        ++allocations_;  // once for each call of allocate
        if (storage* const block = take()) return block;
        any = blocks_.next_queues(size_class, queues);
    }
    while (any) {
        for (std::size_t i = 0; i < queues.count; ++i) queues.all[i]->interpreter().poll();
        const std::lock_guard lock(guard_);
        if (storage* const block = take()) return block;
        any = blocks_.next_queues(size_class, queues);
    }
    return nullptr;
}

storage* memory_pool::core::make(std::size_t requested_bytes, std::size_t bytes, const command_queue* user,
                                 const command_info& info) {
    std::size_t known_returns = count_returns();  // before the source is asked
    bool has_called = false;
    const auto call_source = [&] {
        has_called = true;
        return take_from_source(bytes);
    };
    storage* block = may_grow(bytes) ? call_source() : nullptr;
    if (block == nullptr && !is_crowded(bytes)) block = carve(bytes, user);
    if (block == nullptr && !has_called) block = call_source();
    if (block == nullptr) block = make_when_short(bytes, user, known_returns);
    if (has_called) {
        const std::lock_guard lock(guard_);
        ++source_calls_;
    }
    if (block != nullptr) return block;
    owner_.poll();
    owner_.throw_if_refusing();  // a fault may be the reason for the shortage, and is then the first cause
    throw_shortage(requested_bytes, info);
}

void memory_pool::core::throw_shortage(std::size_t requested_bytes, const command_info& info) {
    memory_info there = info_of(source_, owner_);
    if (requested_bytes > most_bytes) there.total_bytes = most_bytes;
    throw out_of_memory(requested_bytes, there.free_bytes, context_of(info, owner_), there.total_bytes);
}

bool memory_pool::core::may_grow(std::size_t bytes) const noexcept {
    const std::lock_guard lock(guard_);
    if (!source_.is_divisible()) return true;
    const std::size_t in_use = blocks_.total_bytes() - blocks_.free_bytes() + bytes;
    const std::size_t enough = std::max(small_pool_bytes, 2 * std::max(most_in_use_bytes_, in_use));
    return bytes < source_has_less_than_ && blocks_.total_bytes() + bytes <= enough;
}

// More than three quarters are in use. A piece in use keeps all of its chunk, so from here on new pieces would make
// large blocks impossible though there is memory for them. That is known only where the source has refused a request.
bool memory_pool::core::is_crowded(std::size_t bytes) const noexcept {
    const std::lock_guard lock(guard_);
    if (source_has_less_than_ == no_limit) return false;
    const std::size_t all = blocks_.total_bytes() + source_has_less_than_;
    return blocks_.total_bytes() - blocks_.free_bytes() + bytes > all / 4 * 3;
}

// A call of the driver may be the first to see a fault. Then the streams are polled, so that the device knows the
// cause, and every caller receives the same one.
void* memory_pool::core::ask_source(std::size_t bytes) {
    try {
        return source_.allocate(bytes);
    } catch (const device_error& failure) {
        detail::note_failure(owner_, failure);
        throw;
    }
}

// A block of a new chunk. Null when the source has not that much.
storage* memory_pool::core::take_from_source(std::size_t bytes) {
    void* const data = ask_source(bytes);
    {
        const std::lock_guard lock(guard_);
        if (data == nullptr) {
            source_has_less_than_ = std::min(source_has_less_than_, bytes);
            return nullptr;
        }
        if (source_has_less_than_ != no_limit)
            source_has_less_than_ = bytes < source_has_less_than_ ? source_has_less_than_ - bytes : no_limit;
        if (storage* const block = blocks_.add(data, bytes)) {
            count_in_use();
            return block;
        }
    }
    source_.free(data, bytes);
    throw std::bad_alloc();
}

storage* memory_pool::core::carve(std::size_t bytes, const command_queue* user) noexcept {
    if (!source_.is_divisible()) return nullptr;
    for (const bool has_polled : {false, true}) {
        if (has_polled) owner_.poll();
        const std::lock_guard lock(guard_);
        if (blocks_.free_bytes() < bytes) return nullptr;
        if (storage* const block = blocks_.carve(bytes, user)) {
            count_in_use();
            return block;
        }
    }
    return nullptr;
}

void memory_pool::core::put(storage& block) noexcept {
    bool was_last = false;
    {
        const std::lock_guard lock(guard_);
        blocks_.put(block);
        was_last = --blocks_in_use_ == 0;
    }
    if (was_last) owner_.release_runtime();  // at the end: this may destroy the pool
}

void memory_pool::core::note_own(const storage& block) noexcept {
    const std::lock_guard lock(guard_);
    own_bytes_ += block.capacity_bytes();
}

void memory_pool::core::forget_own(const storage& block) noexcept {
    const std::lock_guard lock(guard_);
    own_bytes_ -= block.capacity_bytes();
}

// --- shortage -----------------------------------------------------------------------------------------------

// Other threads may take what this one frees, so it repeats while there is free memory. Where memory is crowded, what
// nothing uses goes back to the source first, and blocks are divided only when that was not enough.
storage* memory_pool::core::make_when_short(std::size_t bytes, const command_queue* user, std::size_t known_returns) {
    std::size_t call = 0, refusals_left = 0;
    const auto begin = [&] {
        const std::lock_guard lock(guard_);
        call = ++calls_;
        refusals_left = blocks_.whole().size() + blocks_.divided().size();
    };
    // What is missing; all of it where the source does not say what it has.
    const auto missing = [&] {
        const std::size_t there = info_of(source_, owner_).free_bytes;
        return there < bytes ? bytes - there : bytes;
    };
    // Another thread that may not wait either replaces the marks of this call, so refusals are counted.
    std::size_t returned_bytes = 0;  // by the last call
    const auto free_another = [&](used next) {
        const freed its = free_one(missing(), call, next);
        returned_bytes = its.returned_bytes;
        if (!its.is_refused) return its.any;
        if (refusals_left == 0) return false;
        --refusals_left;
        return true;
    };
    if (is_crowded(bytes)) {
        begin();
        while (free_another(used::pass_over)) {
            if (returned_bytes == 0) continue;  // the source has no more than before
            if (storage* const block = take_from_source(bytes)) return block;
        }
        if (storage* const block = carve(bytes, user)) return block;
    }
    begin();
    while (free_another(used::wait_for) || await_others_return(known_returns)) {
        if (storage* const block = carve(bytes, user)) return block;
        if (storage* const block = take_from_source(bytes)) return block;
    }
    return await_divided(bytes) ? carve(bytes, user) : nullptr;
}

std::size_t memory_pool::core::count_returns() const noexcept {
    const std::lock_guard lock(guard_);
    return returns_;
}

// Whether another thread has returned memory to the source since `known`; waits for those that do so at this moment.
bool memory_pool::core::await_others_return(std::size_t& known) const noexcept {
    for (;;) {
        {
            const std::lock_guard lock(guard_);
            if (returns_ != known) {
                known = returns_;
                return true;
            }
            if (returning_ == 0) return false;
        }
        // Returning memory may take a GPU as long as its commands.
        if (detail::holds_a_lock() || owner_.interpreter().is_own_thread()) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

// Returns one chunk to the source when it has no uses; else waits for them or passes it over.
memory_pool::core::freed memory_pool::core::free_one(std::size_t bytes, std::size_t call, used next) {
    std::unique_lock lock(guard_);
    detail::pool_chunk* const chosen = blocks_.free_chunk_for(bytes, call);
    if (chosen == nullptr) return {};
    if (next == used::wait_for) return wait_for_or_return(*chosen, call, then::keep, lock);
    std::vector<stream_point> uses;
    detail::pool_blocks::add_open_uses(*chosen, uses);
    if (uses.empty()) return return_to_source(*chosen, lock);
    chosen->passed_over_by = call;
    return {.any = true, .is_refused = true};
}

// The chunk stays in the lists while this waits, so that other threads can have it. Afterwards its uses are over,
// unless another thread has had it.
memory_pool::core::freed memory_pool::core::wait_for_or_return(detail::pool_chunk& chosen, std::size_t call, then next,
                                                               std::unique_lock<detail::spin_lock>& lock) {
    const std::size_t bytes = chosen.bytes;
    std::vector<stream_point> uses;
    detail::pool_blocks::add_open_uses(chosen, uses);
    if (uses.empty()) return return_to_source(chosen, lock);
    ++chosen.waiting;
    lock.unlock();
    const bool are_over = wait_for_uses(uses);
    lock.lock();
    --chosen.waiting;
    if (chosen.data == nullptr) {  // another thread has returned it meanwhile
        detail::pool_blocks::end_if_unused(chosen);
        return {.any = true};
    }
    // Not over: kept, with its history, until a later call or until the pool is destroyed. A poisoned device refuses
    // allocations, so it is never handed out.
    if (!are_over) chosen.passed_over_by = call;
    if (!are_over || next == then::keep || !chosen.is_free())
        return {.any = true, .is_refused = !are_over, .waited_bytes = are_over ? bytes : 0};
    std::vector<stream_point> later;
    detail::pool_blocks::add_open_uses(chosen, later);
    const auto is_later = [&](const stream_point& use) {
        return std::ranges::none_of(
            uses, [&](const stream_point& waited) { return waited.queue == use.queue && waited.upto >= use.upto; });
    };
    if (std::ranges::any_of(later, is_later)) return {.any = true};
    return return_to_source(chosen, lock);
}

// The lock is given up meanwhile: the call may take a GPU as long as its commands.
memory_pool::core::freed memory_pool::core::return_to_source(detail::pool_chunk& unused,
                                                             std::unique_lock<detail::spin_lock>& lock) {
    void* const data = unused.data;
    const std::size_t bytes = unused.bytes;
    blocks_.remove(unused);
    detail::pool_blocks::end_if_unused(unused);
    ++returning_;
    lock.unlock();
    source_.free(data, bytes);
    lock.lock();
    --returning_;
    ++returns_;
    if (source_has_less_than_ != no_limit) source_has_less_than_ += bytes;
    return {.any = true, .returned_bytes = bytes};
}

// Waits for the free blocks next to blocks in use. False when there is nothing to wait for, or this thread may not.
bool memory_pool::core::await_divided(std::size_t bytes) {
    std::vector<stream_point> uses;
    {
        const std::lock_guard lock(guard_);
        for (const detail::pool_chunk* each = blocks_.divided().oldest(); each != nullptr; each = each->newer) {
            if (each->free_bytes >= bytes) detail::pool_blocks::add_open_uses(*each, uses);
        }
    }
    return !uses.empty() && wait_for_uses(uses);
}

std::size_t memory_pool::core::trim(std::size_t keep_bytes) {
    std::unique_lock lock(guard_);
    const std::size_t call = ++calls_;
    most_in_use_bytes_ = blocks_.total_bytes() - blocks_.free_bytes();
    std::size_t returned = 0;
    for (detail::chunk_list* const list : {&blocks_.divided(), &blocks_.whole()}) {
        // A chunk that cannot be returned takes two turns. What is returned to the pool meanwhile stays there.
        for (std::size_t turns = 2 * list->size(); turns != 0 && blocks_.total_bytes() > keep_bytes; --turns) {
            detail::pool_chunk* const next = list->oldest();
            if (next == nullptr) break;
            if (next->is_free() && next->passed_over_by != call) {
                returned += wait_for_or_return(*next, call, then::give_back, lock).returned_bytes;
            } else {
                list->remove(*next);
                list->add(*next);
            }
        }
    }
    return returned;
}

bool memory_pool::core::make_room(std::size_t bytes) {
    std::size_t call = 0, refusals_left = 0;
    {
        const std::lock_guard lock(guard_);
        call = ++calls_;
        refusals_left = blocks_.whole().size() + blocks_.divided().size();
    }
    bool has_room = false;
    std::size_t known_returns = count_returns();
    for (std::size_t returned = 0; returned < bytes;) {
        const freed its = free_one(bytes, call, used::wait_for);
        if (!its.any || (its.is_refused && refusals_left-- == 0)) break;
        returned += its.returned_bytes;
        has_room = has_room || its.returned_bytes != 0 || its.waited_bytes != 0;
        if (its.waited_bytes >= bytes) break;
    }
    return has_room || await_others_return(known_returns) || await_divided(bytes);
}

memory_pool::statistics memory_pool::core::usage() const {
    const std::lock_guard lock(guard_);
    return {.in_use_bytes = blocks_.total_bytes() - blocks_.free_bytes(),
            .own_bytes = own_bytes_,
            .cached_bytes = blocks_.free_bytes(),
            .allocations = allocations_,
            .source_calls = source_calls_};
}

memory_pool::core::~core() {
    for (detail::chunk_list* const list : {&blocks_.divided(), &blocks_.whole()}) {
        while (detail::pool_chunk* const each = list->oldest()) {
            void* const data = each->data;
            const std::size_t bytes = each->bytes;
            blocks_.remove(*each);
            detail::pool_blocks::end_if_unused(*each);
            source_.free(data, bytes);
        }
    }
}

// --- the pool -----------------------------------------------------------------------------------------------

memory_pool::memory_pool(device& owner, memory_source& source)
    : owner_(owner), source_(source), core_(std::make_unique<core>(*this, owner, source)) {}

memory_pool::~memory_pool() = default;

storage_ref memory_pool::allocate(std::size_t bytes, const command_queue* user, const command_info& info) {
    owner_.throw_if_refusing();
    if (bytes > most_bytes) core_->throw_shortage(bytes, info);
    const std::size_t index = detail::pool_blocks::class_of(bytes);
    storage* block = core_->take_cached(index, user);
    if (block == nullptr) block = core_->make(bytes, detail::pool_blocks::bytes_of_class(index), user, info);
    block->references_.store(1, std::memory_order_relaxed);
    source_.on_allocate(block->data(), bytes, user == nullptr);
    return storage_ref::adopt(block);
}

std::size_t memory_pool::trim(std::size_t keep_bytes) { return core_->trim(keep_bytes); }
bool memory_pool::make_room(std::size_t bytes) { return core_->make_room(bytes); }
memory_pool::statistics memory_pool::usage() const { return core_->usage(); }

void memory_pool::note_own(storage& block) noexcept {
    block.is_own_ = true;
    core_->note_own(block);
}

void memory_pool::give_back(storage* block) noexcept {
    // There is no other reference to the block, so its own guard is not needed. The next owner writes new contents.
    block->outcome_ = {};
    block->holds_data_ = true;
    block->lock_ = {};
    if (std::exchange(block->is_own_, false)) core_->forget_own(*block);
    source_.on_free(block->data());
    core_->put(*block);  // at the end: this may destroy the pool
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
    const std::lock_guard lock(core_->foreign);
    const auto* const begin = static_cast<const std::byte*>(made.data());
    for (const storage* each = core_->latest_foreign; each != nullptr; each = each->older_) {
        const auto* const theirs = static_cast<const std::byte*>(each->data());
        if (theirs < begin + made.capacity_bytes() && begin < theirs + each->capacity_bytes()) made.come_after(*each);
    }
    storage& listed = made;
    listed.older_ = core_->latest_foreign;
    if (core_->latest_foreign != nullptr) core_->latest_foreign->newer_ = &listed;
    core_->latest_foreign = &listed;
}

void memory_pool::end(detail::foreign_storage& over) noexcept {
    {
        const std::lock_guard lock(core_->foreign);
        storage& listed = over;
        (listed.newer_ != nullptr ? listed.newer_->older_ : core_->latest_foreign) = listed.older_;
        if (listed.older_ != nullptr) listed.older_->newer_ = listed.newer_;
    }
    source_.on_release(over.known_as());
    delete &over;
    owner_.release_runtime();  // at the end: this may destroy the pool
}

void memory_pool::keep_until_closed(detail::foreign_storage& lost) noexcept {
    if (!owner_.runtime_.keep(lost)) end(lost);
}

}  // namespace sluice
