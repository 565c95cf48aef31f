// SPDX-License-Identifier: Apache-2.0
// Tables of measured kernels: what they know, and files of them that are damaged, hostile or written by many.
#include "sluice/kernels/tuning_table.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "kernels/tuning/tuning_text.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::kernels::tuning_table_tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

tuning_measurement measured(const std::string& device, std::vector<shape> shapes, std::size_t fastest = 1) {
    return {device, {"kernel<64, 2>", "kernel<128, 2>"}, std::move(shapes), fastest, 181.5, 190.25};
}

const std::string_view names[] = {"kernel<64, 2>", "kernel<128, 2>"};

class tuning_tables : public testing::Test {
protected:
    tuning_tables() {
        std::filesystem::create_directory(folder);
        table.add(measured("Some GPU", {{4096, 64}, {7}}));
        table.add(measured("Some GPU", {{}, {1, 2, 3, 4}}, 0));
        table.add(measured("AMD EPYC (2 workers)", {{4096, 64}, {7}}, 0));
    }
    ~tuning_tables() override { std::filesystem::remove_all(folder); }

    void put(const std::string& text) { std::ofstream(file, std::ios::binary) << text; }
    std::string contents() {
        std::ifstream stream(file, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    // What the refusal says; nothing when the file is read.
    std::string refusal_of(const std::string& text) {
        put(text);
        tuning_table read;
        try {
            read.load(file);
        } catch (const file_error& why) {
            EXPECT_TRUE(read.measurements().empty());
            return why.what();
        }
        return {};
    }

    const std::filesystem::path folder =
        std::filesystem::path(testing::TempDir()) /
        (std::string("tuning_tables_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    const std::filesystem::path file = folder / "table.txt";
    tuning_table table;
};

}  // namespace

TEST_F(tuning_tables, find_by_device_kernels_and_shapes) {
    const shape shapes[] = {{4096, 64}, {7}}, other[] = {{4096, 64}, {8}}, swapped[] = {{7}, {4096, 64}};
    EXPECT_EQ(table.find("Some GPU", names, shapes), 1u);
    EXPECT_EQ(table.find("AMD EPYC (2 workers)", names, shapes), 0u);
    EXPECT_EQ(table.find("Some", names, shapes), std::nullopt);
    EXPECT_EQ(table.find("Some GPU", names, other), std::nullopt);
    EXPECT_EQ(table.find("Some GPU", names, swapped), std::nullopt);
    EXPECT_EQ(table.find("Some GPU", std::span(names).first(1), shapes), std::nullopt);
    EXPECT_EQ(table.find("Some GPU", names, std::span(shapes).first(1)), std::nullopt);
    table.add(measured("Some GPU", {{4096, 64}, {7}}, 0));
    EXPECT_EQ(table.find("Some GPU", names, shapes), 0u);
    EXPECT_EQ(table.measurements().size(), 3u);
}

TEST_F(tuning_tables, refuse_measurements_that_say_nothing) {
    const auto expect_refusal = [&](const char* why, const auto& change) {
        tuning_measurement each = measured("Some GPU", {{1}});
        change(each);
        try {
            table.add(each);
            ADD_FAILURE() << why;
        } catch (const error& refusal) {
            EXPECT_EQ(refusal.code(), errc::invalid_argument);
            EXPECT_THAT(refusal.what(), HasSubstr(why));
        }
    };
    expect_refusal("device", [](auto& each) { each.device = ""; });
    expect_refusal("device", [](auto& each) { each.device = "two\nlines"; });
    expect_refusal("kernels", [](auto& each) { each.kernels.clear(); });
    expect_refusal("kernel's name", [](auto& each) { each.kernels[1] = "x\n"; });
    expect_refusal("shapes", [](auto& each) { each.shapes.clear(); });
    expect_refusal("none of the kernels", [](auto& each) { each.fastest = 2; });
    expect_refusal("time", [](auto& each) { each.microseconds = -1; });
    expect_refusal("time", [](auto& each) { each.default_microseconds = 0.0 / 0.0; });
    EXPECT_EQ(table.measurements().size(), 3u);
}

TEST_F(tuning_tables, come_back_from_files) {
    const auto below = folder / "not" / "yet" / "there" / "table.txt";
    table.save(below);
    table.save(below);  // over the old one
    tuning_table read;
    read.load(below);
    const auto expected = table.measurements(), found = read.measurements();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].device, expected[i].device);
        EXPECT_EQ(found[i].kernels, expected[i].kernels);
        EXPECT_EQ(found[i].shapes, expected[i].shapes);
        EXPECT_EQ(found[i].fastest, expected[i].fastest);
        EXPECT_EQ(found[i].microseconds, expected[i].microseconds);
        EXPECT_EQ(found[i].default_microseconds, expected[i].default_microseconds);
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(below.parent_path()), {}), 1);
}

TEST_F(tuning_tables, keep_what_a_file_knows_of_others) {
    table.save(file);
    tuning_table other;
    other.add(measured("Another GPU", {{5}}));
    other.add(measured("Some GPU", {{4096, 64}, {7}}, 0));
    other.save(file);
    EXPECT_EQ(other.measurements().size(), 2u);
    tuning_table read;
    read.load(file);
    EXPECT_EQ(read.measurements().size(), 4u);
    const shape shapes[] = {{4096, 64}, {7}};
    EXPECT_EQ(read.find("Some GPU", names, shapes), 0u);
}

