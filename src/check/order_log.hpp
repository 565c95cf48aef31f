// SPDX-License-Identifier: Apache-2.0
// order_log: the commands of a trace and what each was ordered after, for the pictures of findings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "check/graphs.hpp"
#include "check/shadow.hpp"
#include "check/vector_clock.hpp"

namespace sluice::check {

// A command, and those among the commands before that it directly follows.
struct logged_call {
    call_ref by;
    std::vector<std::uint32_t> after;
};

class order_log {
public:
    // A command at this moment, ordered after `known`. Costs O(streams), and O(streams^2) where as many have
    // commands that are known.
    void note(moment at, const vector_clock& known, const call_ref& by);
    // The nodes of a graph, in which something was found.
    void note(const graph& of);

    // The commands of these two lines and what comes before them, at most `most` of them, in the order of the trace.
    // Empty where one of the lines has no command that was noted. `after` are indices of the result.
    std::vector<logged_call> around(std::uint64_t first_line, std::uint64_t second_line, std::size_t most) const;

    // Whether there was more than is noted.
    bool is_cut() const noexcept { return is_cut_; }

    // What comes later is not noted.
    static constexpr std::size_t most_calls = 50'000;
    static constexpr std::size_t most_entries = std::size_t{1} << 24;  // of clocks

private:
    struct placed_call {
        moment at;
        vector_clock known;
    };
    void add(const call_ref& by, std::vector<std::uint32_t> after);

    std::vector<logged_call> calls_;
    std::unordered_map<std::uint64_t, std::uint32_t> by_line_;  // the last one of each
    std::vector<placed_call> placed_;                           // of commands that are in no graph
    std::vector<std::uint32_t> call_of_placed_;
    std::vector<std::vector<std::uint32_t>> timelines_;  // indices in placed_
    std::size_t entries_ = 0;
    bool is_cut_ = false;
};

}  // namespace sluice::check
