// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy_texts.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/io/npy.hpp"

namespace sluice::io::npy_texts_tests {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::expect_refused;
using testing::label;
using testing::npy_bytes;
using testing::npy_dict;
using testing::temporary_directory;

npy_texts parse(const std::string& file) { return parse_npy_texts(bytes_of(file), label); }

std::string code_points(std::initializer_list<std::uint32_t> of) {
    std::string made;
    for (const std::uint32_t each : of) made.append(reinterpret_cast<const char*>(&each), sizeof(each));
    return made;
}

}  // namespace

TEST(npy_texts, reads_code_points_and_bytes) {
    const npy_texts wide =
        parse(npy_bytes(npy_dict("'<U2'", "False", "(2, 1)"), code_points({'a', 0, 0x20ac, 0x1f600})));
    EXPECT_THAT(wide.shape, ElementsAre(2, 1));
    EXPECT_THAT(wide.texts, ElementsAre("a", "\xe2\x82\xac\xf0\x9f\x98\x80"));
    const npy_texts narrow = parse(npy_bytes(npy_dict("'|S3'", "False", "(2,)"), std::string("abcd\0\0", 6)));
    EXPECT_THAT(narrow.texts, ElementsAre("abc", "d"));
    EXPECT_THAT(parse(npy_bytes(npy_dict("'<U0'", "False", "(2,)"), {})).texts, ElementsAre("", ""));
}

TEST(npy_texts, refuses_what_is_not_text_or_does_not_fit) {
    const auto refused = [](const std::string& file, const char* field, const char* why) {
        try {
            static_cast<void>(parse(file));
            ADD_FAILURE() << "was accepted";
        } catch (const file_error& failure) {
            EXPECT_THAT(failure.what(), ::testing::AllOf(::testing::HasSubstr(field), ::testing::HasSubstr(why)));
        }
    };
    refused(npy_bytes(npy_dict("'<f4'", "False", "(1,)"), "1234"), "descr", "not text");
    refused(npy_bytes(npy_dict("'<U1'", "True", "(1, 2)"), "12345678"), "fortran_order", "column-major");
    refused(npy_bytes(npy_dict("'<U1'", "False", "(2,)"), "1234"), "data", "another size");
    refused(npy_bytes(npy_dict("'<U1'", "False", "(1,)"), "12345"), "data", "another size");
    refused(npy_bytes(npy_dict("'<U1'", "False", "(1,)"), code_points({0xd800})), "data", "not a character");
    refused(npy_bytes(npy_dict("'<U1'", "False", "(1,)"), code_points({0x110000})), "data", "not a character");
    refused(npy_bytes(npy_dict("'<U0'", "False", "(99999999999,)"), {}), "shape", "too many empty texts");
    refused(npy_bytes(npy_dict("'<U9'", "False", "(9223372036854775807, 9)"), {}), "data", "another size");
}

TEST(npy_texts, are_written_as_they_are_read) {
    const temporary_directory directory;
    const auto path = directory.path() / "texts.npy";
    const std::vector<std::string_view> texts = {"", "caf\xc3\xa9", "\xf0\x9f\x98\x80", "longer than the others"};
    const std::vector<std::size_t> shape = {2, 2};
    write_npy_texts(path, shape, texts);
    const npy_texts read = read_npy_texts(path);
    EXPECT_EQ(read.shape, shape);
    EXPECT_THAT(read.texts, ::testing::ElementsAreArray(texts));
    EXPECT_THROW(npy_file{path}, file_error);
    for (const std::string_view wrong :
         {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf8\x90\x80\x80"}) {
        const std::vector<std::string_view> one = {wrong};
        EXPECT_THROW(write_npy_texts(path, std::vector<std::size_t>{1}, one), error);
    }
    EXPECT_THROW(write_npy_texts(path, std::vector<std::size_t>{3}, texts), error);
}

}  // namespace sluice::io::npy_texts_tests
