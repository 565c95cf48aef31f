// SPDX-License-Identifier: Apache-2.0
#include "overwritten_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "input_files.hpp"
#include "network_file.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::app {
namespace {

namespace fs = std::filesystem;

struct written_file {
    std::string option;
    fs::path file;
    bool has_parts = false;  // FILE.1, FILE.2, ... are written too
};

// What a command reads and writes.
struct file_roles {
    std::vector<written_file> written;
    std::vector<fs::path> read;    // files, or folders with all that is in them
    std::vector<fs::path> models;  // the same; they may name further files

    void writes(const char* option, const std::optional<fs::path>& file) {
        if (file && !file->empty()) written.push_back({option, *file});
    }
    void reads(const fs::path& file) {
        if (!file.empty()) read.push_back(file);
    }
    void reads(const std::optional<fs::path>& file) {
        if (file) reads(*file);
    }
    // A word that may be FILE, NAME=FILE or FILE:MEMBER: which one it is depends on the network, so all are meant.
    void reads_word(const std::string& word) {
        const auto add = [&](const std::string& name) {
            reads(fs::path(name));
            if (const auto member = name.rfind(':'); member != std::string::npos)
                reads(fs::path(name.substr(0, member)));
        };
        add(word);
        if (const auto name = word.find('='); name != std::string::npos) add(word.substr(name + 1));
    }
};

// NAME=FILE or FILE, as outputs and served networks are given.
fs::path file_of(const std::string& word) {
    const auto name = word.find('=');
    return name == std::string::npos ? fs::path(word) : fs::path(word.substr(name + 1));
}

void add_roles(file_roles& to, const run_options& from) {
    to.models.push_back(from.model);
    to.reads_word(from.input.string());
    for (const std::string& each : from.named_inputs) to.reads_word(each);
    to.reads(from.labels);
    if (from.reference) to.reads_word(from.reference->string());
    for (const std::string& each : from.named_outputs) {
        to.writes("--output", fs::path(each));
        to.writes("--output", file_of(each));
    }
    to.writes("--trace", from.trace);
    to.writes("--timeline", from.timeline);
}

void add_roles(file_roles& to, const serve_options& from) {
    for (const std::string& each : from.models) {
        to.models.emplace_back(each);
        to.models.push_back(file_of(each));
    }
    if (!from.repository.empty()) to.models.push_back(from.repository);
    to.reads(from.tokens);
    for (const fs::path& each : {from.http.tls.certificate, from.http.tls.key, from.http.tls.client_ca}) to.reads(each);
    if (!from.http.otlp.empty()) to.written.push_back({"--otlp", from.http.otlp, true});
}

file_roles roles_of(const command_line& line) {
    file_roles made;
    switch (line.what) {
        case command::run: add_roles(made, line.run); break;
        case command::serve: add_roles(made, line.serving); break;
        case command::bench:
            made.models.push_back(line.benching.model);
            made.writes("--plot", line.benching.plot);
            break;
        case command::profile:
            made.models.push_back(line.profiling.model);
            made.reads_word(line.profiling.input);
            made.writes("--trace", line.profiling.trace);
            made.writes("--timeline", line.profiling.timeline);
            break;
        case command::inspect:
            made.models.push_back(line.inspecting.model);
            made.writes("--picture", line.inspecting.picture);
            break;
        case command::check:
            made.reads(line.checking.replay);
            made.reads(line.checking.suppressions);
            made.writes("--sarif", line.checking.sarif);
            made.writes("--report", line.checking.report);
            made.writes("--picture", line.checking.picture);
            break;
        // These write no file, or read none.
        case command::compare:
        case command::tune:
        case command::devices:
        case command::operators:
        case command::show_text: break;
    }
    return made;
}

[[noreturn]] void refuse(const written_file& written, const fs::path& input) {
    const std::string what = written.option + " " + in_quotes(written.file.native());
    throw error(errc::invalid_argument, what + " would replace an input of the command" +
                                            (written.file == input ? "" : ", " + in_quotes(input.native())) +
                                            "; name another file");
}

// Whether the command replaces the input when it writes that file: the same file, whatever names and links lead there.
bool replaces(const written_file& written, const fs::path& input) {
    std::error_code failed;
    if (fs::equivalent(written.file, input, failed) && !failed) return true;
    if (!written.has_parts) return false;
    const std::string name = input.filename().string(), begin = written.file.filename().string() + ".";
    const bool is_part = name.starts_with(begin) && name.size() > begin.size() &&
                         name.find_first_not_of("0123456789", begin.size()) == std::string::npos;
    const auto folder = [](const fs::path& file) {
        return file.has_parent_path() ? file.parent_path() : fs::path(".");
    };
    return is_part && fs::equivalent(folder(written.file), folder(input), failed) && !failed;
}

// Calls function(file) for the file, or for all files in the folder and below it.
template <typename Function>
void for_files(const fs::path& from, const Function& function) {
    std::error_code failed;
    if (!fs::is_directory(from, failed)) return function(from);
    const auto how = fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied;
    constexpr int deepest = 16;  // of links that lead into a folder around them there is no end
    for (fs::recursive_directory_iterator at(from, how, failed), end; !failed && at != end; at.increment(failed)) {
        if (at.depth() >= deepest) at.disable_recursion_pending();
        if (!at->is_directory(failed)) function(at->path());
        failed.clear();
    }
}

// Whether the file may be external data of a network: that is in the network's folder, or below it, or linked to there.
bool may_be_data_of(const fs::path& file, const fs::path& network) {
    std::error_code failed;
    if (!fs::is_regular_file(file, failed)) return false;
    if (fs::hard_link_count(file, failed) > 1) return true;
    const fs::path folder = fs::canonical(network, failed).parent_path(), there = fs::canonical(file, failed);
    return std::ranges::mismatch(folder, there).in1 == folder.end();
}

void check_data_files(const file_roles& of, const fs::path& network) {
    const auto may_be_data = [&](const written_file& each) { return may_be_data_of(each.file, network); };
    if (!is_onnx(network) || std::ranges::none_of(of.written, may_be_data)) return;
    std::vector<fs::path> files;
    try {
        files = nn::load_onnx_data_files(network);
    } catch (const error&) {  // the command refuses it
        return;
    }
    for (const fs::path& file : files)
        for (const written_file& written : of.written)
            if (replaces(written, file)) refuse(written, file);
}

}  // namespace

void refuse_overwritten_inputs(const command_line& line) {
    const file_roles roles = roles_of(line);
    // A file that is not there yet is none that is read. Only parts of it may be.
    const bool is_new = std::ranges::all_of(roles.written, [](const written_file& each) {
        std::error_code failed;
        return !each.has_parts && !fs::exists(fs::symlink_status(each.file, failed));
    });
    if (is_new) return;
    const auto check = [&](const fs::path& input) {
        for (const written_file& written : roles.written)
            if (replaces(written, input)) refuse(written, input);
    };
    for (const fs::path& each : roles.read) for_files(each, check);
    for (const fs::path& each : roles.models) {
        for_files(each, [&](const fs::path& file) {
            check(file);
            check_data_files(roles, file);
        });
    }
}

}  // namespace sluice::app
