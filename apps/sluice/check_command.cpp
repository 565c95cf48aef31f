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
#include <vector>

#include "exit_status.hpp"
#include "sluice/base/file_error.hpp"
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

}  // namespace

void add_check(CLI::App& app, check_command_options& options) {
    app.add_option("--replay", options.replay, "The trace of a program's calls to check")
        ->required()
        ->type_name("FILE");
    app.add_flag("--may", options.may, "Also findings that depend on what a kernel does with an argument");
    app.add_flag("--hints", options.hints, "Also waits that change nothing");
    app.add_option("--suppress", options.suppressions, "File with findings to leave out: KIND: PATTERN in each line")
        ->type_name("FILE");
    app.add_option("--sarif", options.sarif, "File for the findings as SARIF")->type_name("OUT.sarif");
}

void check_program(const check_command_options& options, bool as_json, std::ostream& out) {
    const check::check_options how{options.may, options.hints, suppressions_of(options)};
    std::ifstream trace = open(options.replay);
    const check::check_report report = check::check_trace(trace, options.replay, how);
    if (options.sarif) save_sarif(report, *options.sarif);
    as_json ? check::write_json(report, out) : check::write_text(report, out);
    const auto is_hint = [](const check::finding& each) { return each.what == check::fault::useless_wait; };
    const auto wrong =
        report.findings.size() - static_cast<std::size_t>(std::ranges::count_if(report.findings, is_hint));
    if (wrong != 0) {
        out.flush();
        throw requirement_missed(std::to_string(wrong) + (wrong == 1 ? " finding" : " findings"));
    }
}

}  // namespace sluice::app
