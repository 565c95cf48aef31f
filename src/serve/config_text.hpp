// SPDX-License-Identifier: Apache-2.0
// The text of a configuration as JSON values.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::serve {

// Throws file_error for text that is no JSON, for a key that is twice in one object, and for objects that are too deep.
nlohmann::json parse_config_json(const std::string& text, const std::filesystem::path& file);

// How deep objects and lists may be in each other.
inline constexpr std::size_t deepest_config = 8;

}  // namespace sluice::serve
