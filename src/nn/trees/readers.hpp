// SPDX-License-Identifier: Apache-2.0
// One reader for each library's files. All throw file_error.
#pragma once

#include <filesystem>
#include <string_view>

#include "document.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::trees {

model read_lightgbm(std::string_view text, const std::filesystem::path& path);
model read_xgboost(const document_value& file, const std::filesystem::path& path);
model read_catboost(const document_value& file, const std::filesystem::path& path);

}  // namespace sluice::nn::trees
