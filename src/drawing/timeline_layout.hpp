// SPDX-License-Identifier: Apache-2.0
// Places the bars of a timeline along the time: which commands share a bar, and where the axis has its ticks.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace_reading.hpp"

namespace sluice::detail {

inline constexpr std::size_t trace_kinds = 9;
inline constexpr std::size_t name_colours = 8;  // n0 to n7 in timeline_style

// Values that are no kind count as the last kind.
std::size_t index_of(trace_kind kind) noexcept;

// Whether commands of this kind have the colour of their name: kernels, library calls and stages.
bool is_coloured_by_name(trace_kind kind) noexcept;

// The colour of a name, below name_colours: the same in each picture, on each machine. Names may share one.
std::size_t colour_of(std::string_view name) noexcept;

// Time to pixels.
struct timeline_scale {
    double begin_us;  // at left_px
    double end_us;    // at right_px; later than begin_us
    double left_px;
    double right_px;

    double px_per_us() const noexcept { return (right_px - left_px) / (end_us - begin_us); }
    double at(double us) const noexcept { return left_px + (us - begin_us) * px_per_us(); }
};

// From the trace's begin, or from the first command when that is late, to the last command's end.
timeline_scale fit(std::span<const trace_span> spans, double left_px, double right_px);

// One bar of a row: one command, or several neighbours too narrow to be distinguished.
struct timeline_bar {
    const trace_span* first;
    std::size_t count;  // how many commands, of the same stream, from `first` on
    double start_us;
    double end_us;
    double busy_us;      // of it, with a command running
    trace_kind kind;     // that took the most time
    std::size_t colour;  // colour_of() the names of this kind that took the most time
};

// The bars of one stream, in order.
std::vector<timeline_bar> merge_bars(std::span<const trace_span> of_stream, double px_per_us);

struct timeline_tick {
    double us;
    std::string label;  // with its unit
};

// At round times, so that labels up to `room_px(label)` wide stay clear of each other.
std::vector<timeline_tick> ticks(const timeline_scale& scale, double (*room_px)(std::string_view label));

}  // namespace sluice::detail
