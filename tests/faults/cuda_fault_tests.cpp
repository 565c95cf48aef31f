// SPDX-License-Identifier: Apache-2.0
// A kernel has broken the GPU: each waiter receives the first cause, no wait blocks for ever, and other devices
// continue.
//
// The GPU is lost for the process: run these tests under ctest, which runs each test in its own process.
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>

#include "conformance/support/awaiting.hpp"
#include "faults/broken_kernels.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/cuda/kernel_module.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/nn/resident.hpp"
#include "sluice/nn/to_model.hpp"

namespace sluice::faults::cuda_fault_tests {
namespace {

using conformance::failure_of;
using conformance::gate;
using conformance::here;
using conformance::spawn_on;
using conformance::submit_to;
using conformance::value_of;
using numbers = std::vector<unsigned>;
using namespace std::chrono_literals;
constexpr std::size_t size = 1000;

// A kernel's first launch may wait for the device, which these tests hold; so all kernels are loaded at the start. The
// driver reads this variable at the first call.
[[gnu::constructor]] void load_kernels_at_the_start() { setenv("CUDA_MODULE_LOADING", "EAGER", 1); }

// A fault ends the GPU for the process, so a process runs one of these tests.
bool is_lost = false;

// The fault comes from an ordinary launch or from a launch in a compiled graph.
struct fault_kind {
    breakage how;
    bool is_in_graph;
};
std::string to_string(const fault_kind& of) { return to_string(of.how) + (of.is_in_graph ? "_in_a_graph" : ""); }
// ctest's names of the tests have it.
void PrintTo(const fault_kind& of, std::ostream* to) { *to << to_string(of); }

class gpu_faults : public testing::TestWithParam<fault_kind> {
protected:
    void SetUp() override {
        if (std::exchange(is_lost, true)) GTEST_SKIP() << "the GPU is lost for this process: run this under ctest";
        devices.emplace(runtime_options{.cpu_devices = 1, .cpu_workers = 2});
        gpu = &devices->find("cuda:0");
        streams.emplace(*gpu, 4);
        for (int i = 0; i < 4; ++i) all.push_back(streams->next());
        // Loads the kernels that the tests launch: while a stream is held, no call may wait for the device.
        for (int i = 0; i < 4; ++i) sync(work(1), *streams);
        x = submit_to(all[0], zeros<unsigned>({size}));
        if (GetParam().is_in_graph) {
            const auto graph = record(*gpu, [this](stream on) { break_on(on, x, GetParam().how); }, {.name = "breaks"});
            launch_graph = [graph](stream on) { submit_to(on, graph()); };
        }
        gpu->synchronize();
    }

    static any_operation<pending<numbers>> work(unsigned start) {
        return full<unsigned>({size}, start).and_then(download);
    }
    // Data that a broken kernel should have written. Readers on other streams wait for it.
    shared_tensor<unsigned> break_gpu() {
        break_x();
        return shared_tensor<unsigned>(std::move(x));
    }
    void break_x() {
        if (launch_graph) {
            launch_graph(all[0]);
        } else {
            break_on(all[0], x, GetParam().how);
        }
    }
    // The name of the faulty command in the error. For a graph, the error shows the line that compiled it.
    std::string culprit() const { return GetParam().is_in_graph ? "graph" : kernel_name(GetParam().how); }
    // Makes the fault known to the host; returns its message.
    std::string first_cause() {
        try {
            gpu->synchronize();
        } catch (const device_error& fault) {
            return fault.what();
        }
        ADD_FAILURE() << "there was no fault";
        return "";
    }

