// SPDX-License-Identifier: Apache-2.0
// Prints one line of JSON per figure: figure, params, value, unit, baseline, ratio (ours over baseline), machine, date,
// commit.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

namespace sluice::bench {

struct figure {
    std::string name;
    std::string params;  // JSON: {"n": 10}
    double value;
    std::string unit;
    std::optional<double> baseline;  // of the hand-written version, in the same run and unit
    std::string machine;
};

inline std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[11];
    std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
    return text;
}

inline void print(const figure& each) {
    const char* const commit = std::getenv("SLUICE_COMMIT");
    std::string baseline = "null";
    std::string ratio = "null";
    if (each.baseline) {
        baseline = std::to_string(*each.baseline);
        ratio = std::to_string(each.value / *each.baseline);
    }
    std::printf(
        "{\"figure\": \"%s\", \"params\": %s, \"value\": %.6g, \"unit\": \"%s\", \"baseline\": %s, \"ratio\": %s, "
        "\"machine\": \"%s\", \"date\": \"%s\", \"commit\": \"%s\"}\n",
        each.name.c_str(), each.params.c_str(), each.value, each.unit.c_str(), baseline.c_str(), ratio.c_str(),
        each.machine.c_str(), today().c_str(), commit != nullptr ? commit : "unknown");
    std::fflush(stdout);
}

}  // namespace sluice::bench
