// SPDX-License-Identifier: Apache-2.0
// `sluice run` with archives, tables and pictures as inputs.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "io/support/expected_images.hpp"
#include "io/support/hostile_files.hpp"
#include "io/support/zip_files.hpp"
#include "sluice/exit_status.hpp"
#include "sluice/image_input.hpp"
#include "sluice/input_files.hpp"
#include "sluice/io/image_conversion.hpp"

namespace sluice::app::testing::input_tests {
namespace {

using io::testing::expected_floats;
using io::testing::image_data;
using io::testing::read_file;
using io::testing::zip_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";
const std::string cnn_logits = SLUICE_SOURCE_DIR "/data/digits_cnn_logits.npy";
const std::string plain = image_data / "plain.onnx";        // gives its input back: f32 [batch, 3, 12, 12]
const std::string pictures = image_data / "pictures.onnx";  // has metadata, too: size=16 crop=12 mean=... std=...
const std::string photo = image_data / "rgb.png";

bool reads_pictures() { return io::png_supported() && io::jpeg_supported(); }

void expect_refused(std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), {"run", "--device", "cpu"});
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(came.err, HasSubstr(why));
}

// What plain.onnx and pictures.onnx give: the input as they took it.
std::vector<float> input_of(std::vector<std::string> arguments) {
    const temporary_directory directory;
    const std::string output = directory / "output.npy";
    arguments.insert(arguments.begin(), {"run", "--device", "cpu", "--output", output});
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 0) << came;
    return came.exit_code == 0 ? read_array(output) : std::vector<float>();
}

// The digits as a table.
std::string write_table(const temporary_directory& directory, const std::string& header, char separator) {
    const io::npy_file file(digits().input);
    std::vector<float> numbers(file.view().data().size() / size_of(file.view().element_type()));
    file.view().read_rows(0, numbers);
    std::ofstream table(directory / "digits.csv");
    table << header << std::setprecision(std::numeric_limits<float>::max_digits10);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        table << numbers[i] << (i % digits_files::inputs == digits_files::inputs - 1 ? '\n' : separator);
    return directory / "digits.csv";
}

void expect_digits(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"run", "--device", "cpu", "--tolerance", "1e-4"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const outcome came = run_tool(all);
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, HasSubstr("at most 0.0001: passed"));
}

nn::value_info input(io::dtype type, std::vector<nn::dimension> shape) { return {"x", type, std::move(shape)}; }
nn::dimension of(std::size_t length) { return {.length = length, .name = {}}; }
const nn::dimension any{.length = {}, .name = "n"};

nn::any_tensor read_words(const std::string& word, const nn::value_info& as, const std::string& image = {}) {
    run_options options;
    options.model = "model.safetensors";
    options.image = image;
    const input_source source = source_of(word);
    return read_input(source, as, parse_input_options(options, {source}));
}

void expect_words_refused(const std::string& word, const nn::value_info& as, const std::string& why,
                          const std::string& image = {}) {
    try {
        read_words(word, as, image);
        ADD_FAILURE() << "was accepted; expected: " << why;
    } catch (const error& refused) {
        EXPECT_THAT(refused.what(), HasSubstr(why));
        EXPECT_EQ(status_of(refused), bad_input);
    }
}

}  // namespace

TEST(tool_tables, are_read_by_every_network) {
    const temporary_directory directory;
    const std::string table = write_table(directory, "", ',');
    expect_digits({digits().model, table, "--reference", digits().reference, "--labels", digits().labels});
    expect_digits({cnn, table, "--reference", cnn_logits});
    expect_digits({cnn, "--input", "input=" + table, "--reference", cnn_logits});
}

