// SPDX-License-Identifier: Apache-2.0
// memory_pool: a pool of storage on one device, in front of its memory source. It caches: a block that is returned
// stays in a free list with the history of its use, which costs neither a call to the driver nor an event.
//
// A stream that requests memory gets, in this order:
// 1. a cached block of this size that only this stream, or no stream, may still use;
// 2. fresh memory from the source, while the pool has less than 64 MiB, or less than twice as much as was ever in use
//    at the same time;
// 3. a piece of a larger cached block, or cached blocks that lie side by side, joined, which only this stream, or no
//    stream, may still use;
// 4. fresh memory;
// 5. when the source has no more: memory for which the pool has waited; it returns free memory to the source, or
//    divides and joins it.
// So a program with a constant amount of memory in flight stops calling the source after its first round, and one whose
// sizes vary stops when the pool has twice as much as is in use. A piece has the history of its block, and joined
// blocks have the histories of all of them, so the next user comes after all earlier ones.
//
// The source gets back exactly the blocks that it gave, each when all of it is free.
//
// Sizes are rounded up to one of eight steps between powers of two: at most 12.5 % is lost.
//
// No lock is held while the pool waits for a device. A thread that the device needs, or that holds a lock, does not
// wait: it gets out_of_memory.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice {

namespace detail {
class foreign_storage;
}  // namespace detail

class memory_pool {
public:
    // What the pool has now, and has done.
    struct statistics {
        std::size_t in_use_bytes = 0;  // handed out
        std::size_t own_bytes = 0;     // of these, what the library keeps: workspaces of streams, chunks for uploads
        std::size_t cached_bytes = 0;  // in the free lists
        std::size_t allocations = 0;   // calls of allocate so far
        std::size_t source_calls = 0;  // how many of those called the memory source
    };

    // For the device, which owns the pool. Both outlive it. Costs O(1).
    memory_pool(device& owner, memory_source& source);
    memory_pool(const memory_pool&) = delete;  // storage points to it
    memory_pool& operator=(const memory_pool&) = delete;
    // All blocks have been returned before.
    ~memory_pool();

    // At least `bytes` (0 is allowed), for commands on `user`, 256-byte aligned, contents undefined. A null user means
    // the host, which may write the memory immediately. Blocks only when memory is short. Throws out_of_memory.
    // Takes constant time when the block of this size that was returned last is ready for the user. Otherwise the cost
    // grows with the number of cached blocks of this size and of the queues that may still use them; when none is
    // ready, with the number of blocks in memory that has been divided, or it costs a call of the memory source.
    storage_ref allocate(std::size_t bytes, const command_queue* user, const command_info& info);

    // From now on the block counts as own_bytes, until it returns: the library keeps it for later commands. Costs O(1).
    void note_own(storage& block) noexcept;

    // These bytes, which others allocated, as a storage of this device; see adopt.hpp. The pool never hands them out
    // and does not count them. Throws errc::invalid_argument when the device cannot use them. Linear in the number of
    // adopted storages that the device has.
    storage_ref adopt(void* data, std::size_t bytes, std::shared_ptr<const void> owner, const command_info& info);

    // Returns cached memory to the memory source, until the pool has at most `keep_bytes` (in use and cached): what is
    // free as a whole, as the source gave it. Waits for its last uses, where this thread may. Returns how many bytes
    // that were. Linear in the number of blocks.
    std::size_t trim(std::size_t keep_bytes = 0);

    // For a thread that got out_of_memory because it held a lock: waits until some of the cached memory is not in use
    // any more, and returns memory to the source until that many bytes could be allocated. False when there was nothing
    // to wait for and nothing to return. Linear in the number of blocks.
    bool make_room(std::size_t bytes);

    statistics usage() const;                          // what the pool has at this moment; costs O(1)
    device& owner() const noexcept { return owner_; }  // the device that it belongs to

private:
    friend class storage;
    friend class detail::foreign_storage;

    void give_back(storage* block) noexcept;
    // Orders a new foreign storage after what was submitted to others over the same bytes, and lists it.
    void list(detail::foreign_storage& made);
    // No command uses the foreign memory any more: releases its owner.
    void end(detail::foreign_storage& over) noexcept;
    // A device has faulted, and its commands may still use the foreign memory: keeps it until the runtime is closed.
    void keep_until_closed(detail::foreign_storage& lost) noexcept;

    class core;

    device& owner_;
    memory_source& source_;
    const std::unique_ptr<core> core_;
};

}  // namespace sluice
