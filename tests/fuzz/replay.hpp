// SPDX-License-Identifier: Apache-2.0
// Gives a fuzzer's files to what it fuzzes, in a test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::fuzz {

// The folder is one of tests/. Gives every file there to `read`, which takes its bytes; at least one there must be.
template <class Read>
void replay(const std::string& folder, Read read) {
    int files = 0;
    const std::filesystem::path directory = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests" / folder;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        SCOPED_TRACE(entry.path());
        const std::string contents = io::testing::read_file(entry.path());
        EXPECT_NO_THROW(read(io::testing::bytes_of(contents)));
        ++files;
    }
    EXPECT_GT(files, 0) << directory;
}

}  // namespace sluice::fuzz
