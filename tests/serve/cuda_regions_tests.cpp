// SPDX-License-Identifier: Apache-2.0
// Regions of memory on GPUs, and their place next to those of POSIX shared memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/support/fake_gpus.hpp"
#include "serve/support/shared_object.hpp"
#include "sluice/serve/shared_regions.hpp"

namespace sluice::serve::cuda_regions_tests {
namespace {

using ::testing::ElementsAre;
using testing::fake_gpus;
using ::testing::HasSubstr;
using testing::shared_object;

template <typename Function>
std::string refused(const Function& what, refusal_kind kind = refusal_kind::bad_request) {
    try {
        what();
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), kind);
        return why.why();
    }
    return "accepted";
}

class cuda_regions : public ::testing::Test {
protected:
    void add(const std::string& name, unsigned char number, std::uint64_t bytes, std::int64_t device_id = 0) {
        regions.add(name, device_id, fake_gpus::handle_of(number), bytes);
    }

    std::shared_ptr<fake_gpus> gpus = std::make_shared<fake_gpus>();
    shared_regions regions{{.gpus = gpus}};
};

TEST_F(cuda_regions, are_read_and_written_where_they_are) {
    const auto memory = gpus->allocate(7, 64, 1);
    memory->put(16, {1, 2, 3, 4});
    add("a", 7, 48, 1);
    const auto region = regions.find("a");
    EXPECT_EQ(region->kind(), region_kind::cuda);
    EXPECT_EQ(region->bytes(), 48U);
    EXPECT_EQ(regions.find_cuda("a")->device_id(), 1);
    std::array<float, 2> two{};
    region->read(20, std::as_writable_bytes(std::span(two)));
    EXPECT_THAT(two, ElementsAre(2, 3));
    region->write(24, std::as_bytes(std::span(two)));
    EXPECT_THAT(memory->get(16, 4), ElementsAre(1, 2, 2, 3));
    region->read(48, {});
    region->write(48, {});
}

TEST_F(cuda_regions, memory_stays_open_for_those_that_use_it) {
    const auto memory = gpus->allocate(7, 64);
    add("a", 7, 64);
    add("b", 7, 8);
    EXPECT_EQ(memory->opened, 2);
    const auto used = regions.find("a");
    regions.remove_all(region_kind::cuda);
    EXPECT_TRUE(regions.all_cuda().empty());
    EXPECT_EQ(memory->opened, 1);
    std::array<std::byte, 8> bytes{};
    used->read(0, bytes);
    add("a", 7, 64);  // the name is free
    EXPECT_NE(regions.find("a"), used);
}

TEST_F(cuda_regions, the_kinds_share_names_but_not_their_calls) {
    const shared_object object(64);
    gpus->allocate(7, 64);
    add("gpu", 7, 64);
    regions.add("host", object.key(), 0, 64);
    EXPECT_THAT(refused([&] { add("host", 7, 64); }), HasSubstr("'host' is registered already"));
    EXPECT_THAT(refused([&] { regions.add("gpu", object.key(), 0, 64); }), HasSubstr("'gpu' is registered already"));
    EXPECT_THAT(refused([&] { regions.find_cuda("host"); }), HasSubstr("'host' is system shared memory, not CUDA"));
    EXPECT_THAT(refused([&] { regions.find_system("gpu"); }), HasSubstr("'gpu' is CUDA shared memory, not system"));
    EXPECT_THAT(refused([&] { regions.remove(region_kind::system, "gpu"); }), HasSubstr("is CUDA shared memory"));
    EXPECT_THAT(refused([&] { regions.remove(region_kind::cuda, "host"); }), HasSubstr("is system shared memory"));
    regions.remove_all(region_kind::system);
    EXPECT_TRUE(regions.all_system().empty());
    ASSERT_EQ(regions.all_cuda().size(), 1U);
    regions.remove(region_kind::cuda, "gpu");
    regions.remove(region_kind::cuda, "gpu");
    EXPECT_TRUE(regions.all_cuda().empty());
}

