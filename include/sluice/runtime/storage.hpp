// SPDX-License-Identifier: Apache-2.0
// storage: a block of memory on one device, with the history of its use. Buffers and tensors own storage through
// storage_ref. When the last reference is dropped, the block returns to its pool with its history, and its next user is
// ordered after that history. Dropping a reference never blocks.
//
// A storage can also be a part of another one: a range of its bytes with a history of its own, so that commands on two
// parts are not ordered. A part keeps its block alive; nothing writes the block while it has parts. See parts.hpp.
//
// The memory of a foreign storage was allocated by others (adopt.hpp). It never enters a pool: after the last reference
// and the last use, its owner is released.
//
// Thread safety: a lock guards the history; references may be copied and dropped on any thread.
//
// All functions here take constant time, but for these: use, revoke, for_each_last_use, for_each_last_write,
// come_after, last_write, await_all_uses, await_last_write and part_of are linear in the number of queues in the
// history; join is linear in that of its parts and of the queues in their histories; the last drop_reference returns
// the block to its pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "sluice/base/detail/intrusive_ref.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/runtime/detail/access_history.hpp"
#include "sluice/runtime/detail/outcome.hpp"

namespace sluice {

class device;
class memory_pool;

namespace detail {
class free_blocks;
class foreign_storage;
class access_lock;
}  // namespace detail

class storage;
void add_reference(storage& block) noexcept;         // counts one reference more; for storage_ref
void drop_reference(storage& block) noexcept;        // ends one reference; the last one returns the block to its pool
using storage_ref = detail::intrusive_ref<storage>;  // a pointer that owns one reference

class storage {
public:
    // Made by the pool, which outlives it: `capacity_bytes` bytes from `data` on.
    storage(memory_pool& pool, void* data, std::size_t capacity_bytes)
        : pool_(pool), data_(data), capacity_bytes_(capacity_bytes) {}
    // A place in a graph's memory: it does not belong to the pool, and only commands of the graph may use it.
    struct planned {};
    storage(memory_pool& pool, void* data, std::size_t capacity_bytes, planned)
        : pool_(pool), data_(data), capacity_bytes_(capacity_bytes), is_planned_(true) {}
    // Memory that others allocated. Only the base of a detail::foreign_storage is constructed like this.
    struct foreign {};
    storage(memory_pool& pool, void* data, std::size_t capacity_bytes, foreign)
        : pool_(pool), data_(data), capacity_bytes_(capacity_bytes), is_foreign_(true) {}
    // Some bytes of `from`, as a storage of its own: a part of from's block. Its history and outcome begin with those
    // of `from`. `owner` is released with the part; a part of a part has the owner of that part instead. Throws
    // errc::invalid_argument for memory that a compiled graph writes. The offset and the size are not checked.
    static storage_ref part_of(storage& from, std::size_t offset_bytes, std::size_t bytes,
                               std::shared_ptr<const void> owner = {});
    // Neighbouring parts of one block as one storage: the block itself when they cover it and no other part lives, else
    // a new part. Comes after all accesses of the parts, and depends on all their outcomes. Throws
    // errc::invalid_argument for memory that a compiled graph writes.
    static storage_ref join(std::span<const storage_ref> parts);
    storage(const storage&) = delete;  // commands and histories point to it
    storage& operator=(const storage&) = delete;

    void* data() const noexcept { return data_; }  // the first byte
    // At least the requested size.
    std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }
    memory_pool& pool() const noexcept { return pool_; }      // where the memory returns to
    device& owner() const noexcept;                           // the device that it belongs to
    bool is_planned() const noexcept { return is_planned_; }  // memory of a graph that is being recorded
    bool is_foreign() const noexcept { return is_foreign_; }  // memory that was adopted
    // The address by which the memory source knows this block: data(), unless it is foreign.
    void* source_address() const noexcept;
    // The block that this is a part of; null for a block.
    storage* whole() const noexcept { return whole_.get(); }
    // Of a part: counts the parts of all blocks in the order in which they were made.
    std::size_t part_number() const noexcept { return part_number_; }
    // The number of the part that was made last, of any block.
    static std::size_t latest_part_number() noexcept;
    // The number of references. Only a hint while other threads copy or drop references, unless it is 1.
    long use_count() const noexcept { return references_.load(std::memory_order_acquire); }

