// SPDX-License-Identifier: Apache-2.0
// Regions of memory that another process has on a GPU. That process is conformance/interprocess_peer.cpp: its
// allocation has the numbers 0 to 1023, and it answers with those that it finds changed at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "conformance/support/peer_process.hpp"
#include "cuda/api/interprocess.hpp"
#include "cuda/api/memory.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/refusal.hpp"
#include "sluice/serve/shared_regions.hpp"

namespace sluice::serve::cuda_memory_device_tests {
namespace {

namespace api = cuda::api;
using conformance::peer_process;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t numbers = 1024;
constexpr std::size_t bytes = numbers * sizeof(float);

class cuda_memory : public ::testing::Test {
protected:
    std::string refused(const gpu_memory_handle& handle, std::uint64_t size = bytes, std::int64_t device_id = 0) {
        try {
            regions.add("a", device_id, handle, size);
        } catch (const refusal& why) {
            EXPECT_EQ(why.kind(), refusal_kind::bad_request);
            return why.why();
        }
        regions.remove(region_kind::cuda, "a");
        return "accepted";
    }
    std::vector<float> read(const shared_region& from, std::size_t first, std::size_t count) const {
        std::vector<float> got(count);
        from.read(first * sizeof(float), std::as_writable_bytes(std::span(got)));
        return got;
    }

    network_engine engine{{.device = "cuda"}};
    shared_regions regions{{.system = false, .gpus = engine.gpu_memory()}};
};

std::vector<float> counting(std::size_t first, std::size_t count) {
    std::vector<float> all(count);
    std::iota(all.begin(), all.end(), static_cast<float>(first));
    return all;
}

TEST_F(cuda_memory, is_read_and_written_wherever_it_begins) {
    ASSERT_TRUE(regions.has(region_kind::cuda));
    peer_process peer("offers_an_allocation");
    regions.add("a", 0, peer.receive<gpu_memory_handle>(), bytes);
    {
        const auto region = regions.find("a");
        for (const auto& [first, count] :
             {std::pair<std::size_t, std::size_t>{0, numbers}, {1, 1}, {13, 500}, {1023, 1}})
            EXPECT_EQ(read(*region, first, count), counting(first, count));
        std::array<std::byte, 3> odd{};
        region->read(4 * 7 + 1, odd);  // of 7.0F, which is 0x40e00000
        EXPECT_THAT(odd, ElementsAre(std::byte{0}, std::byte{0xe0}, std::byte{0x40}));
        const std::vector<float> values{70, 71};
        region->write(4 * 301, std::as_bytes(std::span(values)));
        EXPECT_EQ(read(*region, 300, 4), (std::vector<float>{300, 70, 71, 303}));
        region->read(bytes - 3, odd);
        EXPECT_THROW(region->read(bytes - 2, odd), refusal);
    }
    regions.remove_all(region_kind::cuda);
    engine.default_device().synchronize();
    peer.send('.');
    EXPECT_EQ(peer.answer(), "301:" + std::to_string(70.0F) + " 302:" + std::to_string(71.0F) + " ");
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(cuda_memory, may_be_registered_again_and_under_two_names) {
    peer_process peer("offers_an_allocation");
    const auto handle = peer.receive<gpu_memory_handle>();
    for (int round = 0; round < 3; ++round) {
        regions.add("a", 0, handle, round == 1 ? 256 : bytes);
        regions.add("b", 0, handle, bytes);
        const auto used = regions.find("b");
        regions.remove(region_kind::cuda, "a");
        regions.remove(region_kind::cuda, "b");
        EXPECT_EQ(read(*used, 5, 3), counting(5, 3));  // as a request that has it
    }
    peer.send('.');
    EXPECT_EQ(peer.answer(), "");
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(cuda_memory, threads_copy_at_the_same_time) {
    peer_process peer("offers_an_allocation");
    regions.add("a", 0, peer.receive<gpu_memory_handle>(), bytes);
    {
        std::vector<std::jthread> threads;
        for (std::size_t each = 0; each < 4; ++each) {
            threads.emplace_back([&, each] {
                const auto region = regions.find("a");
                const std::size_t first = 200 * each + each;
                for (int round = 0; round < 100; ++round) {
                    const std::vector<float> mine = counting(first, 150);
                    region->write(4 * first, std::as_bytes(std::span(mine)));
                    ASSERT_EQ(read(*region, first, 150), mine);
                }
            });
        }
    }
    regions.remove_all(region_kind::cuda);
    engine.default_device().synchronize();
    peer.send('.');
    EXPECT_EQ(peer.answer(), "");
    EXPECT_EQ(peer.wait(), 0);
}

TEST_F(cuda_memory, wrong_handles_are_refused_and_the_gpu_works) {
    const std::string accepted = "accepted is what cudaIpcGetMemHandle has given another process";
    gpu_memory_handle noise{};
    noise.fill(std::byte{0x5a});
    EXPECT_THAT(refused({}), HasSubstr(accepted));
    EXPECT_THAT(refused(noise), HasSubstr(accepted));
    {
        const api::device_scope scope(0);
        const auto free = [&here = *api::device_scope::innermost()](void* freed) { api::free_device(here, freed); };
        const std::unique_ptr<void, decltype(free)> own(api::allocate_device(bytes), free);
        EXPECT_THAT(refused(api::memory_handle(own.get(), {})), HasSubstr(accepted));
    }
    peer_process peer("offers_an_allocation");
    const auto handle = peer.receive<gpu_memory_handle>();
    for (const std::uint64_t size : {std::uint64_t{bytes} + 1, std::uint64_t{64} << 20, std::uint64_t{1} << 62,
                                     std::numeric_limits<std::uint64_t>::max()})
        EXPECT_THAT(refused(handle, size), HasSubstr("at least " + std::to_string(size) + " bytes"));
    EXPECT_THAT(refused(handle, bytes, 99), HasSubstr("there is no device 'cuda:99'"));
    EXPECT_EQ(refused(handle), "accepted");
    peer.send('.');
    EXPECT_EQ(peer.answer(), "");
    EXPECT_EQ(peer.wait(), 0);
    EXPECT_FALSE(engine.default_device().is_poisoned());
}

}  // namespace
}  // namespace sluice::serve::cuda_memory_device_tests
