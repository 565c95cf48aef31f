// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io::npy_tests {
namespace {

using testing::bytes_of;
using testing::expect_error;
using testing::expect_refused;
using testing::float_bytes;
using testing::label;
using testing::npy_bytes;
using testing::npy_dict;
using testing::temporary_directory;

using shape = std::vector<std::size_t>;

constexpr std::size_t dict_offset = 10;  // in version 1.0

const std::filesystem::path data_directory = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/nn/data";

void parse(std::string_view file) { npy_view view(bytes_of(file), label); }

// A file with this dict must be refused at the first `part` of the dict.
void expect_dict_refused(const std::string& dict, std::string_view part, const std::string& field,
                         const std::string& why, std::string_view data = {}) {
    const auto at = dict.find(part);
    ASSERT_NE(at, std::string::npos) << part;
    expect_refused([&] { parse(npy_bytes(dict, data)); }, {dict_offset + at, field, why});
}

void expect_descr_refused(const std::string& descr, const std::string& why) {
    expect_dict_refused(npy_dict(descr, "False", "(2,)"), descr, "descr", why);
}

void expect_shape_refused(const std::string& text, std::string_view part, const std::string& why) {
    const std::string dict = npy_dict("'<f4'", "False", text);
    const auto start = dict.find("'shape': ") + 9;
    expect_refused([&] { parse(npy_bytes(dict, std::string(8, '\0'))); },
                   {dict_offset + dict.find(part, start), "shape", why});
}

// ---- what is read

TEST(npy, gives_type_shape_and_data) {
    const std::string dict = npy_dict("'<f4'", "False", "(2, 3)");
    const std::string file = npy_bytes(dict, float_bytes({1, 2, 3, 4, 5, 6}));
    const npy_view view(bytes_of(file), label);
    EXPECT_EQ(view.element_type(), dtype::f32);
    EXPECT_EQ(view.shape(), (shape{2, 3}));
    EXPECT_EQ(view.rows(), 2u);
    EXPECT_EQ(view.row_elements(), 3u);
    EXPECT_EQ(view.row_bytes(), 12u);
    EXPECT_EQ(view.data_offset(), dict_offset + dict.size());
    EXPECT_EQ(view.data().data(), bytes_of(file).data() + view.data_offset());
    EXPECT_EQ(view.values<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(view.path(), label);
}

TEST(npy, reads_versions_2_and_3) {
    for (const char version : {'\2', '\3'}) {
        const std::string file = npy_bytes(npy_dict("'<f4'", "False", "(1,)"), float_bytes({7}), version);
        EXPECT_EQ(npy_view(bytes_of(file), label).values<float>(), std::vector<float>{7});
    }
}

TEST(npy, reads_any_order_of_entries_and_any_spacing) {
    const std::string file =
        npy_bytes("{ \"shape\" :(1,2,),\n'fortran_order':False , 'descr':\"|u1\"} \n", std::string("\x01\x02"));
    EXPECT_EQ(npy_view(bytes_of(file), label).shape(), (shape{1, 2}));
}

TEST(npy, allows_scalars_and_arrays_without_elements) {
    const std::string scalar = npy_bytes(npy_dict("'<f4'", "False", "()"), float_bytes({7}));
    EXPECT_EQ(npy_view(bytes_of(scalar), label).rows(), 1u);
    EXPECT_EQ(npy_view(bytes_of(scalar), label).row_bytes(), 4u);

    const std::string no_rows = npy_bytes(npy_dict("'<f4'", "False", "(0, 5)"));
    EXPECT_EQ(npy_view(bytes_of(no_rows), label).rows(), 0u);
    EXPECT_EQ(npy_view(bytes_of(no_rows), label).row_bytes(), 20u);
    EXPECT_TRUE(npy_view(bytes_of(no_rows), label).values<float>().empty());

    const std::string no_columns = npy_bytes(npy_dict("'<f4'", "False", "(5, 0)"));
    EXPECT_EQ(npy_view(bytes_of(no_columns), label).rows(), 5u);
    EXPECT_EQ(npy_view(bytes_of(no_columns), label).row_bytes(), 0u);
}

TEST(npy, allows_fortran_order_in_one_dimension) {
    const std::string file = npy_bytes(npy_dict("'<f4'", "True", "(2,)"), float_bytes({1, 2}));
    EXPECT_EQ(npy_view(bytes_of(file), label).values<float>(), (std::vector<float>{1, 2}));
}

TEST(npy, converts_rows_to_float) {
    const std::string file =
        npy_bytes(npy_dict("'<i2'", "False", "(3, 2)"), std::string("\1\0\2\0\3\0\4\0\xff\xff\6\0", 12));
    const npy_view view(bytes_of(file), label);
    std::vector<float> rows(4);
    view.read_rows(1, rows);
    EXPECT_EQ(rows, (std::vector<float>{3, 4, -1, 6}));
    EXPECT_EQ(view.row_range(1, 1).data(), view.data().data() + 4);
}

TEST(npy, refuses_to_read_rows_that_are_not_there) {
    const std::string file = npy_bytes(npy_dict("'<f4'", "False", "(2, 1)"), float_bytes({1, 2}));
    const npy_view view(bytes_of(file), label);
    std::vector<float> rows(2);
    constexpr auto huge = std::numeric_limits<std::size_t>::max();
    expect_error([&] { view.read_rows(1, rows); }, errc::invalid_argument);
    expect_error([&] { view.read_rows(huge, rows); }, errc::invalid_argument);
    expect_error([&] { static_cast<void>(view.row_range(1, huge)); }, errc::invalid_argument);
    EXPECT_NO_THROW(view.read_rows(2, {}));
}

TEST(npy, refuses_to_read_part_of_a_row) {
    const std::string file = npy_bytes(npy_dict("'<f4'", "False", "(1, 2)"), float_bytes({1, 2}));
    const npy_view view(bytes_of(file), label);
    std::vector<float> rows(1);
    expect_error([&] { view.read_rows(0, rows); }, errc::shape_mismatch);
    const std::string empty = npy_bytes(npy_dict("'<f4'", "False", "(1, 0)"));
    expect_error([&] { npy_view(bytes_of(empty), label).read_rows(0, rows); }, errc::shape_mismatch);
}

TEST(npy, refuses_to_give_values_as_another_type) {
    const std::string dict = npy_dict("'<f4'", "False", "(1,)");
    const std::string file = npy_bytes(dict, float_bytes({1}));
    const npy_view view(bytes_of(file), label);
    expect_refused([&] { static_cast<void>(view.values<std::int32_t>()); },
                   {dict_offset + dict.find("'<f4'"), "descr", "the elements are f32, not i32"});
}

TEST(npy, forgets_rows_and_reads_them_again) {
    const temporary_directory directory;
    const auto path = directory.write("a", npy_bytes(npy_dict("'|u1'", "False", "(50, 1000)"), std::string(50'000, 3)));
    const npy_file file(path);
    file.forget_rows(0, 50);
    file.forget_rows(49, std::numeric_limits<std::size_t>::max());
    file.forget_rows(50, 1);
    std::vector<float> rows(50'000);
    file.view().read_rows(0, rows);
    EXPECT_EQ(rows, std::vector<float>(50'000, 3.f));
}

TEST(npy, names_the_path_of_the_file_that_it_refuses) {
    const temporary_directory directory;
    const auto path = directory.write("f", "not an array");
    expect_refused([&] { npy_file file(path); }, {0, "magic", "not a .npy file"}, path);
}

// ---- what NumPy wrote

TEST(npy, reads_what_numpy_wrote_in_every_type) {
    for (const std::string name : {"f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "b1"}) {
        const npy_file file(data_directory / (name + ".npy"));
        EXPECT_EQ(file.view().shape(), (shape{2, 3})) << name;
        std::vector<float> values(6);
        file.view().read_rows(0, values);
        const std::vector<float> expected =
            name == "b1" ? std::vector<float>{0, 1, 1, 1, 1, 1} : std::vector<float>{0, 1, 2, 3, 4, 5};
        EXPECT_EQ(values, expected) << name;
    }
}

TEST(npy, reads_what_numpy_wrote_in_every_version_and_shape) {
    EXPECT_EQ(npy_file(data_directory / "version2.npy").view().values<float>(), (std::vector<float>{1, 2}));
    EXPECT_EQ(npy_file(data_directory / "version3.npy").view().values<float>(), (std::vector<float>{1, 2}));
    EXPECT_EQ(npy_file(data_directory / "scalar.npy").view().shape(), shape{});
    EXPECT_EQ(npy_file(data_directory / "empty.npy").view().shape(), (shape{0, 4}));
    EXPECT_EQ(npy_file(data_directory / "cube.npy").view().shape(), (shape{2, 3, 4}));
}

TEST(npy, converts_special_values_as_numpy_does) {
    const npy_file half(data_directory / "special_f2.npy");
    const npy_file single(data_directory / "special_f4.npy");
    std::vector<float> values(half.view().rows());
    half.view().read_rows(0, values);
    const std::vector<float> expected = single.view().values<float>();
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << i;
        EXPECT_EQ(std::signbit(values[i]), std::signbit(expected[i])) << i;
        if (std::isnan(expected[i])) continue;
        EXPECT_EQ(values[i], expected[i]) << i;
    }
}

TEST(npy, refuses_what_numpy_wrote_of_other_kinds) {
    const auto refuse = [](const char* name, std::uint64_t offset, const char* field, const char* why) {
        expect_refused([&] { npy_file file(data_directory / name); }, {offset, field, why}, data_directory / name);
    };
    refuse("big_endian.npy", 20, "descr", "big-endian");
    refuse("fortran.npy", 44, "fortran_order", "column-major");
    refuse("object.npy", 20, "descr", "pickled");
    refuse("structured.npy", 20, "descr", "structured");
    refuse("complex.npy", 20, "descr", "unknown element type");
    refuse("text.npy", 20, "descr", "has texts as elements");
}

// ---- magic, version, length

TEST(npy, refuses_a_file_that_is_no_array) {
    expect_refused([] { parse(""); }, {0, "magic", "not a .npy file"});
    expect_refused([] { parse("\x93NUMP"); }, {0, "magic", "not a .npy file"});
    expect_refused([] { parse("PK\3\4 a zip file"); }, {0, "magic", "not a .npy file"});
}

TEST(npy, refuses_versions_that_do_not_exist) {
    const std::string dict = npy_dict("'<f4'", "False", "(0,)");
    for (const char version : {'\0', '\4', '\xff'}) {
        expect_refused([&] { parse(npy_bytes(dict, {}, version)); }, {6, "version", ".0 is not supported"});
    }
    expect_refused([&] { parse(npy_bytes(dict, {}, 1, 1)); }, {6, "version", "1.1 is not supported"});
}

TEST(npy, refuses_a_file_that_ends_inside_its_preamble) {
    const std::string file = npy_bytes(npy_dict("'<f4'", "False", "(0,)"), {}, 2);
    expect_refused([&] { parse(file.substr(0, 7)); }, {6, "version", "ends inside it"});
    expect_refused([&] { parse(file.substr(0, 8)); }, {8, "header length", "ends inside it"});
    expect_refused([&] { parse(file.substr(0, 11)); }, {8, "header length", "ends inside it"});
}

TEST(npy, refuses_a_header_length_past_the_end) {
    const std::string file = npy_bytes(npy_dict("'<f4'", "False", "(0,)"));
    expect_refused([&] { parse(file.substr(0, file.size() - 1)); }, {8, "header length", "reaches past the end"});
    const std::string absurd = std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14);
    expect_refused([&] { parse(absurd); }, {8, "header length", "4294967295 reaches past the end: 2 bytes follow"});
}

TEST(npy, refuses_an_absurd_header_length) {
    const std::string dict = npy_dict("'<f4'", "False", "(0,)") + std::string(2'000'000, ' ');
    expect_refused([&] { parse(npy_bytes(dict, {}, 2)); }, {8, "header length", "is more than 1048576"});
}

// ---- the dict

TEST(npy, refuses_a_header_that_is_no_dict) {
    expect_refused([] { parse(npy_bytes("")); }, {10, "header", "malformed: expected '{'"});
    expect_refused([] { parse(npy_bytes("[1]")); }, {10, "header", "malformed: expected '{'"});
    expect_refused([] { parse(npy_bytes("{")); }, {11, "header", "malformed: expected a string"});
    expect_refused([] { parse(npy_bytes("{descr: 1}")); }, {11, "header", "malformed: expected a string"});
    expect_refused([] { parse(npy_bytes("{'descr")); }, {12, "header", "the string does not end"});
    expect_refused([] { parse(npy_bytes("{'descr' '<f4'}")); }, {19, "descr", "malformed: expected ':'"});
}

TEST(npy, refuses_entries_without_a_comma_between) {
    const std::string dict = "{'descr': '<f4' 'shape': (1,)}";
    expect_dict_refused(dict, "'shape'", "header", "malformed: expected ',' or '}'");
}

TEST(npy, refuses_text_after_the_dict) {
    expect_dict_refused(npy_dict("'<f4'", "False", "(0,)") + " #", "#", "header", "something follows the dict");
}

TEST(npy, refuses_entries_that_are_missing) {
    expect_dict_refused("{'fortran_order': False, 'shape': (0,)}", "}", "descr", "missing");
    expect_dict_refused("{'descr': '<f4', 'shape': (0,)}", "}", "fortran_order", "missing");
    expect_dict_refused("{'descr': '<f4', 'fortran_order': False, }", "}", "shape", "missing");
}

TEST(npy, refuses_entries_that_it_does_not_know) {
    expect_dict_refused("{'descr': '<f4', 'order': 'C'}", "'order'", "header", "unknown entry 'order'");
}

TEST(npy, refuses_entries_that_appear_twice) {
    expect_dict_refused("{'shape': (0,), \"shape\": (0,)}", "\"shape\"", "shape", "appears twice");
}

TEST(npy, refuses_a_fortran_order_that_is_no_boolean) {
    expect_dict_refused(npy_dict("'<f4'", "0", "(0,)"), "0", "fortran_order", "expected True or False");
    expect_dict_refused(npy_dict("'<f4'", "'False'", "(0,)"), "'False'", "fortran_order", "expected True or False");
}

TEST(npy, refuses_fortran_order) {
    expect_dict_refused(npy_dict("'<f4'", "True", "(2, 1)"), "True", "fortran_order", "column-major arrays",
                        float_bytes({1, 2}));
}

// ---- descr

TEST(npy, refuses_big_endian_elements) { expect_descr_refused("'>f4'", "'>f4' is big-endian"); }

TEST(npy, refuses_pickled_objects) { expect_descr_refused("'|O'", "pickled Python objects"); }

TEST(npy, refuses_structured_elements) {
    expect_descr_refused("[('x', '<f4'), ('y', '<f4')]", "structured element types");
    expect_descr_refused("('<f4', (2,))", "structured element types");
    expect_descr_refused("'|V8'", "structured element types");
}

TEST(npy, refuses_elements_that_it_does_not_know) {
    for (const char* descr : {"'<c8'", "'<S4'", "'<U'", "'<U-1'", "'<U99999999999'", "'<M8[ns]'", "'<f16'", "'<f3'",
                              "'f4'", "'=f4'", "'|f4'"}) {
        expect_descr_refused(descr, "is an unknown element type");
    }
    expect_descr_refused("''", "'' is no element type");
    expect_descr_refused("'<'", "'<' is no element type");
}

TEST(npy, refuses_a_descr_that_is_no_string) {
    expect_descr_refused("4", "malformed: expected a string");
    expect_dict_refused(npy_dict("'<f\\x34'", "False", "(2,)"), "<f\\", "descr", "the string does not end");
}

// ---- shape

TEST(npy, refuses_a_shape_whose_size_overflows) {
    expect_shape_refused("(4294967296, 4294967296)", "(", "overflows");
    expect_shape_refused("(4611686018427387904,)", "(", "overflows");
    expect_shape_refused("(0, 4294967296, 4294967296)", "(", "overflows");
    expect_shape_refused("(18446744073709551616,)", "1844", "overflows");
}

TEST(npy, refuses_a_malformed_shape) {
    expect_shape_refused("2", "2", "malformed: expected '('");
    expect_shape_refused("[2]", "[", "malformed: expected '('");
    expect_shape_refused("(2)", ")", "'(n)' is no tuple");
    expect_shape_refused("(2 2)", "2)", "malformed: expected ',' or ')'");
    expect_shape_refused("(,)", ",", "malformed: expected a whole number");
    expect_shape_refused("(2.0,)", ".0", "malformed: expected ',' or ')'");
    expect_shape_refused("(+2,)", "+2", "malformed: expected a whole number");
    expect_shape_refused("('2',)", "'2'", "malformed: expected a whole number");
}

TEST(npy, refuses_a_shape_that_does_not_end) {
    const std::string dict = "{'shape': (1, ";
    expect_refused([&] { parse(npy_bytes(dict)); },
                   {dict_offset + dict.size(), "shape", "malformed: expected a whole number"});
}

TEST(npy, refuses_negative_dimensions) { expect_shape_refused("(2, -1)", "-1", "a dimension is negative"); }

TEST(npy, refuses_too_many_dimensions) {
    std::string text = "(0";
    for (int i = 1; i < 64; ++i) text += ",1";
    expect_shape_refused(text + ",7)", "7", "more than 64 dimensions");
}

// ---- data

TEST(npy, refuses_a_truncated_file) {
    const std::string file = npy_bytes(npy_dict("'<f4'", "False", "(2,)"), float_bytes({1, 2}));
    expect_refused([&] { parse(file.substr(0, file.size() - 1)); },
                   {file.size() - 1, "data", "truncated: 7 bytes of data, the shape takes 8"});
}

TEST(npy, refuses_bytes_after_the_data) {
    const std::string file = npy_bytes(npy_dict("'<f4'", "False", "(2,)"), float_bytes({1, 2}));
    expect_refused([&] { parse(file + "x"); }, {file.size(), "data", "too long: 9 bytes of data, the shape takes 8"});
}

}  // namespace
}  // namespace sluice::io::npy_tests
