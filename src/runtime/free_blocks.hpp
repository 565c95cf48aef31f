// SPDX-License-Identifier: Apache-2.0
// free_blocks: the free blocks of one size in a pool, grouped by the queue that may still use them. So a search finds a
// block that is available without waiting whenever one exists, however many other blocks are still in use.
//
// Invariant: a block is in exactly one list. `returned_`: the block was returned and its history has not been examined
// yet. A queue's `own`: only that queue may still use it. A queue's `common`: that queue and others could still use it
// when it was put there. `ready_`: no queue may use it. Both lists of a queue are in the order in which the blocks were
// returned, which is about the order of their last uses. So checking the oldest block is enough to find out whether the
// queue has passed the uses of any.
//
// Thread safety: none; the pool guards it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace sluice {
class command_queue;
class storage;
}  // namespace sluice

namespace sluice::detail {

class free_blocks {
public:
    free_blocks() = default;
    free_blocks(const free_blocks&) = delete;  // it owns what is in its lists
    free_blocks& operator=(const free_blocks&) = delete;

    bool empty() const noexcept { return count_ == 0; }
    std::size_t size() const noexcept { return count_; }

    // Does not examine the block's history: the next search does.
    void put(storage& block) noexcept;
    // A block that no queue except `user` may still use; null when none is known. With a null user, a block that no
    // queue may still use.
    storage* take(const command_queue* user) noexcept;
    // The queues on whose progress the next blocks depend: as many as fit, from the lane after the previous call's.
    // False when there are no more. The caller polls them, without the pool's lock.
    struct queues_to_poll {
        std::array<command_queue*, 32> all;
        std::size_t count = 0;
        std::size_t next_lane = 0;
    };
    bool next_queues(queues_to_poll& found) const noexcept;
    // Takes this block, which is in one of the lists. Linear in the number of queues.
    void remove(storage& block) noexcept;

    // Whether no queue except `user` may still use the block; with a null user, no queue at all.
    static bool is_ready_for(const storage& block, const command_queue* user) noexcept;

private:
    class list {
    public:
        storage* oldest() const noexcept { return oldest_; }
        storage* newest() const noexcept { return newest_; }
        void add(storage& block) noexcept;
        storage* remove(storage& block) noexcept;

    private:
        storage* oldest_ = nullptr;
        storage* newest_ = nullptr;
    };
    struct lane {
        command_queue* queue = nullptr;
        list own;
        list common;
    };

    void sort_returned() noexcept;
    void file(storage& block);  // throws std::bad_alloc; the block is then in no list
    storage* take_sorted(const command_queue* user) noexcept;
    void look_at(std::size_t lane_number) noexcept;
    void count_taken() noexcept;

    std::size_t count_ = 0;
    list returned_;
    list ready_;
    std::vector<lane> lanes_;    // by the queue's number
    std::size_t next_lane_ = 0;  // where the last search ended
};

}  // namespace sluice::detail
