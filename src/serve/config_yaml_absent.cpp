// SPDX-License-Identifier: Apache-2.0
// Built without YAML.
#include "serve/config_text.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/serve/model_config.hpp"

namespace sluice::serve {

bool yaml_supported() noexcept { return false; }
std::string why_no_yaml() { return SLUICE_WHY_NO_YAML; }

nlohmann::json parse_config_yaml(const std::string&, const std::filesystem::path& file) {
    throw file_error(file, file_error::no_offset, "",
                     "this Sluice was built without YAML: " + why_no_yaml() + "; write config.json instead",
                     errc::unsupported);
}

}  // namespace sluice::serve