TEST(tool_tables, are_read_as_the_user_says) {
    const temporary_directory directory;
    std::string header = "0";
    for (std::size_t i = 1; i < digits_files::inputs; ++i) header += "|" + std::to_string(i);
    const std::string table = write_table(directory, header + "\n", '|');
    expect_digits({cnn, table, "--csv", "header=yes separator=|", "--reference", cnn_logits});
    expect_refused({cnn, table, "--csv", "separator=|"}, "line 1: counts its columns, as headers without names do");
    expect_refused({cnn, table, "--csv", "headers=yes"}, "--csv: 'headers=yes' is not known; known are header=yes");
    expect_refused({cnn, digits().input, "--csv", "header=yes"}, "--csv is for inputs that are tables");
}

TEST(tool_tables, are_refused_with_line_and_column) {
    const temporary_directory directory;
    const std::string wrong = directory.write("wrong.csv", "1,2\n3,x\n");
    for (const std::string& model : {digits().model, cnn})
        expect_refused({model, wrong}, wrong + ": at byte 6: line 2, column 2: 'x' is no number");
    const std::string narrow = directory.write("narrow.csv", "1,2\n");
    expect_refused({digits().model, narrow}, "rows have 2 values, the network takes 64");
}

TEST(tool_tables, take_the_shape_of_the_input) {
    const temporary_directory directory;
    const std::string column = directory.write("column.csv", "7\n8\n9\n");
    EXPECT_EQ(nn::to_string(read_words(column, input(io::dtype::i64, {any}))), "i64 [3]");
    EXPECT_EQ(nn::to_string(read_words(column, input(io::dtype::i64, {any, of(1)}))), "i64 [3, 1]");
    EXPECT_EQ(nn::to_string(read_words(column, {"x", io::dtype::f64, {}})), "f64 [3, 1]");
    const std::string lines = directory.write("lines.csv", "1,2,3,4,5,6\n7,8,9,10,11,12\n");
    EXPECT_EQ(nn::to_string(read_words(lines, input(io::dtype::u8, {any, of(2), of(3)}))), "u8 [2, 2, 3]");
    expect_words_refused(lines, input(io::dtype::f32, {any}), "columns: are 6; the input 'x' takes one number a line");
    expect_words_refused(lines, input(io::dtype::f32, {any, of(2), of(2)}),
                         "columns: are 6; the input 'x' takes lines of");
    expect_words_refused(lines, input(io::dtype::f32, {any, of(2), any}), "not all of which are known");
    expect_words_refused(lines, input(io::dtype::f32, {any, of(std::size_t(1) << 40), of(std::size_t(1) << 40)}),
                         "takes lines of");
    expect_words_refused(lines, input(io::dtype::f32, {}), "a single number without dimensions");
    expect_words_refused(lines, input(io::dtype::boolean, {any, of(6)}), "'2' is not in the range of bool");
}

TEST(tool_archives, are_read_by_the_name_of_a_member) {
    const temporary_directory directory;
    const std::string array = read_file(digits().input), labels = read_file(digits().labels);
    const std::string one = directory.write("one.npz", zip_bytes({{"anything.npy", array}, {"notes.txt", "hello"}}));
    const std::string two = directory.write("Two.NPZ", zip_bytes({{"y.npy", labels}, {"a:b.npy", array}}));
    const std::string own = directory.write("own.npz", zip_bytes({{"y.npy", labels}, {"input.npy", array}}));
    for (const std::string& word : {one, one + ":anything", two + ":a:b", own}) {
        expect_digits({cnn, word, "--reference", cnn_logits});
        expect_digits({cnn, "--input", "input=" + word, "--reference", cnn_logits});
        expect_digits({digits().model, word, "--reference", digits().reference});
    }
    expect_refused({cnn, two},
                   "there are several arrays, and none is called 'input': write FILE.npz:MEMBER, with one of "
                   "'y', 'a:b'");
    expect_refused({cnn, two + ":z"}, "there is no array 'z'; there are 'y', 'a:b'");
    expect_refused({cnn, two + ":"}, "the name of the array is empty");
    expect_refused({cnn, two + ":y"}, "must have two dimensions");
    directory.write("one.npz:anything", "");
    expect_refused({cnn, one + ":anything"}, "means an array in an archive, and is the name of a file too");
}

