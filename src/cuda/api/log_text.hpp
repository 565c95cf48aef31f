// SPDX-License-Identifier: Apache-2.0
// A compiler's log, and what a library says about its last error, for an error message, which is one line.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace sluice::cuda::api {

// The lines without their indentation, with "; " between them. Lines that only point at a column are left out.
inline std::string on_one_line(std::string_view log) {
    std::string text;
    while (!log.empty()) {
        const auto end = std::min(log.find('\n'), log.size());
        std::string_view line = log.substr(0, end);
        log.remove_prefix(std::min(end + 1, log.size()));
        if (line.find_first_not_of(" \t\r^~") == line.npos) continue;
        line.remove_prefix(line.find_first_not_of(" \t"));
        line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
        text.append(text.empty() ? "" : "; ").append(line);
    }
    return text;
}

// The message for a call that failed, with what the library says about it: "cudnnConvolutionForward failed: ...".
inline std::string failed_call(std::string_view call, std::string_view library_says) {
    const std::string details = on_one_line(library_says);
    return std::string(call) + " failed" + (details.empty() ? "" : ": " + details);
}

}  // namespace sluice::cuda::api
