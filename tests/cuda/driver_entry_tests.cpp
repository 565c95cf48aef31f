// SPDX-License-Identifier: Apache-2.0
// Entries into the driver leave the calling thread as it was. A table of functions takes the driver's place.
#include "cuda/api/driver_entry.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::cuda::driver_entry_tests {
namespace {

// The state that the driver has of a thread, and which call fails.
struct fake_thread {
    std::vector<CUcontext> stack;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    unsigned long long id = 7;
    CUresult of_id = CUDA_SUCCESS, of_current = CUDA_SUCCESS, of_push = CUDA_SUCCESS, of_exchange = CUDA_SUCCESS;
};
fake_thread here;

CUcontext context(int number) { return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(16 * number)); }

const api::entry_functions fake{
    .id_of =
        [](CUcontext, unsigned long long* id) {
            *id = here.id;
            return here.of_id;
        },
    .current =
        [](CUcontext* found) {
            *found = here.stack.empty() ? nullptr : here.stack.back();
            return here.of_current;
        },
    .push =
        [](CUcontext pushed) {
            if (here.of_push == CUDA_SUCCESS) here.stack.push_back(pushed);
            return here.of_push;
        },
    .pop =
        [](CUcontext* popped) {
            *popped = here.stack.back();
            here.stack.pop_back();
            return CUDA_SUCCESS;
        },
    .exchange_mode =
        [](CUstreamCaptureMode* mode) {
            if (here.of_exchange == CUDA_SUCCESS) std::swap(here.mode, *mode);
            return here.of_exchange;
        },
};

class driver_entries : public testing::Test {
protected:
    driver_entries() { here = {}; }
};

}  // namespace

TEST_F(driver_entries, make_the_context_current_and_the_mode_relaxed_and_undo_both) {
    for (const std::vector<CUcontext>& before :
         {std::vector<CUcontext>{}, {context(1)}, {context(2)}, {context(1), context(2)}, {context(2), context(1)}}) {
        for (const auto mode :
             {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
            here = {.stack = before, .mode = mode};
            const api::driver_entry made = api::enter(fake, context(1), 7);
            EXPECT_EQ(made.code, CUDA_SUCCESS);
            EXPECT_EQ(here.stack.back(), context(1));
            EXPECT_EQ(here.mode, CU_STREAM_CAPTURE_MODE_RELAXED);
            api::leave(fake, made);
            EXPECT_EQ(here.stack, before);
            EXPECT_EQ(here.mode, mode);
        }
    }
}

TEST_F(driver_entries, inside_each_other_end_in_the_state_before_the_outermost) {
    here.stack = {context(3)};
    const api::driver_entry outer = api::enter(fake, context(1), 7);
    const api::driver_entry inner = api::enter(fake, context(2), 7);
    const api::driver_entry same = api::enter(fake, context(2), 7);
    api::leave(fake, same);
    EXPECT_EQ(here.stack.back(), context(2));
    api::leave(fake, inner);
    EXPECT_EQ(here.stack.back(), context(1));
    EXPECT_EQ(here.mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    api::leave(fake, outer);
    EXPECT_EQ(here.stack, std::vector<CUcontext>{context(3)});
    EXPECT_EQ(here.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(driver_entries, change_nothing_when_a_call_of_the_driver_fails) {
    for (CUresult fake_thread::* const call :
         {&fake_thread::of_id, &fake_thread::of_current, &fake_thread::of_push, &fake_thread::of_exchange}) {
        here = {.stack = {context(2)}};
        here.*call = CUDA_ERROR_NOT_PERMITTED;
        const api::driver_entry made = api::enter(fake, context(1), 7);
        EXPECT_EQ(made.code, CUDA_ERROR_NOT_PERMITTED);
        EXPECT_EQ(here.stack, std::vector<CUcontext>{context(2)});
        api::leave(fake, made);
        EXPECT_EQ(here.stack, std::vector<CUcontext>{context(2)});
        EXPECT_EQ(here.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
}

// After a reset the GPU's context has the same handle, and another id.
TEST_F(driver_entries, refuse_a_context_that_was_made_again) {
    here.id = 8;
    EXPECT_EQ(api::enter(fake, context(1), 7).code, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_TRUE(here.stack.empty());
}

}  // namespace sluice::cuda::driver_entry_tests
