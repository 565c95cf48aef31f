// Words of a timeline: what fits where, and what a tooltip tells.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/timeline_layout.hpp"
#include "runtime/trace_reading.hpp"

namespace sluice::detail {

// About how wide a text is in the fonts of the timeline; rather too much than too little.
double text_px(std::string_view text, double font_px);

// The text, or as much of its beginning as fits with "…" behind; empty when not even two characters do.
std::string elided(std::string_view text, double font_px, double room_px);

// The class that has the kind's colour in timeline_style: "device-copy".
std::string css_class(trace_kind kind);

// Several lines. For one command: all that is known of it. For several: how many, of which kinds, and when.
std::string tooltip(const timeline_bar& bar, std::string_view device);

// One line: who waited for whom.
std::string tooltip(const trace_span& awaited, const trace_span& waiting);

// "28 commands on 4 streams in 1.23 ms, 2 waits"
std::string summary(const trace_reading& of);

}  // namespace sluice::detail
