// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_files.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
    throw file_error(path, file_error::no_offset, "", why);
}

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// Digits without a leading zero.
std::optional<std::size_t> version_of(const std::string& name) {
    int version = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), version);
    const bool is_number = failure == std::errc() && end == name.data() + name.size() && version > 0;
    if (!is_number || name.front() == '0' || name.front() == '-') return std::nullopt;
    return static_cast<std::size_t>(version);
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

// Where models are, and whether links may lead out of it.
struct root {
    const fs::path& folder;
    bool follows_links;
};

// The path without links. Throws for one that leads out of the folder. Where links are followed, the path as it is: a
// model's name and what lies next to it are those of the link.
fs::path inside(const root& of, const fs::path& path) {
    std::error_code failure;
    fs::path real = fs::canonical(path, failure);
    if (failure) refuse(path, "the file cannot be found: " + failure.message());
    if (of.follows_links) return path;
    const auto [end, ignored] = std::mismatch(of.folder.begin(), of.folder.end(), real.begin(), real.end());
    if (end != of.folder.end()) {
        refuse(path, "a link leads out of the repository " + of.folder.string() +
                         "; --follow-links (follow_links) allows such links");
    }
    return real;
}

// The model's file in a folder, of this name where the configuration says one; empty when there is none.
fs::path model_in(const root& repository, const fs::path& folder, const std::string& file_name) {
    if (!file_name.empty()) {
        const fs::path named = folder / file_name;
        if (!is_there(named)) return {};
        const fs::path real = inside(repository, named);
        if (!fs::is_regular_file(real)) refuse(named, "this is no file");
        return real;
    }
    fs::path found;
    for (const char* const each : {"model.onnx", "model.safetensors", "model.txt", "model.json", "model.ubj"}) {
        if (!is_there(folder / each)) continue;
        if (!found.empty()) refuse(folder, "there are both " + found.filename().string() + " and " + each);
        found = folder / each;
    }
    if (found.empty()) return {};
    const fs::path real = inside(repository, found);
    if (!fs::is_regular_file(real)) refuse(found, "this is no file");
    return real;
}

std::vector<model_version> versions_in(const root& repository, const std::string& name, const std::string& file_name) {
    const fs::path folder = repository.folder / name;
    const std::string wanted = file_name.empty() ? "model.onnx or model.safetensors" : file_name;
    std::vector<model_version> found;
    for (const fs::directory_entry& each : fs::directory_iterator(folder)) {
        const auto version = version_of(each.path().filename().string());
        if (!version || !each.is_directory()) continue;
        const fs::path file = model_in(repository, each.path(), file_name);
        if (file.empty()) refuse(each.path(), "a version has the file " + wanted);
        found.push_back({name, *version, file});
    }
    std::ranges::sort(found, {}, &model_version::version);
    const fs::path alone = model_in(repository, folder, file_name);
    if (!alone.empty() && !found.empty()) refuse(folder, "there are both versions and a model next to them");
    if (!alone.empty()) found.push_back({name, 1, alone});
    if (found.empty() && !file_name.empty())
        refuse(folder, "there is no model: the configuration says that its file is VERSION/" + file_name);
    if (found.empty()) {
        refuse(folder,
               "there is no model: accepted are VERSION/model.onnx, model.onnx, and the same with the ending "
               ".safetensors, or .txt, .json, .ubj for trees");
    }
    return found;
}

// The file of the model's configuration; empty when there is none.
fs::path config_in(const root& repository, const fs::path& folder) {
    fs::path found;
    for (const char* const each : {"config.json", "config.yaml", "config.pbtxt"}) {
        if (!is_there(folder / each)) continue;
        if (!found.empty()) refuse(folder, "there are both " + found.filename().string() + " and " + each);
        found = folder / each;
    }
    if (is_there(folder / "config.yml"))
        refuse(folder / "config.yml", "a configuration is config.json, config.yaml or config.pbtxt");
    return found.empty() ? found : inside(repository, found);
}

