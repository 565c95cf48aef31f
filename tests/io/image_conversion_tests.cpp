// SPDX-License-Identifier: Apache-2.0
// Pictures converted, resized and normalized as Pillow and torchvision do it.
#include "sluice/io/image_conversion.hpp"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "io/support/expected_images.hpp"
#include "io/support/hostile_files.hpp"

namespace sluice::io::image_conversion_tests {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using testing::expected_floats;
using testing::expected_numbers;

image picture_of(const std::string& name, std::size_t width, std::size_t height, image_format format) {
    return {.width = width, .height = height, .format = format, .largest = 255, .numbers = expected_numbers(name)};
}
image photo() { return picture_of("rgb.png", 31, 22, image_format::rgb); }

image small(std::size_t width, std::size_t height, image_format format, std::vector<std::uint16_t> numbers) {
    return {.width = width, .height = height, .format = format, .largest = 255, .numbers = std::move(numbers)};
}

std::vector<float> normalized(const image& from, image_layout layout, const image_normalization& by) {
    std::vector<float> floats(from.numbers.size());
    write_normalized(from, layout, by, floats);
    return floats;
}

}  // namespace

TEST(image_conversion, gives_the_grey_of_pillow) {
    EXPECT_EQ(convert(photo(), image_format::grey).numbers, expected_numbers("grey_of_rgb"));
}

TEST(image_conversion, goes_between_all_formats) {
    const image grey = small(2, 1, image_format::grey, {7, 255});
    EXPECT_THAT(convert(grey, image_format::rgb).numbers, ElementsAre(7, 7, 7, 255, 255, 255));
    EXPECT_THAT(convert(grey, image_format::grey_alpha).numbers, ElementsAre(7, 255, 255, 255));
    EXPECT_THAT(convert(grey, image_format::grey).numbers, ElementsAre(7, 255));
    const image rgba = small(1, 1, image_format::rgba, {10, 20, 30, 40});
    EXPECT_THAT(convert(rgba, image_format::rgb).numbers, ElementsAre(10, 20, 30));
    EXPECT_THAT(convert(rgba, image_format::grey).numbers, ElementsAre(18));
    EXPECT_THAT(convert(rgba, image_format::grey_alpha).numbers, ElementsAre(18, 40));
    const image pair = small(1, 1, image_format::grey_alpha, {9, 3});
    EXPECT_THAT(convert(pair, image_format::rgba).numbers, ElementsAre(9, 9, 9, 3));
    image wide = small(1, 1, image_format::rgb, {65535, 65535, 65535});
    wide.largest = 65535;
    EXPECT_THAT(convert(wide, image_format::grey).numbers, ElementsAre(65535));
    EXPECT_EQ(convert(wide, image_format::rgba).numbers.back(), 65535);
}

TEST(image_resize, gives_the_pixels_of_pillow) {
    const std::pair<std::size_t, std::size_t> sizes[] = {{8, 6},  {13, 40}, {62, 44}, {5, 22},
                                                         {31, 7}, {1, 1},   {30, 21}, {62, 8}};
    for (const auto& [width, height] : sizes) {
        const std::string name = std::to_string(width) + "x" + std::to_string(height);
        SCOPED_TRACE(name);
        const image made = resize(photo(), {width, height});
        EXPECT_EQ(made.width, width);
        EXPECT_EQ(made.height, height);
        EXPECT_EQ(made.numbers, expected_numbers(name));
    }
    EXPECT_EQ(resize(picture_of("grey.png", 31, 22, image_format::grey), {8, 6}).numbers, expected_numbers("grey_8x6"));
}

