// SPDX-License-Identifier: Apache-2.0
// The legend of a timeline: what the looks and the colours of its bars mean.
#pragma once

#include <string>
#include <vector>

#include "drawing/svg_writer.hpp"
#include "trace/trace_reading.hpp"

namespace sluice::detail {

struct legend_entry {
    std::string look;  // CSS classes; "wait" for an arrow
    std::string label;
    svg_writer::point at;
};

// An entry for each kind of command that the trace has, then the names of kernels and library calls that took the most
// time, at most twelve. In lines of 20 pixels from `first` on, none wider than up to `right_px`.
std::vector<legend_entry> legend_of(const trace_reading& reading, svg_writer::point first, double right_px);

}  // namespace sluice::detail
