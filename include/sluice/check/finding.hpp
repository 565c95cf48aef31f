// SPDX-License-Identifier: Apache-2.0
// finding: what sluice check has found wrong in the order of a CUDA program's work, with both places in the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::check {

// The kinds of findings.
enum class fault : unsigned char {
    race,                  // two accesses of device work to the same bytes, one of them a write, without an order
    early_read,            // the host reads what work in flight may not have written yet
    early_write,           // the host writes what work in flight may still use
    use_after_free,        // memory is used after it was freed, or freed before its last use is complete
    reuse,                 // memory is allocated again while work on what was there before may still use it
    wait_without_record,   // a wait for an event that was not recorded before: CUDA does not wait
    event_recorded_again,  // a race, because the awaited event had been recorded again elsewhere
    outside_capture,       // work that ran at once, while the same thread captured another stream
    dropped_by_capture,    // work that a capture has lost
    useless_wait,          // a hint: a synchronisation after which no more is known than before
};

// "race", "early read", "use after free"; costs O(1).
std::string_view to_string(fault what) noexcept;

// One call of the program, as the report names it.
struct place {
    std::string what = {};                 // "kernel scale(float*)", "copy of 4096 bytes"
    std::string stream = {};               // "stream 3 of device 0"; empty for the host
    std::uint64_t call = 0;                // its line in the trace
    std::uint64_t thread = 0;              // the host thread, by its number in the trace
    std::vector<std::string> frames = {};  // the call stack, innermost first; empty when it is not known
};

// One command in the picture of a finding.
struct ordered_call {
    place what = {};                      // without its stack
    std::vector<std::size_t> after = {};  // what it directly follows: earlier commands of the picture
};

// One thing that is wrong.
struct finding {
    fault what = fault::race;  // the kind
    bool is_certain = true;    // false: it depends on what a kernel does with an argument, which is not known
    std::string message = {};  // one sentence
    place first = {};          // the earlier call; its name is empty when there is none
    place second = {};         // the call at which it was found
    std::string memory = {};   // "4096 bytes at 0x7f0000001000 (device memory)"; may be empty
    std::string remedy = {};   // the missing line of CUDA; may be empty
    std::uint64_t times = 1;   // how often the same two places were found
    std::vector<ordered_call> picture = {};  // both calls and what they were ordered after; empty without `pictures`
};

}  // namespace sluice::check
