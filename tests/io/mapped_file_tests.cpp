// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::io::mapped_file_tests {
namespace {

using testing::expect_refused;
using testing::temporary_directory;

static_assert(!std::is_copy_constructible_v<mapped_file>);
static_assert(std::is_nothrow_move_constructible_v<mapped_file>);

std::string_view text_of(const mapped_file& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Resident pages of this process that belong to files.
std::size_t resident_file_bytes() {
    std::size_t pages_total = 0, pages_resident = 0, pages_shared = 0;
    std::ifstream("/proc/self/statm") >> pages_total >> pages_resident >> pages_shared;
    return pages_shared * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

unsigned sum_of(std::span<const std::byte> bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), 0u,
                           [](unsigned sum, std::byte b) { return sum + std::to_integer<unsigned>(b); });
}

TEST(mapped_file, shows_the_bytes_and_the_path) {
    const temporary_directory directory;
    const auto path = directory.write("hello", "hello, world");
    const mapped_file file(path);
    EXPECT_EQ(text_of(file), "hello, world");
    EXPECT_EQ(file.path(), path);
}

TEST(mapped_file, keeps_its_bytes_in_place_when_it_is_moved) {
    const temporary_directory directory;
    mapped_file file(directory.write("a", "abc"));
    const auto* address = file.bytes().data();
    const mapped_file moved = std::move(file);
    EXPECT_EQ(moved.bytes().data(), address);
    EXPECT_TRUE(file.bytes().empty());  // NOLINT(bugprone-use-after-move): the moved-from state is promised
}

TEST(mapped_file, outlives_the_name_of_the_file) {
    const temporary_directory directory;
    const auto path = directory.write("a", "abc");
    const mapped_file file(path);
    std::filesystem::remove(path);
    EXPECT_EQ(text_of(file), "abc");
}

TEST(mapped_file, refuses_an_empty_file) {
    const temporary_directory directory;
    const auto path = directory.write("empty", "");
    expect_refused([&] { mapped_file file(path); }, {0, "size", "empty"}, path);
}

TEST(mapped_file, refuses_a_directory) {
    const temporary_directory directory;
    expect_refused([&] { mapped_file file(directory.path()); }, {file_error::no_offset, "type", "is a directory"},
                   directory.path());
}

TEST(mapped_file, refuses_a_missing_file) {
    const temporary_directory directory;
    const auto path = directory / "missing";
    expect_refused([&] { mapped_file file(path); },
                   {file_error::no_offset, "open", "No such file or directory", errc::io_failed}, path);
}

TEST(mapped_file, refuses_a_file_without_permission) {
    if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
    const temporary_directory directory;
    const auto path = directory.write("secret", "abc");
    ASSERT_EQ(::chmod(path.c_str(), 0), 0);
    expect_refused([&] { mapped_file file(path); },
                   {file_error::no_offset, "open", "Permission denied", errc::io_failed}, path);
}

TEST(mapped_file, refuses_a_pipe_without_waiting_for_a_writer) {
    const temporary_directory directory;
    const auto path = directory / "pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    expect_refused([&] { mapped_file file(path); }, {file_error::no_offset, "type", "not a regular file"}, path);
}

TEST(mapped_file, refuses_a_device) {
    expect_refused([&] { mapped_file file("/dev/zero"); }, {file_error::no_offset, "type", "not a regular file"},
                   "/dev/zero");
}

TEST(mapped_file, drops_forgotten_pages_from_the_resident_set) {
    constexpr std::size_t size = 64 << 20;
    constexpr std::size_t step = 4 << 20;
    const temporary_directory directory;
    const mapped_file file(directory.write("big", std::string(size, '\1')));
    const std::size_t before = resident_file_bytes();
    unsigned sum = 0;
    std::size_t most = 0;
    for (std::size_t at = 0; at < size; at += step) {
        sum += sum_of(file.bytes().subspan(at, step));
        most = std::max(most, resident_file_bytes());
        file.forget(at, step);
    }
    EXPECT_EQ(sum, size);
    EXPECT_LT(most, before + 3 * step);
    EXPECT_LT(resident_file_bytes(), before + step);
}

TEST(mapped_file, drops_pages_that_were_forgotten_piece_by_piece) {
    constexpr std::size_t size = 16 << 20;
    constexpr std::size_t step = 1000;
    const temporary_directory directory;
    const mapped_file file(directory.write("big", std::string(size, '\1')));
    const std::size_t before = resident_file_bytes();
    std::size_t sum = 0;
    for (std::size_t at = 0; at < size; at += step) {
        sum += sum_of(file.bytes().subspan(at, std::min(step, size - at)));
        file.forget(at, step);
    }
    EXPECT_EQ(sum, size);
    EXPECT_LT(resident_file_bytes(), before + size / 8);
}

TEST(mapped_file, reads_forgotten_bytes_again) {
    const temporary_directory directory;
    const mapped_file file(directory.write("a", std::string(100'000, '\1')));
    file.forget(0, 100'000);
    EXPECT_EQ(sum_of(file.bytes()), 100'000u);
}

TEST(mapped_file, forgets_only_what_it_has) {
    const temporary_directory directory;
    const mapped_file file(directory.write("a", std::string(10'000, '\1')));
    constexpr auto huge = static_cast<std::size_t>(-1);
    file.forget(0, huge);
    file.forget(9'999, huge);
    file.forget(10'000, 1);
    file.forget(huge, huge);
    file.forget(1, 0);
    file.forget(1, 4'000);  // inside a page: nothing to drop
    EXPECT_EQ(sum_of(file.bytes()), 10'000u);
}

}  // namespace
}  // namespace sluice::io::mapped_file_tests
