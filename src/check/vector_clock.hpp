// SPDX-License-Identifier: Apache-2.0
// vector_clock: what happens before a moment: of each timeline the commands up to one. A timeline is the host, a
// stream, or a chain of a graph's nodes. The simulator's clocks are of a fixed size; programs have any number of
// streams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::check {

using timeline_index = std::uint32_t;
inline constexpr timeline_index host_timeline = 0;

// The command that is number `when` on its timeline, from 1.
struct moment {
    timeline_index timeline = host_timeline;
    std::uint32_t when = 0;
};

class vector_clock {
public:
    bool covers(moment what) const noexcept {
        return what.when == 0 || (what.timeline < upto_.size() && upto_[what.timeline] >= what.when);
    }
    bool covers(const vector_clock& other) const noexcept {
        for (std::size_t i = 0; i < other.upto_.size(); ++i) {
            if (other.upto_[i] > (i < upto_.size() ? upto_[i] : 0)) return false;
        }
        return true;
    }
    void join(const vector_clock& other) {
        if (other.upto_.size() > upto_.size()) upto_.resize(other.upto_.size());
        for (std::size_t i = 0; i < other.upto_.size(); ++i) upto_[i] = std::max(upto_[i], other.upto_[i]);
    }
    void join(moment what) {
        if (what.timeline >= upto_.size()) upto_.resize(what.timeline + std::size_t{1});
        upto_[what.timeline] = std::max(upto_[what.timeline], what.when);
    }

    std::size_t timelines() const noexcept { return upto_.size(); }

private:
    std::vector<std::uint32_t> upto_;
};

}  // namespace sluice::check
