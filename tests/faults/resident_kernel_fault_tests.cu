// SPDX-License-Identifier: Apache-2.0
// Kernels of one's own that stay on a GPU and break it. A GPU that has faulted is lost for the process, so ctest runs
// each of these tests in its own process.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/support/awaiting.hpp"
#include "sluice/kernels/resident_kernel.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice::faults::resident_kernel_fault_tests {
namespace {

using conformance::failure_of;
using namespace std::chrono_literals;

[[gnu::constructor]] void load_kernels_at_the_start() { setenv("CUDA_MODULE_LOADING", "EAGER", 1); }

enum class order { answer, never_return, trap };

struct obedient {
    SLUICE_KERNEL void operator()(const thread_block& block, [[maybe_unused]] const order& asked, int& answer) const {
#ifdef __CUDA_ARCH__
        while (asked == order::never_return) __nanosleep(1000);
        if (asked == order::trap) __trap();
#endif
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() == 0) answer = 1;
        });
    }
};

bool is_lost = false;

class resident_kernel_faults : public testing::Test {
protected:
    void SetUp() override {
        if (std::exchange(is_lost, true)) GTEST_SKIP() << "the GPU is lost for this process: run this under ctest";
        devices.emplace();
        gpu = &devices->find("cuda:0");
    }

    std::optional<runtime> devices;
    device* gpu = nullptr;
};

}  // namespace

TEST_F(resident_kernel_faults, a_call_that_never_returns_times_out_and_is_ended_by_a_trap) {
    const auto begin = std::chrono::steady_clock::now();
    {
        const resident_kernel stays(*gpu, obedient{}, {.lanes = 2, .longest_wait = 300ms});
        EXPECT_EQ(stays.ask(order::answer), 1);
        try {
            static_cast<void>(stays.ask(order::never_return));
            FAIL() << "it returned";
        } catch (const error& late) {
            EXPECT_EQ(late.code(), errc::timed_out) << late.what();
        }
        // The other lane is ended too, and says why.
        try {
            static_cast<void>(stays.ask(order::answer, 1));
            FAIL() << "it answered";
        } catch (const error& late) {
            EXPECT_EQ(late.code(), errc::timed_out) << late.what();
        }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);  // it ends, also on a busy machine
    EXPECT_THROW(gpu->synchronize(), device_error);
}

TEST_F(resident_kernel_faults, each_caller_of_a_kernel_that_faults_receives_the_first_cause) {
    std::array<std::string, 4> told;
    const resident_kernel stays(*gpu, obedient{}, {.lanes = 2});
    {
        std::latch answered(told.size() + 1);
        std::vector<std::jthread> callers;
        for (std::size_t i = 0; i < told.size(); ++i) {
            callers.emplace_back([&, i] {
                static_cast<void>(stays.ask(order::answer, i % 2));
                answered.count_down();
                told[i] = failure_of([&] {
                    for (;;) static_cast<void>(stays.ask(order::answer, i % 2));
                });
            });
        }
        answered.arrive_and_wait();
        EXPECT_NE(failure_of([&] { static_cast<void>(stays.ask(order::trap)); }), "");
    }
    const std::string cause = failure_of([&] { gpu->synchronize(); });
    EXPECT_NE(cause, "");
    for (const std::string& each : told) EXPECT_EQ(each, cause);
    EXPECT_EQ(failure_of([&] { static_cast<void>(stays.ask(order::answer, 1)); }), cause);
}

}  // namespace sluice::faults::resident_kernel_fault_tests
