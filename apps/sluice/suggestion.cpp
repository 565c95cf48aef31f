// SPDX-License-Identifier: Apache-2.0
#include "suggestion.hpp"

#include <algorithm>
#include <vector>

namespace sluice::app {

std::size_t edit_distance(std::string_view from, std::string_view to) {
    // Three rows of the table of distances between beginnings of both words.
    std::vector<std::size_t> before_last(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
    for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= from.size(); ++i) {
        before_last.swap(last);
        last.swap(row);
        row[0] = i;
        for (std::size_t j = 1; j <= to.size(); ++j) {
            const std::size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
            const bool are_exchanged = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
            if (are_exchanged) row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
    }
    return row[to.size()];
}

std::string nearest(std::string_view unknown, std::span<const std::string> known) {
    constexpr std::size_t longest = 64;  // no known word is longer, and the table stays small
    if (unknown.empty() || unknown.size() > longest) return {};
    std::string best;
    std::size_t least = std::max<std::size_t>(1, unknown.size() / 3) + 1;
    for (const std::string& each : known) {
        const std::size_t distance = edit_distance(unknown, each);
        if (distance >= least) continue;
        least = distance;
        best = each;
    }
    if (!best.empty()) return best;
    constexpr std::size_t telling = 4;  // "--re" and longer
    for (const std::string& each : known) {
        const bool begins = std::min(unknown.size(), each.size()) >= telling &&
                            (each.starts_with(unknown) || unknown.starts_with(each));
        if (begins) return each;
    }
    return {};
}

std::string listed(std::span<const std::string> words) {
    std::string text;
    for (const std::string& each : words) text += (text.empty() ? "" : ", ") + each;
    return text;
}

}  // namespace sluice::app
