// SPDX-License-Identifier: Apache-2.0
// The cache of compiled modules: a file that is not exactly what was kept counts as missing.
#include "cuda/compile_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "io/support/temporary_directory.hpp"

namespace sluice::cuda::compile_cache_tests {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
}

std::string read_all(const std::filesystem::path& file) {
    std::ifstream from(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(from), {}};
}

void write_all(const std::filesystem::path& file, const std::string& contents) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << contents;
}

class compile_caches : public testing::Test {
protected:
    const io::testing::temporary_directory folder;
    const compile_cache cache{folder / "of_modules"};
    const std::vector<std::byte> module = bytes_of("machine code");
};

// Sets an environment variable for one test.
class environment {
public:
    environment(const char* name, const char* value) : name_(name) {
        if (const char* const now = std::getenv(name)) before_ = now;
        set(value);
    }
    environment(const environment&) = delete;  // the destructor restores the value
    environment& operator=(const environment&) = delete;
    ~environment() { set(before_ ? before_->c_str() : nullptr); }

private:
    void set(const char* value) { value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_); }

    const char* name_;
    std::optional<std::string> before_;
};

}  // namespace

TEST_F(compile_caches, what_was_kept_is_found) {
    EXPECT_EQ(cache.find("key"), std::nullopt);
    ASSERT_TRUE(cache.keep("key", module));
    EXPECT_EQ(cache.find("key"), module);
    EXPECT_EQ(cache.find("another key"), std::nullopt);
}

TEST_F(compile_caches, a_module_replaces_the_one_before) {
    ASSERT_TRUE(cache.keep("key", module));
    ASSERT_TRUE(cache.keep("key", bytes_of("newer")));
    EXPECT_EQ(cache.find("key"), bytes_of("newer"));
}

TEST_F(compile_caches, a_file_that_is_cut_anywhere_counts_as_missing) {
    ASSERT_TRUE(cache.keep("key", module));
    const std::string whole = read_all(cache.file_of("key"));
    for (std::size_t length = 0; length < whole.size(); ++length) {
        write_all(cache.file_of("key"), whole.substr(0, length));
        EXPECT_EQ(cache.find("key"), std::nullopt) << length;
    }
    write_all(cache.file_of("key"), whole);
    EXPECT_EQ(cache.find("key"), module);
}

TEST_F(compile_caches, a_file_with_one_changed_byte_counts_as_missing) {
    ASSERT_TRUE(cache.keep("key", module));
    const std::string whole = read_all(cache.file_of("key"));
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (const int bit : {0, 3, 7}) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
            write_all(cache.file_of("key"), changed);
            EXPECT_EQ(cache.find("key"), std::nullopt) << at;
        }
    }
}

TEST_F(compile_caches, a_file_with_bytes_at_its_end_counts_as_missing) {
    ASSERT_TRUE(cache.keep("key", module));
    write_all(cache.file_of("key"), read_all(cache.file_of("key")) + '\0');
    EXPECT_EQ(cache.find("key"), std::nullopt);
}

TEST_F(compile_caches, a_file_of_another_key_counts_as_missing) {
    ASSERT_TRUE(cache.keep("key", module));
    std::filesystem::copy_file(cache.file_of("key"), cache.file_of("yek"));
    EXPECT_EQ(cache.find("yek"), std::nullopt);
    EXPECT_EQ(cache.find("key"), module);
}

TEST_F(compile_caches, a_damaged_file_is_replaced) {
    ASSERT_TRUE(cache.keep("key", module));
    write_all(cache.file_of("key"), "damaged");
    ASSERT_TRUE(cache.keep("key", module));
    EXPECT_EQ(cache.find("key"), module);
}

TEST_F(compile_caches, a_folder_that_cannot_be_made_keeps_nothing) {
    write_all(folder / "file", "");
    const compile_cache in_a_file(folder / "file" / "of_modules");
    EXPECT_FALSE(in_a_file.keep("key", module));
    EXPECT_EQ(in_a_file.find("key"), std::nullopt);
}

TEST_F(compile_caches, a_folder_in_the_place_of_a_file_keeps_nothing) {
    std::filesystem::create_directories(cache.file_of("key"));
    EXPECT_FALSE(cache.keep("key", module));
    EXPECT_EQ(cache.find("key"), std::nullopt);
}

TEST_F(compile_caches, an_empty_path_keeps_nothing) {
    const compile_cache none{std::filesystem::path()};
    EXPECT_FALSE(none.keep("key", module));
    EXPECT_EQ(none.find("key"), std::nullopt);
}

TEST_F(compile_caches, an_empty_module_is_kept_too) {
    ASSERT_TRUE(cache.keep("", {}));
    EXPECT_EQ(cache.find(""), std::vector<std::byte>());
}

TEST(compile_cache_folder, is_in_the_cache_folder_of_the_user) {
    const environment home("HOME", "/somewhere");
    {
        const environment caches("XDG_CACHE_HOME", "/caches");
        EXPECT_EQ(compile_cache::default_folder(), "/caches/sluice");
    }
    {
        const environment relative("XDG_CACHE_HOME", "caches");
        EXPECT_EQ(compile_cache::default_folder(), "/somewhere/.cache/sluice");
    }
    const environment caches("XDG_CACHE_HOME", nullptr);
    EXPECT_EQ(compile_cache::default_folder(), "/somewhere/.cache/sluice");
    const environment no_home("HOME", nullptr);
    EXPECT_EQ(compile_cache::default_folder(), "");
}

}  // namespace sluice::cuda::compile_cache_tests
