// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one trace of sluice check.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string>

#include "sluice/base/file_error.hpp"
#include "sluice/check/check_trace.hpp"

namespace sluice::check::fuzz {

// Checks the trace, and writes each kind of report. A refusal (file_error) is correct; any other exception escapes.
inline void read_check_trace(std::span<const std::byte> file) {
    std::istringstream from(std::string(reinterpret_cast<const char*>(file.data()), file.size()));
    try {
        const check_report report = check_trace(from, "fuzz", {.may = true, .hints = true, .pictures = 4, .orders = 3});
        if (report.calls > file.size()) std::abort();
        std::ostringstream to;
        write_text(report, to);
        if (to.str().find('\x1b') != std::string::npos) std::abort();
        write_json(report, to);
        write_sarif(report, to);
    } catch (const file_error&) {
    }
}

}  // namespace sluice::check::fuzz
