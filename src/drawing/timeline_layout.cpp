// SPDX-License-Identifier: Apache-2.0
#include "drawing/timeline_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "trace/trace_text.hpp"

namespace sluice::detail {
namespace {

constexpr double narrow_px = 0.5;       // a narrower bar cannot be distinguished from its neighbours
constexpr double widest_merged_px = 2;  // more would hide how the time was spent

// Builds a merged bar.
class merging {
public:
    explicit merging(const trace_span& first)
        : bar_{&first, 0, first.start_us, first.start_us, 0, first.event->kind, colour_of(first.event->name)} {
        add(first);
    }

    void add(const trace_span& span) {
        ++bar_.count;
        bar_.end_us = span.end_us;
        bar_.busy_us += span.duration_us();
        // Commands that took no time still are of some kind.
        const double busy_us = span.duration_us() + 1e-9;
        busy_us_[index_of(span.event->kind)] += busy_us;
        if (busy_us_[index_of(span.event->kind)] > busy_us_[index_of(bar_.kind)]) bar_.kind = span.event->kind;
        colours_us_[index_of(span.event->kind)][colour_of(span.event->name)] += busy_us;
        const auto& of_kind = colours_us_[index_of(bar_.kind)];
        bar_.colour = static_cast<std::size_t>(std::ranges::max_element(of_kind) - of_kind.begin());
    }

    const timeline_bar& bar() const noexcept { return bar_; }

private:
    timeline_bar bar_;
    std::array<double, trace_kinds> busy_us_{};
    std::array<std::array<double, name_colours>, trace_kinds> colours_us_{};
};

struct time_unit {
    double us;
    std::string_view name;
};

// The largest unit in which the end of the axis is at least ten.
time_unit unit_for(double end_us) {
    if (end_us >= 10e6) return {1e6, " s"};
    if (end_us >= 10e3) return {1e3, " ms"};
    if (end_us >= 0.1) return {1, " µs"};
    return {1e-3, " ns"};
}

// 1, 2, 5, 10, 20 ... : the first that is at least `least`.
double round_step(double least) {
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1, 2, 5}) {
        if (factor * power >= least * (1 - 1e-9)) return factor * power;
    }
    return 10 * power;
}

std::vector<timeline_tick> ticks_every(double step_us, const timeline_scale& scale) {
    const time_unit unit = unit_for(scale.end_us);
    const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step_us / unit.us) + 1e-9)), 0, 9);
    std::vector<timeline_tick> result;
    const double last = scale.end_us + step_us * 1e-6;
    // Plus zero: no "-0".
    for (double number = std::ceil(scale.begin_us / step_us - 1e-6) + 0.0; number * step_us <= last; ++number) {
        const double us = number * step_us;
        std::string label;
        append_fixed(label, us / unit.us, number == 0 ? 0 : decimals);
        result.push_back({us, label.append(unit.name)});
    }
    return result;
}

}  // namespace

std::size_t index_of(trace_kind kind) noexcept { return std::min(static_cast<std::size_t>(kind), trace_kinds - 1); }

bool is_coloured_by_name(trace_kind kind) noexcept {
    return kind == trace_kind::kernel || kind == trace_kind::library_call || kind == trace_kind::stage;
}

std::size_t colour_of(std::string_view name) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char each : name) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
    return static_cast<std::size_t>((hash ^ hash >> 32) % name_colours);
}

timeline_scale fit(std::span<const trace_span> spans, double left_px, double right_px) {
    if (spans.empty()) return {0, 1, left_px, right_px};
    const double first_us = std::ranges::min(spans, {}, &trace_span::start_us).start_us;
    const double last_us = std::ranges::max(spans, {}, &trace_span::end_us).end_us;
    const double begin_us = first_us < 0.15 * (last_us - first_us) ? 0 : first_us;
    // No narrower than the distance between two doubles at such a time.
    const double least_us = std::max(1e-3, last_us * 1e-9);
    return {begin_us, std::max(last_us, begin_us + least_us), left_px, right_px};
}

std::vector<timeline_bar> merge_bars(std::span<const trace_span> of_stream, double px_per_us) {
    const double narrow_us = narrow_px / px_per_us;
    std::vector<timeline_bar> bars;
    for (std::size_t i = 0; i < of_stream.size();) {
        merging bar(of_stream[i]);
        bool narrow = of_stream[i].duration_us() < narrow_us;
        for (++i; narrow && i < of_stream.size(); ++i) {
            const trace_span& next = of_stream[i];
            narrow = next.duration_us() < narrow_us && next.start_us - bar.bar().end_us < narrow_us &&
                     next.end_us - bar.bar().start_us <= widest_merged_px / px_per_us;
            if (!narrow) break;
            bar.add(next);
        }
        bars.push_back(bar.bar());
    }
    return bars;
}

std::vector<timeline_tick> ticks(const timeline_scale& scale, double (*room_px)(std::string_view label)) {
    // Finer steps have longer labels: start fine, and coarsen until they fit.
    double step_us = round_step(50 / scale.px_per_us());
    while (true) {
        std::vector<timeline_tick> result = ticks_every(step_us, scale);
        double widest_px = 0;
        for (const timeline_tick& tick : result) widest_px = std::max(widest_px, room_px(tick.label));
        if (result.size() < 2 || widest_px <= step_us * scale.px_per_us()) return result;
        step_us = round_step(step_us * 1.5);
    }
}

}  // namespace sluice::detail
