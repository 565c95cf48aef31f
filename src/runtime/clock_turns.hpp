// SPDX-License-Identifier: Apache-2.0
// clock_turns: counts the turns of a polling loop and says in which of them the loop reads the clock, which costs more
// than a poll. The loop may run for ever: each count has a successor.
#pragma once

namespace sluice::detail {

class clock_turns {
public:
    constexpr clock_turns() = default;
    // Begins after this many turns.
    constexpr explicit clock_turns(unsigned turns) : turns_(turns) {}

    // Counts one turn. True in the first turn, and in every 64th after it.
    constexpr bool next() noexcept { return turns_++ % 64 == 0; }

private:
    unsigned turns_ = 0;  // unsigned: it continues at 0 after its largest value, a multiple of 64 turns later
};

}  // namespace sluice::detail
