// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/shared_regions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "serve/support/shared_object.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::shared_regions_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::shared_object;

template <typename Function>
std::string refused(const Function& what) {
    try {
        what();
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), refusal_kind::bad_request);
        return why.why();
    }
    return "accepted";
}

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

TEST(shared_regions, are_read_and_written_where_they_are) {
    const shared_object object(64);
    object.put(16, {1, 2, 3, 4});
    shared_regions regions;
    regions.add("a", object.key(), 16, 16);
    const auto region = regions.find("a");
    std::array<float, 2> two{};
    region->read(4, std::as_writable_bytes(std::span(two)));
    EXPECT_THAT(two, ElementsAre(2, 3));
    region->write(8, std::as_bytes(std::span(two)));
    EXPECT_THAT(object.get(16, 4), ElementsAre(1, 2, 2, 3));
    region->read(16, {});
    region->write(16, {});
}

TEST(shared_regions, are_known_by_their_names_until_they_are_removed) {
    const shared_object object(64);
    shared_regions regions;
    regions.add("b", object.key(), 0, 64);
    regions.add("a", object.key().substr(1), 8, 8);  // shm_open takes the name with and without '/'
    const auto all = regions.all_system();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0]->name(), "a");
    EXPECT_EQ(all[0]->offset(), 8U);
    EXPECT_EQ(all[0]->bytes(), 8U);
    EXPECT_EQ(all[1]->key(), object.key());
    EXPECT_EQ(regions.find_system("b")->key(), object.key());
    EXPECT_THAT(refused([&] { regions.add("a", object.key(), 0, 8); }), HasSubstr("'a' is registered already"));
    const auto kept = regions.find("a");
    regions.remove(region_kind::system, "a");
    regions.remove(region_kind::system, "a");
    EXPECT_THAT(refused([&] { regions.find("a"); }), HasSubstr("'a' is not registered"));
    std::array<std::byte, 8> bytes{};
    kept->read(0, bytes);  // a request that has it continues
    regions.remove_all(region_kind::system);
    EXPECT_TRUE(regions.all_system().empty());
}

TEST(shared_regions, names_that_are_no_shared_memory_are_refused) {
    shared_regions regions;
    const auto add = [&](const std::string& key) { return refused([&] { regions.add("a", key, 0, 1); }); };
    for (const char* key : {"", "/", ".", "..", "/..", "../etc/passwd", "/etc/passwd", "a/b", "//a"})
        EXPECT_THAT(add(key), HasSubstr("is no name of shared memory")) << key;
    EXPECT_THAT(add(std::string("a\0b", 3)), HasSubstr("is no name of shared memory"));
    EXPECT_THAT(add(std::string(300, 'a')), HasSubstr("is no name of shared memory"));
    EXPECT_THAT(add("sluice-test-nowhere"), HasSubstr("cannot be opened: No such file"));
    for (const char* name : {"", "a/b", "..", "a b", "\n"})
        EXPECT_THAT(refused([&] { regions.add(name, "x", 0, 1); }), HasSubstr("is no name of a region")) << name;
    EXPECT_TRUE(regions.all_system().empty());
}

TEST(shared_regions, what_is_no_plain_file_or_leads_elsewhere_is_refused) {
    const std::filesystem::path folder = "/dev/shm";
    if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "this system has no /dev/shm";
    const std::string name = "sluice-test-other-" + std::to_string(::getpid());
    shared_regions regions;
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
    EXPECT_THAT(refused([&] { regions.add("a", name, 0, 1); }), HasSubstr("is no shared memory"));
    std::filesystem::remove(folder / name);
    std::filesystem::create_symlink("/etc/passwd", folder / name);
    EXPECT_THAT(refused([&] { regions.add("a", name, 0, 1); }), HasSubstr("cannot be opened"));
    std::filesystem::remove(folder / name);
}

TEST(shared_regions, parts_past_the_end_are_refused) {
    const shared_object object(64);
    shared_regions regions;
    const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
        return refused([&] { regions.add("a", object.key(), offset, bytes); });
    };
    EXPECT_THAT(add(0, 65), HasSubstr("needs 65 bytes from 0 on; the shared memory '" + object.key() + "' has 64"));
    EXPECT_THAT(add(60, 5), HasSubstr("has 64"));
    EXPECT_THAT(add(65, 1), HasSubstr("has 64"));
    EXPECT_THAT(add(most, 1), HasSubstr("has 64"));
    EXPECT_THAT(add(8, most - 7), HasSubstr("has 64"));  // the sum is 0
    EXPECT_THAT(add(0, 0), HasSubstr("has no bytes"));
    EXPECT_EQ(add(8, 16), "accepted");
    const auto region = regions.find("a");
    std::vector<std::byte> bytes(16);
    const auto both = [&](std::uint64_t offset, std::size_t size) {
        const auto part = std::span(bytes).first(size);
        const std::string read = refused([&] { region->read(offset, part); });
        EXPECT_EQ(refused([&] { region->write(offset, part); }), read);
        return read;
    };
    EXPECT_EQ(both(0, 16), "accepted");
    EXPECT_THAT(both(1, 16), HasSubstr("16 bytes from 1 on are not in the shared memory region 'a', which has 16"));
    EXPECT_THAT(both(17, 0), HasSubstr("which has 16"));
    EXPECT_THAT(both(most, 2), HasSubstr("which has 16"));
    EXPECT_THAT(both(most - 8, 16), HasSubstr("which has 16"));
}

TEST(shared_regions, an_object_that_shrinks_is_refused_and_not_made_larger) {
    const shared_object object(64);
    shared_regions regions;
    regions.add("a", object.key(), 0, 64);
    const auto region = regions.find("a");
    object.resize(16);
    std::vector<std::byte> bytes(32);
    EXPECT_THAT(refused([&] { region->read(0, bytes); }), HasSubstr("has become smaller"));
    EXPECT_THAT(refused([&] { region->write(0, bytes); }), HasSubstr("has become smaller"));
    EXPECT_EQ(object.size(), 16U);
    object.resize(64);
    region->read(0, bytes);
}

TEST(shared_regions, their_number_is_limited) {
    const shared_object object(64);
    shared_regions regions;
    for (std::size_t i = 0; i < shared_regions::most_regions; ++i)
        regions.add("r" + std::to_string(i), object.key(), 0, 1);
    EXPECT_THAT(refused([&] { regions.add("one_more", object.key(), 0, 1); }), HasSubstr("which is the most"));
    regions.remove(region_kind::system, "r0");
    regions.add("one_more", object.key(), 0, 1);
}

}  // namespace
}  // namespace sluice::serve::shared_regions_tests
