// SPDX-License-Identifier: Apache-2.0
// The state that CUDA keeps of a calling thread (its context, device, last error and capture mode) is after each call
// of Sluice what it was before, and whatever it is, the call works.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <thread>

#include "cuda/other_code.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/runtime/adopt.hpp"

namespace sluice::callers_thread_tests {
namespace {

using namespace other_code;
using namespace std::chrono_literals;

// Calls of all kinds, each followed by `check`.
void call_all(gpu_machine& with, const std::function<void()>& check) {
    const auto then_check = [&](auto&& call) {
        call();
        check();
    };
    then_check([&] { require_right(with.pool); });
    then_check([&] { require_right(with.pool, 3'000'000); });
    then_check([&] { static_cast<void>(spawn(busy(1ms), with.pool).get()); });
    then_check([&] {
        auto future = spawn(busy(20ms), with.pool);
        while (!future.wait_for(0s)) with.gpu.poll();
    });
    then_check([&] { EXPECT_EQ(sync_wait(awaited(with.pool, 3)), 6); });
    then_check([&] {
        const event mark = event::record(with.pool.next());
        static_cast<void>(mark.has_passed());
    });
    then_check([&] {
        auto graph = compile(
            with.pool, [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); },
            host_input<float>({64}));
        EXPECT_EQ(sync(graph(numbers(64, 3)), with.pool)[0], 6);
    });
    then_check([&] { with.gpu.trim(); });
    then_check([&] { static_cast<void>(with.gpu.memory()); });
    then_check(
        [&] { EXPECT_NE(failure_of([&] { sync(uninitialized<char>({std::size_t{1} << 50}), with.pool); }), ""); });
    then_check([&] {
        float on_stack[8] = {};
        EXPECT_NE(failure_of([&] { static_cast<void>(adopt(with.gpu, on_stack, {8}, [](float*) {})); }), "");
    });
    then_check([&] {
        round_robin more(with.gpu, 8);
        require_right(more);
    });
    then_check([&] {
        runtime another({.cpu_devices = 0});
        round_robin its(another.find("cuda:0"), 2);
        require_right(its);
    });
}

}  // namespace

TEST(the_callers_thread, may_have_no_context_and_keeps_none) {
    gpu_machine with;
    set_context(nullptr);
    call_all(with, [] { EXPECT_EQ(current_context(), nullptr); });
}

TEST(the_callers_thread, keeps_a_context_of_its_own) {
    gpu_machine with;
    // With three parameters, which each driver has; in CUDA 13 the function without a version has another form.
    const auto create = driver_symbol<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2");
    const auto destroy = driver_symbol<CUresult (*)(CUcontext)>("cuCtxDestroy_v2");
    ASSERT_NE(create, nullptr);
    CUcontext own = nullptr;
    ASSERT_CUDA(create(&own, 0, 0));
    call_all(with, [&] { EXPECT_EQ(current_context(), own); });
    EXPECT_CUDA(destroy(own));
    require_right(with.pool);
}

TEST(the_callers_thread, keeps_the_primary_context_that_the_runtime_has_made_current) {
    ASSERT_CUDA(cudaSetDevice(0));
    ASSERT_CUDA(cudaFree(nullptr));
    const CUcontext before = current_context();
    gpu_machine with;
    call_all(with, [&] { EXPECT_EQ(current_context(), before); });
}

TEST(the_callers_thread, keeps_its_capture_mode) {
    gpu_machine with;
    for (const auto mode :
         {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
        cudaStreamCaptureMode set = mode;
        ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&set));
        call_all(with, [&] { EXPECT_EQ(static_cast<int>(capture_mode()), static_cast<int>(mode)); });
    }
}

TEST(the_callers_thread, keeps_an_error_that_it_has_not_read_yet) {
    gpu_machine with;
    require_right(with.pool);
    call_all(with, [] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); });
    ASSERT_NE(cudaFree(reinterpret_cast<void*>(0x10)), cudaSuccess);  // an error of the caller's own
    call_all(with, [] { EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue); });
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

