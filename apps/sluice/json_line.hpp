// SPDX-License-Identifier: Apache-2.0
// JSON for scripts, as one line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::app {

// Valid JSON whatever the texts in it are: bytes that are no UTF-8 are replaced, as a path need not be UTF-8. Only
// ASCII and nothing that a terminal acts on, as all other characters are escaped.
inline std::string json_line(const nlohmann::json& value) {
    return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace sluice::app
