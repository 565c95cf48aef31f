// SPDX-License-Identifier: Apache-2.0
// A thread that waits for a CPU device runs the commands that it waits for, where no worker has begun them.
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/op/and_then.hpp"
#include "sluice/op/value.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "support/gate.hpp"

namespace sluice::helping_tests {
namespace {

class helping : public testing::Test {
protected:
    stream_lease make() { return stream_lease(on); }
    static auto thread_of_call() {
        return host_call([] { return std::this_thread::get_id(); });
    }

    runtime owner{{.cpu_workers = 1, .cuda = false}};
    device& on = owner.find("cpu:0");
};

}  // namespace

// The only worker is busy with another stream.
TEST_F(helping, a_waiter_runs_what_no_worker_has_begun) {
    const stream_lease busy = make(), mine = make();
    const test_support::gate held(*busy);
    EXPECT_EQ(sync_on(thread_of_call(), *mine), std::this_thread::get_id());
}

TEST_F(helping, a_waiter_runs_what_its_stream_waits_for) {
    const stream_lease busy = make(), first = make(), second = make();
    const test_support::gate held(*busy);
    const storage_ref data = first->allocate(8);
    const memory_access access{data.get(), access_mode::write};
    std::thread::id ran_first, ran_second;
    first->host_call({"first", {&access, 1}}, {[&] { ran_first = std::this_thread::get_id(); }});
    sync_on(with_context([&](execution_context& context) {
                const stream on_it = context.stream();
                on_it.host_call({"second", {&access, 1}}, {[&] { ran_second = std::this_thread::get_id(); }});
                return value(0);
            }),
            *second);
    EXPECT_EQ(ran_first, std::this_thread::get_id());
    EXPECT_EQ(ran_second, std::this_thread::get_id());
}

TEST_F(helping, a_waiter_leaves_later_commands_to_the_worker) {
    const stream_lease busy = make();
    const test_support::gate held(*busy);
    single_stream policy(on);
    auto first = spawn(thread_of_call(), policy);
    auto later = spawn(thread_of_call(), policy);
    first.wait();
    EXPECT_EQ(std::move(first).get(), std::this_thread::get_id());
    EXPECT_FALSE(later.is_ready());
    EXPECT_FALSE(later.wait_for(std::chrono::seconds(0)));  // which does not help: it must not block
    std::thread([&] { EXPECT_EQ(std::move(later).get(), std::this_thread::get_id()); }).join();
}

// Flushing denormals to zero, or rounding upwards, in the thread that waits changes no result.
TEST_F(helping, a_waiter_computes_as_a_worker_does) {
    const stream_lease busy = make(), mine = make();
    const test_support::gate held(*busy);
    const int before = std::fegetround();
    std::fesetround(FE_UPWARD);
    const int seen = sync_on(host_call([] { return std::fegetround(); }), *mine);
    const int after = std::fegetround();
    std::fesetround(before);
    EXPECT_EQ(seen, before);
    EXPECT_EQ(after, FE_UPWARD);
}

TEST_F(helping, a_host_call_that_a_waiter_runs_must_not_wait_either) {
    const stream_lease busy = make(), mine = make(), other = make();
    const test_support::gate held(*busy);
    const auto refused = sync_on(host_call([&] {
                                     try {
                                         sync_on(zeros<float>(shape{4}), *other);
                                     } catch (const error& failure) {
                                         return failure.code() == errc::invalid_argument;
                                     }
                                     return false;
                                 }),
                                 *mine);
    EXPECT_TRUE(refused);
}

TEST_F(helping, an_exception_of_a_call_that_a_waiter_runs_reaches_it) {
    const stream_lease busy = make(), mine = make();
    const test_support::gate held(*busy);
    EXPECT_THROW(sync_on(host_call([] { throw std::runtime_error("mine"); }), *mine), std::runtime_error);
    EXPECT_EQ(sync_on(thread_of_call(), *mine), std::this_thread::get_id());
}

// Neither a list that cannot fail nor one of another thread can take what a guard throws.
TEST_F(helping, a_waiter_does_not_ask_its_guards_about_what_it_runs) {
    const stream_lease busy = make(), mine = make();
    const auto copies = compile(on, [](tensor<float> x) { return download(std::move(x)); }, host_input<float>({4}));
    const std::vector<float> x{1, 2, 3, 4};
    const test_support::gate held(*busy);
    const run_guard guard([] { throw std::runtime_error("over"); });
    std::this_thread::sleep_for(2 * run_guard::look_time);
    EXPECT_EQ(sync_on(copies(x), *mine), x);
    EXPECT_THROW(run_guard::check(), std::runtime_error);  // it is there again
}

TEST_F(helping, many_threads_may_wait_for_one_stream) {
    const stream_lease mine = make();
    std::atomic<int> calls = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < 500; ++k) sync_on(host_call([&] { ++calls; }), *mine);
        });
    }
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(calls, 2000);
}

TEST_F(helping, streams_that_wait_for_each_other_in_turn_all_end) {
    round_robin pool(on, 3);
    for (int i = 0; i < 2000; ++i) {
        const auto [a, b] = sync(zip(upload(std::vector<float>{1, 2}), zeros<float>(shape{2}))
                                     .and_then([](tensor<float> x, tensor<float> y) {
                                         return zip(download(std::move(x)), download(std::move(y)));
                                     }),
                                 pool);
        ASSERT_EQ(a, (std::vector<float>{1, 2}));
        ASSERT_EQ(b, (std::vector<float>{0, 0}));
    }
}

}  // namespace sluice::helping_tests