TEST(tool_archives, that_are_damaged_are_refused) {
    const temporary_directory directory;
    std::string file = zip_bytes({{"x.npy", read_file(digits().input)}});
    expect_refused({cnn, directory.write("cut.npz", file.substr(0, 5'000))}, "is no zip archive, or is cut off");
    file[2'000] = static_cast<char>(file[2'000] ^ 1);
    expect_refused({cnn, directory.write("wrong.npz", file)}, "CRC: of 'x' is not that of its data");
    expect_refused({cnn, directory.write("empty.npz", zip_bytes({}))}, "there is no array in it");
}

TEST(tool_archives, that_would_inflate_to_more_than_the_limit_need_little_memory) {
    const temporary_directory directory;
    const io::testing::zip_part bomb{"x.npy", std::string(3 << 20, '\0'), std::uint64_t{3} << 30, 8};
    const outcome came = run_tool({"run", cnn, directory.write("bomb.npz", zip_bytes({bomb})), "--device", "cpu"});
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_THAT(came.err, HasSubstr("'x' has 3221225472 bytes; compressed arrays may have 1073741824"));
#ifndef SLUICE_IS_SANITIZED
    EXPECT_LT(came.peak_memory_bytes, std::size_t{200} << 20);
#endif
}

TEST(tool_outputs, are_refused_under_the_names_of_other_formats) {
    const temporary_directory directory;
    for (const std::string name : {"o.npz", "o.CSV", "o.png", "o.npz:x"}) {
        expect_refused({cnn, digits().input, "--output", directory / name}, "outputs are NumPy arrays; name FILE.npy");
        expect_refused({digits().model, digits().input, "--output", directory / name}, "outputs are NumPy arrays");
    }
    EXPECT_EQ(directory.entries(), 0);
}

TEST(tool_images, become_the_input_by_the_networks_metadata) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    EXPECT_EQ(input_of({pictures, photo}), expected_floats("normalized"));
    EXPECT_EQ(input_of({plain, photo, "--image",
                        "size=16 crop=12x12 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 scale=1/255 layout=nchw"}),
              expected_floats("normalized"));
}

TEST(tool_images, become_the_input_by_what_the_user_says) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const io::image small = io::crop(io::resize(io::read_image(photo), {20, 16}), {12, 12});
    std::vector<float> expected(small.numbers.size());
    io::write_normalized(small, io::image_layout::nchw, {.scale = 2, .mean = {3}, .std = {4}}, expected);
    EXPECT_EQ(input_of({pictures, photo, "--image", "size=20x16 scale=2 mean=3 std=4"}), expected);
    expect_refused({plain, photo, "--image", "channels=grey size=12x12 layout=nchw"}, "channels: is 12x12 grey");
}

TEST(tool_images, of_a_folder_are_a_batch_in_the_order_of_their_names) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const temporary_directory directory;
    directory.write("b.PNG", read_file(photo));
    directory.write("a.jpeg", read_file(image_data / "rgb.jpg"));
    directory.write(".c.png", "hidden");
    directory.write("labels.txt", "no picture");
    std::filesystem::create_directory(directory / "d.png");
    std::vector<float> both = input_of({pictures, directory.path()});
    const std::vector<float> first = input_of({pictures, image_data / "rgb.jpg"});
    ASSERT_EQ(both.size(), 2 * first.size());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), both.begin()));
    both.erase(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(first.size()));
    EXPECT_EQ(both, expected_floats("normalized"));
}

