// SPDX-License-Identifier: Apache-2.0
// A folder of compiled modules, one file for each key. A key is everything that the module depends on, as text; the
// file holds the key too, so that two keys with one hash are never confused.
//
// A file that is cut, changed or of another key counts as missing. A folder that cannot be written keeps nothing. Both
// cost only time, so neither is an error. Files appear whole: processes may share a folder.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::cuda {

class compile_cache {
public:
    // An empty path: keeps nothing.
    explicit compile_cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

    // $XDG_CACHE_HOME/sluice, or ~/.cache/sluice; empty when the environment names neither.
    static std::filesystem::path default_folder();

    std::optional<std::vector<std::byte>> find(std::string_view key) const;
    // Creates the folder, for this user only, where it is missing. Returns whether the module is now kept.
    bool keep(std::string_view key, std::span<const std::byte> module) const;

    // The file of a key, whether it exists or not.
    std::filesystem::path file_of(std::string_view key) const;

private:
    std::filesystem::path folder_;
};

}  // namespace sluice::cuda
