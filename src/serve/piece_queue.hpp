// SPDX-License-Identifier: Apache-2.0
// piece_queue: long work of a thread that has other things to do, in pieces. The thread does some of them in each of
// its turns, however many wait, and then they wait in line again.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <utility>

namespace sluice::serve {

class piece_queue {
public:
    // What a piece has done.
    struct done {
        bool is_last = true;    // of its work
        std::size_t bytes = 0;  // that were read and written
    };

    // Bytes of a turn. With those of the piece that goes beyond this, about a millisecond of inflating.
    static constexpr std::size_t most_in_turn = 512 << 10;
    static constexpr std::size_t least_of_piece = 4 << 10;  // any counts as this many more

    // Whether this turn has room for a piece that need not wait; count() when it is done.
    bool has_room() const noexcept { return counted_ < most_in_turn; }
    void count(std::size_t bytes) noexcept { counted_ += least_of_piece + bytes; }
    // What could not wait has taken the time of two turns.
    bool is_over() const noexcept { return counted_ >= 2 * most_in_turn; }

    // `piece` is called in later turns, until it says that it was the last one. It throws nothing. Throws
    // std::bad_alloc.
    void add(std::function<done()> piece) { waiting_.push_back(std::move(piece)); }
    bool is_empty() const noexcept { return waiting_.empty(); }
    void clear() noexcept { waiting_.clear(); }

    // Ends a turn: those that have waited longest are called, each once, as far as there is room.
    void run_some() {
        counted_ = 0;
        for (std::size_t left = waiting_.size(); left != 0 && has_room(); --left) {
            std::list<std::function<done()>> one;
            one.splice(one.end(), waiting_, waiting_.begin());
            const done its = one.front()();
            count(its.bytes);
            if (!its.is_last) waiting_.splice(waiting_.end(), one);
        }
        counted_ = 0;
    }

private:
    std::list<std::function<done()>> waiting_;  // the next one first
    std::size_t counted_ = 0;                   // in this turn
};

}  // namespace sluice::serve
