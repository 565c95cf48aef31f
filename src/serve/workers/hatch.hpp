// SPDX-License-Identifier: Apache-2.0
// hatch: a place in memory that the front and one worker share, through which one batch and its answer pass.
//
// A hatch has an area of bytes and two counters: of the pieces that the front has given, and of those that the worker
// has given. The sides take turns. The one whose turn it is owns the area: it fills it, writes down how many bytes
// there are and whether more follow, and raises its counter; then it is the other's turn. A message that is longer than
// the area takes several turns, which the other side answers with empty pieces.
//
// Invariants: a side writes only its own counter, and only in its turn. Neither trusts the other: counters and lengths
// are read once, and compared with what is possible, before they are used. What the other side writes out of its turn
// changes numbers, never where they are read. A side that dies leaves its counter as it was; the other one looks at it
// every 5 ms, and learns of the death elsewhere.
//
// Thread safety: each side of a hatch belongs to one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace sluice::serve {

// In shared memory. Each side's words are on cache lines of their own.
struct hatch_words {
    struct of_side {
        alignas(64) std::atomic<std::uint32_t> given;   // pieces
        std::atomic<std::uint32_t> piece;               // bytes of the last one; the upper bit: more follow
        alignas(64) std::atomic<std::uint32_t> sleeps;  // this side waits for the other's counter, in the system
    };
    of_side front, worker;
    alignas(64) std::atomic<std::uint32_t> is_unwanted;  // of the front: no client waits for this batch any more
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

enum class hatch_side { front, worker };

struct hatch_piece {
    std::size_t bytes = 0;
    bool more = false;  // another one follows, after this side has given an empty piece
};

class hatch {
public:
    // `words` and `area` must outlive it. Both sides begin with words that are all zero.
    hatch(hatch_words& words, std::span<std::byte> area, hatch_side side) noexcept;

    std::span<std::byte> area() const noexcept { return area_; }

    // The first `bytes` of the area are a piece. It is the other side's turn.
    void give(std::size_t bytes, bool more) noexcept;
    // Whether the other side has given a piece. Throws worker_damage for a counter that is impossible.
    bool has_piece() const;
    // Blocks until the other side has given a piece: looks for it until `spin` is over, then sleeps. `look` is called
    // before each sleep, of at most 5 ms; what it throws ends the wait, and changes nothing. Throws worker_damage for a
    // piece that is impossible.
    hatch_piece take(std::chrono::nanoseconds spin, const std::function<void()>& look);

    // Of the front: the batch is unwanted, or the next one is wanted.
    void set_unwanted(bool yes) noexcept { words_.is_unwanted.store(yes ? 1 : 0, std::memory_order_relaxed); }
    bool is_unwanted() const noexcept { return words_.is_unwanted.load(std::memory_order_relaxed) != 0; }

    // Ends the sleep of this side, on any thread, so that it looks.
    void wake_own_side() noexcept;

private:
    bool compare(std::uint32_t given) const;
    void sleep_until_given() noexcept;

    hatch_words& words_;
    const std::span<std::byte> area_;
    hatch_words::of_side& own_;
    hatch_words::of_side& other_;
    std::uint32_t given_ = 0, taken_ = 0;
};

}  // namespace sluice::serve
