// SPDX-License-Identifier: Apache-2.0
#include "check_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "check_recording.hpp"
#include "exit_status.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/drawing/flow_chart.hpp"
#include "sluice/io/atomic_file.hpp"
#include "sluice/io/write_file.hpp"

namespace sluice::app {
namespace {

std::ifstream open(const std::filesystem::path& file) {
    std::ifstream from(file, std::ios::binary);
    const bool is_folder = std::filesystem::is_directory(file);
    if (!from || is_folder) {
        const std::string why = is_folder ? "is a folder" : std::generic_category().message(errno);
        throw file_error(file, file_error::no_offset, "", "cannot be read: " + why, errc::io_failed);
    }
    return from;
}

std::vector<std::string> suppressions_of(const check_command_options& options) {
    if (!options.suppressions) return {};
    std::ifstream from = open(*options.suppressions);
    return check::parse_suppressions(std::string(std::istreambuf_iterator<char>(from), {}));
}

void save_sarif(const check::check_report& report, const std::filesystem::path& file) {
    io::atomic_file to(file);
    io::write_file(to, [&](std::ostream& text) { check::write_sarif(report, text); });
}

constexpr std::size_t most_pictures = 12;

flow_chart chart_of(const check::finding& found) {
    flow_chart chart{.heading = std::string(check::to_string(found.what)), .boxes = {}, .legend = {}};
    for (const check::ordered_call& each : found.picture) {
        flow_box box{.title = each.what.what};
        box.lines = {each.what.stream.empty() ? "the host" : each.what.stream,
                     "line " + std::to_string(each.what.call) + " of the trace"};
        box.tooltip = each.what.what;
        box.look = each.what.call == found.first.call    ? flow_look::source
                   : each.what.call == found.second.call ? flow_look::sink
                                                         : flow_look::quiet;
        for (const std::size_t before : each.after) box.after.push_back({.from = before});
        chart.boxes.push_back(std::move(box));
    }
    chart.legend = {{flow_look::source, "first"}, {flow_look::sink, "second"}, {flow_look::quiet, "before them"}};
    return chart;
}

void save_picture(const check::check_report& report, const std::filesystem::path& file) {
    std::vector<flow_chart> charts;
    for (const check::finding& each : report.findings)
        if (!each.picture.empty() && charts.size() < most_pictures) charts.push_back(chart_of(each));
    if (charts.empty()) charts.push_back({.heading = "nothing to draw", .boxes = {}, .legend = {}});
    io::atomic_file to(file);
    io::write_file(to, [&](std::ostream& text) { write_flow_charts(charts, text); });
}

// The processes of a program are checked one by one: their devices' work has no order that a trace could show.
void merge(check::check_report& to, check::check_report from) {
    if (to.program.empty()) to.program = from.program;
    std::ranges::move(from.findings, std::back_inserter(to.findings));
    to.calls += from.calls;
    to.suppressed += from.suppressed;
    to.uncertain += from.uncertain;
    to.hints += from.hints;
    to.orders += from.orders;
    for (std::string& each : from.unseen)
        if (std::ranges::find(to.unseen, each) == to.unseen.end()) to.unseen.push_back(std::move(each));
}

// What a run or a trace has shown, and how the program has ended.
struct checked_program {
    check::check_report report;
    program_end end;
};

// Lines are those of a trace: with several, each finding says of which.
check::check_report named(check::check_report report, const std::string& trace) {
    for (check::finding& each : report.findings)
        if (!trace.empty()) each.message = trace + ": " + each.message;
    return report;
}

// More is the number of a signal.
constexpr int most_status_of_program = 128;

checked_program check_traces(const check_command_options& options) {
    const check::check_options how{options.may, options.hints, options.picture ? most_pictures : 0, options.orders,
                                   suppressions_of(options)};
    const auto check_file = [&](const std::filesystem::path& file) {
        std::ifstream trace = open(file);
        return check::check_trace(trace, file, how);
    };
    if (options.program.empty()) return {check_file(options.replay), {}};
    const recorded_run ran(options.program, options.keep);
    if (ran.traces().empty()) {
        const std::string why = "the program has recorded nothing: it has not started the CUDA driver";
        if (ran.end().status != 0) throw program_failed(why + "; " + ran.end().words, ran.end().status);
        throw error(errc::invalid_argument, why, {"check"});
    }
    checked_program made{{}, ran.end()};
    for (const std::filesystem::path& each : ran.traces()) {
        if (std::filesystem::file_size(each) == 0)
            made.report.unseen.push_back(each.filename().string() + ", which is empty: its process ended early");
        else
            merge(made.report, named(check_file(each), ran.traces().size() > 1 ? each.filename().string() : ""));
    }
    if (ran.end().status > most_status_of_program)
        made.report.unseen.push_back("the last calls before " + ran.end().words);
    return made;
}

void write_report(const check::check_report& report, bool as_json, std::ostream& out) {
    as_json ? check::write_json(report, out) : check::write_text(report, out);
    out.flush();
}

}  // namespace

void add_check(CLI::App& app, check_command_options& options) {
    CLI::Option* const program =
        app.add_option("program", options.program, "The program to run and check, with its arguments")
            ->type_name("PROGRAM");
    app.add_option("--replay", options.replay, "Check this trace of a program's calls instead; needs no GPU")
        ->type_name("FILE")
        ->excludes(program);
    app.add_option("--report", options.report, "File for the report, which else follows what the program prints")
        ->type_name("OUT.txt");
    app.add_option("--keep", options.keep, "Folder for the traces of the program's processes; they stay")
        ->type_name("FOLDER")
        ->needs(program);
    app.add_flag("--may", options.may, "Also findings that depend on what a kernel does with an argument");
    app.add_option("--orders", options.orders,
                   "Other orders to try, in which the program's threads could have made their calls (default: 0)")
        ->type_name("COUNT")
        ->check(CLI::Range(0, 10'000));
    app.add_flag("--hints", options.hints, "Also waits that change nothing");
    app.add_option("--suppress", options.suppressions, "File with findings to leave out: KIND: PATTERN in each line")
        ->type_name("FILE");
    app.add_option("--picture", options.picture, "File for a picture of the first findings: what follows what")
        ->type_name("OUT.svg");
    app.add_option("--sarif", options.sarif, "File for the findings as SARIF")->type_name("OUT.sarif");
}

void check_program(const check_command_options& options, bool as_json, std::ostream& out) {
    const checked_program ran = check_traces(options);
    const check::check_report& report = ran.report;
    if (options.sarif) save_sarif(report, *options.sarif);
    if (options.picture) save_picture(report, *options.picture);
    if (options.report) {
        io::atomic_file to(*options.report);
        io::write_file(to, [&](std::ostream& text) { write_report(report, as_json, text); });
    } else {
        write_report(report, as_json, out);
    }
    const auto is_hint = [](const check::finding& each) { return each.what == check::fault::useless_wait; };
    const auto wrong =
        report.findings.size() - static_cast<std::size_t>(std::ranges::count_if(report.findings, is_hint));
    if (wrong != 0) {
        const std::string count = std::to_string(wrong) + (wrong == 1 ? " finding" : " findings");
        throw requirement_missed(ran.end.status == 0 ? count : count + "; " + ran.end.words);
    }
    if (ran.end.status != 0) throw program_failed(ran.end.words, ran.end.status);
}

}  // namespace sluice::app
