// SPDX-License-Identifier: Apache-2.0
// memory_pool: a pool of storage on one device, in front of its memory source. It caches: a block that is returned
// stays in a free list with the history of its use, which costs neither a call to the driver nor an event.
//
// A stream that requests memory gets, in this order: a cached block that only this stream, or no stream, may still use;
// fresh memory from the source; and when the source has no more, fresh memory after the pool has waited for cached
// blocks and returned them to the source. So a program with a constant amount of memory in flight stops calling the
// source after its first round, however large that amount is.
//
// Sizes are rounded up to one of eight steps between powers of two: at most 12.5 % is lost.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice {

namespace detail {
class foreign_storage;
class free_blocks;
}  // namespace detail

class memory_pool {
public:
    // What the pool has now, and has done.
    struct statistics {
        std::size_t in_use_bytes = 0;  // handed out
        std::size_t cached_bytes = 0;  // in the free lists
        std::size_t allocations = 0;   // calls of allocate so far
        std::size_t source_calls = 0;  // how many of those called the memory source
    };

    // For the device, which owns the pool. Both outlive it. Costs O(1).
    memory_pool(device& owner, memory_source& source) noexcept;
    memory_pool(const memory_pool&) = delete;  // storage points to it
    memory_pool& operator=(const memory_pool&) = delete;
    // All blocks have been returned before.
    ~memory_pool();

    // At least `bytes` (0 is allowed), for commands on `user`, 256-byte aligned, contents undefined. A null user means
    // the host, which may write the memory immediately. Blocks only when memory is short. Throws out_of_memory.
    // Takes constant time when the block of this size that was returned last is ready for the user. Otherwise the cost
    // grows with the number of cached blocks of this size and of the queues that may still use them; when none is
    // ready, it costs a call of the memory source.
    storage_ref allocate(std::size_t bytes, const command_queue* user, const command_info& info);

    // These bytes, which others allocated, as a storage of this device; see adopt.hpp. The pool never hands them out
    // and does not count them. Throws errc::invalid_argument when the device cannot use them. Linear in the number of
    // adopted storages that the device has.
    storage_ref adopt(void* data, std::size_t bytes, std::shared_ptr<const void> owner, const command_info& info);

    // Waits for the last uses of the cached blocks and returns them to the memory source. Returns how many bytes that
    // were. An allocation on another thread that is short of memory waits for this call. Linear in the number of
    // cached blocks.
    std::size_t trim();

    statistics usage() const;                          // what the pool has at this moment; costs O(1)
    device& owner() const noexcept { return owner_; }  // the device that it belongs to

private:
    friend class storage;
    friend class detail::foreign_storage;

    static constexpr std::size_t steps = 8;
    static constexpr std::size_t class_count = steps * 64;

    static std::size_t class_of(std::size_t bytes);
    static std::size_t bytes_of_class(std::size_t index);

    bool count_in_use(const storage& block) noexcept;                    // whether it is the only one in use; lock held
    detail::free_blocks& free_of(std::size_t index);                     // lock held
    storage* take_cached(std::size_t index, const command_queue* user);  // null if none is ready
    void* allocate_from_source(std::size_t bytes);
    storage* make(std::size_t requested_bytes, std::size_t bytes, const command_info& info);  // throws out_of_memory
    void give_back(storage* block) noexcept;
    // Orders a new foreign storage after what was submitted to others over the same bytes, and lists it.
    void list(detail::foreign_storage& made);
    // No command uses the foreign memory any more: releases its owner.
    void end(detail::foreign_storage& over) noexcept;
    // A device has faulted, and its commands may still use the foreign memory: keeps it until the runtime is closed.
    void keep_until_closed(detail::foreign_storage& lost) noexcept;
    void put(storage& block) noexcept;
    storage* take_largest() noexcept;
    // Returns cached blocks to the source until these are at least that many bytes. Returns how many. shortage_mutex_
    // held.
    std::size_t release(std::size_t at_least);

    device& owner_;
    memory_source& source_;
    mutable detail::spin_lock guard_;    // guards lists and statistics; not held during calls of the driver
    std::mutex foreign_mutex_;           // guards the list of foreign storages
    storage* latest_foreign_ = nullptr;  // linked by older_ and newer_
    std::mutex shortage_mutex_;          // one thread at a time frees memory; the others find it free afterwards
    std::array<std::unique_ptr<detail::free_blocks>, class_count> free_;  // null until a block of that size exists
    statistics usage_;
    std::size_t blocks_in_use_ = 0;  // while this is not 0, the pool keeps the runtime alive
};

}  // namespace sluice