TEST(image_resize, leaves_the_same_size_and_one_colour_as_they_are) {
    EXPECT_EQ(resize(photo(), {31, 22}).numbers, photo().numbers);
    image plain = small(9, 5, image_format::grey, std::vector<std::uint16_t>(45, 65'535));
    plain.largest = 65'535;
    for (const std::uint16_t number : resize(plain, {4, 13}).numbers) EXPECT_EQ(number, 65'535);
}

TEST(image_resize, refuses_alpha_and_absurd_sizes) {
    const image alpha = small(1, 1, image_format::rgba, {1, 2, 3, 4});
    expect_error([&] { resize(alpha, {2, 2}); }, errc::invalid_argument);
    for (const image_size& size : {image_size{0, 1}, {1, 0}, {65'536, 1}, {65'535, 65'535}}) {
        expect_error([&] { resize(photo(), size); }, errc::invalid_argument);
    }
}

TEST(image_resize, finds_the_size_of_a_shorter_side) {
    EXPECT_EQ(size_for_shorter_side(small(640, 480, image_format::grey, {}), 256), (image_size{341, 256}));
    EXPECT_EQ(size_for_shorter_side(small(480, 641, image_format::grey, {}), 256), (image_size{256, 341}));
    EXPECT_EQ(size_for_shorter_side(small(5, 5, image_format::grey, {}), 7), (image_size{7, 7}));
}

TEST(image_crop, takes_the_middle_as_torchvision_does) {
    const image row = small(5, 1, image_format::grey, {0, 1, 2, 3, 4});
    EXPECT_THAT(crop(row, {3, 1}).numbers, ElementsAre(1, 2, 3));
    EXPECT_THAT(crop(row, {4, 1}).numbers, ElementsAre(0, 1, 2, 3));  // 0.5 is rounded to 0
    EXPECT_THAT(crop(row, {2, 1}).numbers, ElementsAre(2, 3));        // 1.5 to 2
    const image tall = small(1, 4, image_format::grey_alpha, {0, 9, 1, 9, 2, 9, 3, 9});
    EXPECT_THAT(crop(tall, {1, 2}).numbers, ElementsAre(1, 9, 2, 9));
    expect_error([&] { crop(row, {6, 1}); }, errc::invalid_argument);
    expect_error([&] { crop(row, {3, 2}); }, errc::invalid_argument);
    expect_error([&] { crop(row, {0, 1}); }, errc::invalid_argument);
}

TEST(image_normalization, gives_the_floats_of_torchvision) {
    EXPECT_EQ(normalized(photo(), image_layout::nchw, {}), expected_floats("rgb_floats"));
    const image made = crop(resize(photo(), size_for_shorter_side(photo(), 16)), {12, 12});
    const image_normalization by{.scale = {}, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
    EXPECT_EQ(normalized(made, image_layout::nchw, by), expected_floats("normalized"));
}

TEST(image_normalization, is_what_networks_for_photographs_take) {
    if (!png_supported()) GTEST_SKIP() << "there is no libpng here";
    const std::filesystem::path file = testing::image_data / "rgb.png";
    io::image photo = io::convert(io::read_image(file), io::image_format::rgb);
    photo = io::crop(io::resize(photo, io::size_for_shorter_side(photo, 16)), {12, 12});
    std::vector<float> x(3 * 12 * 12);  // [1, 3, 12, 12]
    const io::image_normalization by{.scale = {}, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
    io::write_normalized(photo, io::image_layout::nchw, by, x);

    EXPECT_EQ(x, expected_floats("normalized"));
}

TEST(image_normalization, divides_every_number_as_a_float) {
    std::vector<std::uint16_t> all(256);
    std::vector<float> expected;
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::uint16_t>(i);
        expected.push_back(static_cast<float>(i) / 255.0f);
    }
    EXPECT_EQ(normalized(small(16, 16, image_format::grey, all), image_layout::nhwc, {}), expected);
}

TEST(image_normalization, has_two_layouts_and_any_scale) {
    const image two = small(2, 1, image_format::rgb, {1, 2, 3, 4, 5, 6});
    EXPECT_THAT(normalized(two, image_layout::nchw, {.scale = 1, .mean = {}, .std = {}}),
                ElementsAre(1, 4, 2, 5, 3, 6));
    EXPECT_THAT(normalized(two, image_layout::nhwc, {.scale = 2, .mean = {1}, .std = {2}}),
                ElementsAre(0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f));
    image wide = small(1, 1, image_format::grey, {65'535});
    wide.largest = 65'535;
    EXPECT_THAT(normalized(wide, image_layout::nchw, {}), ElementsAre(1));
}

TEST(image_normalization, refuses_what_does_not_fit_the_picture) {
    const image two = small(2, 1, image_format::rgb, {1, 2, 3, 4, 5, 6});
    expect_error([&] { normalized(two, image_layout::nchw, {.scale = {}, .mean = {1, 2}, .std = {}}); },
                 errc::invalid_argument);
    expect_error([&] { normalized(two, image_layout::nchw, {.scale = {}, .mean = {}, .std = {0}}); },
                 errc::invalid_argument);
    std::vector<float> short_by_one(5);
    expect_error([&] { write_normalized(two, image_layout::nchw, {}, short_by_one); }, errc::shape_mismatch);
}

}  // namespace sluice::io::image_conversion_tests