void require_regular(const fs::path& file) {
    std::error_code failure;
    if (!fs::is_regular_file(file, failure))
        throw file_error(file, file_error::no_offset, "", failure ? failure.message() : "this is no file",
                         errc::io_failed);
}

}  // namespace

bool is_model_name(std::string_view name) noexcept {
    if (name.empty() || name.size() > 128 || !is_letter_or_digit(name.front())) return false;
    if (name == "stats") return false;  // GET /v2/models/stats is about all models
    return std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

model_config config_of(const model_files& files) {
    if (files.config.empty()) return {};
    model_config config = read_model_config(files.config);
    if (!config.name.empty() && config.name != files.name) {
        refuse(files.config, "the configuration is of a model " + in_quotes(config.name) + ", in the folder of " +
                                 in_quotes(files.name));
    }
    return config;
}

model_source model_source::repository(const fs::path& folder, bool follow_links) {
    std::error_code failure;
    model_source made;
    made.follows_links_ = follow_links;
    made.folder_ = fs::absolute(folder, failure);
    if (!failure && !fs::is_directory(made.folder_, failure) && !failure)
        failure = std::make_error_code(std::errc::not_a_directory);
    if (failure) {
        throw file_error(folder, file_error::no_offset, "", failure.message(), errc::io_failed);
    }
    return made;
}

model_source model_source::files(const std::vector<std::string>& words) {
    model_source made;
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        const fs::path file = equals == std::string::npos ? word : word.substr(equals + 1);
        const std::string name = equals == std::string::npos ? file.stem().string() : word.substr(0, equals);
        if (!is_model_name(name)) {
            throw error(errc::invalid_argument,
                        in_quotes(name) +
                            " is no name of a model, which has letters, digits, '.', '_' and '-'; "
                            "NAME=" +
                            printable(file.string()) + " gives the model another name");
        }
        require_regular(file);
        if (!made.files_.emplace(name, file).second) {
            throw error(errc::invalid_argument, "two models have the name " + in_quotes(name) + "; NAME=" +
                                                    printable(file.string()) + " gives one of them another name");
        }
    }
    return made;
}

std::vector<std::string> model_source::names() const {
    std::vector<std::string> all;
    all.reserve(files_.size());
    for (const auto& [name, file] : files_) all.push_back(name);
    if (!is_repository()) return all;
    for (const fs::directory_entry& each : fs::directory_iterator(folder_)) {
        const std::string name = each.path().filename().string();
        if (is_model_name(name) && each.is_directory()) all.push_back(name);
    }
    std::ranges::sort(all);
    return all;
}

bool model_source::has(std::string_view name) const {
    if (!is_model_name(name)) return false;
    if (!is_repository()) return files_.contains(name);
    std::error_code ignored;
    return fs::is_directory(folder_ / name, ignored);
}

model_files model_source::find(std::string_view name) const {
    if (!has(name)) throw error(errc::invalid_argument, "there is no model " + in_quotes(name));
    model_files found;
    found.name = name;
    if (!is_repository()) {
        found.versions = {{found.name, 1, files_.find(name)->second}};
        return found;
    }
    const fs::path folder = fs::canonical(folder_);
    const root all{folder, follows_links_};
    inside(all, folder / name);
    found.config = config_in(all, folder / name);
    // Only Triton's says the name of the model's file.
    std::string file_name;
    if (found.config.extension() == ".pbtxt") file_name = read_model_config(found.config).model_file;
    found.versions = versions_in(all, found.name, file_name);
    return found;
}

bool model_source::wants_resident(std::string_view name) const {
    try {
        return config_of(find(name)).resident;
    } catch (const error&) {
        return false;
    }
}

bool model_source::wants_resident() const {
    return std::ranges::any_of(names(), [&](const std::string& each) { return wants_resident(each); });
}

}  // namespace sluice::serve
