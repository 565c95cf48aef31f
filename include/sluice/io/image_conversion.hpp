// SPDX-License-Identifier: Apache-2.0
// Pictures as networks take them: converted, resized, cropped, and normalized to floats.
//
//     io::image photo = io::convert(io::read_image("photo.jpg"), io::image_format::rgb);
//     photo = io::crop(io::resize(photo, io::size_for_shorter_side(photo, 256)), {224, 224});
//     std::vector<float> x(3 * 224 * 224);
//     io::write_normalized(photo, io::image_layout::nchw, {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224,
//     0.225}}, x);
//
// The results are those of Pillow and torchvision: Image.convert, Resize (bilinear, antialiased), CenterCrop, ToTensor
// and Normalize.
//
// Thread safety: the functions depend only on their arguments.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/io/image.hpp"

namespace sluice::io {

// Of a picture, in pixels.
struct image_size {
    std::size_t width = 0;   // pixels of a row
    std::size_t height = 0;  // rows
    friend bool operator==(const image_size&, const image_size&) noexcept = default;
};

// To grey by the weights of ITU-R 601, from grey with three equal channels. Alpha is dropped, or is opaque where there
// was none. Costs O(pixels).
image convert(const image& from, image_format format);

// Bilinear; where the picture becomes smaller, each pixel is a weighted mean of all that it covers (antialiasing).
// Width and height need not keep their ratio. Throws error (errc::invalid_argument) for a size without pixels or with
// more than image_limits allow, and for a picture with alpha, whose colours must not be mixed regardless of it: convert
// it first. Costs O(pixels) of both pictures, and of one with the new width and the old height.
image resize(const image& from, image_size size);

// The size that has this shorter side, and the ratio of the picture's: torchvision's Resize of one number. Costs O(1).
image_size size_for_shorter_side(const image& of, std::size_t side);

// The part in the middle. Throws error (errc::invalid_argument) when the picture is smaller. Costs O(pixels) of the
// part.
image crop(const image& from, image_size size);

// Of several pictures: nchw has all numbers of a channel together, nhwc those of a pixel.
enum class image_layout { nchw, nhwc };

// (number * scale - mean) / std
struct image_normalization {
    std::optional<double> scale;    // none: 1 / image::largest, which gives 0 to 1
    std::vector<double> mean, std;  // none, one for all channels, or one for each
};

// Throws error: errc::shape_mismatch unless `target` has a float for each number of the picture; errc::invalid_argument
// for other counts of means or deviations than above, and for a deviation of zero. Costs O(pixels).
void write_normalized(const image& from, image_layout layout, const image_normalization& by, std::span<float> target);

}  // namespace sluice::io
