// SPDX-License-Identifier: Apache-2.0
#include "check/order_log.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace sluice::check {

void order_log::add(const call_ref& by, std::vector<std::uint32_t> after) {
    by_line_[by.line] = static_cast<std::uint32_t>(calls_.size());
    calls_.push_back({by, std::move(after)});
}

void order_log::note(moment at, const vector_clock& known, const call_ref& by) {
    // The commands that are known are compared with each other.
    entries_ += known.timelines() * std::max<std::size_t>(1, timelines_.size() / 64);
    is_cut_ = is_cut_ || calls_.size() >= most_calls || entries_ > most_entries;
    if (is_cut_) return;
    if (at.timeline >= timelines_.size()) timelines_.resize(at.timeline + std::size_t{1});
    // Of each timeline the last command that is known; events take moments too.
    std::vector<std::uint32_t> before;
    for (timeline_index i = 0; i < timelines_.size(); ++i) {
        const auto& line = timelines_[i];
        const auto later =
            std::ranges::partition_point(line, [&](std::uint32_t each) { return known.covers(placed_[each].at); });
        if (later != line.begin()) before.push_back(*std::prev(later));
    }
    // Those that another one of them follows are no direct ones.
    std::vector<std::uint32_t> direct;
    for (const std::uint32_t each : before) {
        const bool is_passed_on = std::ranges::any_of(before, [&](std::uint32_t other) {
            return other != each && placed_[other].known.covers(placed_[each].at);
        });
        if (!is_passed_on) direct.push_back(call_of_placed_[each]);
    }
    const auto index = static_cast<std::uint32_t>(placed_.size());
    placed_.push_back({at, known});
    call_of_placed_.push_back(static_cast<std::uint32_t>(calls_.size()));
    timelines_[at.timeline].push_back(index);
    add(by, std::move(direct));
}

void order_log::note(const graph& of) {
    is_cut_ = is_cut_ || of.nodes.size() > most_calls || calls_.size() > most_calls - of.nodes.size();
    if (is_cut_) return;
    std::vector<std::uint32_t> call_of(of.nodes.size());
    for (const std::uint32_t node : topological_order(of)) {
        std::vector<std::uint32_t> after;
        for (const std::uint32_t each : of.nodes[node].after) after.push_back(call_of[each]);
        call_of[node] = static_cast<std::uint32_t>(calls_.size());
        add(of.nodes[node].by, std::move(after));
    }
}

std::vector<logged_call> order_log::around(std::uint64_t first_line, std::uint64_t second_line,
                                           std::size_t most) const {
    const auto one = by_line_.find(first_line), other = by_line_.find(second_line);
    if (one == by_line_.end() || other == by_line_.end()) return {};
    std::set<std::uint32_t> chosen{one->second, other->second}, next;
    const auto look_at = [&](std::uint32_t call) {
        for (const std::uint32_t each : calls_[call].after)
            if (!chosen.contains(each)) next.insert(each);
    };
    look_at(one->second);
    look_at(other->second);
    while (!next.empty() && chosen.size() < most) {  // the latest first
        const std::uint32_t latest = *next.rbegin();
        next.erase(latest);
        chosen.insert(latest);
        look_at(latest);
    }
    std::vector<logged_call> made;
    const std::vector<std::uint32_t> order(chosen.begin(), chosen.end());
    for (const std::uint32_t each : order) {
        logged_call call{calls_[each].by, {}};
        for (const std::uint32_t before : calls_[each].after) {
            const auto at = std::ranges::lower_bound(order, before);
            if (at != order.end() && *at == before)
                call.after.push_back(static_cast<std::uint32_t>(at - order.begin()));
        }
        made.push_back(std::move(call));
    }
    return made;
}

}  // namespace sluice::check