// A foreign stream in a green context, which has a part of the multiprocessors.
TEST(the_callers_thread, may_give_a_stream_of_a_green_context) {
    const auto resource_of =
        driver_symbol<CUresult (*)(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource");
    const auto split = driver_symbol<CUresult (*)(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*,
                                                  unsigned, unsigned)>("cuDevSmResourceSplitByCount");
    const auto describe =
        driver_symbol<CUresult (*)(CUdevResourceDesc*, CUdevResource*, unsigned)>("cuDevResourceGenerateDesc");
    const auto make =
        driver_symbol<CUresult (*)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)>("cuGreenCtxCreate");
    const auto make_stream =
        driver_symbol<CUresult (*)(CUstream*, CUgreenCtx, unsigned, int)>("cuGreenCtxStreamCreate");
    if (make_stream == nullptr) GTEST_SKIP() << "the driver has no green contexts";
    gpu_machine with;
    require_right(with.pool);
    CUdevResource all{}, part{}, rest{};
    ASSERT_CUDA(resource_of(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    unsigned groups = 1;
    ASSERT_CUDA(split(&part, &groups, &all, &rest, 0, 16));
    CUdevResourceDesc description{};
    ASSERT_CUDA(describe(&description, &part, 1));
    CUgreenCtx green{};
    ASSERT_CUDA(make(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CUstream theirs{};
    ASSERT_CUDA(make_stream(&theirs, green, CU_STREAM_NON_BLOCKING, 0));
    {
        cuda::foreign_stream on(with.gpu, theirs);
        require_right(on);
        require_right(on, 3'000'000);
    }
    require_right(with.pool);
}

TEST(the_callers_thread, keeps_its_device_when_it_works_on_another) {
    int count = 0;
    ASSERT_CUDA(cudaGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "there is one GPU here";
    runtime devices({.cpu_devices = 0});
    round_robin first(devices.find("cuda:0"), 2), second(devices.find("cuda:1"), 2);
    for (const int own : {1, 0}) {
        ASSERT_CUDA(cudaSetDevice(own));
        const auto expect_own = [&] {
            int now = -1;
            EXPECT_CUDA(cudaGetDevice(&now));
            EXPECT_EQ(now, own);
        };
        require_right(first);
        expect_own();
        require_right(second, 700'000);
        expect_own();
        shared_tensor<float> there(sync(full<float>({1000}, 2.f), second));
        auto here =
            copy_to(devices.find("cuda:0"), there).and_then([](auto x) { return slowly_scaled(std::move(x), 2, 2ms); });
        for (const float each : spawn(std::move(here).and_then(download), first).get()) EXPECT_EQ(each, 4);
        expect_own();
        const event mark = event::record(second.next());
        first.next().order_after(mark.point());
        expect_own();
        devices.find("cuda:1").trim();
        expect_own();
    }
    std::thread([&] {
        require_right(second);
        EXPECT_EQ(current_context(), nullptr);
    }).join();
}

TEST(a_gpu_that_is_left_out, gets_no_context) {
    int count = 0;
    ASSERT_CUDA(cudaGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "there is one GPU here";
    const auto get = driver_symbol<CUresult (*)(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
    const auto expect_none = [&](const char* after) {
        unsigned flags = 0;
        int is_active = 0;
        EXPECT_CUDA(get(0, &flags, &is_active));
        EXPECT_EQ(is_active, 0) << after;
    };
    expect_none("before");
    runtime devices({.cpu_devices = 0, .gpus = {1}});
    round_robin pool(devices.find("cuda:1"), 4);
    expect_none("the runtime");
    require_right(pool);
    expect_none("a wait");
    auto future = spawn(doubled(1000, 3), pool);
    while (!future.wait_for(0s)) std::this_thread::yield();
    expect_none("polls");
    EXPECT_EQ(sync_wait(awaited(pool, 3)), 6);
    expect_none("a coroutine");
    std::thread([&] { require_right(pool); }).join();
    static_cast<void>(spawn(host_call([] {}), pool).get());
    auto graph = compile(
        pool, [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); }, host_input<float>({64}));
    EXPECT_EQ(sync(graph(numbers(64, 3)), pool)[0], 6);
    devices.find("cuda:1").trim();
    expect_none("a thread, a host call, a graph and a trim");
}

}  // namespace sluice::callers_thread_tests
