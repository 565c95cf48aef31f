// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/gemm_table.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

#include "sluice/base/file_error.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::kernels::gemm_table_tests {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const gemm_table_origin here{"Some GPU", 13000, 130100};

gemm_table sample() {
    return {here,
            {{{gemm_type::bf16, true, 4096, 4096, 4096}, "wgmma 128x256 in pairs", 181.5, 190.25},
             {{gemm_type::f16, false, 1, 8, 16}, "cuBLASLt 3", 2, 0},
             {{gemm_type::tf32, true, 7, 8, 16}, "tiles", 2.5, 3}}};
}

class gemm_tables : public testing::Test {
protected:
    gemm_tables() { std::filesystem::create_directory(folder); }
    ~gemm_tables() override { std::filesystem::remove_all(folder); }

    void put(const std::string& text) { std::ofstream(file, std::ios::binary) << text; }
    gemm_table use(const gemm_table_origin& location = here) {
        return usable_gemm_table(file, location, [&](const std::string& what) { warnings.push_back(what); });
    }

    const std::filesystem::path folder =
        std::filesystem::path(testing::TempDir()) /
        (std::string("gemm_tables_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    const std::filesystem::path file = folder / "table.txt";
    std::vector<std::string> warnings;
};

}  // namespace

TEST_F(gemm_tables, that_cannot_be_read_are_none) {
    std::filesystem::create_directories(file);  // a folder of that name
    EXPECT_TRUE(use().entries.empty());
    EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(gemm_tables, come_back_as_they_were_written) {
    const auto below = folder / "not" / "yet" / "there" / "table.txt";
    write_gemm_table(below, sample());
    write_gemm_table(below, sample());  // over the old one
    const gemm_table found = usable_gemm_table(below, here, [](const std::string& what) { FAIL() << what; });
    ASSERT_EQ(found.entries.size(), 3u);
    EXPECT_EQ(found.origin, here);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(found.entries[i].of, sample().entries[i].of);
        EXPECT_EQ(found.entries[i].fastest, sample().entries[i].fastest);
        EXPECT_EQ(found.entries[i].microseconds, sample().entries[i].microseconds);
        EXPECT_EQ(found.entries[i].library_microseconds, sample().entries[i].library_microseconds);
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(below.parent_path()), {}), 1);
}

TEST_F(gemm_tables, that_are_missing_are_empty_without_a_word) {
    EXPECT_THAT(use().entries, IsEmpty());
    EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(gemm_tables, of_another_machine_are_ignored_with_one_warning) {
    put(to_text(sample()));
    const auto expect_stale = [&](const gemm_table_origin& location, const char* word) {
        warnings.clear();
        const gemm_table found = use(location);
        EXPECT_THAT(found.entries, IsEmpty());
        EXPECT_EQ(found.origin, location);
        EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr(file.string()), HasSubstr(word), HasSubstr("sluice tune"))));
    };
    expect_stale({"Another GPU", 13000, 130100}, "Another GPU");
    expect_stale({"Some GPU", 12040, 130100}, "driver 13000");
    expect_stale({"Some GPU", 13000, 130200}, "cuBLASLt 130100");
    expect_stale({"Some GPU", 13000, 130100, gemm_kernels_version + 1}, "kernels");
}

TEST_F(gemm_tables, cut_short_anywhere_are_ignored_with_one_warning) {
    const std::string whole = to_text(sample());
    for (std::size_t size = 0; size < whole.size(); ++size) {
        put(whole.substr(0, size));
        warnings.clear();
        EXPECT_THAT(use().entries, IsEmpty());
        EXPECT_EQ(warnings.size(), 1u) << size;
    }
}

TEST_F(gemm_tables, with_any_byte_changed_are_ignored_with_one_warning) {
    const std::string whole = to_text(sample());
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        put(changed);
        warnings.clear();
        EXPECT_THAT(use().entries, IsEmpty());
        EXPECT_EQ(warnings.size(), 1u) << at;
    }
    put(whole + "\n");
    warnings.clear();
    EXPECT_THAT(use().entries, IsEmpty());
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("more follows")));
}

