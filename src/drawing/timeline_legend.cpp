// SPDX-License-Identifier: Apache-2.0
#include "drawing/timeline_legend.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "drawing/timeline_layout.hpp"
#include "drawing/timeline_text.hpp"

namespace sluice::detail {
namespace {

constexpr double line_px = 20;
constexpr double font = 11;
constexpr double longest_name_px = 200;
constexpr std::size_t most_names = 12;

struct named_time {
    std::string_view name;
    trace_kind kind;
    double us;
};

// The names of kernels and library calls, those that took the most time first.
std::vector<named_time> names_by_time(const trace_reading& reading) {
    std::unordered_map<std::string_view, named_time> times;
    for (const trace_span& span : reading.spans) {
        if (!is_coloured_by_name(span.event->kind)) continue;
        named_time& of = times.try_emplace(span.event->name, span.event->name, span.event->kind, 0.0).first->second;
        of.us += span.duration_us();
    }
    std::vector<named_time> names;
    names.reserve(times.size());
    for (const auto& [name, time] : times) names.push_back(time);
    std::ranges::sort(names, [](const named_time& left, const named_time& right) {
        return left.us != right.us ? left.us > right.us : left.name < right.name;
    });
    return names;
}

// What a kind looks like, whatever the names.
std::string look_of(trace_kind kind) {
    return css_class(kind) + (is_coloured_by_name(kind) ? " any solid" : " hollow");
}

}  // namespace

std::vector<legend_entry> legend_of(const trace_reading& reading, svg_writer::point first, double right_px) {
    std::vector<legend_entry> legend;
    svg_writer::point at = first;
    const auto add = [&](std::string look, std::string label) {
        const double entry_px = 18 + text_px(label, font);
        if (at.x + entry_px > right_px && at.x > first.x) at = {first.x, at.y + line_px};
        legend.push_back({std::move(look), std::move(label), at});
        at.x += entry_px + 16;
    };
    std::array<bool, trace_kinds> shown{};
    for (const trace_span& span : reading.spans) shown[index_of(span.event->kind)] = true;
    for (std::size_t index = 0; index < shown.size(); ++index) {
        const auto kind = static_cast<trace_kind>(index);
        if (shown[index]) add(look_of(kind), std::string(to_string(kind)));
    }
    if (!reading.arrows.empty()) add("wait", "wait");
    const std::vector<named_time> names = names_by_time(reading);
    for (std::size_t i = 0; i < std::min(most_names, names.size()); ++i) {
        add(css_class(names[i].kind) + " n" + std::to_string(colour_of(names[i].name)) + " solid",
            elided(names[i].name, font, longest_name_px));
    }
    if (names.size() > most_names) {
        add("none", "and " + std::to_string(names.size() - most_names) + " more names");
    }
    return legend;
}

}  // namespace sluice::detail
