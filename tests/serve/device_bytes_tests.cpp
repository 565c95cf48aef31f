// SPDX-License-Identifier: Apache-2.0
// Copies of parts of a device's memory, here a CPU device's, and what opens memory where there is no GPU.
#include "serve/device_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "serve/cuda_memory_opener.hpp"
#include "sluice/runtime/adopt.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::device_bytes_tests {
namespace {

using ::testing::HasSubstr;

// Aligned as CPU devices need it.
struct alignas(64) memory_of_others {
    std::array<std::byte, 4096> bytes{};
};

class device_bytes_on_cpu : public ::testing::Test {
protected:
    device_bytes open() { return {cpu, adopt(cpu, theirs->bytes.data(), {theirs->bytes.size()}, theirs)}; }

    runtime machine{{.cuda = false}};
    device& cpu = machine.find("cpu:0");
    std::shared_ptr<memory_of_others> theirs = std::make_shared<memory_of_others>();
};

TEST_F(device_bytes_on_cpu, parts_are_copied_wherever_they_begin) {
    const device_bytes opened = open();
    for (std::size_t i = 0; i < theirs->bytes.size(); ++i) theirs->bytes[i] = static_cast<std::byte>(i % 251);
    const std::array<std::byte, 4096> before = theirs->bytes;
    for (const std::size_t offset : {0U, 1U, 7U, 255U, 4090U}) {
        std::vector<std::byte> got(std::min<std::size_t>(1000, 4096 - offset));
        opened.read(offset, got);
        EXPECT_TRUE(std::equal(got.begin(), got.end(), before.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
    opened.write(13, std::array{std::byte{254}, std::byte{255}});
    EXPECT_EQ(theirs->bytes[12], before[12]);
    EXPECT_EQ(theirs->bytes[13], std::byte{254});
    EXPECT_EQ(theirs->bytes[14], std::byte{255});
    EXPECT_EQ(theirs->bytes[15], before[15]);
    opened.write(4095, std::array{std::byte{1}});
    EXPECT_EQ(theirs->bytes[4095], std::byte{1});
}

TEST_F(device_bytes_on_cpu, several_threads_copy_at_a_time) {
    const device_bytes opened = open();
    std::vector<std::jthread> threads;
    for (unsigned char each = 0; each < 4; ++each) {
        threads.emplace_back([&opened, each] {
            const std::size_t begin = 1000UL * each + each;
            for (unsigned char round = 1; round <= 50; ++round) {
                const std::vector<std::byte> mine(997, static_cast<std::byte>(round + 50 * each));
                opened.write(begin, mine);
                std::vector<std::byte> got(mine.size());
                opened.read(begin, got);
                ASSERT_EQ(got, mine);
            }
        });
    }
}

TEST_F(device_bytes_on_cpu, the_memory_is_let_go_at_the_end) {
    const std::weak_ptr<memory_of_others> watched = theirs;
    {
        const device_bytes opened = open();
        std::array<std::byte, 8> some{};
        opened.read(8, some);
        opened.write(8, some);
        theirs.reset();
        EXPECT_FALSE(watched.expired());
    }
    cpu.synchronize();
    while (!watched.expired()) std::this_thread::yield();  // on the runtime's completion thread
}

TEST(cuda_memory, is_not_opened_where_there_is_no_gpu) {
    const runtime machine({.cuda = false});
    const cuda_memory_opener opener(machine);
    EXPECT_THAT(opener.why_not(), ::testing::Not(::testing::IsEmpty()));
    for (const std::int64_t device_id : {0, 7}) {
        try {
            static_cast<void>(opener.open(device_id, {}, 64));
            FAIL() << "it is opened";
        } catch (const refusal& why) {
            EXPECT_EQ(why.kind(), refusal_kind::bad_request);
            EXPECT_THAT(why.why(), HasSubstr("'device_id' is " + std::to_string(device_id)));
            EXPECT_THAT(why.why(), HasSubstr("cpu:0"));
        }
    }
    network_engine engine({.device = "cpu", .machine = {.cuda = false}});
    ASSERT_NE(engine.gpu_memory(), nullptr);
    EXPECT_EQ(engine.gpu_memory()->why_not(), opener.why_not());
}

}  // namespace
}  // namespace sluice::serve::device_bytes_tests