TEST_F(tuning_tables, leave_a_file_that_is_none) {
    put("my diary\n");
    EXPECT_THROW(table.save(file), file_error);
    EXPECT_EQ(contents(), "my diary\n");
    EXPECT_THROW(table.load(file), file_error);
    EXPECT_EQ(table.measurements().size(), 3u);
    EXPECT_THROW(table.load(folder / "missing.txt"), file_error);
    EXPECT_THROW(table.load(folder), file_error);
    EXPECT_THROW(table.save(folder), file_error);
    EXPECT_THROW(table.save(file / "below_a_file.txt"), file_error);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);  // no other file is left
}

TEST_F(tuning_tables, cut_short_anywhere_are_refused) {
    const std::string whole = to_text(table.measurements());
    EXPECT_EQ(refusal_of(whole), "");
    for (std::size_t size = 0; size < whole.size(); ++size) ASSERT_NE(refusal_of(whole.substr(0, size)), "") << size;
    EXPECT_THAT(refusal_of(whole + "\n"), HasSubstr("more follows"));
}

TEST_F(tuning_tables, with_any_byte_changed_are_refused) {
    const std::string whole = to_text(table.measurements());
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        ASSERT_NE(refusal_of(changed), "") << at;
    }
}

TEST_F(tuning_tables, are_refused_with_place_and_field) {
    EXPECT_THAT(refusal_of("something else\n"), AllOf(HasSubstr("byte 0"), HasSubstr("format")));
    const std::string head = "sluice kernel table 1\n", entry = head + "entries 1\ndevice x\n";
    EXPECT_THAT(refusal_of(head + "entries many\n"), AllOf(HasSubstr("entries"), HasSubstr("not a number")));
    EXPECT_THAT(refusal_of(head + "entries 99999999999\n"), HasSubstr("too many"));
    EXPECT_THAT(refusal_of(entry + "kernels 99999999999\n"), AllOf(HasSubstr("kernels"), HasSubstr("too many")));
    EXPECT_THAT(refusal_of(entry + "kernels 1\nshapes 1\n"), AllOf(HasSubstr("kernel"), HasSubstr("missing")));
    const std::string kernels = entry + "kernels 1\nkernel k\n";
    EXPECT_THAT(refusal_of(kernels + "shapes 99999999999\n"), AllOf(HasSubstr("shapes"), HasSubstr("too many")));
    EXPECT_THAT(refusal_of(kernels + "shapes 1\nshape 1 2 3 4 5\n"), HasSubstr("too many dimensions"));
    EXPECT_THAT(refusal_of(kernels + "shapes 1\nshape 1  2\n"), HasSubstr("no list of numbers"));
    EXPECT_THAT(refusal_of(kernels + "shapes 1\nshape 1 -2\n"), HasSubstr("no list of numbers"));
    EXPECT_THAT(refusal_of(kernels + "shapes 1\nshape \n"), HasSubstr("no list of numbers"));
    EXPECT_THAT(refusal_of(kernels + "shapes 1\nshape 1 2 \n"), HasSubstr("no list of numbers"));
    EXPECT_THAT(refusal_of(kernels + "shapes 1\nshape 4294967296 4294967296 4294967296\n"), HasSubstr("more elements"));
    const std::string shapes = kernels + "shapes 1\nshape 1 2\n";
    EXPECT_THAT(refusal_of(shapes + "fastest -1\n"), AllOf(HasSubstr("fastest"), HasSubstr("not a number")));
    EXPECT_THAT(refusal_of(shapes + "fastest 1\nmicroseconds 1\ndefault 1\n"), HasSubstr("none of the kernels"));
    EXPECT_THAT(refusal_of(shapes + "fastest 0\nmicroseconds nan\ndefault 1\n"), HasSubstr("microseconds"));
    EXPECT_THAT(refusal_of(shapes + "fastest 0\nmicroseconds 1\ndefault inf\n"), HasSubstr("time"));
    EXPECT_THAT(refusal_of(shapes + "fastest 0\nmicroseconds 1\ndefault 1\nchecksum 0\n"), HasSubstr("checksum"));
}

TEST_F(tuning_tables, of_many_writers_at_once_are_whole_and_lose_nothing) {
    table.save(file);
    std::atomic<int> failures = 0;
    {
        std::vector<std::jthread> writers;
        for (std::size_t writer = 0; writer < 4; ++writer) {
            writers.emplace_back([&, writer] {
                for (std::size_t turn = 0; turn < 10; ++turn) {
                    try {
                        tuning_table mine;
                        mine.add(measured("Writer", {{writer, turn}}));
                        mine.save(file);
                    } catch (const std::exception&) {
                        ++failures;
                    }
                }
            });
        }
        for (int turn = 0; turn < 50; ++turn) {
            tuning_table read;
            read.load(file);  // throws for a file that is not whole
            EXPECT_GE(read.measurements().size(), 3u);
        }
    }
    EXPECT_EQ(failures, 0);
    tuning_table read;
    read.load(file);
    EXPECT_EQ(read.measurements().size(), 3u + 4 * 10);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(tuning_tables, replace_links_and_leave_what_they_lead_to) {
    table.save(file);
    const std::string before = contents();
    std::filesystem::create_symlink(file, folder / "link.txt");
    tuning_table other;
    other.add(measured("Another GPU", {{5}}));
    other.save(folder / "link.txt");
    EXPECT_FALSE(std::filesystem::is_symlink(folder / "link.txt"));
    EXPECT_EQ(contents(), before);
}

}  // namespace sluice::kernels::tuning_table_tests
