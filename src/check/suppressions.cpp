// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>

#include <algorithm>
#include <string>

#include "check/findings.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/check/check_trace.hpp"

namespace sluice::check {
namespace {

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

bool is_kind(std::string_view name) {
    if (name == "*") return true;
    for (int i = 0; i <= static_cast<int>(fault::useless_wait); ++i)
        if (name == to_string(static_cast<fault>(i))) return true;
    return false;
}

}  // namespace

std::vector<std::string> parse_suppressions(std::string_view text) {
    std::vector<std::string> made;
    int number = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        ++number;
        if (line.empty() || line.starts_with('#')) continue;
        const std::size_t colon = line.find(':');
        const std::string_view kind = trimmed(line.substr(0, colon));
        if (colon == std::string_view::npos || !is_kind(kind)) {
            throw error(errc::invalid_argument, "line " + std::to_string(number) + " of the suppressions is " +
                                                    in_quotes(line) +
                                                    "; a line is KIND: PATTERN, such as race: *scale*");
        }
        const std::string pattern(trimmed(line.substr(colon + 1)));
        if (pattern.empty() || pattern.find('\0') != std::string::npos)
            throw error(errc::invalid_argument,
                        "line " + std::to_string(number) + " of the suppressions has no pattern");
        made.push_back(std::string(kind) + ":" + pattern);
    }
    return made;
}

bool matches(const std::vector<std::string>& suppressions, std::string_view kind, std::string_view text) {
    if (text.empty()) return false;
    const std::string whole(text.substr(0, text.find('\0')));
    return std::ranges::any_of(suppressions, [&](const std::string& each) {
        const std::size_t colon = each.find(':');
        const std::string_view of = std::string_view(each).substr(0, colon);
        if (of != "*" && of != kind) return false;
        return ::fnmatch(each.c_str() + colon + 1, whole.c_str(), 0) == 0;
    });
}

}  // namespace sluice::check
