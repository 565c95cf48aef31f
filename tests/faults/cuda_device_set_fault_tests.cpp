// SPDX-License-Identifier: Apache-2.0
// A kernel has broken one GPU of two: both are lost and report the cause. As in cuda_fault_tests, each test needs its
// own process.
#include <chrono>
#include <optional>

#include "conformance/support/awaiting.hpp"
#include "faults/broken_kernels.hpp"
#include "sluice/devices/collectives.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::faults::cuda_device_set_fault_tests {
namespace {

using conformance::failure_of;
using conformance::submit_to;
using conformance::value_of;
using numbers = std::vector<unsigned>;
constexpr std::size_t size = 1000;

class one_gpu_of_two : public testing::TestWithParam<breakage> {
protected:
    any_operation<pending<numbers>> moved(unsigned start) {
        return on_device(*first, full<unsigned>({size}, start)).and_then(copy_to(*second)).and_then([this](auto y) {
            return on_device(*second, download(std::move(y)));
        });
    }
    void SetUp() override {
        static bool is_lost = false;
        if (std::exchange(is_lost, true)) GTEST_SKIP() << "the GPU is lost for this process: run this under ctest";
        machine.emplace(runtime_options{.cpu_devices = 1, .cpu_workers = 1});
        both.emplace(device_set::of(*machine, "cuda"));
        if (both->size() < 2) GTEST_SKIP() << "there is one GPU";
        pool.emplace(*both, 3);
        first = &(*both)[0];
        second = &(*both)[1];
        // Loads the kernels that the tests launch, and the copies.
        for (int i = 0; i < 3; ++i) {
            sync(work(1), pool->on(*first));
            sync(work(1), pool->on(*second));
            sync(moved(1), *pool);
        }
        x = sync(on_device(*first, zeros<unsigned>({size})), *pool);
    }

    static any_operation<pending<numbers>> work(unsigned start) {
        return full<unsigned>({size}, start).and_then(download);
    }
    shared_tensor<unsigned> break_first() {
        break_on(pool->on(*first).next(), x, GetParam());
        return shared_tensor<unsigned>(std::move(x));
    }
    void expect_cause(const std::string& failure) const {
        EXPECT_NE(failure.find(kernel_name(GetParam())), std::string::npos) << failure;
        EXPECT_NE(failure.find(first->name()), std::string::npos) << failure;
    }

    std::optional<runtime> machine;
    std::optional<device_set> both;
    std::optional<round_robin_devices> pool;
    device* first = nullptr;
    device* second = nullptr;
    tensor<unsigned> x;
};
INSTANTIATE_TEST_SUITE_P(, one_gpu_of_two, testing::Values(breakage::illegal_address, breakage::failed_assertion),
                         [](const auto& instance) { return to_string(instance.param); });

}  // namespace

// After a fault CUDA refuses all calls of the process, for every GPU. So all devices report the one cause, and at once,
// also when no thread polls the first GPU.
TEST_P(one_gpu_of_two, the_other_reports_the_same_cause) {
    const auto lost = break_first();
    std::string failure;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (failure.empty() && std::chrono::steady_clock::now() < limit)
        failure = failure_of([&] { sync(work(1), pool->on(*second)); });
    expect_cause(failure);
    EXPECT_EQ(failure_of([&] { sync(work(1), pool->on(*first)); }), failure);
    EXPECT_EQ(failure_of([&] { sync(copy_to(*second, lost), *pool); }), failure);
    EXPECT_TRUE(first->is_poisoned());
    EXPECT_TRUE(second->is_poisoned());
    single_stream cpu(machine->find("cpu:0"));
    EXPECT_EQ(sync(work(7), cpu), numbers(size, 7));
}

// No thread polls the first GPU.
TEST_P(one_gpu_of_two, a_waiter_for_a_copy_from_it_receives_the_cause) {
    const auto lost = break_first();
    auto copied = spawn(copy_to(*second, lost), *pool);
    auto read = spawn(
        copy_to(*second, lost).and_then([this](auto y) { return on_device(*second, download(std::move(y))); }), *pool);
    expect_cause(failure_of(std::move(copied)));
    expect_cause(failure_of([&] { sync_wait(value_of(std::move(read))); }));
}

TEST_P(one_gpu_of_two, a_collective_with_it_receives_the_cause) {
    std::optional<communicator> all;
    try {
        all.emplace(*both);
    } catch (const error& refusal) {
        GTEST_SKIP() << refusal.what();
    }
    auto parts = sync(on_each(*both, [](std::size_t i) { return full<unsigned>({size}, unsigned(i)); }), *pool);
    parts = sync(all_reduce(*all, reduce_op::sum, std::move(parts)), *pool);
    break_on(pool->on(*first).next(), parts[0], GetParam());
    expect_cause(failure_of([&] { sync(all_reduce(*all, reduce_op::sum, std::move(parts)), *pool); }));
}

}  // namespace sluice::faults::cuda_device_set_fault_tests
