// SPDX-License-Identifier: Apache-2.0
// Pictures from PNG and JPEG files.
//
//     const io::image photo = io::read_image("photo.jpg");
//     photo.width, photo.height, photo.format                   // image_format::rgb
//
// Read: PNG of every depth and kind (palettes become colours, a colour that stands for transparency becomes alpha),
// interlaced too; JPEG in grey or in colour, progressive too. The numbers are those of the file: neither gamma, nor
// colour profiles, nor the orientation that cameras note are applied, as in Pillow and torchvision. Refused with a
// file_error: other formats, JPEG for printers (CMYK), pictures that are damaged or cut off, and such that are larger
// than the limit, before memory is requested for them.
//
// Need libpng and libjpeg when Sluice is built; png_supported and jpeg_supported say whether they were there.
//
// All functions here take constant time, but for those that read or decode a picture, which are linear in the bytes of
// the file and in the number of pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/base/file_error.hpp"

namespace sluice::io {

bool png_supported() noexcept;   // whether Sluice was built with libpng
bool jpeg_supported() noexcept;  // whether Sluice was built with libjpeg

// The value is the number of channels.
enum class image_format : std::uint8_t { grey = 1, grey_alpha = 2, rgb = 3, rgba = 4 };

// Numbers of a pixel: 1 to 4.
constexpr std::size_t channels_of(image_format format) noexcept { return static_cast<std::size_t>(format); }
// Whether the last channel is alpha.
constexpr bool has_alpha(image_format format) noexcept { return channels_of(format) % 2 == 0; }
// "grey", "grey with alpha", "RGB", "RGBA".
std::string_view to_string(image_format format) noexcept;

// Numbers from 0 to `largest`: rows from top to bottom, pixels from left to right, a pixel's channels side by side.
struct image {
    std::size_t width = 0;                    // in pixels
    std::size_t height = 0;                   // in pixels
    image_format format = image_format::rgb;  // the channels of a pixel
    std::uint16_t largest = 255;              // 65535 where the file has 16 bits a channel
    std::vector<std::uint16_t> numbers;       // width * height * channels_of(format)
};

// A small file can hold a picture of any size: the limits bound what a hostile one can make a program allocate, which
// is 8 bytes a pixel, and 6 more while a progressive JPEG is read.
struct image_limits {
    std::size_t pixels = std::size_t{1} << 27;  // of a picture; more are refused
    std::size_t side = 65'535;                  // width and height; a longer one is refused
};

// Whether these are the first bytes of a PNG or a JPEG file.
bool is_image(std::span<const std::byte> file) noexcept;

// Reads the file, and closes it. What it is, is decided by its contents and not by its name. Blocks. Throws file_error
// as above; errc::out_of_memory when the host does not have the memory; error (errc::unsupported) for a format for
// which the library was absent when Sluice was built.
image read_image(const std::filesystem::path& path, image_limits limits = {});

// The same from memory. Errors name `label` in place of a path.
image decode_image(std::span<const std::byte> file, const std::filesystem::path& label, image_limits limits = {});

}  // namespace sluice::io