TEST(tool_images, of_other_sizes_or_channels_are_refused_with_both) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    expect_refused({plain, photo}, photo +
                                       ": size: is 31x22 RGB; the input 'image' is f32 [batch, 3, 12, 12], pictures of "
                                       "12x12: add size=WxH to --image");
    expect_refused({plain, photo, "--image", "size=12"}, "size: is 16x12 RGB");
    expect_refused({plain, image_data / "grey.png", "--image", "size=12x12"},
                   "channels: is 12x12 grey; the input 'image' is f32 [batch, 3, 12, 12]: add channels=");
    expect_refused({pictures, image_data / "rgba.png"}, "a picture with alpha (RGBA) is not resized");
    expect_refused({pictures, photo, "--image", "crop=40"}, "a part of 40x40 cannot be cut out of a picture of 22x16");
    EXPECT_EQ(input_of({pictures, image_data / "rgba.png", "--image", "channels=rgb"}), expected_floats("normalized"));
    const temporary_directory directory;
    directory.write("a.png", read_file(photo));
    directory.write("b.png", read_file(image_data / "one_bit.png"));
    expect_refused({digits().model, directory.path(), "--image", "size=8x8 layout=nchw"}, "which has 192 numbers");
}

TEST(tool_images, are_refused_with_options_that_are_not_known) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const auto expect_words = [&](const std::string& words, const std::string& why) {
        expect_refused({pictures, photo, "--image", words}, why);
    };
    expect_words("sice=3", "--image: 'sice=3' is not known; known are size=WxH or size=N");
    expect_words("224x224", "--image: '224x224=' is not known");
    expect_words("size=0", "'size=0' is not known");
    expect_words("size=8x8x8", "'size=8x8x8' is not known");
    expect_words("size=99999999999999999999", "is not known");
    expect_words("crop=-1", "'crop=-1' is not known");
    expect_words("channels=bgr", "'channels=bgr' is not known");
    expect_words("layout=chw", "'layout=chw' is not known");
    expect_words("scale=1/0", "'scale=1/0' is not known");
    expect_words("scale=nan", "'scale=nan' is not known");
    expect_words("mean=1,,2", "'mean=1,,2' is not known");
    expect_words("mean=1,2", "mean has 2 numbers; the picture has 3 channels");
    expect_words("std=0", "'std=0' is not known");
    expect_words("std=1 std=2", "--image: 'std' is there twice");
    expect_refused({pictures, digits().input, "--image", "size=8x8"}, "--image is for inputs that are pictures");
}

TEST(tool_images, are_refused_with_metadata_that_is_not_known) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const temporary_directory directory;
    std::string network = read_file(pictures);
    const std::size_t at = network.find("sluice.image.crop");
    network.replace(at, 17, "sluice.image.cr0p");
    expect_refused({directory.write("wrong.onnx", network), photo},
                   "the network's metadata sluice.image: 'cr0p=12' is not known");
    network.replace(at, 17, "sluice.image.size");
    expect_refused({directory.write("twice.onnx", network), photo},
                   "the network's metadata sluice.image: 'size' is there twice");
}

TEST(tool_images, that_are_damaged_or_absent_are_refused) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const temporary_directory directory;
    expect_refused({pictures, directory.write("cut.png", read_file(photo).substr(0, 700))},
                   "PNG: is damaged or cut off");
    expect_refused({pictures, directory.write("a.jpg", "not a picture")}, "is neither a PNG nor a JPEG file");
    expect_refused({pictures, directory / "none.png"}, "none.png: open: ");
    const temporary_directory empty;
    empty.write("notes.txt", "");
    expect_refused({pictures, empty.path()}, "type: is a directory without pictures");
}

TEST(tool_images, that_are_huge_need_little_memory) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const std::string regressions = SLUICE_SOURCE_DIR "/tests/regressions/",
                      size = "a picture may have 134217728 pixels";
    const std::pair<const char*, std::string> files[] = {{"png/huge.png", size},
                                                         {"png/wide.png", size},
                                                         {"jpeg/huge.jpg", size},
                                                         {"png/absurd_text.png", "the file ends inside the picture"}};
    for (const auto& [name, why] : files) {
        const outcome came = run_tool({"run", pictures, regressions + name, "--device", "cpu"});
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_THAT(came.err, HasSubstr(why));
#ifndef SLUICE_IS_SANITIZED
        EXPECT_LT(came.peak_memory_bytes, std::size_t{200} << 20) << name;
#endif
    }
}

