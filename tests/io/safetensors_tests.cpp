// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io {
namespace {

using testing::bytes_of;
using testing::expect_refused;
using testing::float_bytes;
using testing::label;
using testing::little_endian;
using testing::offset_in;
using testing::safetensors_bytes;
using testing::temporary_directory;

const std::filesystem::path data_directory = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/nn/data";

void parse(std::string_view file) { safetensors_view view(bytes_of(file), label); }

// A header with this JSON must be refused at `part` (the first one, or the first after `from`).
void expect_header_refused(std::string_view json, std::string_view part, const std::string& field,
                           const std::string& why, std::size_t from = 0) {
    expect_refused([&] { parse(safetensors_bytes(json, std::string(16, '\0'))); },
                   {offset_in(json, part, from), field, why});
}

// One tensor "w" whose object has these members.
std::string one_tensor(std::string_view members) { return std::string("{\"w\":{").append(members).append("}}"); }

// Two tensors of f32 with these lengths and offsets.
std::string two_tensors(std::string_view a_shape, std::string_view a, std::string_view b_shape, std::string_view b) {
    std::string json = R"({"a":{"dtype":"F32","shape":)";
    json.append(a_shape).append(R"(,"data_offsets":)").append(a);
    json.append(R"(},"b":{"dtype":"F32","shape":)").append(b_shape).append(R"(,"data_offsets":)").append(b);
    return json.append("}}");
}

// ---- what is read

TEST(safetensors, gives_name_type_shape_offset_and_bytes) {
    const std::string json = R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
    const std::string file = safetensors_bytes(json, float_bytes({1, 2, 3, 4}));
    const safetensors_view view(bytes_of(file), label);
    ASSERT_EQ(view.tensors().size(), 1u);
    const tensor_entry& tensor = view.tensors().front();
    EXPECT_EQ(tensor.name, "w");
    EXPECT_EQ(tensor.type, dtype::f32);
    EXPECT_EQ(tensor.shape, (std::vector<std::size_t>{2, 2}));
    EXPECT_EQ(tensor.offset, 8 + json.size());
    EXPECT_EQ(tensor.bytes.data(), bytes_of(file).data() + tensor.offset);
    EXPECT_EQ(tensor.bytes.size(), 16u);
    EXPECT_EQ(view.path(), label);
}

TEST(safetensors, lists_tensors_in_the_order_of_their_bytes) {
    const std::string file = safetensors_bytes(two_tensors("[1]", "[4,8]", "[1]", "[0,4]"), float_bytes({1, 2}));
    const safetensors_view view(bytes_of(file), label);
    ASSERT_EQ(view.tensors().size(), 2u);
    EXPECT_EQ(view.tensors()[0].name, "b");
    EXPECT_EQ(view.tensors()[1].name, "a");
}

TEST(safetensors, finds_a_tensor_by_name) {
    const std::string file = safetensors_bytes(two_tensors("[1]", "[4,8]", "[1]", "[0,4]"), float_bytes({1, 2}));
    const safetensors_view view(bytes_of(file), label);
    ASSERT_NE(view.find("a"), nullptr);
    EXPECT_EQ(view.find("a")->name, "a");
    EXPECT_EQ(view.find("c"), nullptr);
    EXPECT_EQ(view.find("__metadata__"), nullptr);
}

TEST(safetensors, returns_the_metadata_and_their_place) {
    const std::string json = R"({"__metadata__": {"format":"pt","activation":"gelu"}})";
    const std::string file = safetensors_bytes(json);
    const safetensors_view view(bytes_of(file), label);
    EXPECT_THAT(view.metadata(), ::testing::UnorderedElementsAre(::testing::Pair("format", "pt"),
                                                                 ::testing::Pair("activation", "gelu")));
    EXPECT_EQ(view.metadata_offset(), offset_in(json, "{\"format"));
    EXPECT_TRUE(view.tensors().empty());
}

TEST(safetensors, allows_no_tensors_at_all) {
    const std::string file = safetensors_bytes("{}   ");
    const safetensors_view view(bytes_of(file), label);
    EXPECT_TRUE(view.tensors().empty());
    EXPECT_EQ(view.metadata_offset(), 0u);
}

TEST(safetensors, allows_scalars_and_shapes_with_a_zero) {
    const std::string file = safetensors_bytes(two_tensors("[]", "[0,4]", "[3,0]", "[4,4]"), float_bytes({1}));
    const safetensors_view view(bytes_of(file), label);
    EXPECT_TRUE(view.find("a")->shape.empty());
    EXPECT_EQ(view.find("a")->bytes.size(), 4u);
    EXPECT_EQ(view.find("b")->shape, (std::vector<std::size_t>{3, 0}));
    EXPECT_TRUE(view.find("b")->bytes.empty());
}

TEST(safetensors, reads_names_with_escapes_and_utf_8) {
    const std::string file = safetensors_bytes(
        "{\"h\\u00e9\\n\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
        "\"\xc3\xbc\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    const safetensors_view view(bytes_of(file), label);
    EXPECT_NE(view.find("h\xc3\xa9\n"), nullptr);
    EXPECT_NE(view.find("\xc3\xbc"), nullptr);
}

TEST(safetensors, keeps_the_file_mapped_when_it_is_moved) {
    const temporary_directory directory;
    const std::string json = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    safetensors_file file(directory.write("f", safetensors_bytes(json, float_bytes({1, 2}))));
    const safetensors_file moved = std::move(file);
    std::vector<float> values(2);
    convert_to_float(dtype::f32, moved.find("w")->bytes, values);
    EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

TEST(safetensors, names_the_path_of_the_file_that_it_refuses) {
    const temporary_directory directory;
    const auto path = directory.write("f", safetensors_bytes("{}", "x"));
    expect_refused([&] { safetensors_file file(path); }, {10, "data", "1 bytes at the end belong to no tensor"}, path);
}

TEST(safetensors, reads_what_its_own_python_package_wrote) {
    const safetensors_file file(data_directory / "types.safetensors");
    const std::vector<std::pair<std::string, dtype>> types = {
        {"f16", dtype::f16}, {"bf16", dtype::bf16}, {"f32", dtype::f32}, {"f64", dtype::f64},      {"i8", dtype::i8},
        {"u8", dtype::u8},   {"i16", dtype::i16},   {"i32", dtype::i32}, {"bool", dtype::boolean}, {"i64", dtype::i64},
    };
    for (const auto& [name, type] : types) {
        const tensor_entry* tensor = file.find(name);
        ASSERT_NE(tensor, nullptr) << name;
        EXPECT_EQ(tensor->type, type) << name;
        EXPECT_EQ(tensor->shape, (std::vector<std::size_t>{2, 3})) << name;
        std::vector<float> values(6);
        convert_to_float(type, tensor->bytes, values);
        const std::vector<float> expected =
            type == dtype::boolean ? std::vector<float>{0, 1, 1, 1, 1, 1} : std::vector<float>{0, 1, 2, 3, 4, 5};
        EXPECT_EQ(values, expected) << name;
    }
    EXPECT_TRUE(file.find("scalar")->shape.empty());
    EXPECT_EQ(file.find("empty")->shape, (std::vector<std::size_t>{0, 7}));
    EXPECT_EQ(file.metadata().find("made by")->second, "tools/make_test_arrays.py");
}

// ---- the length

TEST(safetensors, refuses_a_file_that_ends_inside_the_header_length) {
    expect_refused([] { parse("\1\0\0"); }, {0, "header length", "ends inside it"});
    expect_refused([] { parse(""); }, {0, "header length", "ends inside it, after 0 bytes"});
}

TEST(safetensors, refuses_a_header_length_past_the_end) {
    expect_refused([] { parse(little_endian(3, 8) + "{}"); },
                   {0, "header length", "3 reaches past the end: 2 bytes follow"});
}

TEST(safetensors, refuses_an_absurd_header_length) {
    expect_refused([] { parse(little_endian(100'000'001, 8) + "{}"); }, {0, "header length", "more than 100000000"});
    expect_refused([] { parse(std::string(8, '\xff') + "{}"); },
                   {0, "header length", "18446744073709551615 is more than"});
}

TEST(safetensors, refuses_an_empty_header) {
    expect_refused([] { parse(safetensors_bytes("")); }, {8, "header", "does not start with '{'"});
}

// ---- the JSON

TEST(safetensors, refuses_invalid_json) {
    const std::string json = R"({"w":})";
    expect_refused([&] { parse(safetensors_bytes(json)); }, {offset_in(json, "}"), "header", "invalid JSON: "});
}

TEST(safetensors, refuses_json_that_ends_too_early) {
    const std::string json = R"({"w":{"dtype":"F32")";
    expect_refused([&] { parse(safetensors_bytes(json)); }, {8 + json.size(), "header", "unexpected end of input"});
}

TEST(safetensors, refuses_text_after_the_json) {
    expect_refused([] { parse(safetensors_bytes("{} x")); }, {11, "header", "invalid JSON: "});
    expect_refused([] { parse(safetensors_bytes("{}{}")); }, {10, "header", "invalid JSON: "});
}

TEST(safetensors, refuses_a_zero_byte_in_the_header) {
    expect_refused([] { parse(safetensors_bytes(std::string("{}\0x", 4))); }, {10, "header", "a zero byte"});
}

TEST(safetensors, refuses_text_that_is_not_utf_8) {
    const std::string json = "{\"\xc3(\":0}";
    expect_refused([&] { parse(safetensors_bytes(json)); }, {offset_in(json, "("), "header", "ill-formed UTF-8"});
}

TEST(safetensors, refuses_escapes_of_half_a_surrogate_pair) {
    const std::string json = R"({"\ud800":0})";
    expect_refused([&] { parse(safetensors_bytes(json)); }, {offset_in(json, "\":0"), "header", "surrogate"});
}

TEST(safetensors, refuses_a_header_that_is_not_an_object) {
    expect_refused([] { parse(safetensors_bytes("[]")); }, {8, "header", "does not start with '{'"});
    expect_refused([] { parse(safetensors_bytes("\"w\"")); }, {8, "header", "does not start with '{'"});
    expect_refused([] { parse(safetensors_bytes(" {}")); }, {8, "header", "does not start with '{'"});
    expect_refused([] { parse(safetensors_bytes("\xef\xbb\xbf{}")); }, {8, "header", "does not start with '{'"});
}

TEST(safetensors, refuses_numbers_that_no_double_holds) {
    const std::string json = one_tensor(R"("dtype":"F32","shape":[1e999])");
    expect_refused([&] { parse(safetensors_bytes(json)); }, {offset_in(json, "1e999"), "header", "number overflow"});
}

TEST(safetensors, refuses_deep_nesting_without_recursion) {
    const std::string deep(1'000'000, '[');
    expect_refused([&] { parse(safetensors_bytes("{\"w\":" + deep)); },
                   {offset_in("{\"w\":[", "["), "'w'", "expected an object, found an array"});
    std::string objects = "{";
    for (int i = 0; i < 100'000; ++i) objects += "\"w\":{";
    expect_refused([&] { parse(safetensors_bytes(objects)); }, {offset_in(objects, "\"w\":{", 6), "'w'.w", "unknown"});
    expect_header_refused(one_tensor("\"shape\": [0,[" + deep), "[[", "'w'.shape[1]", "found an array");
}

// ---- duplicates

TEST(safetensors, refuses_a_tensor_that_appears_twice) {
    const std::string tensor = R"("w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
    const std::string json = "{" + tensor + "," + tensor + "}";
    expect_header_refused(json, "\"w\"", "'w'", "appears twice", 5);
}

TEST(safetensors, refuses_a_tensor_that_appears_twice_in_different_spelling) {
    const std::string json =
        R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"\u0077":{"dtype":"F32","shape":[0]}})";
    expect_header_refused(json, "\"\\u0077\"", "'w'", "appears twice");
}

TEST(safetensors, refuses_a_field_that_appears_twice) {
    expect_header_refused(one_tensor(R"("dtype":"F32", "dtype":"F32")"), "\"dtype\"", "'w'.dtype", "appears twice", 15);
    expect_header_refused(one_tensor(R"("shape":[1], "shape":[1])"), "\"shape\"", "'w'.shape", "appears twice", 15);
    expect_header_refused(one_tensor(R"("data_offsets":[0,0],"data_offsets":[0,0])"), "\"data_offsets\"",
                          "'w'.data_offsets", "appears twice", 15);
}

TEST(safetensors, refuses_metadata_that_appear_twice) {
    const std::string json = R"({"__metadata__":{},"__metadata__":{}})";
    expect_header_refused(json, "\"__metadata__\"", "'__metadata__'", "appears twice", 5);
}

TEST(safetensors, refuses_a_metadata_entry_that_appears_twice) {
    const std::string json = R"({"__metadata__":{"a":"1","a":"2"}})";
    expect_header_refused(json, "\"a\":\"2", "__metadata__.a", "appears twice");
}

// ---- fields of the wrong type

TEST(safetensors, refuses_a_tensor_that_is_not_an_object) {
    expect_header_refused(R"({"w": "x"})", "\"x\"", "'w'", "expected an object, found a string");
    expect_header_refused(R"({"w":null})", "null", "'w'", "expected an object, found null");
    expect_header_refused(R"({"w":true})", "true", "'w'", "expected an object, found a boolean");
    expect_header_refused(R"({"w":12})", "12", "'w'", "expected an object, found a number");
}

TEST(safetensors, refuses_a_field_that_it_does_not_know) {
    expect_header_refused(one_tensor(R"("dtype":"F32","strides":[1])"), "\"strides\"", "'w'.strides", "unknown field");
}

TEST(safetensors, refuses_a_dtype_that_it_does_not_know) {
    expect_header_refused(one_tensor(R"("dtype": "F33")"), "\"F33\"", "'w'.dtype", "unknown element type 'F33'");
    expect_header_refused(one_tensor(R"("dtype":"f32")"), "\"f32\"", "'w'.dtype", "unknown element type 'f32'");
}

TEST(safetensors, refuses_a_dtype_that_is_not_a_string) {
    expect_header_refused(one_tensor(R"("dtype":32)"), "32", "'w'.dtype", "expected a string, found a number");
    expect_header_refused(one_tensor(R"("dtype":{})"), "{}", "'w'.dtype", "expected a string, found an object");
}

TEST(safetensors, refuses_a_shape_that_is_not_an_array) {
    expect_header_refused(one_tensor(R"("shape":4)"), "4", "'w'.shape", "expected an array, found a number");
    expect_header_refused(one_tensor(R"("shape":"4")"), "\"4\"", "'w'.shape", "expected an array, found a string");
}

TEST(safetensors, refuses_missing_fields) {
    const std::string object = "{\"dtype";
    expect_header_refused(one_tensor(R"("shape":[0],"data_offsets":[0,0])"), "{\"shape", "'w'.dtype", "missing");
    expect_header_refused(one_tensor(R"("dtype":"F32","data_offsets":[0,0])"), object, "'w'.shape", "missing");
    expect_header_refused(one_tensor(R"("dtype":"F32","shape":[0])"), object, "'w'.data_offsets", "missing");
    expect_header_refused(R"({"w":{}})", "{}", "'w'.dtype", "missing");
}

TEST(safetensors, refuses_negative_numbers) {
    expect_header_refused(one_tensor(R"("shape":[2, -3])"), "-3", "'w'.shape[1]",
                          "expected a whole number, found a negative number");
    expect_header_refused(one_tensor(R"("data_offsets":[-1,0])"), "-1", "'w'.data_offsets[0]", "a negative number");
}

TEST(safetensors, refuses_fractions_and_numbers_that_are_too_large) {
    expect_header_refused(one_tensor(R"("shape":[2.0])"), "2.0", "'w'.shape[0]", "fractional or too large");
    expect_header_refused(one_tensor(R"("shape":[1e2])"), "1e2", "'w'.shape[0]", "fractional or too large");
    expect_header_refused(one_tensor(R"("data_offsets":[0,18446744073709551616])"), "18446744073709551616",
                          "'w'.data_offsets[1]", "fractional or too large");
}

TEST(safetensors, refuses_elements_of_a_shape_that_are_no_numbers) {
    expect_header_refused(one_tensor(R"("shape":["1"])"), "\"1\"", "'w'.shape[0]", "found a string");
    expect_header_refused(one_tensor(R"("shape":[1,null])"), "null", "'w'.shape[1]", "found null");
    expect_header_refused(one_tensor(R"("data_offsets":[0,{}])"), "{}", "'w'.data_offsets[1]", "found an object");
}

TEST(safetensors, refuses_too_many_dimensions) {
    std::string members = "\"shape\":[0";
    for (int i = 1; i < 64; ++i) members += ",1";
    expect_header_refused(one_tensor(members + ",7]"), "7", "'w'.shape[64]", "more than 64 dimensions");
}

TEST(safetensors, refuses_metadata_that_are_not_strings) {
    expect_header_refused(R"({"__metadata__":{"a":1}})", "1", "__metadata__.a", "expected a string, found a number");
    expect_header_refused(R"({"__metadata__":{"a":{}}})", "{}", "__metadata__.a", "expected a string, found an object");
    expect_header_refused(R"({"__metadata__":{"a":[]}})", "[]", "__metadata__.a", "expected a string, found an array");
    expect_header_refused(R"({"__metadata__":{"a":null}})", "null", "__metadata__.a", "expected a string, found null");
    expect_header_refused(R"({"__metadata__":"a"})", "\"a\"", "'__metadata__'", "expected an object, found a string");
}

// ---- data_offsets

void expect_offsets_refused(std::string_view shape, std::string_view offsets, const std::string& why) {
    const std::string json = std::string(R"({"w":{"dtype":"F32","shape":)")
                                 .append(shape)
                                 .append(R"(,"data_offsets":)")
                                 .append(offsets)
                                 .append("}}");
    expect_header_refused(json, "\"data_offsets\"", "'w'.data_offsets", why);
}

TEST(safetensors, refuses_reversed_offsets) { expect_offsets_refused("[4]", "[16,0]", "reversed: [16, 0]"); }

TEST(safetensors, refuses_offsets_out_of_range) {
    expect_offsets_refused("[5]", "[0,20]", "[0, 20] is out of range: the file holds 16 bytes");
    expect_offsets_refused("[4]", "[18446744073709551599,18446744073709551615]", "is out of range");
}

TEST(safetensors, refuses_offsets_that_do_not_match_the_shape) {
    expect_offsets_refused("[3]", "[0,16]", "[0, 16] does not match the shape, which takes 12 bytes");
    expect_offsets_refused("[5]", "[0,16]", "takes 20 bytes");
    expect_offsets_refused("[0]", "[0,16]", "takes 0 bytes");
    expect_offsets_refused("[]", "[0,16]", "takes 4 bytes");
}

TEST(safetensors, refuses_offsets_that_are_not_two) {
    const std::string one = one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])");
    expect_header_refused(one, "\"data_offsets\"", "'w'.data_offsets[1]", "not two numbers");
    const std::string three = one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])");
    expect_header_refused(three, "8", "'w'.data_offsets[2]", "more than two numbers");
}