TEST_F(gemm_tables, are_refused_with_place_and_field) {
    const auto refusal = [&](const std::string& text) -> std::string {
        try {
            static_cast<void>(gemm_table_from_text(text, file));
        } catch (const file_error& why) {
            return why.what();
        }
        return {};
    };
    EXPECT_THAT(refusal("something else\n"), AllOf(HasSubstr("byte 0"), HasSubstr("format")));
    const std::string head = "sluice gemm table 1\ndevice x\ndriver 1\nlibrary 2\nkernels 3\n";
    EXPECT_THAT(refusal(head + "entries many\n"), AllOf(HasSubstr("entries"), HasSubstr("not a number")));
    EXPECT_THAT(refusal(head + "entries 99999999999\n"), HasSubstr("too many"));
    EXPECT_THAT(refusal(head + "entries -1\n"), HasSubstr("not a number"));
    EXPECT_THAT(refusal(head + "entries 1\nf64 plain 1 1 1 1 1 tiles\n"), HasSubstr("type"));
    EXPECT_THAT(refusal(head + "entries 1\nf16 other 1 1 1 1 1 tiles\n"), HasSubstr("neither transposed nor plain"));
    EXPECT_THAT(refusal(head + "entries 1\nf16 plain 1 x 1 1 1 tiles\n"), HasSubstr("columns"));
    EXPECT_THAT(refusal(head + "entries 1\nf16 plain 1 1 1 nan 1 tiles\n"), HasSubstr("microseconds"));
    EXPECT_THAT(refusal(head + "entries 0\nchecksum 0\n"), HasSubstr("checksum"));
}

TEST_F(gemm_tables, that_cannot_be_written_say_so) {
    put("a file, not a folder");
    EXPECT_THROW(write_gemm_table(file / "table.txt", sample()), file_error);
    std::filesystem::create_directory(folder / "taken");
    EXPECT_THROW(write_gemm_table(folder / "taken", sample()), file_error);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);  // no other file is left
}

TEST_F(gemm_tables, replace_links_and_leave_what_they_lead_to) {
    put("another one's");
    // The names that a process would choose for a temporary file, too.
    const auto pid = std::to_string(::getpid());
    for (const std::string& name : {std::string("link.txt"), "link.txt." + pid + ".tmp"}) {
        std::filesystem::create_symlink(file, folder / name);
    }
    write_gemm_table(folder / "link.txt", sample());
    EXPECT_FALSE(std::filesystem::is_symlink(folder / "link.txt"));
    std::ifstream stream(file);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "another one's");
}

TEST_F(gemm_tables, of_many_writers_at_once_are_whole) {
    write_gemm_table(file, sample());
    std::atomic<int> failures = 0;
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) {
        writers.emplace_back([&] {
            for (int turn = 0; turn < 20; ++turn) {
                try {
                    write_gemm_table(file, sample());
                } catch (const std::exception&) {
                    ++failures;
                }
            }
        });
    }
    for (int turn = 0; turn < 100; ++turn) EXPECT_EQ(use().entries.size(), 3u);
    writers.clear();
    EXPECT_EQ(failures, 0);
    EXPECT_THAT(warnings, IsEmpty());
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(gemm_tables, of_another_machine_have_its_name_in_printable_form) {
    gemm_table foreign = sample();
    foreign.origin.device = "\x1b]0;title\x07 \xc2\x9b GPU";
    put(to_text(foreign));
    EXPECT_THAT(use().entries, IsEmpty());
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("\\x1b]0;title\\x07 \\u009b GPU")));
    EXPECT_THAT(warnings.front(), testing::Not(HasSubstr("\x1b")));
}

TEST_F(gemm_tables, lie_in_the_users_cache_by_the_name_of_the_gpu) {
    device_properties gpu;
    gpu.name = "NVIDIA H200 (x)";
    EXPECT_EQ(gemm_table_file(gpu).filename(), "gemm-nvidia-h200-x-.txt");
    EXPECT_EQ(gemm_table_file(gpu).parent_path().filename(), "sluice");
}

}  // namespace sluice::kernels::gemm_table_tests
