// SPDX-License-Identifier: Apache-2.0
// What public reports about asynchronous GPU code describe, one kind a test: memory that is used too early or too late,
// host calls, streams of others, sizes at the limits.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "cuda/other_code.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/cuda/lending.hpp"
#include "sluice/runtime/adopt.hpp"

namespace sluice::public_report_tests {
namespace {

using namespace other_code;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

__global__ void add_slowly_on_device(float* x, float added, long long nanoseconds) {
    spin_for(nanoseconds);
    x[blockIdx.x * blockDim.x + threadIdx.x] += added;
}

struct mark_byte {
    SLUICE_KERNEL void operator()(index_1d at, std::size_t where, disjoint_view<unsigned char> x) const {
        if (unsigned char* element = x.at(at)) {
            if (at.value() == where) *element = 9;
        }
    }
};

auto slowly_filled(std::size_t size, float value, std::chrono::nanoseconds takes) {
    return full<float>({size}, value).and_then([takes](auto x) { return slowly_scaled(std::move(x), 2, takes); });
}

}  // namespace

TEST(host_calls, of_one_stream_do_not_hold_up_another) {
    gpu_machine with;
    require_right(with.pool);
    std::atomic<bool> ends{false};
    auto held = spawn(host_call([&] {
                          while (!ends) std::this_thread::yield();
                      }),
                      with.pool);
    EXPECT_EQ(sync_wait(awaited(with.pool, 3)), 6);
    ends = true;
    static_cast<void>(std::move(held).get());
}

TEST(host_calls, run_while_memory_is_freed) {
    gpu_machine with;
    std::atomic<int> ran{0};
    for (int i = 0; i < 60; ++i) {
        auto dropped = spawn(doubled(1000, 1).and_then([&](auto result) {
            return host_call(
                [&](numbers) {
                    std::this_thread::sleep_for(1ms);
                    ++ran;
                },
                std::move(result));
        }),
                             with.pool);
        if (i % 3 == 0) with.gpu.trim();
        if (i % 5 == 0) require_right(with.pool, 100'000 * static_cast<std::size_t>(1 + i));
    }
    with.gpu.synchronize();
    EXPECT_EQ(ran, 60);
}

TEST(host_calls, may_destroy_the_last_owners_of_everything) {
    gpu_machine with;
    for (int i = 0; i < 20; ++i) {
        auto x = std::make_shared<tensor<float>>(spawn(slowly_filled(100'000, 1, 10us), with.pool).get());
        auto policy = std::make_shared<round_robin>(with.gpu, 2);
        auto running = std::make_shared<device_future<pending<numbers>>>(spawn(doubled(1000, 2), *policy));
        auto future = spawn(host_call([x, policy, running]() mutable {
                                x.reset();
                                running.reset();
                                policy.reset();
                            }),
                            with.pool);
        x.reset();
        policy.reset();
        running.reset();
        if (i % 2 == 1) static_cast<void>(std::move(future).get());
        require_right(with.pool, 100'000);
    }
    auto another = std::make_shared<gpu_machine>();
    auto future = spawn(host_call([another]() mutable { another.reset(); }), another->pool);
    another.reset();  // the host call owns the runtime now
    require_right(with.pool);
}

TEST(memory, that_is_dropped_while_it_is_read_is_not_reused_before) {
    gpu_machine with;
    their_stream other;
    cuda::foreign_stream theirs(with.gpu, other.get());
    for (int i = 0; i < 60; ++i) {
        std::optional<shared_tensor<float>> x(sync(full<float>({4096}, static_cast<float>(i)), with.pool));
        scheduling_policy& on = i % 2 == 0 ? static_cast<scheduling_policy&>(with.pool) : theirs;
        auto reading = spawn(uninitialized<float>({4096})
                                 .and_then([from = *x](auto to) {
                                     auto range = each_of(to);
                                     return launch(slowly_copy{}, range, 2'000'000LL, from, std::move(to));
                                 })
                                 .and_then(download),
                             on);
        x.reset();
        for (int k = 0; k < 3; ++k) {
            for (const float each : sync(full<float>({4096}, -1.f).and_then(download), with.pool)) ASSERT_EQ(each, -1);
        }
        for (const float each : std::move(reading).get()) ASSERT_EQ(each, static_cast<float>(i));
    }
}

TEST(memory, of_the_host_is_not_reused_before_its_copy_has_ended) {
    gpu_machine with;
    single_stream one(with.gpu);
    for (int i = 0; i < 60; ++i) {
        const auto value = static_cast<float>(i);
        constexpr std::size_t size = 1 << 16;
        auto held = spawn(busy(1ms), one);
        std::optional<device_future<pending<numbers>>> result;
        {
            host_buffer<float> staged(one.next(), size);
            std::ranges::fill(staged.write(), value);
            result.emplace(spawn(upload(std::move(staged), {size}).and_then(download), one));
        }
        for (int k = 0; k < 3; ++k) {
            host_buffer<float> next(one.next(), size);
            std::ranges::fill(next.write(), -1.f);
        }
        for (const float each : std::move(*result).get()) ASSERT_EQ(each, value);
        static_cast<void>(std::move(held).get());
    }
}

TEST(memory, of_others_is_used_in_order_with_their_streams) {
    gpu_machine with;
    their_memory data(4096);
    cudaEvent_t event = nullptr;
    ASSERT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    std::atomic<int> freed{0};
    for (int i = 0; i < 30; ++i) {
        ASSERT_CUDA(cudaMemset(data.get(), 0, 4096));
        ASSERT_CUDA(cudaDeviceSynchronize());
        tensor<float> x = adopt(with.gpu, data.get(), {1024}, [&](float*) { ++freed; });
        add_slowly_on_device<<<4, 256>>>(data.get(), static_cast<float>(i), 500'000);  // the legacy default stream
        ASSERT_CUDA(cudaEventRecord(event, nullptr));
        auto waiting = cuda::wait_for(event);
        tensor<float> y =
            sync(std::move(waiting).then(value(std::move(x)).and_then([](auto z) { return scaled(std::move(z), 2); })),
                 with.pool);
        for (const float each : sync(download(shared_tensor<float>(std::move(y))), with.pool))
            ASSERT_EQ(each, 2 * static_cast<float>(i));
        while (freed <= i) std::this_thread::yield();
        tensor<float> lent = spawn(slowly_filled(1024, 1, 500us), with.pool).get();
        storage* const memory[] = {lent.memory()};
        const stream ours = with.pool.next();
        cuda::lend_to(ours, nullptr, memory);
        add_slowly_on_device<<<4, 256>>>(lent.device_data(), 5, 200'000);
        cuda::take_back_from(ours, nullptr, memory);
        for (const float each : spawn(scaled(std::move(lent), 2).and_then(download), with.pool).get())
            ASSERT_EQ(each, 14);
    }
    EXPECT_NE(failure_of([&] { cuda::foreign_stream per_thread(with.gpu, cudaStreamPerThread); }), "");
    EXPECT_CUDA(cudaEventDestroy(event));
}

TEST(memory, of_each_kind_is_adopted_or_refused) {
    gpu_machine with;
    float *device_memory = nullptr, *pinned = nullptr, *managed = nullptr, *of_a_pool = nullptr;
    ASSERT_CUDA(cudaMalloc(&device_memory, 4096));
    ASSERT_CUDA(cudaMallocHost(&pinned, 4096));
    ASSERT_CUDA(cudaMallocManaged(&managed, 4096));
    ASSERT_CUDA(cudaMallocAsync(&of_a_pool, 4096, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    const auto is_adopted = [&](float* data) {
        return failure_of([&] { static_cast<void>(adopt(with.gpu, data, {64}, [](float*) {})); }).empty();
    };
    numbers pageable(64);
    EXPECT_TRUE(is_adopted(device_memory));
    EXPECT_TRUE(is_adopted(device_memory + 64));
    EXPECT_TRUE(is_adopted(of_a_pool));
    EXPECT_FALSE(is_adopted(device_memory + 1));  // misaligned
    EXPECT_FALSE(is_adopted(device_memory + 1008));
    EXPECT_FALSE(is_adopted(pinned));
    EXPECT_FALSE(is_adopted(managed));
    EXPECT_FALSE(is_adopted(pageable.data()));
    with.gpu.synchronize();
    EXPECT_CUDA(cudaFree(device_memory));
    EXPECT_CUDA(cudaFreeHost(pinned));
    EXPECT_CUDA(cudaFree(managed));
    EXPECT_CUDA(cudaFreeAsync(of_a_pool, nullptr));
}

TEST(memory, that_the_pool_keeps_is_given_back_when_it_is_short_or_trimmed) {
    gpu_machine with;
    require_right(with.pool);
    const std::size_t most = with.gpu.memory().free_bytes / 10 * 7;
    {
        const auto large = sync(uninitialized<unsigned char>({most}), with.pool);
        EXPECT_NE(failure_of([&] { sync(uninitialized<unsigned char>({most}), with.pool); }), "");
        require_right(with.pool);
    }
    for (std::size_t i = 0; i < 4; ++i) {
        auto dropped = spawn(uninitialized<unsigned char>({most - i * (most / 10)}), with.pool);
    }
    with.gpu.trim();
    void* theirs = nullptr;
    EXPECT_CUDA(cudaMalloc(&theirs, most));
    EXPECT_CUDA(cudaFree(theirs));
    require_right(with.pool);
}

TEST(sizes, may_exceed_what_32_bits_count) {
    gpu_machine with;
    for (const std::size_t size : {(std::size_t{1} << 31) + 5, (std::size_t{1} << 32) + 17}) {
        auto x = sync(full<unsigned char>({size}, static_cast<unsigned char>(3)), with.pool);
        auto range = each_of(x);
        x = sync(launch(mark_byte{}, range, size - 1, std::move(x)), with.pool);
        auto [y, end] = sync(download_region(std::move(x), region{.at = {size - 4}, .shape = {4}}), with.pool);
        EXPECT_EQ(end, (std::vector<unsigned char>{3, 3, 3, 9}));
        auto [z, begin] = sync(download_region(std::move(y), region{.at = {0}, .shape = {4}}), with.pool);
        EXPECT_EQ(begin, std::vector<unsigned char>(4, 3));
    }
}

TEST(sizes, may_be_zero) {
    gpu_machine with;
    EXPECT_TRUE(sync(doubled(0, 1), with.pool).empty());
    EXPECT_EQ(sync(zeros<float>({5, 0}).and_then(sum()).and_then(download), with.pool), numbers(5, 0));
    const shared_tensor<float> weights(sync(zeros<float>({0, 3}), with.pool));
    EXPECT_EQ(
        sync(zeros<float>({2, 0}).and_then([=](auto x) { return gemm(std::move(x), weights); }).and_then(download),
             with.pool),
        numbers(6, 0));
    auto graph = compile(
        with.pool, [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); }, host_input<float>({0}));
    EXPECT_TRUE(sync(graph(numbers()), with.pool).empty());
    EXPECT_TRUE(sync(zeros<float>({0, 4}).and_then(softmax).and_then(download), with.pool).empty());
}

TEST(streams, may_be_five_hundred) {
    gpu_machine with;
    round_robin many(with.gpu, 500);
    std::vector<device_future<pending<numbers>>> all;
    for (int i = 0; i < 2000; ++i) all.push_back(spawn(doubled(1000, static_cast<float>(i)), many));
    for (int i = 0; i < 2000; ++i)
        ASSERT_EQ(std::move(all[static_cast<std::size_t>(i)]).get()[999], 2 * static_cast<float>(i));
}

TEST(a_time_limit, ends_a_wait_for_a_long_kernel_and_later_work_is_right) {
    gpu_machine with;
    require_right(with.pool);
    auto limited = timeout(slowly_filled(4096, 1, 1s).and_then(download), 50ms);
    const auto begin = clock::now();
    EXPECT_NE(failure_of([&] { sync(std::move(limited), with.pool); }), "");
    EXPECT_LT(clock::now() - begin, 900ms);
    for (int i = 0; i < 20; ++i) {
        const auto value = static_cast<float>(i);
        for (const float each : sync(full<float>({4096}, value).and_then(download), with.pool)) ASSERT_EQ(each, value);
    }
}

TEST(a_compiled_graph, is_updated_to_another_topology_while_it_is_launched) {
    gpu_machine with;
    using function = std::function<any_operation<pending<numbers>>(tensor<float>)>;
    const auto chain = [](int length, float factor) -> function {
        return [=](tensor<float> x) {
            any_operation<tensor<float>> all = value(std::move(x));
            for (int i = 0; i < length; ++i)
                all = std::move(all).and_then([factor](auto y) { return scaled(std::move(y), factor); });
            return any_operation<pending<numbers>>(std::move(all).and_then(download));
        };
    };
    const numbers ones(4096, 1);
    auto graph = compile(with.pool, chain(3, 2), host_input<float>({4096}));
    EXPECT_EQ(sync(graph(ones), with.pool)[9], 8);
    graph.update(chain(3, 3));
    EXPECT_EQ(sync(graph(ones), with.pool)[9], 27);
    auto running = spawn(graph(ones), with.pool);
    graph.update(chain(7, 2));
    EXPECT_EQ(std::move(running).get()[9], 27);
    EXPECT_EQ(sync(graph(ones), with.pool)[9], 128);
    graph.update(chain(0, 2));
    EXPECT_EQ(sync(graph(ones), with.pool)[9], 1);
}

TEST(a_compiled_graph, on_an_urgent_stream_is_not_held_up_by_a_flood) {
    gpu_machine with;
    priority_pool levels(with.gpu, {1, 4});
    const numbers ones(4096, 1);
    auto graph = compile(
        levels.level(0), [](tensor<float> x) { return scaled(std::move(x), 2).and_then(download); },
        host_input<float>({4096}));
    sync(graph(ones), levels.level(0));
    std::vector<std::chrono::duration<double>> compiled, eager;
    for (int i = 0; i < 14; ++i) {
        std::vector<tensor<float>> flood;
        for (int k = 0; k < 4; ++k) flood.push_back(spawn(slowly_filled(4'000'000, 1, 2ms), levels.level(1)).get());
        std::this_thread::sleep_for(5ms);
        const auto begin = clock::now();
        if (i % 2 == 0) {
            sync(graph(ones), levels.level(0));
        } else {
            sync(doubled(4096, 1), levels.level(0));
        }
        (i % 2 == 0 ? compiled : eager).push_back(clock::now() - begin);
        with.gpu.synchronize();
    }
    std::ranges::sort(compiled);
    std::ranges::sort(eager);
    EXPECT_LT(compiled[3].count(), 3 * eager[3].count() + 0.001);
}

TEST(an_event_of_others, may_be_recorded_again_while_its_first_record_is_waited_for) {
    gpu_machine with;
    their_stream theirs;
    their_memory data(4096);
    cudaEvent_t event = nullptr;
    ASSERT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < 30; ++i) {
        const tensor<float> x = spawn(slowly_filled(1024, 1, 500us).and_then([event](auto y) {
                                    auto recorded = cuda::record(event);
                                    return std::move(recorded).then(value(std::move(y)));
                                }),
                                      with.pool)
                                    .get();
        ASSERT_CUDA(cudaStreamWaitEvent(theirs.get(), event, 0));
        ASSERT_CUDA(cudaMemcpyAsync(data.get(), x.device_data(), 4096, cudaMemcpyDeviceToDevice, theirs.get()));
        auto again = spawn(slowly_filled(8, 1, 1ms).then(cuda::record(event)), with.pool);
        ASSERT_CUDA(cudaStreamSynchronize(theirs.get()));
        numbers seen(1024);
        ASSERT_CUDA(cudaMemcpy(seen.data(), data.get(), 4096, cudaMemcpyDeviceToHost));
        for (const float each : seen) ASSERT_EQ(each, 2);
        static_cast<void>(std::move(again).get());
        EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
    }
    EXPECT_CUDA(cudaEventDestroy(event));
}

TEST(two_runtimes, work_side_by_side_and_refuse_each_others_memory) {
    auto first = std::make_unique<gpu_machine>();
    gpu_machine second;
    auto x = sync(full<float>({1000}, 1.f), first->pool);
    EXPECT_NE(failure_of([&] { sync(scaled(std::move(x), 2), second.pool); }), "");
    std::atomic<bool> ends{false};
    std::string failure;
    std::thread other([&] {
        while (!ends && failure.empty()) failure = failure_of([&] { require_right(second.pool); });
    });
    for (int i = 0; i < 10; ++i) {
        require_right(first->pool);
        first = std::make_unique<gpu_machine>();
        auto dropped = spawn(busy(5ms), first->pool);
    }
    ends = true;
    other.join();
    EXPECT_EQ(failure, "");
}

TEST(a_stream_that_replays, is_right_among_failures_drops_and_other_streams) {
    gpu_machine with;
    round_robin replaying(with.gpu, 2, {.replays = true});
    for (int i = 0; i < 50; ++i) {
        require_right(replaying, 1000, static_cast<float>(i));
        auto future = spawn(doubled(1000, 1), replaying);
        {
            auto dropped = spawn(doubled(1000, 2), replaying);
        }
        EXPECT_EQ(failure_of([&] {
                      sync(upload(numbers(1000, 1)).and_then([](auto x) {
                          if (x.size() == 1000) throw std::runtime_error("theirs");
                          return scaled(std::move(x), 2);
                      }),
                           replaying);
                  }),
                  "theirs");
        for (const float each : std::move(future).get()) ASSERT_EQ(each, 2);
        if (i % 10 != 9) continue;
        with.gpu.trim();
        auto x = sync(full<float>({1000}, 1.f), with.pool);
        for (const float each : sync(scaled(std::move(x), 3).and_then(download), replaying)) ASSERT_EQ(each, 3);
    }
}

}  // namespace sluice::public_report_tests
