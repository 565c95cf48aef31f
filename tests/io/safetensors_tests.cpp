// SPDX-License-Identifier: Apache-2.0
// What is read of a safetensors file.
#include "sluice/io/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "io/support/safetensors_headers.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io::safetensors_tests {
namespace {

using testing::bytes_of;
using testing::expect_refused;
using testing::float_bytes;
using testing::label;
using testing::offset_in;
using testing::safetensors_bytes;
using testing::temporary_directory;
using testing::two_tensors;

const std::filesystem::path data_directory = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/nn/data";

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

}  // namespace
}  // namespace sluice::io::safetensors_tests