TEST(safetensors, refuses_a_shape_whose_size_overflows) {
    for (const std::string shape : {"[4294967296,4294967296]", "[4611686018427387904]", "[0,4294967296,4294967296]"}) {
        const std::string json = one_tensor(R"("dtype":"F32","data_offsets":[0,0],"shape":)" + shape);
        expect_header_refused(json, "\"shape\"", "'w'.shape", "overflows");
    }
}

TEST(safetensors, refuses_tensors_that_overlap) {
    const std::string json = two_tensors("[3]", "[0,12]", "[2]", "[8,16]");
    expect_header_refused(json, "\"data_offsets\"", "'b'.data_offsets", "overlaps 'a'", json.find("\"b\""));
}

TEST(safetensors, refuses_two_tensors_over_the_same_bytes) {
    const std::string json = two_tensors("[4]", "[0,16]", "[4]", "[0,16]");
    expect_header_refused(json, "\"data_offsets\"", "'b'.data_offsets", "overlaps 'a'", json.find("\"b\""));
}

TEST(safetensors, refuses_an_empty_tensor_inside_another) {
    const std::string json = two_tensors("[4]", "[0,16]", "[0]", "[8,8]");
    expect_header_refused(json, "\"data_offsets\"", "'b'.data_offsets", "overlaps 'a'", json.find("\"b\""));
}

