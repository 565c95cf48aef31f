// SPDX-License-Identifier: Apache-2.0
// Files that the system does not bring to the disk.
#include "io/support/sync_failure.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/io/atomic_file.hpp"

namespace sluice::io::sync_failure_tests {
namespace {

using testing::bytes_of;
using testing::expect_refused;
using testing::read_file;
using testing::sync_failure;
using testing::synced;
using testing::temporary_directory;

constexpr auto no_offset = file_error::no_offset;

TEST(sync_failures, of_the_directory_leave_the_new_file_and_say_that_it_is_there) {
    const temporary_directory directory;
    const auto path = directory / "out";
    {
        atomic_file file(path);
        file.write_at(0, bytes_of("new"));
        const sync_failure here(synced::directories, EIO);
        expect_refused([&] { file.commit(); },
                       {no_offset, "sync of the directory, in which the file now has its place", "Input/output error",
                        errc::io_failed},
                       path);
        EXPECT_TRUE(file.committed());
    }
    EXPECT_EQ(read_file(path), "new");
    EXPECT_EQ(directory.entries(), 1);
}

TEST(sync_failures, of_a_directory_that_cannot_be_synced_are_none) {
    const temporary_directory directory;
    atomic_file file(directory / "out");
    const sync_failure here(synced::directories, EINVAL);
    file.commit();
    EXPECT_TRUE(file.committed());
}

TEST(sync_failures, of_the_file_leave_the_old_one) {
    const temporary_directory directory;
    const auto path = directory / "out";
    {
        atomic_file file(path);
        file.write_at(0, bytes_of("old"));
        file.commit();
    }
    {
        atomic_file file(path);
        file.write_at(0, bytes_of("new"));
        const sync_failure here(synced::files, EIO);
        expect_refused([&] { file.commit(); }, {no_offset, "sync", "Input/output error", errc::io_failed}, path);
        EXPECT_FALSE(file.committed());
    }
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(directory.entries(), 1);
}

}  // namespace
}  // namespace sluice::io::sync_failure_tests
