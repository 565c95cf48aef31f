// SPDX-License-Identifier: Apache-2.0
#include "output_names.hpp"

#include <string>
#include <system_error>
#include <vector>

#include "input_files.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

struct named_output {
    std::string option;
    std::filesystem::path name;
};

// Whether a file written under one name is replaced by one written under the other: the same name in the same
// directory, whatever links lead there. A link at the name itself is replaced, not followed.
bool are_one_file(const std::filesystem::path& left, const std::filesystem::path& right) {
    if (left.filename() != right.filename()) return false;
    const auto directory = [](const std::filesystem::path& file) {
        return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
    };
    std::error_code absent;  // an absent directory is refused when the file is created
    if (std::filesystem::equivalent(directory(left), directory(right), absent)) return true;
    return std::filesystem::weakly_canonical(left, absent) == std::filesystem::weakly_canonical(right, absent);
}

// An array must not have the name of another format.
void refuse_other_formats(const std::filesystem::path& name) {
    std::error_code absent;
    if (std::filesystem::is_directory(name, absent)) return;  // refused when the file is created
    if (source_of(name).kind == input_kind::npy) return;
    throw error(errc::invalid_argument,
                "--output " + in_quotes(name.native()) + ": outputs are NumPy arrays; name FILE.npy", {"run"});
}

}  // namespace

void check_output_names(const run_options& options) {
    std::vector<named_output> seen;
    const auto add = [&](const char* option, const std::optional<std::filesystem::path>& name) {
        if (!name) return;
        if (name->empty()) throw error(errc::invalid_argument, std::string(option) + ": the name is empty", {"run"});
        for (const named_output& other : seen) {
            if (!are_one_file(other.name, *name)) continue;
            const std::string both = other.name == *name ? "" : " (" + other.option + " " + other.name.string() + ")";
            throw error(errc::invalid_argument,
                        name->string() + " is to be written twice: by " + other.option + both + " and " + option,
                        {"run"});
        }
        seen.push_back({option, *name});
    };
    add("--output", options.output);
    for (const std::filesystem::path& each : options.outputs_of_network) add("--output", each);
    if (options.output) refuse_other_formats(*options.output);
    for (const std::filesystem::path& each : options.outputs_of_network) refuse_other_formats(each);
    add("--trace", options.trace);
    add("--timeline", options.timeline);
}

}  // namespace sluice::app
