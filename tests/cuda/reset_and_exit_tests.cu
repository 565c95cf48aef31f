// SPDX-License-Identifier: Apache-2.0
// The end of CUDA from outside: other code resets the GPU, the process ends in some order, or forks. No signal, no
// hang.
//
// Each test needs a process of its own: run these under ctest.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "cuda/other_code.hpp"

namespace sluice::reset_and_exit_tests {
namespace {

using namespace other_code;
using namespace std::chrono_literals;

// A reset, as by code that uses the runtime on this thread.
void reset_the_gpu(int ordinal) {
    static const auto get = driver_symbol<CUresult (*)(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
    ASSERT_CUDA(cudaSetDevice(ordinal));
    ASSERT_CUDA(cudaFree(nullptr));
    ASSERT_CUDA(cudaDeviceReset());
    unsigned flags = 0;
    int is_active = 1;
    ASSERT_CUDA(get(ordinal, &flags, &is_active));
    ASSERT_EQ(is_active, 0);
}

// What a program may leave to static destructors, in an order in which the tensor is destroyed after the runtime.
void make_statics() {
    static std::optional<tensor<float>> destroyed_last;
    static gpu_machine with;
    static tensor<float> kept = sync(full<float>({1000}, 1.f), with.pool);
    destroyed_last.emplace(sync(full<float>({1000}, 2.f), with.pool));
    static auto graph = compile(
        with.pool, [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); }, host_input<float>({64}));
    sync(graph(numbers(64, 1)), with.pool);
    static auto running = spawn(busy(200ms), with.pool);
    alarm(60);  // a hang ends with a signal, which fails the test
}

}  // namespace

TEST(a_reset_by_other_code, is_an_error_of_the_runtime_and_a_new_one_works) {
    {
        gpu_machine with;
        require_right(with.pool);
        const tensor<float> kept = sync(full<float>({1000}, 1.f), with.pool);
        auto result = spawn(doubled(1000, 3), with.pool);
        while (!result.wait_for(0s)) std::this_thread::yield();
        auto graph = compile(
            with.pool, [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); },
            host_input<float>({64}));
        sync(graph(numbers(64, 1)), with.pool);
        pinned_tensor<float> pinned(with.gpu, {1000});
        pinned.write(numbers(1000, 5));
        reset_the_gpu(0);
        EXPECT_EQ(std::move(result).get()[999], 6);  // it was on the host already
        pinned.write(numbers(1000, 7));
        EXPECT_NE(failure_of([&] { require_right(with.pool); }).find("cudaDeviceReset"), std::string::npos);
        EXPECT_TRUE(with.gpu.is_poisoned());
        for (int i = 0; i < 3; ++i) {
            EXPECT_NE(failure_of([&] { require_right(with.pool, 2'000'000); }).find("cudaDeviceReset"),
                      std::string::npos);
            EXPECT_NE(failure_of([&] { sync(graph(numbers(64, 1)), with.pool); }), "");
            EXPECT_NE(failure_of([&] { sync_wait(awaited(with.pool, 3)); }), "");
        }
        EXPECT_NE(failure_of([&] { with.gpu.synchronize(); }), "");
        with.gpu.trim();
        {
            gpu_machine fresh;  // next to the old one
            require_right(fresh.pool);
        }
    }
    for (int i = 0; i < 3; ++i) {
        gpu_machine fresh;
        require_right(fresh.pool);
        require_right(fresh.pool, 2'000'000);
    }
}

TEST(a_reset_by_other_code, of_one_gpu_leaves_the_others_alone) {
    int count = 0;
    ASSERT_CUDA(cudaGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "there is one GPU here";
    runtime devices({.cpu_devices = 0});
    round_robin first(devices.find("cuda:0"), 2), second(devices.find("cuda:1"), 2);
    require_right(first);
    require_right(second);
    reset_the_gpu(0);
    EXPECT_NE(failure_of([&] { require_right(first); }), "");
    EXPECT_FALSE(devices.find("cuda:1").is_poisoned());
    require_right(second);
    require_right(second, 2'000'000);
}

class the_process_DeathTest : public testing::Test {
protected:
    // Starts the program again for the statement, so that it begins without CUDA.
    the_process_DeathTest() { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(the_process_DeathTest, may_end_on_the_main_thread_with_work_in_flight) {
    EXPECT_EXIT(
        {
            make_statics();
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

TEST_F(the_process_DeathTest, may_end_on_another_thread) {
    EXPECT_EXIT(
        {
            make_statics();
            std::thread([] { std::exit(0); }).join();
        },
        testing::ExitedWithCode(0), "");
}

TEST_F(the_process_DeathTest, may_end_before_handlers_that_use_cuda) {
    EXPECT_EXIT(
        {
            make_statics();
            static cudaEvent_t event = nullptr;
            EXPECT_CUDA(cudaEventCreate(&event));
            std::atexit([] { cudaEventDestroy(event); });
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

TEST_F(the_process_DeathTest, may_end_in_a_host_call) {
    EXPECT_EXIT(
        {
            make_statics();
            static gpu_machine other;
            spawn(host_call([] { std::exit(0); }), other.pool);
            std::this_thread::sleep_for(30s);
        },
        testing::ExitedWithCode(0), "");
}

TEST_F(the_process_DeathTest, may_end_while_its_runtime_lives) {
    EXPECT_EXIT(
        {
            make_statics();
            auto* const never_destroyed = new gpu_machine;
            require_right(never_destroyed->pool);
            static auto future = spawn(busy(300ms), never_destroyed->pool);
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

TEST_F(the_process_DeathTest, may_fork_children_that_use_nothing_or_start_another_program) {
    gpu_machine with;
    require_right(with.pool);
    for (const bool starts_another : {false, true}) {
        const pid_t child = fork();
        if (child == 0) {
            if (starts_another) execl("/bin/true", "true", nullptr);
            _exit(starts_another ? 9 : 0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        require_right(with.pool, 500'000);
    }
}

// The child gets errors from its parent's runtime, and may end as any process: its static objects are destroyed.
TEST_F(the_process_DeathTest, may_fork_a_child_that_uses_its_parents_runtime) {
    static gpu_machine with;
    static auto kept = sync(full<float>({1000}, 1.f), with.pool);
    static auto graph = compile(
        with.pool, [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); }, host_input<float>({64}));
    sync(graph(numbers(64, 1)), with.pool);
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        const std::string failure = failure_of([] { require_right(with.pool); });
        std::exit(failure.find("fork") != std::string::npos ? 0 : 3);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    require_right(with.pool);
    EXPECT_EQ(sync(graph(numbers(64, 3)), with.pool)[0], 6);
}

}  // namespace sluice::reset_and_exit_tests