    std::optional<runtime> devices;
    device* gpu = nullptr;
    std::optional<round_robin> streams;
    std::vector<stream> all;
    tensor<unsigned> x;
    std::function<void(stream)> launch_graph;  // null: no graph
};
std::vector<fault_kind> all_kinds() {
    std::vector<fault_kind> all;
    for (const breakage how :
         {breakage::trap, breakage::illegal_address, breakage::misaligned_address, breakage::failed_assertion}) {
        all.push_back({how, false});
        all.push_back({how, true});
    }
    return all;
}
INSTANTIATE_TEST_SUITE_P(, gpu_faults, testing::ValuesIn(all_kinds()),
                         [](const auto& instance) { return to_string(instance.param); });

task<numbers> value_elsewhere(device_future<pending<numbers>> future, executor& target) {
    auto elsewhere = std::move(future).resume_on(target);
    co_return co_await std::move(elsewhere);
}

}  // namespace

TEST_P(gpu_faults, the_error_names_the_kernel_its_line_and_the_device) {
    auto broken = break_gpu();
    try {
        spawn_on(all[0], download(broken)).get();
        FAIL() << "nothing was thrown";
    } catch (const device_error& fault) {
        EXPECT_EQ(fault.device(), "cuda:0");
        EXPECT_STREQ(fault.code().category().name(), "cuda");
        const std::string_view what = fault.what();
        EXPECT_NE(what.find("were not complete"), what.npos) << what;
        const std::string file = GetParam().is_in_graph ? "cuda_fault_tests.cpp:" : "broken_kernels.cu:";
        EXPECT_NE(what.find(file), what.npos) << what;
        EXPECT_EQ(fault.operation(), culprit()) << what;
        EXPECT_GT(fault.location().line(), 0u) << what;
    }
}

TEST_P(gpu_faults, each_caller_of_a_network_that_stays_receives_the_first_cause) {
    if (GetParam().how == breakage::failed_assertion && !GetParam().is_in_graph)
        GTEST_SKIP() << "CUDA ends no wait for a kernel with a failed assertion while another kernel stays (H100)";
    mlp_layer layer;
    layer.in_features = 4;
    layer.out_features = 2;
    layer.weight.assign(8, 1);
    const nn::resident_network<half> network(*gpu, nn::to_model({layer}), {.lanes = 2});
    std::array<std::string, 4> told;
    std::string cause;
    {
        std::latch answered(told.size());
        std::vector<std::jthread> callers;
        for (std::string& mine : told) {
            callers.emplace_back([&] {
                const std::vector<half> inputs(4, half(1));
                std::vector<half> outputs(2);
                network.run(inputs, outputs);
                answered.count_down();
                mine = failure_of([&] {
                    for (;;) network.run(inputs, outputs);
                });
            });
        }
        answered.wait();
        break_x();
        cause = first_cause();
    }
    for (const std::string& each : told) EXPECT_EQ(each, cause);
    std::vector<half> outputs(2);
    EXPECT_EQ(failure_of([&] { network.run(std::vector<half>(4), outputs); }), cause);
}

TEST_P(gpu_faults, every_waiter_on_every_stream_receives_the_first_cause) {
    NEEDS_A_GATE();
    gate held(all[0]);
    const auto broken = break_gpu();
    std::vector<device_future<pending<numbers>>> futures;
    for (int i = 0; i < 12; ++i) futures.push_back(spawn_on(all[static_cast<std::size_t>(i) % 4], download(broken)));
    thread_pool threads(1);
    std::vector<spawned<numbers>> waiting;
    for (int i = 0; i < 8; ++i) {
        auto future = spawn_on(all[static_cast<std::size_t>(i) % 4], download(broken));
        waiting.push_back(i % 2 == 0 ? spawn(value_of(std::move(future)), here())
                                     : spawn(value_elsewhere(std::move(future), threads), here()));
    }
    auto staged = spawn(download(broken).or_else([](std::exception_ptr failure) -> any_operation<pending<numbers>> {
        std::rethrow_exception(std::move(failure));
    }),
                        *streams);
    std::mutex mutex;
    std::vector<std::string> told;
    const auto note = [&](std::string failure) {
        const std::lock_guard lock(mutex);
        told.push_back(std::move(failure));
    };
    {
        std::vector<std::jthread> waiters;
        for (const stream each : all) {
            waiters.emplace_back([&, each] { note(failure_of([&] { sync_on(download(broken), each); })); });
        }
        for (std::size_t i = 0; i < 4; ++i) {
            waiters.emplace_back([&, i] { note(failure_of(std::move(futures[i]))); });
            waiters.emplace_back([&, i] {
                EXPECT_TRUE(futures[4 + i].wait_for(1h));
                note(failure_of(std::move(futures[4 + i])));
            });
        }
        EXPECT_FALSE(waiting[0].is_ready());
        held.open();
    }
    for (std::size_t i = 8; i < 12; ++i) note(failure_of(std::move(futures[i])));
    for (auto& each : waiting) note(failure_of(std::move(each)));
    note(failure_of(std::move(staged)));
    const std::string cause = first_cause();
    EXPECT_NE(cause.find("asked for at"), std::string::npos) << cause;
    EXPECT_EQ(told.size(), 25u);
    for (const std::string& each : told) EXPECT_EQ(each, cause);
}

TEST_P(gpu_faults, a_coroutine_receives_the_error_without_another_waiter) {
    const auto broken = break_gpu();
    EXPECT_NE(failure_of([&] { sync_wait(value_of(spawn_on(all[1], download(broken)))); }), "");
}

TEST_P(gpu_faults, later_work_memory_and_streams_are_refused_with_the_first_cause) {
    const auto broken = break_gpu();
    const std::string cause = first_cause();
    EXPECT_TRUE(gpu->is_poisoned());
    EXPECT_EQ(failure_of([&] { sync(work(1), *streams); }), cause);
    EXPECT_EQ(failure_of([&] { spawn(work(1), *streams); }), cause);
    EXPECT_EQ(failure_of([&] { sync_on(download(broken), all[3]); }), cause);
    EXPECT_EQ(failure_of([&] { all[2].allocate(100); }), cause);
    EXPECT_EQ(failure_of([&] { all[2].allocate_host(100); }), cause);
    EXPECT_EQ(failure_of([&] { all[2].workspace(100); }), cause);
    EXPECT_EQ(failure_of([&] { stream_lease more(*gpu); }), cause);
    EXPECT_EQ(failure_of([&] { event::record(all[1]); }), cause);
    EXPECT_EQ(failure_of([&] { gpu->synchronize(); }), cause);
}

TEST_P(gpu_faults, a_host_call_after_the_fault_never_runs_and_what_it_owned_is_released) {
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
    std::atomic<bool> ran = false;
    break_gpu();
    EXPECT_NE(failure_of([&] {  // thrown by get(), or already by the submission
                  spawn_on(all[0], host_call([mine = std::move(owned), &ran] { ran = true; })).get();
              }),
              "");
    x = {};
    streams.reset();
    devices.reset();
    EXPECT_TRUE(watch.expired());
    EXPECT_FALSE(ran);
}

TEST_P(gpu_faults, the_cpu_device_of_the_same_runtime_continues) {
    break_gpu();
    round_robin cpu(devices->find("cpu:0"), 2);
    EXPECT_NE(first_cause(), "");
    for (unsigned i = 0; i < 20; ++i) {
        EXPECT_EQ(sync(work(i), cpu), numbers(size, i));
        EXPECT_EQ(sync_wait(value_of(spawn(work(i), cpu))), numbers(size, i));
    }
    EXPECT_FALSE(devices->find("cpu:0").is_poisoned());
}

TEST_P(gpu_faults, a_value_recovers_and_a_retry_stops) {
    const auto broken = break_gpu();
    auto recovered = download(broken).or_else([](std::exception_ptr) { return value(numbers(2, 2)); });
    EXPECT_EQ(spawn(std::move(recovered), *streams).get(), numbers(2, 2));
    std::atomic<int> made = 0;
    auto again = retry(1000, [&] { return ++made, work(1); });
    EXPECT_EQ(failure_of([&] { sync(std::move(again), *streams); }), first_cause());
    EXPECT_EQ(made, 1);
    auto late = work(1).or_else([](std::exception_ptr) { return value(numbers(3, 3)); });
    EXPECT_EQ(sync(std::move(late), *streams), numbers(3, 3));
}

TEST_P(gpu_faults, memory_is_not_handed_out_again) {
    break_x();
    const std::string cause = first_cause();
    x = {};
    launch_graph = {};
    // The last launch of a graph stays referenced by its stream, with the memory that it uses.
    const auto kept = [&] {
        const auto usage = gpu->device_pool().usage();
        return usage.cached_bytes + usage.in_use_bytes;
    };
    const std::size_t before = kept();
    EXPECT_EQ(failure_of([&] { all[0].allocate(size * sizeof(unsigned)); }), cause);
    gpu->trim();
    EXPECT_GE(kept(), size * sizeof(unsigned));
    EXPECT_LE(kept(), before);
}

TEST_P(gpu_faults, everything_may_be_dropped_afterwards_in_any_order) {
    const auto broken = break_gpu();
    std::vector<device_future<pending<numbers>>> futures;
    for (std::size_t i = 0; i < 8; ++i) {
        try {
            futures.push_back(spawn_on(all[i % 4], download(broken)));
        } catch (const device_error&) {  // NOLINT(bugprone-empty-catch): the fault may be known already
        }
    }
    devices.reset();
    for (auto& each : futures) EXPECT_NE(failure_of(std::move(each)), "");
    streams.reset();
    futures.clear();
}

// A kernel that has run well is replayed as part of a graph, and breaks the GPU there.
TEST(gpu_replay_faults, each_waiter_receives_the_first_cause_with_the_kernels_name) {
    if (std::exchange(is_lost, true)) GTEST_SKIP() << "the GPU is lost for this process: run this under ctest";
    runtime machine({.cpu_devices = 1, .cpu_workers = 1});
    device& gpu = machine.find("cuda:0");
    single_stream pool(gpu, {.replays = true});
    const auto work = [](bool breaks) {
        return upload(numbers(size, 4u))
            .and_then([breaks](auto x) {
                return with_context([breaks, x = std::move(x)](execution_context& context) mutable {
                    trap_if_on(context.stream(), x, breaks);
                    return std::move(x);
                });
            })
            .and_then(download);
    };
    for (int i = 0; i < 8; ++i) EXPECT_EQ(sync(work(false), pool), numbers(size, 5u));
    auto broken = spawn(work(true), pool);
    std::optional<decltype(spawn(work(false), pool))> after;
    // The fault may be known already: then nothing is submitted.
    std::string of_after = failure_of([&] { after.emplace(spawn(work(false), pool)); }), cause;
    try {
        std::move(broken).get();
        FAIL() << "nothing was thrown";
    } catch (const device_error& fault) {
        cause = fault.what();
        EXPECT_EQ(fault.operation(), "trap_if_kernel") << cause;
        EXPECT_NE(std::string_view(cause).find("broken_kernels.cu:"), std::string_view::npos) << cause;
    }
    if (after) of_after = failure_of([&] { std::move(*after).get(); });
    EXPECT_EQ(of_after, cause);
    EXPECT_EQ(failure_of([&] { sync(work(false), pool); }), cause);
}

// A kernel that writes to an address where nothing is.
constexpr std::string_view broken_module = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .entry broken_function(.param .u64 to)
{
    .reg .b64 %rd;
    mov.u64 %rd, 8;
    st.global.u64 [%rd], %rd;
    ret;
}
)";

