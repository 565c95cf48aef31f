// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/csv.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io::csv_tests {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::expect_refused;
using testing::label;

csv_table parse_table(std::string_view text, dtype type = dtype::f32, csv_options options = {}) {
    return parse_csv(bytes_of(text), label, type, options);
}

template <typename T>
std::vector<T> values_of(const csv_table& table) {
    EXPECT_EQ(table.type, dtype_of<T>);
    EXPECT_EQ(table.bytes.size(), table.rows * table.columns * sizeof(T));
    std::vector<T> values(table.bytes.size() / sizeof(T));
    std::memcpy(values.data(), table.bytes.data(), table.bytes.size());
    return values;
}

template <typename T>
std::vector<T> read_as(std::string_view text, csv_options options = {}) {
    return values_of<T>(parse_table(text, dtype_of<T>, options));
}

void expect_table_refused(std::string_view text, std::uint64_t offset, const std::string& field, const std::string& why,
                          dtype type = dtype::f32, csv_options options = {}) {
    SCOPED_TRACE(text);
    expect_refused([&] { parse_table(text, type, options); }, {offset, field, why});
}

constexpr csv_options with_header{.separator = {}, .header = csv_header::present};
constexpr csv_options without_header{.separator = {}, .header = csv_header::absent};
constexpr csv_options with_separator(char each) { return {.separator = each, .header = csv_header::recognized}; }

}  // namespace

TEST(csv, gives_rows_columns_and_numbers) {
    const csv_table table = parse_table("1,2.5,-3e2\n4, 5 ,6\n");
    EXPECT_EQ(table.rows, 2u);
    EXPECT_EQ(table.columns, 3u);
    EXPECT_TRUE(table.names.empty());
    EXPECT_THAT(values_of<float>(table), ElementsAre(1, 2.5f, -300, 4, 5, 6));
}

TEST(csv, recognizes_a_header) {
    const csv_table table = parse_table("width,\"the \"\"height\"\"\", depth \n1,2,3\n");
    EXPECT_THAT(table.names, ElementsAre("width", "the \"height\"", "depth"));
    EXPECT_EQ(table.rows, 1u);
    EXPECT_THAT(values_of<float>(table), ElementsAre(1, 2, 3));
}

