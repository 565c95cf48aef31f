// SPDX-License-Identifier: Apache-2.0
#include "check/blocks.hpp"

#include <iterator>
#include <utility>

#include "check/streams.hpp"

namespace sluice::check {

block* blocks::find_in(by_address& in, std::uint64_t at) noexcept {
    auto after = in.upper_bound(at);
    if (after == in.begin()) return nullptr;
    block& found = std::prev(after)->second;
    return at < found.end() ? &found : nullptr;
}

void blocks::check_room() const {
    if (live_.size() == most_blocks)
        throw trace_refusal("there are more than " + std::to_string(most_blocks) + " blocks of memory at a time");
}

void blocks::bury(block& what) {
    if (freed_.size() == most_freed) {
        freed_.erase(freed_.begin());
        ++forgotten_;
    }
    const std::uint64_t at = what.at;
    freed_[at] = std::move(what);
    live_.erase(at);
}

void blocks::prepare_use(block& of, const vector_clock& host) {
    if (of.used.is_full()) {
        of.used.forget(host);
        if (of.used.is_full()) {
            of.used.forget_oldest();
            ++forgotten_;
        }
    }
    if (++uses_ <= most_uses) return;
    uses_ = 0;
    std::uint64_t kept = 0;
    for (by_address* const all : {&live_, &freed_}) {
        for (auto& each : *all) {
            each.second.used.forget(host);
            kept += each.second.used.size();
        }
    }
    if (kept <= most_uses / 2) return;
    // Nothing has waited for that much work: all of it is forgotten.
    for (auto& each : live_) {
        forgotten_ += each.second.used.size();
        each.second.used = {};
    }
}

}  // namespace sluice::check