TEST(gpu_module_faults, the_error_names_the_function_its_line_and_the_device) {
    if (std::exchange(is_lost, true)) GTEST_SKIP() << "the GPU is lost for this process: run this under ctest";
    std::optional<kernel_module> module;
    {
        runtime machine({.cpu_devices = 1, .cpu_workers = 1});
        device& gpu = machine.find("cuda:0");
        single_stream pool(gpu);
        tensor<unsigned> x = sync(zeros<unsigned>({size}), pool);
        module = load_module(gpu, std::as_bytes(std::span(broken_module)), "broken.ptx");
        const auto function = module->function<void(unsigned*)>("broken_function");
        try {
            sync(function(blocks(1, 1), std::move(x)).and_then(download), pool);
            FAIL() << "nothing was thrown";
        } catch (const device_error& fault) {
            EXPECT_EQ(fault.operation(), "broken_function") << fault.what();
            EXPECT_EQ(fault.device(), "cuda:0");
            EXPECT_NE(std::string_view(fault.what()).find("cuda_fault_tests.cpp:"), std::string_view::npos)
                << fault.what();
        }
        EXPECT_THROW(static_cast<void>(load_module(gpu, std::as_bytes(std::span(broken_module)))), device_error);
    }
    module.reset();  // after the device, which has faulted
}

}  // namespace sluice::faults::cuda_fault_tests
