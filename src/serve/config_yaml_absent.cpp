// SPDX-License-Identifier: Apache-2.0
// Built without yaml-cpp.
#include "serve/config_text.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/serve/model_config.hpp"

namespace sluice::serve {

bool yaml_supported() noexcept { return false; }

nlohmann::json parse_config_yaml(const std::string&, const std::filesystem::path& file) {
    throw file_error(file, file_error::no_offset, "",
                     "this Sluice was built without YAML (libyaml-cpp-dev); write config.json instead",
                     errc::unsupported);
}

}  // namespace sluice::serve
