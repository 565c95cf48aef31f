// SPDX-License-Identifier: Apache-2.0
#include "runtime/exclusive_use.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "sluice/sluice.hpp"
#include "support/gate.hpp"

namespace sluice::detail::exclusive_use_tests {
namespace {

using test_support::gate;

// Memory that gets several writers after it was joined: the last write through its own history is not the only one.
TEST(exclusive_use, to_read_waits_for_the_writes_of_parts_that_were_joined) {
    runtime owner({.cpu_workers = 2, .cuda = false});
    round_robin pool(owner.default_device(), 1);
    const stream_lease other(owner.default_device());
    auto [low, high] = split<2>(sync(full<int>({128}, 7), pool));
    std::atomic<bool> is_open = false;
    gate held(*other);
    const std::array writes{memory_access{high.memory(), access_mode::write}};
    other->fill({"write", writes}, {high.device_data(), 0, high.size_bytes()});
    const tensor<int> whole = join(std::move(low), std::move(high));
    storage* const memory = whole.memory();
    memory->share_among_writers(std::make_shared<access_lock>());
    std::jthread opens([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        is_open = true;
        held.open();
    });
    const exclusive_use alone(std::span(&memory, 1), access_mode::read);
    EXPECT_TRUE(is_open);
    EXPECT_EQ(static_cast<const int*>(memory->data())[127], 0);
}

}  // namespace
}  // namespace sluice::detail::exclusive_use_tests
