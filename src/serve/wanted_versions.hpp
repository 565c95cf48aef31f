// SPDX-License-Identifier: Apache-2.0
// Which versions of a model are served, and what their files have.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "sluice/serve/model_config.hpp"
#include "sluice/serve/model_files.hpp"

namespace sluice::serve {

// Those that the configuration asks for, ascending. Throws errc::invalid_argument for one that is not there.
std::vector<model_version> wanted_versions(const model_files& files, const model_config& config);

// The bytes of its file; where that is below `folder`, the model's own, of all files in the same folder, since weights
// may be there too; with server_options::beside_files. Files that cannot be asked for count nothing.
std::size_t bytes_of_version(const model_version& which, const std::filesystem::path& folder);

}  // namespace sluice::serve
