// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/write_file.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <stdexcept>

#include "io/support/file_size_limit.hpp"
#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/io/write_error.hpp"

namespace sluice::io::write_file_tests {
namespace {

using testing::read_file;
using testing::temporary_directory;

TEST(write_file, has_what_the_stream_was_given) {
    const temporary_directory directory;
    std::string expected;
    write_file(directory / "out", [&](std::ostream& to) {
        for (int i = 0; i < 30'000; ++i) {
            to << i << ' ' << "abc";
            to.put('\n');
            expected += std::to_string(i) + " abc\n";
        }
        const std::string large(200'000, 'x');
        to.write(large.data(), static_cast<std::streamsize>(large.size()));
        expected += large;
    });
    EXPECT_EQ(read_file(directory / "out"), expected);
    EXPECT_EQ(directory.entries(), 1);
}

TEST(write_file, leaves_the_old_file_when_the_writer_throws) {
    const temporary_directory directory;
    const auto path = directory.write("out", "old");
    EXPECT_THROW(write_file(path,
                            [](std::ostream& to) {
                                to << "new";
                                throw std::runtime_error("no more");
                            }),
                 std::runtime_error);
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(directory.entries(), 1);
}

TEST(write_file, replaces_a_link_and_leaves_what_it_leads_to) {
    const temporary_directory directory;
    const auto target = directory.write("target", "another one's");
    std::filesystem::create_symlink(target, directory / "link");
    write_file(directory / "link", [](std::ostream& to) { to << "mine"; });
    EXPECT_EQ(read_file(target), "another one's");
    EXPECT_EQ(read_file(directory / "link"), "mine");
    EXPECT_FALSE(std::filesystem::is_symlink(directory / "link"));
}

TEST(write_file, distinguishes_a_full_disk_from_an_impossible_name) {
    const temporary_directory directory;
    {
        const testing::file_size_limit limit(1000);
        const auto write_more = [&] {
            write_file(directory / "out", [](std::ostream& to) { to << std::string(2000, 'x'); });
        };
        EXPECT_THROW(write_more(), write_error);
    }
    for (const std::string& name : {std::string(), std::string(256, 'n'), std::string("absent/out")}) {
        try {
            atomic_file file(name.empty() ? std::filesystem::path() : directory / name);
            ADD_FAILURE() << "was made: " << name;
        } catch (const write_error& failure) {
            ADD_FAILURE() << failure.what();
        } catch (const file_error& refusal) {
            EXPECT_EQ(refusal.code(), make_error_code(errc::io_failed)) << refusal.what();
        }
    }
    EXPECT_EQ(directory.entries(), 0);
}

}  // namespace
}  // namespace sluice::io::write_file_tests
