// SPDX-License-Identifier: Apache-2.0
// One decoder a format, around the distribution's library, or in its place where that was absent.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "sluice/io/image.hpp"

namespace sluice::io {

// As decode_image, for a file of this format.
image decode_png(std::span<const std::byte> file, const std::filesystem::path& path, image_limits limits);
image decode_jpeg(std::span<const std::byte> file, const std::filesystem::path& path, image_limits limits);

// Throws file_error for a size that is beyond the limits.
void require_image_size(const std::filesystem::path& path, std::size_t width, std::size_t height, image_limits limits);

// An image of this size with memory for its numbers. Throws file_error for one that is beyond the limits.
image make_image(const std::filesystem::path& path, std::size_t width, std::size_t height, image_format format,
                 std::uint16_t largest, image_limits limits);

}  // namespace sluice::io