TEST(tool_images, become_rows_of_a_perceptron) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const temporary_directory directory;
    const std::string grey = image_data / "grey.png", by = "size=8x8 scale=16/255";
    for (const std::string name : {"digits.safetensors", "digits.onnx"}) {
        const std::string output = directory / (name + ".npy");
        const outcome came = run_tool({"run", std::string(SLUICE_SOURCE_DIR "/models/") + name, grey, "--image", by,
                                       "--device", "cpu", "--output", output});
        ASSERT_EQ(came.exit_code, 0) << came;
    }
    const std::vector<float> left = read_array(directory / "digits.safetensors.npy");
    const std::vector<float> right = read_array(directory / "digits.onnx.npy");
    ASSERT_EQ(left.size(), 10u);
    for (std::size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-4);
}

TEST(tool_images, take_the_type_and_the_layout_of_the_input) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const std::string small = image_data / "palette_alpha.png", rgb = "channels=rgb";
    const nn::any_tensor bytes = read_words(small, input(io::dtype::u8, {any, any, any, of(3)}), rgb);
    EXPECT_EQ(nn::to_string(bytes), "u8 [1, 2, 2, 3]");
    EXPECT_THAT(std::vector(bytes.values<std::uint8_t>().begin(), bytes.values<std::uint8_t>().end()),
                ::testing::ElementsAre(255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 255, 0));
    const nn::any_tensor halves = read_words(small, input(io::dtype::f16, {any, of(4), any, any}));
    EXPECT_EQ(nn::to_string(halves), "f16 [1, 4, 2, 2]");
    EXPECT_EQ(float(halves.values<half>()[0]), 1);
    EXPECT_EQ(float(halves.values<half>()[13]), float(half(128.0f / 255)));  // alpha of the second pixel
    EXPECT_EQ(nn::to_string(read_words(small, {"x", io::dtype::f32, {}}, "layout=nhwc")), "f32 [1, 2, 2, 4]");
    EXPECT_EQ(nn::to_string(read_words(small, input(io::dtype::f32, {any, of(12)}), rgb + " layout=nhwc")),
              "f32 [1, 12]");
}

TEST(tool_images, that_an_input_cannot_take_are_refused) {
    if (!reads_pictures()) GTEST_SKIP() << "there are no libraries for pictures here";
    const std::string wide = image_data / "rgb16.png";
    expect_words_refused(photo, {"x", io::dtype::f32, {}}, "does not say where the channels are");
    expect_words_refused(photo, input(io::dtype::f32, {any, of(3), any, of(3)}), "add layout=nchw or layout=nhwc");
    expect_words_refused(photo, input(io::dtype::f32, {any, of(2046)}), "add layout=nchw or layout=nhwc");
    expect_words_refused(photo, input(io::dtype::f32, {any, any, any}), "for inputs of four dimensions, or of two");
    expect_words_refused(photo, input(io::dtype::i64, {any, of(3), any, any}), "are for inputs of f32, f16 and u8");
    expect_words_refused(wide, input(io::dtype::u8, {any, of(3), any, any}), "has 16 bits a channel, the input is u8");
    expect_words_refused(photo, input(io::dtype::u8, {any, of(3), any, any}), "for inputs of floats; this one is u8",
                         "scale=1");
    const temporary_directory directory;
    directory.write("a.png", read_file(photo));
    directory.write("b.png", read_file(wide));
    expect_words_refused(directory.path(), input(io::dtype::f32, {any, of(3), any, any}), "is 5x4 RGB, and ");
}

}  // namespace sluice::app::testing::input_tests
