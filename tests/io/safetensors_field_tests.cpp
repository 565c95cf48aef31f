// SPDX-License-Identifier: Apache-2.0
// What is refused in the fields of a safetensors file: types, shapes, offsets into the data.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "io/support/safetensors_headers.hpp"

namespace sluice::io::safetensors_field_tests {
namespace {

using testing::expect_header_refused;
using testing::expect_refused;
using testing::one_tensor;
using testing::parse;
using testing::safetensors_bytes;
using testing::two_tensors;

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

}  // namespace
}  // namespace sluice::io::safetensors_field_tests
