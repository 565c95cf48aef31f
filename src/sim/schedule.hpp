// SPDX-License-Identifier: Apache-2.0
// Selects the thread that continues at each step, from a seed. There are three kinds of schedule
// (sluice/sim/interleaving.hpp).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::sim {

class schedule {
public:
    static constexpr std::size_t max_threads = 64;

    schedule(std::uint64_t seed, std::size_t threads) : random_(seed) {
        switch (draw(4)) {
            case 0: stay_of_8_ = 0; break;
            case 1: stay_of_8_ = 4 + draw(4); break;
            default: draw_priorities(threads);
        }
    }

    // The next thread to run, from the set `runnable` (bit i: thread i), which is not empty.
    std::size_t next(std::uint64_t runnable, std::size_t current) {
        ++step_;
        if (!priorities_.empty()) return next_by_priority(runnable, current);
        if (contains(runnable, current) && draw(8) < stay_of_8_) return current;
        for (std::uint64_t skip = draw(static_cast<std::uint64_t>(std::popcount(runnable))); skip > 0; --skip) {
            runnable &= runnable - 1;
        }
        return static_cast<std::size_t>(std::countr_zero(runnable));
    }

    // Which of this many last values a load gives, counted from the last one; half of the loads give that.
    std::size_t age(std::size_t choices) {
        if (choices == 1 || draw(2) == 0) return 0;
        return 1 + draw(choices - 1);
    }

private:
    static bool contains(std::uint64_t set, std::size_t thread) {
        return thread < max_threads && ((set >> thread) & 1) != 0;
    }

    void draw_priorities(std::size_t threads) {
        for (std::size_t i = 0; i < threads; ++i) priorities_.push_back(static_cast<std::int64_t>(draw(1u << 30)));
        // The length of the run is not known, so use a random order of magnitude.
        const std::uint64_t horizon = std::uint64_t{8} << draw(6);
        for (std::uint64_t& change : changes_) change = draw(horizon);
    }

    std::size_t next_by_priority(std::uint64_t runnable, std::size_t current) {
        for (const std::uint64_t change : changes_) {
            if (change == step_ && current < priorities_.size()) priorities_[current] = --lowest_;
        }
        std::size_t best = max_threads;
        for (std::size_t i = 0; i < priorities_.size(); ++i) {
            if (contains(runnable, i) && (best == max_threads || priorities_[i] > priorities_[best])) best = i;
        }
        return best;
    }

    // splitmix64 (Steele, Lea, Flood 2014): well mixed even for consecutive seeds.
    std::uint64_t draw(std::uint64_t below) {
        std::uint64_t z = (random_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return (z ^ (z >> 31)) % below;
    }

    std::uint64_t random_;
    std::uint64_t step_ = 0;
    std::uint64_t stay_of_8_ = 0;
    std::vector<std::int64_t> priorities_;    // empty for the kinds of schedule without priorities
    std::array<std::uint64_t, 4> changes_{};  // the steps at which the running thread gets the lowest priority
    std::int64_t lowest_ = 0;
};

}  // namespace sluice::sim
