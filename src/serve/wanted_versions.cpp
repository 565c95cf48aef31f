// SPDX-License-Identifier: Apache-2.0
#include "serve/wanted_versions.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve {

namespace fs = std::filesystem;

std::vector<model_version> wanted_versions(const model_files& files, const model_config& config) {
    const auto is_there = [&](std::size_t version) {
        return std::ranges::find(files.versions, version, &model_version::version) != files.versions.end();
    };
    const auto refuse_missing = [&](std::size_t version) {
        throw error(errc::invalid_argument, "the configuration asks for version " + std::to_string(version) +
                                                " of model " + in_quotes(files.name) + ", which is not there");
    };
    for (const auto& [version, share] : config.shares)
        if (!is_there(version)) refuse_missing(version);
    if (config.all_versions) return files.versions;
    if (!config.versions) return {files.versions.back()};
    std::vector<model_version> wanted;
    for (const model_version& each : files.versions)
        if (std::ranges::find(*config.versions, each.version) != config.versions->end()) wanted.push_back(each);
    for (const std::size_t each : *config.versions)
        if (!is_there(each)) refuse_missing(each);
    return wanted;
}

std::size_t bytes_of_version(const model_version& which, const fs::path& folder) {
    std::error_code failure;
    const fs::path own = fs::weakly_canonical(folder, failure), has = which.file.parent_path();
    const bool is_own =
        !folder.empty() && std::mismatch(own.begin(), own.end(), has.begin(), has.end()).first == own.end();
    failure.clear();
    std::size_t bytes = server_options::beside_files;
    const auto add = [&](const fs::path& file) {
        std::error_code unknown;
        const std::uintmax_t its = fs::file_size(file, unknown);
        if (!unknown) bytes += its;
    };
    if (!is_own) {
        add(which.file);
        return bytes;
    }
    fs::directory_iterator each(which.file.parent_path(), failure);
    for (; !failure && each != fs::directory_iterator(); each.increment(failure)) {
        std::error_code unknown;
        if (each->is_regular_file(unknown)) add(each->path());
    }
    return bytes;
}

}  // namespace sluice::serve