    // Adds an access of this mode at `point`. Before that, calls f(stream_point) for every earlier access that it must
    // come after. The caller then orders and enqueues its command, or revokes the use. Returns the outcome that the
    // contents depend on.
    template <typename Function>
    detail::outcome_ref use(stream_point point, access_mode mode, Function&& f) {
        const detail::spin_guard lock(guard_);
        history_.for_each_conflict(*point.queue, mode, f);
        history_.add(point, mode);
        return outcome_;
    }
    // The contents now depend on this outcome; null: on none.
    void depend_on(detail::outcome_ref outcome) noexcept {
        const detail::spin_guard lock(guard_);
        if (holds_data_) std::swap(outcome_, outcome);
    }
    // Scratch memory: no command reads what another command left there.
    void mark_scratch() noexcept { holds_data_ = false; }
    // From here on several threads may submit commands that use the storage, also commands that write. To be called
    // before a second thread has access to the storage. Several storages may share a lock.
    void share_among_writers(std::shared_ptr<detail::access_lock> lock) noexcept { lock_ = std::move(lock); }
    // Null for most: then at most one thread at a time submits commands that write, while no other submits any.
    detail::access_lock* lock() const noexcept { return lock_.get(); }
    // Removes a use whose command was not enqueued after all.
    void revoke(stream_point point) noexcept {
        const detail::spin_guard lock(guard_);
        history_.revoke(point);
    }
    // Calls f(stream_point) for each access that a new write has to come after.
    template <typename Function>
    void for_each_last_use(Function&& f) const {
        const detail::spin_guard lock(guard_);
        history_.for_each_last_use(f);
    }

    // Calls f(stream_point) for each write that must be complete before the storage is read.
    template <typename Function>
    void for_each_last_write(Function&& f) const {
        const detail::spin_guard lock(guard_);
        history_.for_each_last_write(f);
    }

    // From here on the commands submitted so far on `earlier` count as accesses of this storage too: both are over the
    // same bytes.
    void come_after(const storage& earlier);

    // The last issued write (a null point when there was none), and the outcome that the contents depend on.
    struct written {
        stream_point last;               // its point; null when there was none
        detail::outcome_ref depends_on;  // null: on none
    };
    written last_write() const;  // the latest write that was issued

    // Blocks until no command on any stream uses the storage (before a host thread writes), or until its last writer
    // has completed (before a host thread reads). Both throw the first cause when a device that the access depends on
    // has faulted, and errc::invalid_argument on a thread that must not wait for it (docs/errors.md).
    void await_all_uses() const;
    void await_last_write() const;  // for a host thread that reads
    // The host has waited, and reads or writes the contents from here on. Only the simulator uses this notification.
    void on_host_access(access_mode mode) const noexcept;

private:
    friend void add_reference(storage&) noexcept;
    friend void drop_reference(storage&) noexcept;
    friend class memory_pool;
    friend class detail::free_blocks;
    friend class detail::foreign_storage;

    struct part {};
    storage(storage& from, void* data, std::size_t bytes, std::shared_ptr<const void> owner, part);
    // The last reference is dropped: returns the block to its pool.
    void release() noexcept;
    void end_part() noexcept;

    memory_pool& pool_;
    void* const data_;
    const std::size_t capacity_bytes_;
    std::atomic<long> references_{1};  // a new block has one, for storage_ref::adopt
    mutable detail::spin_lock guard_;
    detail::access_history history_;
    detail::outcome_ref outcome_;
    bool holds_data_ = true;
    bool is_own_ = false;  // see memory_pool::note_own
    const bool is_planned_ = false;
    const bool is_foreign_ = false;
    std::shared_ptr<detail::access_lock> lock_;
    const storage_ref whole_;                  // of a part: its block
    const std::shared_ptr<const void> owner_;  // of a part
    std::atomic<std::size_t> live_parts_{0};   // of a block
    const std::size_t part_number_ = 0;        // of a part
    storage* older_ = nullptr;                 // links of the pool's lists
    storage* newer_ = nullptr;
};

inline void add_reference(storage& block) noexcept { block.references_.fetch_add(1, std::memory_order_relaxed); }
inline void drop_reference(storage& block) noexcept {
    if (detail::is_last_reference(block.references_)) block.release();
}

}  // namespace sluice
