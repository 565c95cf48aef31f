// SPDX-License-Identifier: Apache-2.0
// A wait that could never end is refused where it starts. A runtime may be dropped on any thread.
#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "sluice/sluice.hpp"
#include "support/gate.hpp"

namespace sluice::wait_checks_tests {
namespace {

using test_support::gate;
using testing::HasSubstr;

// One worker: a call that blocks it stops the device.
runtime_options one_worker() { return {.cpu_workers = 1, .cuda = false}; }

template <typename Call>
std::string refusal_of(Call&& call) {
    try {
        call();
        return "nothing was refused";
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), errc::invalid_argument);
        return refusal.what();
    }
}

class wait_checks : public testing::Test {
protected:
    static auto one() {
        return host_call([] { return 1; });
    }
    static auto staged_one() {
        return retry(1, [] { return one(); });
    }

    runtime owner{one_worker()};
    round_robin pool{owner.default_device(), 2};
};

TEST_F(wait_checks, a_host_call_that_waits_for_its_device_is_refused) {
    const auto refusals = [&] {
        return std::vector<std::string>{refusal_of([&] { sync(one(), pool); }),
                                        refusal_of([&] { sync(staged_one(), pool); }),
                                        refusal_of([&] { spawn(one(), pool).get(); }),
                                        refusal_of([&] { spawn(one(), pool).wait(); }),
                                        refusal_of([&] { spawn(one(), pool).wait_for(std::chrono::hours(1)); }),
                                        refusal_of([&] { spawn(staged_one(), pool).get(); })};
    };
    for (const std::string& each : sync(host_call(refusals), pool)) EXPECT_THAT(each, HasSubstr("worker thread"));
}

TEST_F(wait_checks, a_host_driven_operation_cannot_be_waited_for_on_the_completion_thread) {
    std::optional<gate> held(pool.next());
    const auto wait_there = [](round_robin& streams,
                               device_future<pending<int>> first) -> task<std::vector<std::string>> {
        co_await std::move(first);
        gate other(streams.next());
        co_return std::vector<std::string>{refusal_of([&] { sync(staged_one(), streams); }),
                                           refusal_of([&] { spawn(staged_one(), streams).get(); }),
                                           refusal_of([&] { spawn(one(), streams).wait_for(std::chrono::hours(1)); })};
    };
    inline_executor here;  // it runs here until the wait
    auto messages = spawn(wait_there(pool, spawn(one(), pool)), here);
    held.reset();
    for (const std::string& each : std::move(messages).get()) EXPECT_THAT(each, HasSubstr("completion thread"));
}

TEST_F(wait_checks, a_coroutine_resumed_on_a_worker_cannot_block_it) {
    inline_executor here;
    std::optional<gate> held(pool.next());
    std::string message;
    std::promise<void> over;
    const auto wait_there = [&](device_future<pending<int>> first) -> task<> {
        auto there = std::move(first).resume_on(here);
        co_await there;
        message = refusal_of([&] { sync(one(), pool); });
        over.set_value();
    };
    auto running = spawn(wait_there(spawn(one(), pool)), here);
    held.reset();
    over.get_future().wait();
    std::move(running).get();
    EXPECT_THAT(message, HasSubstr("worker thread"));
}

TEST_F(wait_checks, the_last_reference_to_a_runtime_may_be_dropped_in_a_host_call) {
    std::promise<void> dropped;
    auto own = std::make_unique<runtime>(one_worker());
    auto streams = std::make_unique<round_robin>(own->default_device(), 1);
    auto future = [&] {
        round_robin& target = *streams;
        return spawn(host_call([&dropped, all = std::move(own), kept = std::move(streams)]() mutable {
                         kept.reset();
                         all.reset();
                         dropped.set_value();
                     }),
                     target);
    }();
    dropped.get_future().wait();
    std::move(future).get();
}

TEST_F(wait_checks, a_coroutine_resumed_on_a_worker_may_drop_the_runtime) {
    inline_executor here;
    auto own = std::make_unique<runtime>(one_worker());
    auto streams = std::make_unique<round_robin>(own->default_device(), 1);
    std::optional<gate> held(streams->next());
    const auto drop_there = [&](device_future<pending<int>> first) -> task<> {
        auto there = std::move(first).resume_on(here);
        co_await there;
        streams.reset();
        own.reset();
    };
    auto running = spawn(drop_there(spawn(one(), *streams)), here);
    held.reset();
    std::move(running).get();
    EXPECT_EQ(own, nullptr);
}

}  // namespace
}  // namespace sluice::wait_checks_tests
