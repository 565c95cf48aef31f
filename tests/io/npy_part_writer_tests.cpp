// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy_part_writer.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "io/support/file_size_limit.hpp"
#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/io/npy_writer.hpp"

namespace sluice::io::npy_part_writer_tests {
namespace {

using testing::expect_error;
using testing::temporary_directory;

class npy_parts : public ::testing::Test {
protected:
    void expect_io_failed(const npy_part& part, const char* word) {
        try {
            npy_part_writer writer(part);
            ADD_FAILURE() << "was accepted";
        } catch (const file_error& failure) {
            EXPECT_EQ(failure.code(), errc::io_failed);
            EXPECT_NE(std::string(failure.what()).find(part.file.string()), std::string::npos) << failure.what();
            EXPECT_NE(std::string(failure.what()).find(word), std::string::npos) << failure.what();
        }
    }

    temporary_directory directory;
};

}  // namespace

TEST_F(npy_parts, together_are_the_whole) {
    npy_writer whole(directory / "out.npy", {5, 2});
    whole.write_rows(4, std::vector<float>{9, 10});
    npy_part_writer upper(whole.part()), lower(whole.part());
    lower.write_rows(2, std::vector<float>{5, 6, 7, 8});
    upper.write_rows(0, std::vector<float>{1, 2});
    upper.write_rows(1, std::vector<float>{3, 4});
    upper.finish();
    lower.finish();
    whole.count_rows_of_others(4);
    whole.commit();
    EXPECT_EQ(npy_file(directory / "out.npy").view().values<float>(),
              (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    EXPECT_EQ(directory.entries(), 1);
}

TEST_F(npy_parts, are_missed_when_they_were_not_counted) {
    npy_writer whole(directory / "out.npy", {2, 2});
    npy_part_writer part(whole.part());
    part.write_rows(0, std::vector<float>{1, 2, 3, 4});
    part.finish();
    expect_error([&] { whole.commit(); }, errc::invalid_argument);
    whole.count_rows_of_others(1);
    expect_error([&] { whole.commit(); }, errc::invalid_argument);
}

TEST_F(npy_parts, of_a_file_that_cannot_be_seen_are_refused_and_no_file_is_created) {
    std::optional<npy_writer> whole(std::in_place, directory / "out.npy", std::vector<std::size_t>{2, 2});
    const npy_part part = whole->part();
    whole.reset();
    expect_io_failed(part, "No such file");
    EXPECT_EQ(directory.entries(), 0);
}

TEST_F(npy_parts, of_another_file_are_refused) {
    npy_writer whole(directory / "out.npy", {2, 2});
    npy_part part = whole.part();
    part.rows = 3;
    expect_io_failed(part, "is not the file of ");
    part.file = directory.path();
    expect_io_failed(part, "Is a directory");
}

TEST_F(npy_parts, stay_within_the_array) {
    npy_writer whole(directory / "out.npy", {3, 2});
    npy_part_writer part(whole.part());
    expect_error([&] { part.write_rows(0, std::vector<float>(3)); }, errc::shape_mismatch);
    expect_error([&] { part.write_rows(2, std::vector<float>(4)); }, errc::invalid_argument);
    expect_error([&] { part.write_rows(4, std::vector<float>(2)); }, errc::invalid_argument);
    part.write_rows(3, {});
}

TEST_F(npy_parts, report_that_the_system_refuses) {
    npy_writer whole(directory / "out.npy", {1000, 2});
    npy_part_writer part(whole.part());
    const testing::file_size_limit limit(4096);
    try {
        part.write_rows(900, std::vector<float>(200));
        FAIL() << "was accepted";
    } catch (const file_error& failure) {
        EXPECT_EQ(failure.code(), errc::io_failed);
        EXPECT_EQ(failure.field(), "write");
    }
}

}  // namespace sluice::io::npy_part_writer_tests
