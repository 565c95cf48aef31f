// SPDX-License-Identifier: Apache-2.0
// Pictures as an input of a network: one file, or all of a folder as a batch.
#pragma once

#include <filesystem>
#include <vector>

#include "image_options.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::app {

// Whether the name is that of a picture: it ends in .png, .jpg or .jpeg, in any case.
bool is_image_name(const std::filesystem::path& path);

// The file, or the pictures in the folder, in the order of their names' bytes; other files there, hidden ones and
// folders are left out. Throws file_error when there are none.
std::vector<std::filesystem::path> image_files(const std::filesystem::path& path);

// For an input of four dimensions, f32, f16 or u8, or of two: then a picture is a row. Throws file_error that names the
// picture for one that does not fit the input or the ones before it, with both sizes; error (errc::invalid_argument)
// for options that do not fit.
nn::any_tensor read_images(const std::filesystem::path& path, const nn::value_info& as, const image_options& options);

}  // namespace sluice::app
