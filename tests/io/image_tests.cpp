// SPDX-License-Identifier: Apache-2.0
// Pictures as Pillow reads them: tests/io/data/expected.npz, which tools/make_input_samples.py makes.
#include "sluice/io/image.hpp"

#include <gmock/gmock.h>

#include <string>

#include "io/support/expected_images.hpp"
#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io::image_tests {
namespace {

using testing::bytes_of;
using testing::expect_refused;
using testing::expected_numbers;
using ::testing::HasSubstr;
using testing::image_data;
using testing::label;
using testing::read_file;

void expect_read(const std::string& name, image_format format, std::uint16_t largest = 255) {
    SCOPED_TRACE(name);
    const image picture = read_image(image_data / name);
    EXPECT_EQ(picture.format, format);
    EXPECT_EQ(picture.largest, largest);
    EXPECT_EQ(picture.numbers.size(), picture.width * picture.height * channels_of(format));
    EXPECT_EQ(picture.numbers, expected_numbers(name));
}

void expect_picture_refused(const std::string& file, const std::string& why, image_limits limits = {}) {
    try {
        static_cast<void>(decode_image(bytes_of(file), label, limits));
        ADD_FAILURE() << "was accepted; expected: " << why;
    } catch (const file_error& refused) {
        EXPECT_THAT(refused.what(), ::testing::AllOf(::testing::StartsWith(label.string()), HasSubstr(why)));
        EXPECT_EQ(refused.code(), make_error_code(errc::bad_file));
    }
}

}  // namespace

TEST(png, is_read_in_every_kind) {
    if (!png_supported()) GTEST_SKIP() << "there is no libpng here";
    expect_read("rgb.png", image_format::rgb);
    expect_read("rgba.png", image_format::rgba);
    expect_read("grey.png", image_format::grey);
    expect_read("grey_alpha.png", image_format::grey_alpha);
    expect_read("palette.png", image_format::rgb);
    expect_read("palette_alpha.png", image_format::rgba);
    expect_read("one_bit.png", image_format::grey);
    expect_read("grey2.png", image_format::grey);
    expect_read("key.png", image_format::grey_alpha);
    expect_read("interlaced.png", image_format::rgb);
    expect_read("gamma.png", image_format::rgb);
}

TEST(png, is_read_with_16_bits) {
    if (!png_supported()) GTEST_SKIP() << "there is no libpng here";
    expect_read("rgb16.png", image_format::rgb, 65'535);
    expect_read("grey16.png", image_format::grey, 65'535);
}

TEST(png, is_refused_wherever_it_is_cut_off) {
    if (!png_supported()) GTEST_SKIP() << "there is no libpng here";
    const std::string file = read_file(image_data / "palette.png");
    for (std::size_t length = 8; length < file.size(); ++length) {
        SCOPED_TRACE(length);
        expect_picture_refused(file.substr(0, length), "PNG: is damaged or cut off");
    }
}

TEST(png, is_refused_with_a_wrong_byte_in_what_is_needed) {
    if (!png_supported()) GTEST_SKIP() << "there is no libpng here";
    const std::string good = read_file(image_data / "grey2.png");
    for (std::size_t at = 8; at < good.size(); ++at) {  // all of its chunks are needed
        SCOPED_TRACE(at);
        std::string file = good;
        file[at] = static_cast<char>(file[at] ^ 4);
        expect_picture_refused(file, "");
    }
}

TEST(png, is_refused_beyond_the_limits) {
    if (!png_supported()) GTEST_SKIP() << "there is no libpng here";
    const std::string file = read_file(image_data / "rgb.png");
    EXPECT_NO_THROW(static_cast<void>(decode_image(bytes_of(file), label, {.pixels = 31 * 22, .side = 31})));
    expect_picture_refused(file, "size: is 31x22; a picture may have 681 pixels", {.pixels = 681});
    expect_picture_refused(file, "30 in a row or column", {.side = 30});
}

TEST(jpeg, is_read_in_grey_and_in_colour) {
    if (!jpeg_supported()) GTEST_SKIP() << "there is no libjpeg here";
    expect_read("rgb.jpg", image_format::rgb);
    expect_read("fine.jpg", image_format::rgb);
    expect_read("grey.jpg", image_format::grey);
    expect_read("progressive.jpg", image_format::rgb);
}

TEST(jpeg, for_printers_is_refused) {
    if (!jpeg_supported()) GTEST_SKIP() << "there is no libjpeg here";
    expect_picture_refused(read_file(image_data / "cmyk.jpg"), "has colours for printers");
}

TEST(jpeg, is_refused_wherever_it_is_cut_off) {
    if (!jpeg_supported()) GTEST_SKIP() << "there is no libjpeg here";
    for (const char* name : {"rgb.jpg", "progressive.jpg"}) {
        const std::string file = read_file(image_data / name);
        for (std::size_t length = 3; length + 2 < file.size(); ++length) {
            SCOPED_TRACE(length);
            expect_picture_refused(file.substr(0, length), "JPEG: ");
        }
    }
}

TEST(jpeg, is_refused_beyond_the_limits) {
    if (!jpeg_supported()) GTEST_SKIP() << "there is no libjpeg here";
    const std::string file = read_file(image_data / "rgb.jpg");
    EXPECT_NO_THROW(static_cast<void>(decode_image(bytes_of(file), label, {.pixels = 31 * 22, .side = 31})));
    expect_picture_refused(file, "size: is 31x22; a picture may have 100 pixels", {.pixels = 100});
}

TEST(jpeg, with_scans_without_end_is_refused) {
    if (!jpeg_supported()) GTEST_SKIP() << "there is no libjpeg here";
    const auto file = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/regressions/jpeg/many_scans.jpg";
    expect_picture_refused(read_file(file), "has too many scans");
}

TEST(image, of_another_format_is_refused) {
    expect_picture_refused("GIF89a", "format: is neither a PNG nor a JPEG file");
    expect_picture_refused("", "format: is neither");
    EXPECT_FALSE(is_image(bytes_of("\x89PN")));
    EXPECT_TRUE(is_image(bytes_of("\xff\xd8\xff\xe0")));
}

TEST(image, is_what_its_contents_say) {
    if (!png_supported()) GTEST_SKIP() << "there is no libpng here";
    const testing::temporary_directory directory;
    const auto file = directory.write("photo.jpg", read_file(image_data / "grey.png"));
    EXPECT_EQ(read_image(file).numbers, expected_numbers("grey.png"));
}

TEST(image, names_the_library_that_is_missing) {
    if (!png_supported()) testing::expect_error([] { read_image(image_data / "rgb.png"); }, errc::unsupported);
    if (!jpeg_supported()) testing::expect_error([] { read_image(image_data / "rgb.jpg"); }, errc::unsupported);
    if (png_supported() && jpeg_supported()) GTEST_SKIP() << "both libraries are there";
}

}  // namespace sluice::io::image_tests
