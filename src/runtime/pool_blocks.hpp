// SPDX-License-Identifier: Apache-2.0
// pool_blocks: all blocks of a memory_pool. The source gives memory in chunks. A chunk is one block at first; a free
// block may be divided, and free blocks that lie side by side may be joined. Blocks of one size are reused as they are
// (free_blocks), without either.
//
// Histories. A block that is divided gives each piece its history. Joined blocks have the accesses of all of them that
// are not over. A block is only divided or joined for a user that may use all of it at once: nothing but the user's own
// queue may still use it. So no user ever waits for an access that its bytes did not have.
//
// A block in use keeps all of its chunk from the source. So a chunk that is free as a whole is divided only where at
// least an eighth of the pool's memory can still be returned to the source, in case larger blocks are needed later;
// more when more than half of it is in use. (Where more than three quarters are, the pool divides only as a last
// resort.)
//
// Invariant: the blocks of a chunk are linked in the order of their addresses and cover it. A free block is in the list
// of the largest size class that it can serve; its capacity may be larger than that size, by less than one step.
//
// Thread safety: none; the pool guards it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/free_blocks.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::detail {

class pool_blocks;
struct pool_chunk;

class pool_block final : public storage {
public:
    pool_block(memory_pool& pool, void* data, std::size_t bytes, pool_chunk& of);

private:
    friend pool_blocks;

    pool_chunk& chunk_;
    pool_block* before_ = nullptr;  // its neighbours, by address
    pool_block* after_ = nullptr;
    const std::size_t class_;
    bool is_free_ = false;
};

// What the source gave in one piece.
struct pool_chunk {
    void* data = nullptr;
    std::size_t bytes = 0;
    std::size_t blocks = 0;
    std::size_t free_blocks = 0;
    std::size_t free_bytes = 0;
    pool_block* first = nullptr;
    pool_chunk* older = nullptr;  // links of a list
    pool_chunk* newer = nullptr;
    // How many threads wait for its uses. A chunk that was returned meanwhile has no data, and the last of them ends
    // it.
    std::size_t waiting = 0;
    std::size_t passed_over_by = 0;  // the call that could not wait for it

    bool is_free() const noexcept { return free_blocks == blocks; }
};

class chunk_list {
public:
    pool_chunk* oldest() const noexcept { return oldest_; }
    std::size_t size() const noexcept { return size_; }
    void add(pool_chunk& one) noexcept;
    void remove(pool_chunk& one) noexcept;

private:
    pool_chunk* oldest_ = nullptr;
    pool_chunk* newest_ = nullptr;
    std::size_t size_ = 0;
};

class pool_blocks {
public:
    // Sizes in classes: eight between powers of two.
    static constexpr std::size_t steps = 8;
    static constexpr std::size_t class_count = steps * 64;
    static std::size_t class_of(std::size_t bytes) noexcept;
    static std::size_t bytes_of_class(std::size_t index) noexcept;
    // Of a free block: the largest class that it can serve.
    static std::size_t class_served_by(std::size_t capacity_bytes) noexcept;

    explicit pool_blocks(memory_pool& pool) noexcept : pool_(pool) {}
    pool_blocks(const pool_blocks&) = delete;  // blocks point to its chunks
    pool_blocks& operator=(const pool_blocks&) = delete;

    std::size_t total_bytes() const noexcept { return total_bytes_; }
    std::size_t free_bytes() const noexcept { return free_bytes_; }

    // A free block of this class that is ready for the user; null when none is known to be.
    storage* take(std::size_t size_class, const command_queue* user);
    // Which queues to ask, so that more blocks of the class are known to be ready: see free_blocks.
    bool next_queues(std::size_t size_class, free_blocks::queues_to_poll& found);
    // A block of at least that many bytes from memory that is free and ready for the user, divided or joined. Null when
    // there is none, or no memory for the bookkeeping.
    storage* carve(std::size_t bytes, const command_queue* user) noexcept;
    // The whole of memory from the source, in use. Null when there is no memory for the bookkeeping.
    storage* add(void* data, std::size_t bytes) noexcept;
    void put(storage& block) noexcept;

    // Of the chunks that are free as a whole and that this call has not passed over: the smallest that has at least
    // that many bytes, else the largest; null when there is none.
    pool_chunk* free_chunk_for(std::size_t bytes, std::size_t call) noexcept;
    // The two lists: of chunks that are one block, and of divided ones.
    chunk_list& whole() noexcept { return whole_; }
    chunk_list& divided() noexcept { return divided_; }
    // The uses of the chunk's free blocks that are not known to be over.
    static void add_open_uses(const pool_chunk& of, std::vector<stream_point>& to);
    // Takes the chunk, which is free as a whole, from the lists; its memory is the caller's.
    void remove(pool_chunk& one) noexcept;
    // The memory of the chunk has gone, and no thread waits for it.
    static void end_if_unused(pool_chunk& one) noexcept;

private:
    free_blocks& lists_of(std::size_t size_class);
    void note_taken(pool_block& block) noexcept;
    void note_free(pool_block& block) noexcept;
    storage* divide(pool_block& taken, std::size_t bytes) noexcept;
    bool may_divide(const pool_chunk& of, std::size_t bytes) const noexcept;
    storage* carve_from_larger(std::size_t bytes, const command_queue* user) noexcept;
    storage* carve_from_neighbours(std::size_t bytes, const command_queue* user) noexcept;
    pool_block* join(pool_block& first, pool_block& last, std::size_t bytes) noexcept;
    static void link(pool_block* before, pool_block& between, pool_block* after) noexcept;
    void count_blocks(pool_chunk& of, std::size_t blocks) noexcept;

    memory_pool& pool_;
    std::array<std::unique_ptr<free_blocks>, class_count> free_;  // null until a block of that size exists
    chunk_list whole_;
    chunk_list divided_;
    std::size_t total_bytes_ = 0;
    std::size_t free_bytes_ = 0;
    std::size_t free_chunk_bytes_ = 0;  // of chunks that are free as a whole
};

}  // namespace sluice::detail
