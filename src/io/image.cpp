// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/image.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "image_decoders.hpp"
#include "sluice/io/file_memory.hpp"
#include "sluice/io/mapped_file.hpp"

namespace sluice::io {
namespace {

template <std::size_t Count>
bool begins_with(std::span<const std::byte> file, const std::array<unsigned char, Count>& start) {
    return file.size() >= Count && std::ranges::equal(file.first(Count), start, {}, [](std::byte each) {
               return std::to_integer<unsigned char>(each);
           });
}

bool is_png(std::span<const std::byte> file) {
    return begins_with<8>(file, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'});
}
bool is_jpeg(std::span<const std::byte> file) { return begins_with<3>(file, {0xff, 0xd8, 0xff}); }

}  // namespace

std::string_view to_string(image_format format) noexcept {
    switch (format) {
        case image_format::grey: return "grey";
        case image_format::grey_alpha: return "grey with alpha";
        case image_format::rgb: return "RGB";
        case image_format::rgba: return "RGBA";
    }
    return "unknown";
}

bool is_image(std::span<const std::byte> file) noexcept { return is_png(file) || is_jpeg(file); }

void require_image_size(const std::filesystem::path& path, std::size_t width, std::size_t height, image_limits limits) {
    const std::string size = std::to_string(width) + "x" + std::to_string(height);
    if (width == 0 || height == 0) throw file_error(path, file_error::no_offset, "size", "is " + size);
    if (width > limits.side || height > limits.side || width > limits.pixels / height) {
        throw file_error(path, file_error::no_offset, "size",
                         "is " + size + "; a picture may have " + std::to_string(limits.pixels) + " pixels, and " +
                             std::to_string(limits.side) + " in a row or column");
    }
}

image make_image(const std::filesystem::path& path, std::size_t width, std::size_t height, image_format format,
                 std::uint16_t largest, image_limits limits) {
    require_image_size(path, width, height, limits);
    image made{.width = width, .height = height, .format = format, .largest = largest, .numbers = {}};
    made.numbers =
        vector_for<std::uint16_t>(path, file_error::no_offset, "pixels", width * height * channels_of(format));
    return made;
}

image decode_image(std::span<const std::byte> file, const std::filesystem::path& label, image_limits limits) {
    if (is_png(file)) return decode_png(file, label, limits);
    if (is_jpeg(file)) return decode_jpeg(file, label, limits);
    throw file_error(label, 0, "format", "is neither a PNG nor a JPEG file");
}

image read_image(const std::filesystem::path& path, image_limits limits) {
    const mapped_file file(path);
    image made = decode_image(file.bytes(), file.path(), limits);
    file.require_unchanged();
    return made;
}

}  // namespace sluice::io
