// SPDX-License-Identifier: Apache-2.0
// Words of a timeline: what fits where, and what a tooltip says.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "drawing/timeline_layout.hpp"
#include "trace/trace_reading.hpp"

namespace sluice::detail {

// About how wide a text is in the fonts of the timeline; rather too much than too little.
double text_px(std::string_view text, double font_px);

// The text, or as much of its beginning as fits with "…" after it; empty when not even two characters do.
std::string elided(std::string_view text, double font_px, double room_px);

// The shortest decimal that is this number.
std::string exact(double number);

// The class that has the kind's colour in timeline_style: "device-copy".
std::string css_class(trace_kind kind);

// Several lines. For one command: all that is known of it. For several: how many, of which kinds, and when.
// `place`: "cuda:0, stream 3".
std::string tooltip(const timeline_bar& bar, std::string_view place);

// Which command waited for which, with the names of their streams.
std::string tooltip(const trace_span& awaited, std::string_view awaited_stream, const trace_span& waiting,
                    std::string_view waiting_stream);

// "28 commands on 4 streams in 1.23 ms, 2 waits"
std::string summary(const trace_reading& of);

}  // namespace sluice::detail
