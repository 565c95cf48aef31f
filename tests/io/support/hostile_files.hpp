// SPDX-License-Identifier: Apache-2.0
// Makes files byte by byte, right or wrong, and checks how a wrong one is refused.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "sluice/base/file_error.hpp"

namespace sluice::io::testing {

inline const std::filesystem::path label = "some/dir/file.bin";

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// The low `count` bytes of a number, little-endian.
inline std::string little_endian(std::uint64_t value, std::size_t count) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
    return bytes;
}

inline std::string float_bytes(std::initializer_list<float> values) {
    std::string bytes;
    for (const float value : values) bytes += little_endian(std::bit_cast<std::uint32_t>(value), 4);
    return bytes;
}

// A safetensors file: the JSON's length, the JSON, the data.
inline std::string safetensors_bytes(std::string_view json, std::string_view data = {}) {
    return little_endian(json.size(), 8).append(json).append(data);
}

// The offset of `part` in the safetensors file whose header is `json`.
inline std::uint64_t offset_in(std::string_view json, std::string_view part, std::size_t from = 0) {
    const auto at = json.find(part, from);
    EXPECT_NE(at, std::string_view::npos) << part;
    return 8 + at;
}

// A .npy file with this Python dict, which starts at byte 10 (version 1.0) or 12.
inline std::string npy_bytes(std::string_view dict, std::string_view data = {}, char major = 1, char minor = 0) {
    std::string file = "\x93NUMPY";
    file += major;
    file += minor;
    return file.append(little_endian(dict.size(), major == 1 ? 2 : 4)).append(dict).append(data);
}

inline std::string npy_dict(std::string_view descr, std::string_view fortran_order, std::string_view shape) {
    return std::string("{'descr': ")
        .append(descr)
        .append(", 'fortran_order': ")
        .append(fortran_order)
        .append(", 'shape': ")
        .append(shape)
        .append("}");
}

// What a refusal must say.
struct refusal {
    std::uint64_t offset;
    std::string field;
    std::string why;  // part of it
    errc code = errc::bad_file;
};

// The call must throw a file_error about `path` that says what `expected` does, in its fields and in its message.
template <class Call>
void expect_refused(Call&& call, const refusal& expected, const std::filesystem::path& path = label) {
    try {
        call();
        ADD_FAILURE() << "was accepted; expected a refusal of " << expected.field << ": " << expected.why;
    } catch (const file_error& refused) {
        EXPECT_EQ(refused.path(), path);
        EXPECT_EQ(refused.offset(), expected.offset);
        EXPECT_EQ(refused.field(), expected.field);
        EXPECT_EQ(refused.code(), make_error_code(expected.code));
        std::string start = path.string();
        if (expected.offset != file_error::no_offset) start += ": at byte " + std::to_string(expected.offset);
        start += ": " + expected.field + ": ";
        EXPECT_THAT(refused.what(), ::testing::StartsWith(start));
        EXPECT_THAT(refused.what(), ::testing::HasSubstr(expected.why));
    }
}

// The call must throw a sluice::error with this code.
template <class Call>
void expect_error(Call&& call, errc code) {
    try {
        call();
        ADD_FAILURE() << "did not throw";
    } catch (const error& thrown) {
        EXPECT_EQ(thrown.code(), make_error_code(code)) << thrown.what();
    }
}

}  // namespace sluice::io::testing
