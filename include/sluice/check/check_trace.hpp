// SPDX-License-Identifier: Apache-2.0
// check_trace: reads the trace of a CUDA program's calls, finds what they leave without an order, and writes reports.
//
// docs/check.md has the format of traces, and the rules.
//
// Thread safety: the functions use no global state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/check/finding.hpp"

namespace sluice::check {

// What is reported.
struct check_options {
    bool may = false;                            // also findings that are not certain
    bool hints = false;                          // also hints: waits that change nothing
    std::size_t pictures = 0;                    // findings, from the first on, that get a picture
    std::size_t orders = 0;                      // other orders of the calls of host threads that are tried
    std::vector<std::string> suppressions = {};  // patterns, as parse_suppressions() returns them
};

// What was found in a trace, and what could not be seen.
struct check_report {
    std::string program = {};              // the program's command line, as the trace has it
    std::vector<finding> findings = {};    // in the order of the trace; each pair of places once
    std::uint64_t calls = 0;               // that the trace has
    std::uint64_t suppressed = 0;          // findings that a pattern left out
    std::uint64_t uncertain = 0;           // findings left out because they are not certain
    std::uint64_t hints = 0;               // hints left out
    std::uint64_t orders = 0;              // other orders of the calls of host threads that were checked
    std::vector<std::string> unseen = {};  // what the check did not see: one sentence each
};

// Checks a trace. `name` is its name in errors. Memory is bounded, whatever the trace says. With `orders`, the same
// calls are checked again in other orders in which the host's threads could have made them; what is found only there is
// not certain, because locks between threads are not in a trace, and is reported without `may` too. Throws file_error
// (errc::bad_file) for a line that is no event of the format, for one that refers to what no line before has declared,
// and for a trace that needs more streams, events or blocks at a time than the check keeps. Costs O(calls) times the
// number of streams in use, for each order.
check_report check_trace(std::istream& trace, const std::filesystem::path& name, const check_options& options = {});

// Reads patterns: one a line, "KIND: PATTERN", such as "race: *scale*". The kind may be "*"; the pattern is one of file
// names (fnmatch) over each line of the two places: names of calls, streams and frames. Empty lines and lines that
// begin with # are left out. Throws error (errc::invalid_argument) for a line without a kind that exists.
std::vector<std::string> parse_suppressions(std::string_view text);

// For people: a paragraph for each finding, and what was not seen. Failures are left in the stream's state.
void write_text(const check_report& report, std::ostream& to);
// For scripts: one line of JSON.
void write_json(const check_report& report, std::ostream& to);
// For other tools: SARIF 2.1.0.
void write_sarif(const check_report& report, std::ostream& to);

}  // namespace sluice::check
