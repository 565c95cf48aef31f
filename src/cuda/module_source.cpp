// SPDX-License-Identifier: Apache-2.0
#include "cuda/module_source.hpp"

#include <algorithm>
#include <array>

namespace sluice::cuda {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// The compiler joins lines at a backslash before it looks for directives.
std::string with_joined_lines(std::string_view text) {
    std::string joined;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
            ++i;
        } else if (text[i] == '\\' && i + 2 < text.size() && text[i + 1] == '\r' && text[i + 2] == '\n') {
            i += 2;
        } else {
            joined += text[i];
        }
    }
    return joined;
}

// The name between the quotes or brackets after the word `include`; empty for anything else.
std::string_view included_name(std::string_view after) {
    after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    if (after.empty() || (after.front() != '"' && after.front() != '<')) return {};
    const char close = after.front() == '"' ? '"' : '>';
    after.remove_prefix(1);
    const auto end = after.find_first_of(std::string{close, '\n'});
    return end == after.npos || after[end] != close ? std::string_view() : after.substr(0, end);
}

// Any mention of the word counts, also in a comment: a source that is compiled once too often is harmless.
bool includes_only_given(std::string_view text, const source_options& how) {
    const std::string joined = with_joined_lines(text);
    if (contains(joined, "embed") || contains(joined, "import")) return false;
    const std::string_view all(joined);
    for (auto at = all.find("include"); at != all.npos; at = all.find("include", at)) {
        at += std::string_view("include").size();
        const std::string_view name = included_name(all.substr(at));
        const auto is_named = [&](const auto& header) { return header.first == name; };
        if (name.empty() || std::ranges::none_of(how.headers, is_named)) return false;
    }
    return true;
}

bool names_architecture(std::string_view option) {
    return option.starts_with("-arch") || option.starts_with("--gpu-architecture");
}

}  // namespace

std::vector<std::string> options_for(int compute_capability, const std::vector<std::string>& given) {
    std::vector<std::string> options = given;
    if (std::ranges::none_of(given, names_architecture))
        options.push_back("-arch=sm_" + std::to_string(compute_capability));
    return options;
}

bool depends_on_given_text_only(std::string_view source, const source_options& how) {
    constexpr std::array<std::string_view, 4> read_files = {"include", "pch", "options-file", "optf"};
    for (const std::string& option : how.options) {
        const bool is_folder = option.starts_with("-I") || option.starts_with("--include-path");
        if (!is_folder && std::ranges::any_of(read_files, [&](auto part) { return contains(option, part); }))
            return false;
    }
    return includes_only_given(source, how) &&
           std::ranges::all_of(how.headers, [&](const auto& each) { return includes_only_given(each.second, how); });
}

std::string key_of(std::string_view source, const source_options& how, const std::vector<std::string>& options,
                   std::string_view versions) {
    std::string key;
    // Each text with its length in front: no two lists of texts become the same key.
    const auto add = [&](std::string_view text) { key.append(std::to_string(text.size())).append(":").append(text); };
    add(versions);
    add(how.name);
    add(std::to_string(options.size()));
    for (const std::string& each : options) add(each);
    for (const auto& [name, text] : how.headers) {
        add(name);
        add(text);
    }
    add(source);
    return key;
}

}  // namespace sluice::cuda