TEST(csv, is_told_whether_there_is_a_header) {
    EXPECT_THAT(read_as<float>("0,1\n2,3\n", with_header), ElementsAre(2, 3));
    EXPECT_THAT(read_as<float>("0,1\n2,3\n", without_header), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(read_as<float>("a,1\n2,3\n", with_header), ElementsAre(2, 3));
    expect_table_refused("a,b\n1,2\n", 0, "line 1, column 1", "'a' is no number", dtype::f32, without_header);
}

TEST(csv, refuses_a_first_line_that_may_be_either) {
    expect_table_refused("a,1\n2,3\n", 0, "line 1", "some of its cells are numbers and others are not");
    expect_table_refused("0,1,2\n7,8,9\n", 0, "line 1", "counts its columns");
    EXPECT_THAT(read_as<float>("0\n7\n"), ElementsAre(0, 7));  // one column of numbers
    EXPECT_THAT(read_as<float>("nan,inf\n"), ElementsAre(::testing::IsNan(), std::numeric_limits<float>::infinity()));
}

TEST(csv, recognizes_the_separator) {
    EXPECT_THAT(read_as<float>("1;2\n3;4"), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(read_as<float>("1\t2\n3\t4"), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(read_as<float>(" 1  2 \n3 4\n"), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(read_as<float>("1\n2\n"), ElementsAre(1, 2));
}

TEST(csv, is_told_the_separator) {
    EXPECT_THAT(read_as<float>("1|2\n3|4\n", with_separator('|')), ElementsAre(1, 2, 3, 4));
    for (const char wrong : {'.', '-', '5', 'e', '"', '\n', '\r', '\0', '#'}) {
        testing::expect_error([&] { parse_table("1", dtype::f32, with_separator(wrong)); }, errc::invalid_argument);
    }
}

TEST(csv, takes_any_end_of_line_and_a_byte_order_mark) {
    EXPECT_THAT(read_as<float>("\xef\xbb\xbf"
                               "1,2\r\n3,4\r\n\r\n\n"),
                ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(read_as<float>("# made by numpy\n#\n1 2\n3 4"), ElementsAre(1, 2, 3, 4));
}

TEST(csv, reads_numbers_in_quotes) { EXPECT_THAT(read_as<float>("\"1\", \" 2 \" ,3\n"), ElementsAre(1, 2, 3)); }

TEST(csv, reads_floats_as_the_nearest_ones) {
    EXPECT_THAT(read_as<float>("0.1,+7,16777217,1e-50,-1e-50,.5,5.\n"), ElementsAre(0.1f, 7, 16777216, 0, 0, 0.5f, 5));
    EXPECT_THAT(read_as<double>("0.1,1e-400,1e308\n"), ElementsAre(0.1, 0, 1e308));
    EXPECT_THAT(read_as<double>("0.0001e-320,1000e-999,-1e-99999999999999999999,0e99999999999999999999\n"),
                ElementsAre(0, 0, 0, 0));
    const std::string zeros(400, '0');
    EXPECT_THAT(read_as<double>("0." + zeros + "1\n"), ElementsAre(0));
    EXPECT_THAT(read_as<double>("0." + zeros + "1e401\n"), ElementsAre(1));
    expect_table_refused("5\n1" + zeros + "\n", 2, "line 2, column 1", "range of f64", dtype::f64);
    expect_table_refused("5\n0.1e310\n", 2, "line 2, column 1", "range of f64", dtype::f64);
    expect_table_refused("5\n1e99999999999999999999\n", 2, "line 2, column 1", "range of f64", dtype::f64);
    const std::vector<double> special = read_as<double>("NaN,-nan,INF,-Infinity\n");
    EXPECT_TRUE(std::isnan(special[0]) && std::isnan(special[1]));
    EXPECT_THAT((std::vector{special[2], special[3]}),
                ElementsAre(std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()));
    const std::vector<half> halves = read_as<half>("65504,1e-8,inf\n");
    EXPECT_EQ(float(halves[0]), 65504);
    EXPECT_EQ(float(halves[1]), 0);
    EXPECT_TRUE(std::isinf(float(halves[2])));
    EXPECT_EQ(float(read_as<bfloat16>("1.5\n")[0]), 1.5f);
}

TEST(csv, reads_integers_exactly) {
    EXPECT_THAT(read_as<std::int64_t>("9223372036854775807,-9223372036854775808,3.0,-4.\n"),
                ElementsAre(std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(), 3, -4));
    EXPECT_THAT(read_as<std::uint64_t>("18446744073709551615\n"), ElementsAre(~std::uint64_t{0}));
    EXPECT_THAT(read_as<std::int8_t>("-128,127\n"), ElementsAre(-128, 127));
    EXPECT_THAT(parse_table("1,0,true,FALSE\n", dtype::boolean).bytes,
                ElementsAre(std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}));
}

TEST(csv, refuses_numbers_that_the_type_cannot_hold) {
    expect_table_refused("1\n300\n", 2, "line 2, column 1", "'300' is not in the range of u8", dtype::u8);
    expect_table_refused("1,-1\n", 2, "line 1, column 2", "'-1' is not in the range of u32", dtype::u32);
    expect_table_refused("1\n1.5\n", 2, "line 2, column 1", "'1.5' is not written as a whole number, and must be i64",
                         dtype::i64);
    expect_table_refused("1\nnan\n", 2, "line 2, column 1", "'nan' is not in the range of i32", dtype::i32);
    expect_table_refused("1\n9223372036854775808\n", 2, "line 2, column 1", "range of i64", dtype::i64);
    expect_table_refused("1\n9223372036854775807.5\n", 2, "line 2, column 1", "not written as a whole", dtype::i64);
    expect_table_refused("1\n1e3\n", 2, "line 2, column 1", "'1e3' is not written as a whole number", dtype::i64);
    expect_table_refused("1\n-7.0\n", 2, "line 2, column 1", "range of u8", dtype::u8);
    expect_table_refused("1\n1e39\n", 2, "line 2, column 1", "'1e39' is not in the range of f32");
    expect_table_refused("1\n1e400\n", 2, "line 2, column 1", "range of f64", dtype::f64);
    expect_table_refused("1\n65520\n", 2, "line 2, column 1", "range of f16", dtype::f16);
    expect_table_refused("1\n2\n", 2, "line 2, column 1", "'2' is not in the range of bool", dtype::boolean);
}

TEST(csv, refuses_cells_that_are_no_numbers) {
    expect_table_refused("1,2\n3,x\n", 6, "line 2, column 2", "'x' is no number");
    expect_table_refused("1,2\n3,\n", 6, "line 2, column 2", "is empty; write nan where a number is missing");
    expect_table_refused("1,2\n3,\n", 6, "line 2, column 2", "is empty, and must be i32", dtype::i32);
    expect_table_refused("1\nNA\n", 2, "line 2, column 1", "'NA' is no number");
    expect_table_refused("1\n0x10\n", 2, "line 2, column 1", "'0x10' is no number");
    expect_table_refused("1\n1_000\n", 2, "line 2, column 1", "'1_000' is no number");
    expect_table_refused("1\n++1\n", 2, "line 2, column 1", "'++1' is no number");
    expect_table_refused("1;2\n1,5;2\n", 4, "line 2, column 1", "'1,5' is no number; numbers have a decimal point");
    expect_table_refused(std::string_view("1,2\n3,\0\n", 8), 6, "line 2, column 2", "'\\x00' is no number");
    expect_table_refused("1,2\n3,\x1b[2J\n", 6, "line 2, column 2", "'\\x1b[2J' is no number");
}

TEST(csv, refuses_lines_of_other_lengths) {
    expect_table_refused("1,2\n3\n", 4, "line 2", "has 1 cells, the first line has 2");
    expect_table_refused("1,2\n3,4,5\n", 8, "line 2, column 3", "is one cell too many: the first line has 2");
    expect_table_refused("1,2\n\n3,4\n", 4, "line 2", "is empty");
    expect_table_refused("a,b,c\n1,2\n", 6, "line 2", "has 2 cells, the first line has 3");
    expect_table_refused("1,2\n# note\n3,4\n", 4, "line 2, column 1", "'# note' is no number");
}

TEST(csv, refuses_quotes_that_do_not_fit) {
    expect_table_refused("1,2\n3,\"4\n5,6\n", 6, "line 2, column 2", "the quote does not end in its line");
    expect_table_refused("1,2\n3,\"4\"5\n", 6, "line 2, column 2", "something follows the quoted text");
    expect_table_refused("1,2\n3,4\"\n", 6, "line 2, column 2", "is no number");
}

TEST(csv, refuses_files_without_rows) {
    for (const char* empty : {"", "\n\n", "\r\n", "# only a comment\n", "\xef\xbb\xbf"}) {
        try {
            parse_table(empty);
            ADD_FAILURE() << "was accepted";
        } catch (const file_error& refused) {
            EXPECT_EQ(refused.field(), "rows");
        }
    }
    expect_table_refused("a,b\n", 4, "rows", "there are none below the header");
    expect_table_refused(std::string_view("\xff\xfe"
                                          "1\0",
                                          4),
                         0, "text", "is in UTF-16; save it in UTF-8");
}

TEST(csv, needs_memory_for_the_cells_that_can_be_there_only) {
    // A first line of 50,000 cells and 200,000 lines without any: ten billion cells, if the lines were as long.
    std::string text = "1";
    for (int i = 1; i < 50'000; ++i) text += ",1";
    const std::size_t first = text.size();
    text += std::string(200'000, '\n') + "1";
    expect_table_refused(text, first + 1, "line 2", "is empty", dtype::f64);
}

TEST(csv, reads_files) {
    const testing::temporary_directory directory;
    const csv_table table = read_csv(directory.write("t.csv", "a,b\n1,2\n"), dtype::i32);
    EXPECT_THAT(values_of<std::int32_t>(table), ElementsAre(1, 2));
    const auto wrong = directory.write("wrong.csv", "1\nx\n");
    expect_refused([&] { read_csv(wrong, dtype::f32); }, {2, "line 2, column 1", "'x' is no number"}, wrong);
}

}  // namespace sluice::io::csv_tests
