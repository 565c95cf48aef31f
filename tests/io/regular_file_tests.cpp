// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/regular_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io::regular_file_tests {
namespace {

using testing::expect_refused;
using testing::temporary_directory;

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(regular_file, reads_parts_and_the_whole) {
    const temporary_directory directory;
    const auto path = directory.write("hello", "hello, world");
    const regular_file file(path);
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.bytes(), 12u);
    std::array<std::byte, 5> part;
    file.read(7, part);
    EXPECT_EQ(text_of(part), "world");
    EXPECT_EQ(text_of(file.read_all()), "hello, world");
}

TEST(regular_file, refuses_what_is_no_regular_file_with_contents) {
    const temporary_directory directory;
    expect_refused([&] { regular_file file(directory.write("empty", "")); }, {0, "size", "empty"}, directory / "empty");
    expect_refused([&] { regular_file file(directory.path()); }, {file_error::no_offset, "type", "is a directory"},
                   directory.path());
    ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
    expect_refused([&] { regular_file file(directory / "pipe"); },
                   {file_error::no_offset, "type", "is not a regular file"}, directory / "pipe");
    EXPECT_THROW(regular_file(directory / "absent"), file_error);
}

TEST(regular_file, a_file_that_becomes_shorter_is_refused) {
    const temporary_directory directory;
    const auto path = directory.write("long", std::string(100'000, 'a'));
    const regular_file file(path);
    std::filesystem::resize_file(path, 70'000);
    expect_refused([&] { static_cast<void>(file.read_all()); }, {70'000, "size", "became shorter"}, path);
    std::array<std::byte, 10> part;
    file.read(69'990, part);
    EXPECT_EQ(text_of(part), "aaaaaaaaaa");
    expect_refused([&] { file.require_unchanged(); }, {file_error::no_offset, "contents", "was changed"}, path);
}

TEST(regular_file, a_file_that_is_written_to_is_refused_and_one_that_is_replaced_is_not) {
    const temporary_directory directory;
    const auto path = directory.write("file", "abc");
    const regular_file file(path);
    directory.write("other", "xyz");
    std::filesystem::rename(directory / "other", path);
    EXPECT_EQ(text_of(file.read_all()), "abc");
    const regular_file second(path);
    EXPECT_FALSE(second.state() == file.state());
    directory.write("file", "longer");
    expect_refused([&] { static_cast<void>(second.read_all()); }, {file_error::no_offset, "contents", "was changed"},
                   path);
}

}  // namespace
}  // namespace sluice::io::regular_file_tests
