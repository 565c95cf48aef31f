// SPDX-License-Identifier: Apache-2.0
// Contexts, runtimes and handlers may be destroyed in any order.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "asio/support/asio_test.hpp"

namespace sluice::conformance::context_lifetime_tests {
namespace {

class asio_lifetimes : public asio_test {
protected:
    std::unique_ptr<net::io_context> short_lived = std::make_unique<net::io_context>();
    std::shared_ptr<int> owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
};
INSTANTIATE_TEST_SUITE_P(, asio_lifetimes, testing::ValuesIn(enrolled_backends()), backend_name);

net::awaitable<void> wait_for(device_future<pending<numbers>> future, [[maybe_unused]] std::shared_ptr<int> owned) {
    co_await async_wait(std::move(future), net::use_awaitable);
    ADD_FAILURE() << "the context was dropped";
}

// Starts another wait when it is destroyed, while its context is being destroyed.
class waits_again {
public:
    waits_again(net::io_context& on, scheduling_policy& pool, std::shared_ptr<int> owned)
        : on_(&on), pool_(&pool), owned_(std::move(owned)) {}
    waits_again(waits_again&&) noexcept = default;
    waits_again(const waits_again&) = delete;  // only one object, so that it waits once
    ~waits_again() {
        if (!owned_) return;
        auto never = [mine = std::move(owned_)](std::exception_ptr) { ADD_FAILURE() << "the context was destroyed"; };
        async_run(host_call([] {}), *pool_, net::bind_executor(*on_, std::move(never)));
    }
    void operator()(std::exception_ptr, numbers) { ADD_FAILURE() << "the context was destroyed"; }

private:
    net::io_context* on_;
    scheduling_policy* pool_;
    std::shared_ptr<int> owned_;
};

}  // namespace

TEST_P(asio_lifetimes, a_context_dropped_during_a_wait_drops_the_handler_and_the_outputs) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    gate held(home);
    for (int i = 0; i < 3; ++i) {
        auto never = [mine = owned](std::exception_ptr, numbers) { ADD_FAILURE() << "the context was dropped"; };
        async_wait(spawn(work(1), pool), net::bind_executor(*short_lived, std::move(never)));
    }
    owned.reset();
    EXPECT_GT(bytes_in_use(), before);
    EXPECT_FALSE(watch.expired());
    short_lived.reset();
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(bytes_in_use(), before);
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(sync(work(2), pool), combined(2));
}

TEST_P(asio_lifetimes, a_context_dropped_while_a_handler_is_queued_drops_it_too) {
    const std::size_t before = bytes_in_use();
    auto never = [mine = std::move(owned)](std::exception_ptr, numbers) { ADD_FAILURE() << "it was dropped"; };
    async_wait(spawn(work(1), pool), net::bind_executor(*short_lived, std::move(never)));
    wait_until_waiters_are_woken(home);
    EXPECT_FALSE(watch.expired());
    short_lived.reset();
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(asio_lifetimes, a_context_dropped_drops_the_coroutines_that_wait) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    gate held(home);
    net::co_spawn(*short_lived, wait_for(spawn(work(1), pool), std::move(owned)), net::detached);
    net::co_spawn(net::make_strand(*short_lived), wait_for(spawn(work(1), pool), watch.lock()), net::detached);
    while (short_lived->poll() != 0) continue;  // both wait now
    EXPECT_FALSE(watch.expired());
    short_lived.reset();
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(asio_lifetimes, a_context_dropped_while_a_task_is_waited_for_lets_the_task_end) {
    NEEDS_A_GATE();
    bool ended = false;
    gate held(home);
    const auto note = [](device_future<std::tuple<>> until, bool& end) -> task<> {
        co_await std::move(until);
        end = true;
    };
    auto never = [mine = std::move(owned)](std::exception_ptr) { ADD_FAILURE() << "the context was dropped"; };
    async_wait(spawn(note(spawn(host_call([] {}), pool), ended), here()),
               net::bind_executor(*short_lived, std::move(never)));
    short_lived.reset();
    EXPECT_TRUE(watch.expired());
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_TRUE(ended);
}

TEST_P(asio_lifetimes, a_run_whose_context_was_dropped_submits_nothing_more) {
    NEEDS_A_GATE();
    std::atomic<int> made = 0;
    gate held(home);
    auto attempts = retry(1000, [&] { return ++made, failing_number("mine"); });
    auto never = [](std::exception_ptr, unsigned) { ADD_FAILURE() << "the context was dropped"; };
    async_run(std::move(attempts), pool, net::bind_executor(*short_lived, never));
    short_lived.reset();
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(made, 1);
}

TEST_P(asio_lifetimes, a_wait_that_starts_while_its_context_is_destroyed_is_dropped) {
    NEEDS_A_GATE();
    gate held(home);
    waits_again handler(*short_lived, pool, std::move(owned));
    async_wait(spawn(work(1), pool), net::bind_executor(*short_lived, std::move(handler)));
    short_lived.reset();
    EXPECT_TRUE(watch.expired());
    held.open();
    wait_until_waiters_are_woken(home);
}

TEST_P(asio_lifetimes, a_thread_pool_dropped_during_a_wait_drops_the_handler) {
    NEEDS_A_GATE();
    gate held(home);
    {
        net::thread_pool threads(2);
        auto never = [mine = std::move(owned)](std::exception_ptr, numbers) { ADD_FAILURE() << "it was dropped"; };
        async_wait(spawn(work(1), pool), net::bind_executor(threads, std::move(never)));
        threads.stop();
    }
    EXPECT_TRUE(watch.expired());
}

TEST_P(asio_lifetimes, a_runtime_dropped_before_the_handler_is_called_leaves_the_value_usable) {
    auto brief = std::make_unique<runtime>(options());
    auto streams = std::make_unique<single_stream>(brief->find(GetParam().device));
    received<numbers> result;
    async_wait(spawn(work(3), *streams), on_context(result.handler()));
    streams.reset();
    brief.reset();
    context.run();
    EXPECT_EQ(result.value, combined(3));
}

TEST_P(asio_lifetimes, the_last_reference_to_a_runtime_may_be_dropped_in_a_handler) {
    auto brief = std::make_shared<runtime>(options());
    auto streams = std::make_unique<single_stream>(brief->find(GetParam().device));
    bool called = false;
    auto future = spawn(work(3), *streams);
    streams.reset();
    async_wait(std::move(future), on_context([&called, last = std::move(brief)](std::exception_ptr, numbers) mutable {
                   last.reset();
                   called = true;
               }));
    context.run();
    EXPECT_TRUE(called);
}

}  // namespace sluice::conformance::context_lifetime_tests
