// SPDX-License-Identifier: Apache-2.0
#include "image_input.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>

#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/file_memory.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse_options(const std::string& why) { throw error(errc::invalid_argument, why, {"run"}); }

[[noreturn]] void refuse_image(const std::filesystem::path& path, const char* field, const std::string& why) {
    throw file_error(path, file_error::no_offset, field, why);
}

std::string text_of(io::image_size size) { return std::to_string(size.width) + "x" + std::to_string(size.height); }

io::image_size size_of(const io::image& picture) { return {picture.width, picture.height}; }

std::string text_of(const nn::value_info& as) {
    std::string text = "the input " + in_quotes(as.name) + " is " + std::string(io::to_string(as.type)) + " [";
    for (const nn::dimension& each : as.shape.value_or(std::vector<nn::dimension>())) {
        if (!text.ends_with('[')) text += ", ";
        text += each.length ? std::to_string(*each.length) : each.name.empty() ? "?" : each.name;
    }
    return text + "]";
}

// What the network says of a picture; what it does not say is none.
struct image_place {
    io::image_layout layout = io::image_layout::nchw;
    bool is_layout_known = false;
    bool is_row = false;                 // a picture is a row of numbers
    std::optional<std::size_t> numbers;  // of that row
    std::optional<std::size_t> channels, height, width;
};

bool may_be_channels(const nn::dimension& each) {
    return each.length && (*each.length == 1 || *each.length == 3 || *each.length == 4);
}

image_place place_in(const nn::value_info& as, const image_options& options) {
    image_place made;
    const bool has_shape = as.shape.has_value();
    const std::size_t dimensions = has_shape ? as.shape->size() : 4;
    if (dimensions != 4 && dimensions != 2)
        refuse_options(text_of(as) + "; pictures are for inputs of four dimensions, or of two");
    const bool has_type = as.type == io::dtype::f32 || as.type == io::dtype::f16 || as.type == io::dtype::u8;
    if (!has_type) refuse_options(text_of(as) + "; pictures are for inputs of f32, f16 and u8");
    made.is_row = dimensions == 2;
    made.is_layout_known = options.layout.has_value();
    if (made.is_layout_known) made.layout = *options.layout;
    if (made.is_row) {
        made.numbers = (*as.shape)[1].length;
        return made;
    }
    if (!made.is_layout_known && has_shape && may_be_channels((*as.shape)[1]) != may_be_channels((*as.shape)[3])) {
        made.layout = may_be_channels((*as.shape)[1]) ? io::image_layout::nchw : io::image_layout::nhwc;
        made.is_layout_known = true;
    }
    if (!made.is_layout_known)
        refuse_options(text_of(as) +
                       ", which does not say where the channels are; add layout=nchw or layout=nhwc to --image");
    if (!has_shape) return made;
    const bool is_planar = made.layout == io::image_layout::nchw;
    made.channels = (*as.shape)[is_planar ? 1 : 3].length;
    made.height = (*as.shape)[is_planar ? 2 : 1].length;
    made.width = (*as.shape)[is_planar ? 3 : 2].length;
    return made;
}

// Reads the picture and does what the options say, before the numbers are normalized.
io::image prepared(const std::filesystem::path& path, const image_options& options) {
    io::image picture = io::read_image(path);
    try {
        if (options.channels) picture = io::convert(picture, *options.channels);
        if (options.size) picture = io::resize(picture, *options.size);
        if (options.shorter_side)
            picture = io::resize(picture, io::size_for_shorter_side(picture, *options.shorter_side));
        if (options.crop) picture = io::crop(picture, *options.crop);
    } catch (const file_error&) {
        throw;
    } catch (const error& failure) {  // it does not know the file
        refuse_image(path, "picture", failure.what());
    }
    return picture;
}

void require_fit(const std::filesystem::path& path, const io::image& picture, const nn::value_info& as,
                 const image_place& place) {
    const std::size_t channels = io::channels_of(picture.format);
    const std::string is = "is " + text_of(size_of(picture)) + " " + std::string(io::to_string(picture.format));
    const std::string other = "; " + text_of(as);
    if (place.channels && *place.channels != channels)
        refuse_image(path, "channels", is + other + ": add channels=grey, rgb or rgba to --image");
    const bool has_size =
        place.width.value_or(picture.width) == picture.width && place.height.value_or(picture.height) == picture.height;
    if (!has_size) {
        const auto length = [](std::optional<std::size_t> each) { return each ? std::to_string(*each) : "any"; };
        refuse_image(path, "size",
                     is + other + ", pictures of " + length(place.width) + "x" + length(place.height) +
                         ": add size=WxH to --image");
    }
    if (!place.is_row) return;
    if (channels != 1 && !place.is_layout_known)
        refuse_image(path, "layout", is + other + ": add layout=nchw or layout=nhwc to --image");
    const std::size_t numbers = picture.numbers.size();
    if (place.numbers.value_or(numbers) != numbers) {
        refuse_image(path, "size",
                     is + ", which has " + std::to_string(numbers) + " numbers" + other +
                         ": add size=WxH or channels=grey to --image");
    }
}

