// SPDX-License-Identifier: Apache-2.0
// Memory runs out at each allocation of a pipeline, one after the other: nothing leaks, and the device works as before.
#include <chrono>
#include <string>

#include "conformance/support/awaiting.hpp"
#include "faults/faulty_backend.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::faults::memory_shortage_tests {
namespace {

using conformance::failure_of;
using numbers = std::vector<unsigned>;
constexpr std::size_t size = 3000;

class memory_shortage : public testing::Test {
protected:
    std::size_t bytes_in_use() {
        return fakes.on.device_pool().usage().in_use_bytes + fakes.on.host_pool().usage().in_use_bytes;
    }
    std::size_t blocks() { return fakes.first.memory.blocks() + fakes.first.host.blocks(); }

    // Runs the call with memory that fails from the n-th allocation on, for every n until the call succeeds.
    template <typename Function>
    void expect_strong_guarantee(scarce_memory& scarce, Function&& call) {
        sync(work(1), pool);
        for (std::size_t n = 0;; ++n) {
            ASSERT_LT(n, 100u) << "the call never succeeds";
            fakes.on.synchronize();
            fakes.on.trim();  // so that each allocation calls the source
            const std::size_t bytes = bytes_in_use(), held = blocks();
            scarce.fail_from(n);
            bool went_well = true;
            try {
                call();
            } catch (const out_of_memory& failure) {
                went_well = false;
                EXPECT_EQ(failure.device(), "fake:0");
                EXPECT_FALSE(failure.operation().empty());
            }
            scarce.recover();
            fakes.on.synchronize();
            EXPECT_EQ(bytes_in_use(), bytes) << n;
            fakes.on.trim();
            EXPECT_EQ(blocks(), held) << n;
            EXPECT_EQ(sync(work(3), pool), numbers(size, 3)) << n;  // the device works as before
            if (went_well) return;
        }
    }

    static any_operation<pending<numbers>> work(unsigned start) {
        return full<unsigned>({size}, start).and_then(download);
    }
    // Many allocations of several sizes, on both pools, with branches.
    static auto pipeline() {
        auto first = share(upload(numbers(size, 5), {size}));
        auto second = first;
        auto left = std::move(first).and_then([](auto x) {
            return zip(download(x), uninitialized<char>({10 * size}), zeros<unsigned>({size}).and_then(download));
        });
        auto right = std::move(second).and_then([](auto x) { return download(x); });
        return zip(std::move(left), std::move(right), host_call([] { return 6u; }));
    }
    static void check(const std::tuple<std::tuple<numbers, tensor<char>, numbers>, numbers, unsigned>& made) {
        const auto& [left, right, six] = made;
        EXPECT_EQ(std::get<0>(left), numbers(size, 5));
        EXPECT_EQ(std::get<2>(left), numbers(size, 0));
        EXPECT_EQ(right, numbers(size, 5));
        EXPECT_EQ(six, 6u);
    }

    faulty_runtime fakes;
    round_robin pool{fakes.on, 2};
};

}  // namespace

TEST_F(memory_shortage, on_the_device_while_an_operation_is_submitted_loses_nothing) {
    expect_strong_guarantee(fakes.first.memory, [&] { check(sync(pipeline(), pool)); });
    expect_strong_guarantee(fakes.first.memory, [&] { check(spawn(pipeline(), pool).get()); });
}

TEST_F(memory_shortage, on_the_host_while_an_operation_is_submitted_loses_nothing) {
    expect_strong_guarantee(fakes.first.host, [&] { check(sync(pipeline(), pool)); });
    expect_strong_guarantee(fakes.first.host, [&] { check(spawn(pipeline(), pool).get()); });
}

TEST_F(memory_shortage, in_a_coroutine_loses_nothing) {
    expect_strong_guarantee(fakes.first.memory, [&] { check(sync_wait(spawn(pipeline(), pool))); });
    expect_strong_guarantee(fakes.first.host, [&] { check(sync_wait(spawn(pipeline(), pool))); });
}

TEST_F(memory_shortage, in_the_parts_of_a_host_driven_operation_loses_nothing) {
    const auto staged = [] {
        return retry(2, [] { return pipeline(); }).or_else([](std::exception_ptr failure) {
            std::rethrow_exception(std::move(failure));
            return pipeline();
        });
    };
    expect_strong_guarantee(fakes.first.memory, [&] { check(sync(staged(), pool)); });
    expect_strong_guarantee(fakes.first.host, [&] { check(spawn(staged(), pool).get()); });
    expect_strong_guarantee(fakes.first.memory,
                            [&] { check(spawn(timeout(pipeline(), std::chrono::hours(1)), pool).get()); });
}

TEST_F(memory_shortage, leaves_a_workspace_unchanged) {
    const stream_lease own(fakes.on);
    const storage* const small = own->workspace(100).get();
    fakes.first.memory.fail_from(0);
    EXPECT_THROW(own->workspace(100'000), out_of_memory);
    EXPECT_EQ(own->workspace(100).get(), small);
    fakes.first.memory.recover();
    EXPECT_GE(own->workspace(100'000)->capacity_bytes(), 100'000u);
}

TEST_F(memory_shortage, is_recovered_by_an_operation_that_needs_less) {
    auto recovered = pipeline()
                         .transform([](auto left, auto, auto) { return std::move(std::get<0>(left)); })
                         .or_else([](std::exception_ptr) { return value(numbers(1, 1)); });
    fakes.on.trim();
    fakes.first.memory.fail_from(1);
    EXPECT_EQ(sync(std::move(recovered), pool), numbers(1, 1));
    fakes.first.memory.recover();
}

TEST_F(memory_shortage, on_a_small_cpu_device_is_reported_and_ends_when_memory_is_freed) {
    runtime small({.cpu_devices = 1, .cpu_workers = 2, .cpu_memory_bytes = 1 << 20, .cuda = false});
    device& cpu = small.find("cpu:0");
    round_robin streams(cpu, 2);
    for (int round = 0; round < 20; ++round) {
        std::vector<tensor<char>> held;
        const std::string told = failure_of([&] {
            for (int i = 0; i < 100; ++i) held.push_back(sync(zeros<char>({100'000}), streams));
        });
        EXPECT_NE(told.find("zeros on cpu:0: asked for 100000 bytes"), std::string::npos) << told;
        EXPECT_GE(held.size(), 8u);
        EXPECT_LE(held.size(), 10u);
        EXPECT_NE(failure_of([&] { sync(full<unsigned>({size * 100}, 3), streams); }), "");
        held.clear();
        EXPECT_EQ(sync(full<unsigned>({size * 50}, 3).and_then(download), streams), numbers(size * 50, 3));
        EXPECT_EQ(cpu.device_pool().usage().in_use_bytes, 0u);
    }
}

}  // namespace sluice::faults::memory_shortage_tests
