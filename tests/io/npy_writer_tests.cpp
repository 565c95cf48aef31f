// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/npy_writer.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/io/npy.hpp"

namespace sluice::io::npy_writer_tests {
namespace {

using testing::bytes_of;
using testing::expect_error;
using testing::expect_refused;
using testing::read_file;
using testing::temporary_directory;

using shape = std::vector<std::size_t>;

const std::filesystem::path data_directory = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/nn/data";

TEST(npy_writer, writes_what_the_reader_reads) {
    const temporary_directory directory;
    npy_writer writer(directory / "out.npy", {3, 2});
    writer.write_rows(0, std::vector<float>{1, 2, 3, 4, 5, 6});
    writer.commit();
    const npy_file file(directory / "out.npy");
    EXPECT_EQ(file.view().shape(), (shape{3, 2}));
    EXPECT_EQ(file.view().values<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(npy_writer, writes_the_bytes_that_numpy_writes) {
    for (const char* name : {"f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "b1", "scalar", "empty",
                             "cube", "special_f4"}) {
        const auto original = data_directory / (std::string(name) + ".npy");
        const npy_file file(original);
        const temporary_directory directory;
        npy_writer writer(directory / "out.npy", file.view().shape(), file.view().element_type());
        writer.write_row_bytes(0, file.view().data());
        writer.commit();
        EXPECT_EQ(read_file(directory / "out.npy"), read_file(original)) << name;
    }
}

TEST(npy_writer, takes_rows_in_any_order_from_many_threads) {
    constexpr std::size_t rows = 64, columns = 33;
    const temporary_directory directory;
    npy_writer writer(directory / "out.npy", {rows, columns});
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
        threads.emplace_back([&writer, t] {
            for (std::size_t row = rows - 1 - t; row < rows; row -= 4) {  // downwards, until it wraps
                writer.write_rows(row, std::vector<float>(columns, static_cast<float>(row)));
            }
        });
    }
    threads.clear();
    writer.commit();
    const std::vector<float> values = npy_file(directory / "out.npy").view().values<float>();
    ASSERT_EQ(values.size(), rows * columns);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i / columns));
}

TEST(npy_writer, leaves_nothing_when_it_is_not_committed) {
    const temporary_directory directory;
    {
        npy_writer writer(directory / "out.npy", {1, 2});
        writer.write_rows(0, std::vector<float>{1, 2});
        EXPECT_EQ(directory.entries(), 1);
    }
    EXPECT_EQ(directory.entries(), 0);
}

TEST(npy_writer, refuses_to_commit_before_every_row_is_written) {
    const temporary_directory directory;
    npy_writer writer(directory / "out.npy", {2, 1});
    writer.write_rows(1, std::vector<float>{1});
    expect_error([&] { writer.commit(); }, errc::invalid_argument);
    EXPECT_FALSE(std::filesystem::exists(directory / "out.npy"));
    writer.write_rows(0, std::vector<float>{1});
    EXPECT_NO_THROW(writer.commit());
}

TEST(npy_writer, commits_arrays_without_rows_or_columns_at_once) {
    const temporary_directory directory;
    for (const shape& dimensions : {shape{0, 3}, shape{3, 0}}) {
        npy_writer writer(directory / "out.npy", dimensions);
        writer.write_rows(0, {});
        writer.commit();
        EXPECT_EQ(npy_file(directory / "out.npy").view().shape(), dimensions);
    }
}

TEST(npy_writer, refuses_rows_that_do_not_fit) {
    const temporary_directory directory;
    npy_writer writer(directory / "out.npy", {2, 2});
    constexpr auto huge = std::numeric_limits<std::size_t>::max();
    const std::vector<float> row{1, 2};
    expect_error([&] { writer.write_rows(2, row); }, errc::invalid_argument);
    expect_error([&] { writer.write_rows(huge, row); }, errc::invalid_argument);
    expect_error([&] { writer.write_rows(1, std::vector<float>(4)); }, errc::invalid_argument);
    expect_error([&] { writer.write_rows(0, std::vector<float>(3)); }, errc::shape_mismatch);
}

TEST(npy_writer, refuses_floats_for_an_array_of_another_type) {
    const temporary_directory directory;
    npy_writer writer(directory / "out.npy", {1}, dtype::i32);
    expect_error([&] { writer.write_rows(0, std::vector<float>{1}); }, errc::shape_mismatch);
    writer.write_row_bytes(0, bytes_of(std::string("\5\0\0\0", 4)));
    writer.commit();
    EXPECT_EQ(npy_file(directory / "out.npy").view().values<std::int32_t>(), std::vector<std::int32_t>{5});
}

TEST(npy_writer, refuses_shapes_and_types_that_the_format_does_not_have) {
    const temporary_directory directory;
    const auto path = directory / "out.npy";
    constexpr auto huge = std::numeric_limits<std::size_t>::max();
    expect_error([&] { npy_writer writer(path, {huge, 2}); }, errc::invalid_argument);
    expect_error([&] { npy_writer writer(path, shape(65, 1)); }, errc::invalid_argument);
    expect_error([&] { npy_writer writer(path, {1}, dtype::bf16); }, errc::invalid_argument);
    EXPECT_EQ(directory.entries(), 0);
}

TEST(npy_writer, writes_headers_that_the_reader_reads_at_the_limits) {
    const temporary_directory directory;
    const shape longest(64, 1);
    npy_writer writer(directory / "out.npy", longest);
    writer.write_rows(0, std::vector<float>{1});
    writer.commit();
    EXPECT_EQ(npy_file(directory / "out.npy").view().shape(), longest);
}

TEST(npy_writer, reports_what_the_system_refuses) {
    const temporary_directory directory;
    const auto path = directory / "missing/out.npy";
    expect_refused([&] { npy_writer writer(path, {1}); },
                   {file_error::no_offset, "create", "No such file or directory", errc::io_failed}, path);
}

}  // namespace
}  // namespace sluice::io::npy_writer_tests
