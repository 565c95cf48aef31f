// A pool of storage on one device, in front of its memory source. It keeps what it has: a block that is
// given back stays in a free list with the history of its use, and costs neither a call to the driver nor an
// event. A stream that asks for memory gets, in this order: a block last used on that very stream or used
// by nobody any more; fresh memory; and only when there is no more of that, after what is cached has been
// awaited and returned to the source, memory that it must wait for.
//
// Sizes are rounded up to one of eight steps between powers of two: at most 12.5 % is lost.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/spin_lock.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice {

class memory_pool {
public:
    struct statistics {
        std::size_t in_use_bytes = 0;  // handed out
        std::size_t cached_bytes = 0;  // in the free lists
        std::size_t allocations = 0;   // calls of allocate so far
        std::size_t source_calls = 0;  // of those, how many had to ask the memory source
    };

    memory_pool(device& owner, memory_source& source) noexcept : owner_(owner), source_(source) {}
    memory_pool(const memory_pool&) = delete;  // storage points to it
    memory_pool& operator=(const memory_pool&) = delete;
    // Everything was given back before.
    ~memory_pool();

    // At least `bytes` (0 is allowed), for commands on `user`, 256-byte aligned, contents undefined. With no
    // user it is for the host, to be written at once. Blocks only when memory is short. Throws out_of_memory.
    storage_ref allocate(std::size_t bytes, const command_queue* user, const command_info& info);

    // Returns the cached blocks to the memory source, after waiting for their last uses. Returns how many
    // bytes went back.
    std::size_t trim();

    statistics usage() const;
    device& owner() const noexcept { return owner_; }

private:
    friend class storage;
    friend class storage_ref;

    static constexpr std::size_t steps = 8;
    static constexpr std::size_t class_count = steps * 64;

    static std::size_t class_of(std::size_t bytes);
    static std::size_t bytes_of_class(std::size_t index);

    static bool is_ready_for(const storage& block, const command_queue* user);
    bool count_lent(const storage& block) noexcept;                     // whether it is the only one now; lock held
    storage* take_ready(std::size_t index, const command_queue* user);  // null if none; lock held
    void poll_users(std::size_t index);                                 // lock held
    storage* make(std::size_t asked_bytes, std::size_t bytes, const command_info& info);  // throws out_of_memory
    void give_back(storage* block) noexcept;

    device& owner_;
    memory_source& source_;
    mutable detail::spin_lock guard_;  // of the lists and the statistics: held for some pointer moves
    std::mutex shortage_mutex_;        // one thread at a time makes room; the others find it made
    std::array<storage*, class_count> free_{};
    statistics usage_;
    std::size_t blocks_in_use_ = 0;  // while there are any, the pool keeps the runtime
};

}  // namespace sluice