TEST(safetensors, refuses_a_hole_between_tensors) {
    const std::string json = two_tensors("[1]", "[0,4]", "[2]", "[8,16]");
    expect_header_refused(json, "\"data_offsets\"", "'b'.data_offsets", "a hole of 4 bytes", json.find("\"b\""));
}

TEST(safetensors, refuses_a_hole_before_the_first_tensor) {
    expect_offsets_refused("[2]", "[8,16]", "a hole of 8 bytes");
}

TEST(safetensors, refuses_bytes_after_the_last_tensor) {
    const std::string json = one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])");
    expect_refused([&] { parse(safetensors_bytes(json, std::string(16, '\0'))); },
                   {8 + json.size() + 8, "data", "8 bytes at the end belong to no tensor"});
}

TEST(safetensors, shows_hostile_names_in_printable_form) {
    const std::string json = "{\"\\n\\u001b[31m" + std::string(1'000'000, 'x') + "\":0}";
    try {
        parse(safetensors_bytes(json));
        FAIL();
    } catch (const file_error& refused) {
        const std::string_view message = refused.what();
        EXPECT_LT(message.size(), 300u);
        EXPECT_EQ(message.find_first_of("\n\x1b"), std::string_view::npos);
    }
}

}  // namespace
}  // namespace sluice::io
