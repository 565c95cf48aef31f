// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/atomic_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/support/file_size_limit.hpp"
#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io::atomic_file_tests {
namespace {

using testing::bytes_of;
using testing::expect_error;
using testing::expect_refused;
using testing::file_size_limit;
using testing::read_file;
using testing::temporary_directory;

constexpr auto no_offset = file_error::no_offset;

TEST(atomic_file, appears_with_the_commit_and_not_before) {
    const temporary_directory directory;
    atomic_file file(directory / "out");
    file.write_at(0, bytes_of("hello"));
    EXPECT_FALSE(std::filesystem::exists(directory / "out"));
    EXPECT_FALSE(file.committed());
    file.commit();
    EXPECT_TRUE(file.committed());
    EXPECT_EQ(read_file(directory / "out"), "hello");
    EXPECT_EQ(directory.entries(), 1);
}

TEST(atomic_file, leaves_nothing_when_it_is_not_committed) {
    const temporary_directory directory;
    {
        atomic_file file(directory / "out");
        file.write_at(0, bytes_of("hello"));
        EXPECT_EQ(directory.entries(), 1);
    }
    EXPECT_EQ(directory.entries(), 0);
}

TEST(atomic_file, leaves_the_old_file_when_it_is_not_committed) {
    const temporary_directory directory;
    const auto path = directory.write("out", "old");
    {
        atomic_file file(path);
        file.write_at(0, bytes_of("new"));
    }
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(directory.entries(), 1);
}

TEST(atomic_file, replaces_the_old_file_with_the_commit) {
    const temporary_directory directory;
    const auto path = directory.write("out", "an older and longer file");
    atomic_file file(path);
    file.write_at(0, bytes_of("new"));
    file.commit();
    EXPECT_EQ(read_file(path), "new");
}

TEST(atomic_file, takes_writes_in_any_order_from_many_threads) {
    const temporary_directory directory;
    atomic_file file(directory / "out");
    std::vector<std::jthread> threads;
    for (int i = 7; i >= 0; --i) {
        threads.emplace_back([&file, i] {
            const std::string block(1000, static_cast<char>('a' + i));
            file.write_at(static_cast<std::uint64_t>(i) * block.size(), bytes_of(block));
        });
    }
    threads.clear();
    file.commit();
    const std::string contents = read_file(directory / "out");
    ASSERT_EQ(contents.size(), 8000u);
    for (std::size_t i = 0; i < contents.size(); ++i) ASSERT_EQ(contents[i], static_cast<char>('a' + i / 1000));
}

TEST(atomic_file, reads_as_zero_where_nothing_was_written) {
    const temporary_directory directory;
    atomic_file file(directory / "out");
    file.resize(6);
    file.write_at(2, bytes_of("ab"));
    file.commit();
    EXPECT_EQ(read_file(directory / "out"), std::string("\0\0ab\0\0", 6));
}

TEST(atomic_file, has_the_permissions_of_any_new_file) {
    const temporary_directory directory;
    struct stat made{}, usual{};
    atomic_file file(directory / "out");
    file.commit();
    ASSERT_EQ(::stat((directory / "out").c_str(), &made), 0);
    ASSERT_EQ(::stat(directory.write("usual", "").c_str(), &usual), 0);
    EXPECT_EQ(made.st_mode, usual.st_mode);
}

TEST(atomic_file, writes_beside_a_target_without_a_directory) {
    const temporary_directory directory;
    const auto old = std::filesystem::current_path();
    std::filesystem::current_path(directory.path());
    {
        atomic_file file("out");
        file.write_at(0, bytes_of("here"));
        file.commit();
    }
    std::filesystem::current_path(old);
    EXPECT_EQ(read_file(directory / "out"), "here");
}

TEST(atomic_file, takes_the_longest_name_that_a_file_may_have) {
    const temporary_directory directory;
    const auto path = directory / std::string(255, 'n');
    atomic_file file(path);
    file.commit();
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(atomic_file, does_not_collide_with_another_writer_of_the_same_target) {
    const temporary_directory directory;
    atomic_file first(directory / "out");
    atomic_file second(directory / "out");
    first.write_at(0, bytes_of("first"));
    second.write_at(0, bytes_of("second"));
    second.commit();
    first.commit();
    EXPECT_EQ(read_file(directory / "out"), "first");
    EXPECT_EQ(directory.entries(), 1);
}

TEST(atomic_file, replaces_a_link_and_leaves_what_it_points_to) {
    const temporary_directory directory;
    const auto pointed_to = directory.write("pointed_to", "old");
    std::filesystem::create_symlink(pointed_to, directory / "out");
    atomic_file file(directory / "out");
    file.write_at(0, bytes_of("new"));
    file.commit();
    EXPECT_EQ(read_file(pointed_to), "old");
    EXPECT_EQ(read_file(directory / "out"), "new");
}

TEST(atomic_file, refuses_a_missing_directory) {
    const temporary_directory directory;
    const auto path = directory / "missing/out";
    expect_refused([&] { atomic_file file(path); }, {no_offset, "create", "No such file", errc::io_failed}, path);
}

TEST(atomic_file, refuses_a_target_that_is_a_directory) {
    const temporary_directory directory;
    for (const auto& path : {directory.path(), directory / "", std::filesystem::path(".")}) {
        expect_refused([&] { atomic_file file(path); }, {no_offset, "create", "Is a directory", errc::io_failed}, path);
    }
    EXPECT_EQ(directory.entries(), 0);
}

TEST(atomic_file, refuses_a_target_that_is_a_device) {
    expect_refused([&] { atomic_file file("/dev/null"); }, {no_offset, "create", "not a regular file", errc::io_failed},
                   "/dev/null");
}

TEST(atomic_file, refuses_a_directory_without_permission) {
    if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
    const temporary_directory directory;
    ASSERT_EQ(::chmod(directory.path().c_str(), 0500), 0);
    const auto path = directory / "out";
    expect_refused([&] { atomic_file file(path); }, {no_offset, "create", "Permission denied", errc::io_failed}, path);
}

TEST(atomic_file, reports_a_write_that_the_system_refuses_and_leaves_nothing) {
    const temporary_directory directory;
    const auto path = directory / "out";
    {
        std::optional<atomic_file> file(std::in_place, path);
        const file_size_limit limit(1000);
        // The first 1000 bytes fit, so the refusal is met there.
        expect_refused([&] { file->write_at(0, bytes_of(std::string(5000, 'x'))); },
                       {1000, "write", "File too large", errc::io_failed}, path);
        expect_refused([&] { file->resize(5000); }, {5000, "resize", "File too large", errc::io_failed}, path);
    }
    EXPECT_EQ(directory.entries(), 0);
}

TEST(atomic_file, refuses_offsets_that_no_file_has) {
    const temporary_directory directory;
    atomic_file file(directory / "out");
    constexpr auto huge = ~std::uint64_t{0} - 10;
    expect_refused([&] { file.write_at(huge, bytes_of("x")); }, {huge, "write", "File too large", errc::io_failed},
                   directory / "out");
    expect_refused([&] { file.resize(huge); }, {huge, "resize", "File too large", errc::io_failed}, directory / "out");
}

TEST(atomic_file, reports_a_rename_that_the_system_refuses_and_leaves_nothing) {
    const temporary_directory directory;
    const auto path = directory / "out";
    {
        atomic_file file(path);
        file.write_at(0, bytes_of("x"));
        std::filesystem::create_directory(path);
        expect_refused([&] { file.commit(); }, {no_offset, "rename", "Is a directory", errc::io_failed}, path);
        EXPECT_FALSE(file.committed());
    }
    EXPECT_EQ(directory.entries(), 1);  // the directory
}

TEST(atomic_file, is_committed_once) {
    const temporary_directory directory;
    atomic_file file(directory / "out");
    file.commit();
    expect_error([&] { file.commit(); }, errc::invalid_argument);
    expect_refused([&] { file.write_at(0, bytes_of("x")); }, {0, "write", "Bad file descriptor", errc::io_failed},
                   directory / "out");
}

}  // namespace
}  // namespace sluice::io::atomic_file_tests