TEST_F(cuda_regions, what_the_gpu_refuses_is_not_registered) {
    const auto memory = gpus->allocate(7, 64);
    EXPECT_THAT(refused([&] { add("a", 8, 64); }), HasSubstr("the handle cannot be opened"));
    EXPECT_THAT(refused([&] { add("a", 7, 65); }), HasSubstr("is shorter"));
    EXPECT_THAT(refused([&] { add("a", 7, std::numeric_limits<std::uint64_t>::max()); }), HasSubstr("is shorter"));
    EXPECT_THAT(refused([&] { add("a", 7, 64, 1); }), HasSubstr("memory of another GPU"));
    EXPECT_THAT(refused([&] { add("a", 7, 64, 5); }), HasSubstr("there is no GPU 5"));
    EXPECT_EQ(memory->opened, 0);
    EXPECT_TRUE(regions.all_cuda().empty());
}

TEST_F(cuda_regions, nothing_is_opened_for_a_registration_that_is_wrong) {
    gpus->allocate(7, 64);
    EXPECT_THAT(refused([&] { add("a", 7, 0); }), HasSubstr("has no bytes"));
    for (const char* name : {"", "a/b", "..", "a b"})
        EXPECT_THAT(refused([&] { add(name, 7, 64); }), HasSubstr("is no name of a region")) << name;
    EXPECT_EQ(gpus->opens, 0);
    add("a", 7, 64);
    EXPECT_THAT(refused([&] { add("a", 7, 64); }), HasSubstr("is registered already"));
    EXPECT_EQ(gpus->opens, 1);
    for (std::size_t i = 1; i < shared_regions::most_regions; ++i) add("r" + std::to_string(i), 7, 1);
    EXPECT_THAT(refused([&] { add("one_more", 7, 1); }), HasSubstr("which is the most"));
    EXPECT_EQ(gpus->opens, static_cast<int>(shared_regions::most_regions));
}

// The fake throws another error where it is asked for bytes outside of the region.
TEST_F(cuda_regions, parts_past_the_end_never_reach_the_gpu) {
    gpus->allocate(7, 64);
    add("a", 7, 16);
    const auto region = regions.find("a");
    std::vector<std::byte> bytes(32);
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [offset, size] :
         {std::pair{std::uint64_t{0}, 17}, {1, 16}, {16, 1}, {17, 0}, {most, 2}, {most - 8, 16}, {most, 0}}) {
        const auto part = std::span(bytes).first(static_cast<std::size_t>(size));
        EXPECT_THAT(refused([&, at = offset] { region->read(at, part); }), HasSubstr("which has 16"));
        EXPECT_THAT(refused([&, at = offset] { region->write(at, part); }), HasSubstr("which has 16"));
    }
}

TEST_F(cuda_regions, a_gpu_that_fails_is_no_fault_of_the_request) {
    const auto memory = gpus->allocate(7, 64);
    add("a", 7, 64);
    memory->is_lost = true;
    std::array<std::byte, 8> bytes{};
    try {
        regions.find("a")->read(0, bytes);
        FAIL() << "it is read";
    } catch (const std::exception& failure) {
        EXPECT_EQ(refusal_of(failure).kind(), refusal_kind::failed);
    }
}

TEST(shared_regions_of_gpus, are_refused_without_a_gpu_and_where_they_are_not_allowed) {
    const gpu_memory_handle handle{};
    shared_regions without({.gpus = std::make_shared<fake_gpus>("no NVIDIA driver was found")});
    EXPECT_THAT(refused([&] { without.add("a", 0, handle, 64); }),
                HasSubstr("cannot open memory of a GPU: no NVIDIA driver was found"));
    EXPECT_TRUE(without.allows(region_kind::cuda));
    EXPECT_FALSE(without.has(region_kind::cuda));
    shared_regions system_only;
    EXPECT_FALSE(system_only.allows(region_kind::cuda));
    EXPECT_THAT(refused([&] { system_only.add("a", 0, handle, 64); }, refusal_kind::forbidden),
                HasSubstr("sluice serve --cuda-shared-memory"));
    shared_regions cuda_only({.system = false, .gpus = std::make_shared<fake_gpus>()});
    EXPECT_TRUE(cuda_only.has(region_kind::cuda));
    EXPECT_FALSE(cuda_only.has(region_kind::system));
    EXPECT_THAT(refused([&] { cuda_only.add("a", "/x", 0, 64); }, refusal_kind::forbidden),
                HasSubstr("sluice serve --shared-memory"));
}

}  // namespace
}  // namespace sluice::serve::cuda_regions_tests
