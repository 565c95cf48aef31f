// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>
#include <string>

#include "sluice/base/printable.hpp"
#include "sluice/check/check_trace.hpp"

namespace sluice::check {
namespace {

void write_place(std::ostream& to, const char* which, const place& of) {
    if (of.what.empty()) return;
    to << "  " << which << printable(of.what);
    if (!of.stream.empty()) to << ", " << printable(of.stream);
    to << ", thread " << of.thread << ", line " << of.call << " of the trace\n";
    for (const std::string& each : of.frames) to << "             " << printable(each) << '\n';
}

// Two rows: when the calls were made, from left to right. What lies below the other may run at the same time.
void write_picture(std::ostream& to, const finding& of) {
    if (of.first.what.empty() || of.second.what.empty() || of.first.stream == of.second.stream) return;
    const std::string first = of.first.stream.empty() ? "the host" : printable(of.first.stream);
    const std::string second = of.second.stream.empty() ? "the host" : printable(of.second.stream);
    const std::size_t width = std::max(first.size(), second.size());
    to << "  picture  " << first << std::string(width - first.size(), ' ') << "  ---[ first ......\n"
       << "           " << second << std::string(width - second.size(), ' ') << "  -------[ second ....\n";
}

std::string count(std::uint64_t number, const std::string& thing) {
    return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

}  // namespace

void write_text(const check_report& report, std::ostream& to) {
    for (const finding& each : report.findings) {
        to << to_string(each.what) << (each.is_certain ? ": " : " (may): ") << printable(each.message);
        if (each.times > 1) to << " (" << each.times << " times)";
        to << '\n';
        if (!each.memory.empty()) to << "  memory   " << printable(each.memory) << '\n';
        write_place(to, "first    ", each.first);
        write_place(to, "second   ", each.second);
        if (!each.remedy.empty()) to << "  missing  " << printable(each.remedy) << '\n';
        write_picture(to, each);
        to << '\n';
    }
    to << count(report.findings.size(), "finding") << " in " << count(report.calls, "call");
    if (!report.program.empty()) to << " of " << printable(report.program);
    to << '\n';
    if (report.orders != 0)
        to << count(report.orders, "other order") << " of the calls of the host's threads checked\n";
    if (report.suppressed != 0) to << count(report.suppressed, "finding") << " suppressed\n";
    if (report.uncertain != 0)
        to << count(report.uncertain, "finding") << " left out that may be none: --may shows them\n";
    if (report.hints != 0) to << count(report.hints, "wait") << " changed nothing: --hints shows them\n";
    to << "not seen: what kernels reach through structs and pointers in memory, how many bytes they use after an "
          "argument, what the host does with memory outside CUDA's calls, and locks between host threads, which are "
          "taken to order them as in the trace\n";
    for (const std::string& each : report.unseen) to << "not seen: " << printable(each) << '\n';
}

}  // namespace sluice::check
