// SPDX-License-Identifier: Apache-2.0
// when_memory next to devices that have faulted, that the host has not asked for a while, and that are small.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "faults/faulty_backend.hpp"
#include "sluice/sluice.hpp"

namespace sluice::faults::when_memory_fault_tests {
namespace {

using namespace std::chrono_literals;

class when_memory_next_to : public testing::Test {
protected:
    errc code_of_waiting() {
        const auto make = [this] {
            ++calls;
            return zeros<char>({4000});
        };
        try {
            static_cast<void>(sync(timeout(when_memory(make), 60s), pool));
        } catch (const error& failure) {
            return static_cast<errc>(failure.code().value());
        }
        return errc{};
    }

    faulty_runtime fakes;
    round_robin pool{fakes.on, 1};
    int calls = 0;
};

}  // namespace

TEST_F(when_memory_next_to, a_device_that_has_faulted_does_not_wait_for_it) {
    round_robin elsewhere(fakes.other, 1);
    fakes.second.works.hold();
    const auto lost = spawn(zeros<int>({100}), elsewhere);  // neither the memory nor the command ever comes back
    fakes.second.works.fault("on purpose");
    fakes.first.memory.fail_from(0);
    EXPECT_EQ(code_of_waiting(), errc::out_of_memory);
    EXPECT_TRUE(fakes.other.is_poisoned());
    EXPECT_FALSE(fakes.on.is_poisoned());
}

TEST_F(when_memory_next_to, a_device_that_is_idle_does_not_wait_for_it) {
    const stream_lease elsewhere(fakes.other);
    elsewhere->host_call({"call"}, {[] {}});
    const command_queue& queue = elsewhere->queue();
    while (queue.interpreter().last_flag() < queue.issued()) std::this_thread::sleep_for(1ms);
    ASSERT_LT(queue.passed(), queue.issued());  // the host has not asked
    fakes.first.memory.fail_from(0);
    EXPECT_EQ(code_of_waiting(), errc::out_of_memory);
}

TEST_F(when_memory_next_to, memory_in_use_elsewhere_fails_at_once_for_more_than_its_own_device_has) {
    round_robin elsewhere(fakes.other, 1);
    const auto held = sync(zeros<int>({100}), elsewhere);
    fakes.first.memory.total_bytes = 2000;
    fakes.second.memory.total_bytes = 10'000;
    fakes.first.memory.fail_from(0);
    EXPECT_EQ(code_of_waiting(), errc::out_of_memory);
    EXPECT_EQ(calls, 1);
}

TEST_F(when_memory_next_to, memory_that_is_there_again_continues) {
    const auto held = sync(zeros<int>({100}), pool);
    fakes.first.memory.fail_from(0);
    std::jthread brings([&] {
        std::this_thread::sleep_for(5ms);
        fakes.first.memory.recover();
    });
    EXPECT_EQ(code_of_waiting(), errc{});
}

}  // namespace sluice::faults::when_memory_fault_tests
