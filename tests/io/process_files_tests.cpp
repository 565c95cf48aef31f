// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/process_files.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "sluice/io/atomic_file.hpp"

namespace sluice::io::process_files_tests {
namespace {

using testing::bytes_of;
using testing::temporary_directory;

TEST(known_temporaries, are_removed_and_others_stay) {
    const temporary_directory directory;
    const auto file = directory.write("a.tmp", ""), other = directory.write("b.tmp", "");
    const known_temporary known(file);
    remove_known_temporaries();
    EXPECT_FALSE(std::filesystem::exists(file));
    EXPECT_TRUE(std::filesystem::exists(other));
}

TEST(known_temporaries, are_forgotten_with_what_knows_them) {
    const temporary_directory directory;
    const auto file = directory.write("a.tmp", "");
    std::optional<known_temporary> known(file);
    known_temporary moved = std::move(*known);
    known.reset();
    moved = {};
    remove_known_temporaries();
    EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(known_temporaries, are_those_of_atomic_files_until_the_commit) {
    const temporary_directory directory;
    atomic_file kept(directory / "kept"), lost(directory / "lost");
    kept.write_at(0, bytes_of("whole"));
    kept.commit();
    remove_known_temporaries();
    EXPECT_TRUE(std::filesystem::exists(directory / "kept"));
    EXPECT_EQ(directory.entries(), 1);
    EXPECT_THROW(lost.commit(), file_error);
}

TEST(known_temporaries, are_found_after_the_process_has_changed_its_directory) {
    const temporary_directory directory, elsewhere;
    const auto before = std::filesystem::current_path();
    directory.write("a.tmp", "");
    std::filesystem::current_path(directory.path());
    const known_temporary known("a.tmp");
    std::filesystem::current_path(elsewhere.path());
    remove_known_temporaries();
    std::filesystem::current_path(before);
    EXPECT_EQ(directory.entries(), 0);
}

TEST(known_temporaries, may_be_created_and_removed_at_the_same_time) {
    const temporary_directory directory;
    std::atomic<bool> over{false};
    std::jthread remover([&] {
        while (!over) remove_known_temporaries();
    });
    std::vector<std::jthread> others;
    const auto bystander = directory.write("bystander", "");
    for (int i = 0; i < 2; ++i) {
        others.emplace_back([&, i] {
            for (int turn = 0; turn < 2000; ++turn) {
                const known_temporary known(directory / (std::to_string(i) + "-" + std::to_string(turn) + ".tmp"));
            }
        });
    }
    others.clear();
    over = true;
    remover.join();
    EXPECT_TRUE(std::filesystem::exists(bystander));
}

TEST(known_mappings, name_the_file_of_an_address) {
    const std::array<std::byte, 8> memory{};
    EXPECT_EQ(mapped_file_at(&memory[3]), nullptr);
    std::optional<known_mapping> known(std::in_place, memory.data(), 4, "some\x1b/file");
    EXPECT_STREQ(mapped_file_at(&memory[0]), "some\\x1b/file");
    EXPECT_STREQ(mapped_file_at(&memory[3]), "some\\x1b/file");
    EXPECT_EQ(mapped_file_at(&memory[4]), nullptr);
    known.reset();
    EXPECT_EQ(mapped_file_at(&memory[0]), nullptr);
}

}  // namespace
}  // namespace sluice::io::process_files_tests
