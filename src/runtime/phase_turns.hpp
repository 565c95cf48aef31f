// SPDX-License-Identifier: Apache-2.0
// phase_turns: how the threads of a team divide the parts of phases among them. It knows no threads and no work, so
// that an explorer of interleavings can check it (tests/sim/phase_turns_interleaving_tests.cpp).
//
// Invariants. A part is taken once. A phase begins after all parts of the one before have ended, and a thread that
// takes a part of it sees what they wrote.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/base/detail/atomics.hpp"

namespace sluice::detail {

// From where a thread takes parts. The thread of the command takes them from the front, helpers from the back: so each
// finds in its cache what it wrote in the phase before, where parts are neighbouring rows.
enum class parts_from : bool { front, back };

template <typename Atomics = std_atomics>
class phase_turns {
public:
    explicit phase_turns(std::size_t first) noexcept : turn_(turn{static_cast<std::uint32_t>(first)}) {}

    // Takes part until the phase is `end`, and then returns true. Returns false, between two parts, when `is_needed()`:
    // then the thread may come back later.
    //   work       work.parts(phase), work.after(phase) and work.run(phase, part), as phased_work has them.
    //   wait_until waits until the function that it is given is true.
    //   after_part is called after each part.
    template <typename Work, typename Needed, typename Wait, typename After>
    bool take_part(const Work& work, std::size_t end, parts_from from, const Needed& is_needed, const Wait& wait_until,
                   const After& after_part) noexcept {
        std::size_t known = end, parts = 0;  // of the phase that was seen last
        for (;;) {
            turn now = turn_.load(std::memory_order_acquire);
            if (now.phase == end) return true;
            if (now.phase != known) {
                known = now.phase;
                parts = work.parts(known);
            }
            if (is_needed()) return false;
            if (std::size_t{now.from_front} + now.from_back == parts) {
                wait_until([&] { return turn_.load(std::memory_order_relaxed).phase != known || is_needed(); });
                continue;
            }
            turn next = now;
            const std::size_t part = from == parts_from::back ? parts - ++next.from_back : next.from_front++;
            if (!turn_.compare_exchange_weak(now, next, std::memory_order_acq_rel, std::memory_order_relaxed)) continue;
            work.run(known, part);
            // The thread that ends the last part has seen all others end: the next phase reads what they wrote.
            if (over_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts) {
                over_.store(0, std::memory_order_relaxed);
                turn_.store(turn{static_cast<std::uint32_t>(work.after(known))}, std::memory_order_release);
            }
            after_part();
        }
    }

private:
    // The phase, and how many of its parts have begun.
    struct turn {
        std::uint32_t phase = 0;
        std::uint16_t from_front = 0, from_back = 0;

        friend bool operator==(const turn&, const turn&) = default;
    };

    alignas(64) typename Atomics::template atomic<turn> turn_;
    alignas(64) typename Atomics::template atomic<std::size_t> over_{0};  // parts of the phase
};

}  // namespace sluice::detail