// Writes the picture's elements to `to`.
void write_elements(const std::filesystem::path& path, const io::image& picture, io::dtype type,
                    const image_place& place, const image_options& options, std::byte* to) {
    const std::size_t count = picture.numbers.size();
    if (type == io::dtype::u8) {
        if (options.by.scale || !options.by.mean.empty() || !options.by.std.empty())
            refuse_options("scale, mean and std of --image are for inputs of floats; this one is u8");
        if (picture.largest != 255) refuse_image(path, "depth", "has 16 bits a channel, the input is u8");
    }
    // Bytes, too, take the way through floats, which hold them exactly.
    const io::image_normalization by =
        type == io::dtype::u8 ? io::image_normalization{.scale = 1.0, .mean = {}, .std = {}} : options.by;
    if (type == io::dtype::f32) {
        io::write_normalized(picture, place.layout, by, {reinterpret_cast<float*>(to), count});
        return;
    }
    auto numbers = io::vector_for<float>(path, file_error::no_offset, "picture", count);
    io::write_normalized(picture, place.layout, by, numbers);
    for (std::size_t i = 0; i < count; ++i) {
        if (type == io::dtype::u8) {
            to[i] = static_cast<std::byte>(numbers[i]);
        } else {
            const std::uint16_t bits = half(numbers[i]).bits();
            std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
        }
    }
}

std::vector<std::size_t> shape_of(std::size_t count, const io::image& picture, const image_place& place) {
    const std::size_t channels = io::channels_of(picture.format);
    if (place.is_row) return {count, picture.numbers.size()};
    if (place.layout == io::image_layout::nchw) return {count, channels, picture.height, picture.width};
    return {count, picture.height, picture.width, channels};
}

}  // namespace

bool is_image_name(const std::filesystem::path& path) {
    std::string ending = path.extension().string();
    std::ranges::transform(ending, ending.begin(), [](unsigned char each) { return char(std::tolower(each)); });
    return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::filesystem::path> image_files(const std::filesystem::path& path) {
    std::error_code failure;
    if (!std::filesystem::is_directory(path, failure)) return {path};
    std::vector<std::filesystem::path> files;
    std::filesystem::directory_iterator at(path, failure);
    for (; !failure && at != std::filesystem::directory_iterator(); at.increment(failure)) {
        const std::filesystem::path& each = at->path();
        std::error_code absent;  // then it is refused when it is read
        const bool is_hidden = each.filename().native().starts_with('.');
        if (!is_hidden && is_image_name(each) && !std::filesystem::is_directory(each, absent)) files.push_back(each);
    }
    if (failure) throw file_error(path, file_error::no_offset, "open", failure.message(), errc::io_failed);
    if (files.empty())
        refuse_image(path, "type", "is a directory without pictures: no file in it ends in .png, .jpg or .jpeg");
    std::ranges::sort(files);
    return files;
}

nn::any_tensor read_images(const std::filesystem::path& path, const nn::value_info& as, const image_options& options) {
    const std::vector<std::filesystem::path> files = image_files(path);
    const image_place place = place_in(as, options);
    nn::any_tensor made;
    std::byte* to = nullptr;
    io::image_size first;
    io::image_format format{};
    for (const std::filesystem::path& file : files) {
        const io::image picture = prepared(file, options);
        require_fit(file, picture, as, place);
        if (!made) {
            first = size_of(picture);
            format = picture.format;
            made = nn::any_tensor::make_on_host(as.type, shape_of(files.size(), picture, place), to);
        }
        if (size_of(picture) != first || picture.format != format) {
            refuse_image(file, "size",
                         "is " + text_of(size_of(picture)) + " " + std::string(io::to_string(picture.format)) +
                             ", and " + files.front().string() + " " + text_of(first) + " " +
                             std::string(io::to_string(format)) + ": add size=WxH or channels=rgb to --image");
        }
        write_elements(file, picture, as.type, place, options, to);
        to += picture.numbers.size() * io::size_of(as.type);
    }
    return made;
}

}  // namespace sluice::app
