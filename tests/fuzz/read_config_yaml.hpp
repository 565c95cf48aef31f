// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one configuration in YAML.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>

#include "serve/config_text.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::fuzz {

inline std::size_t depth_of(const nlohmann::json& value) {
    std::size_t deepest = 0;
    if (value.is_structured())
        for (const nlohmann::json& each : value) deepest = std::max(deepest, depth_of(each));
    return deepest + (value.is_structured() ? 1 : 0);
}

// A refusal is correct. What is accepted is no larger than its text, and not deeper than a configuration may be.
inline void read_config_yaml(std::span<const std::byte> file) {
    const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
    try {
        const nlohmann::json got = parse_config_yaml(text, "config.yaml");
        if (depth_of(got) > deepest_config) std::abort();
        if (got.dump().size() > 8 * text.size() + 64) std::abort();
    } catch (const file_error&) {
    }
}

}  // namespace sluice::serve::fuzz
