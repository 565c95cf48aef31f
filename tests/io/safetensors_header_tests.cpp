// SPDX-License-Identifier: Apache-2.0
// What is refused in the header of a safetensors file: its length, its JSON, entries that appear twice.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "io/support/safetensors_headers.hpp"

namespace sluice::io::safetensors_header_tests {
namespace {

using testing::expect_header_refused;
using testing::expect_refused;
using testing::little_endian;
using testing::offset_in;
using testing::one_tensor;
using testing::parse;
using testing::safetensors_bytes;

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
}  // namespace sluice::io::safetensors_header_tests
