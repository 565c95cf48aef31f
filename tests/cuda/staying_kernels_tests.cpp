// SPDX-License-Identifier: Apache-2.0
// Kernels that stay, and the calls that would wait for them, on two threads. Needs no GPU: nothing is launched.
#include "cuda/api/staying_kernels.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace sluice::cuda::staying_kernels_tests {
namespace {

using std::chrono::seconds;

const error_context context{"test"};

// A kernel that another thread begins while this thread is in a call that would wait for it.
class late_kernel {
public:
    // In the call: another thread is about to begin the kernel, and gets time for it.
    void try_to_begin() {
        other_ = std::thread([this] {
            is_about_to_ = true;
            if (api::begin_staying_kernel(seconds(60))) stays_ = true;
        });
        while (!is_about_to_) std::this_thread::yield();
        for (int i = 0; i < 1000 && !stays_; ++i) std::this_thread::yield();
    }
    bool stays() const { return stays_; }
    // After the call.
    bool has_begun_at_last() {
        other_.join();
        if (stays_) api::end_staying_kernel();
        return stays_;
    }

private:
    std::thread other_;
    std::atomic<bool> is_about_to_{false}, stays_{false};
};

}  // namespace

TEST(staying_kernels, begin_after_a_call_that_would_wait_for_them) {
    late_kernel kernel;
    {
        const api::no_staying_kernel none_stays("load a module", context);
        kernel.try_to_begin();
        EXPECT_FALSE(kernel.stays());
    }
    EXPECT_TRUE(kernel.has_begun_at_last());
}

TEST(staying_kernels, begin_after_memory_is_freed) {
    late_kernel kernel;
    const auto free = [](const api::freed_memory& memory) noexcept {
        static_cast<late_kernel*>(memory.data)->try_to_begin();
        EXPECT_FALSE(static_cast<late_kernel*>(memory.data)->stays());
    };
    api::free_when_possible({&kernel, 0, nullptr}, free);
    EXPECT_TRUE(kernel.has_begun_at_last());
}

TEST(staying_kernels, begin_after_noted_memory_is_freed) {
    late_kernel kernel;
    ASSERT_TRUE(api::begin_staying_kernel(seconds(60)));
    const auto free = [](const api::freed_memory& memory) noexcept {
        static_cast<late_kernel*>(memory.data)->try_to_begin();
        EXPECT_FALSE(static_cast<late_kernel*>(memory.data)->stays());
    };
    api::free_when_possible({&kernel, 0, nullptr}, free);
    api::end_staying_kernel();
    EXPECT_TRUE(kernel.has_begun_at_last());
}

TEST(staying_kernels, make_later_calls_refuse_until_the_last_has_ended) {
    ASSERT_TRUE(api::begin_staying_kernel(seconds(60)));
    ASSERT_TRUE(api::begin_staying_kernel(seconds(60)));
    const auto refused = [] {
        try {
            const api::no_staying_kernel none_stays("load a module", context);
            return false;
        } catch (const error& refusal) {
            return refusal.code() == errc::unsupported;
        }
    };
    EXPECT_TRUE(refused());
    api::end_staying_kernel();
    EXPECT_TRUE(refused());
    api::end_staying_kernel();
    EXPECT_FALSE(refused());
}

TEST(staying_kernels, give_up_when_a_call_takes_too_long) {
    std::optional<api::no_staying_kernel> none_stays;
    none_stays.emplace("try algorithms", context);
    const api::no_staying_kernel inner("create a handle", context);  // a thread may have several
    EXPECT_FALSE(api::begin_staying_kernel(std::chrono::milliseconds(1)));
    none_stays.reset();
    EXPECT_FALSE(api::begin_staying_kernel(std::chrono::milliseconds(1)));
}

TEST(staying_kernels, free_what_was_noted_when_the_last_has_ended) {
    static int freed;
    freed = 0;
    const auto free = [](const api::freed_memory& memory) noexcept { ++*static_cast<int*>(memory.data); };
    ASSERT_TRUE(api::begin_staying_kernel(seconds(60)));
    api::free_when_possible({&freed, 0, nullptr}, free);
    EXPECT_EQ(freed, 0);
    api::end_staying_kernel();
    EXPECT_EQ(freed, 1);
    api::free_when_possible({&freed, 0, nullptr}, free);
    EXPECT_EQ(freed, 2);
}

}  // namespace sluice::cuda::staying_kernels_tests
