// SPDX-License-Identifier: Apache-2.0
// The waiter may be dropped, and so may the work that it waits for, and the runtime.
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/run_loop.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::await_lifetime_tests {
namespace {

using numbers = std::vector<unsigned>;
using namespace std::chrono_literals;
constexpr std::size_t size = 200;

class await_lifetimes : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start)
            .and_then([rounds = slow()](auto x) { return step(std::move(x), 4, rounds); })
            .and_then(download);
    }

    await_lifetimes() { sync(zip(work(0), work(1), work(2)), pool); }  // loads the kernels

    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, await_lifetimes, testing::ValuesIn(enrolled_backends()), backend_name);

owned_coroutine note_after_going_to(device_future<std::tuple<>> future, executor& target, std::atomic<bool>& resumed) {
    auto elsewhere = std::move(future).resume_on(target);
    co_await std::move(elsewhere);
    resumed = true;
}

// The frame holds the only reference to the runtime, and drops it.
task<std::thread::id> drop_after(std::unique_ptr<runtime> last, device_future<pending<numbers>> future) {
    const numbers got = co_await std::move(future);
    EXPECT_EQ(got, numbers(size, 7));
    last.reset();
    co_return std::this_thread::get_id();
}

// Overwrites the stack where a function that has returned had its local variables.
[[gnu::noinline]] void write_over_the_stack() {
    char room[4096];
    std::memset(room, 0xab, sizeof(room));
    asm volatile("" : : "r"(room) : "memory");
}

}  // namespace

TEST_P(await_lifetimes, a_coroutine_destroyed_while_it_waits_is_not_resumed_and_leaks_nothing) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    std::atomic<bool> resumed = false;
    gate held(home);
    auto waiting = note_after(spawn(work(1), pool), resumed);
    EXPECT_GT(bytes_in_use(), before);
    waiting.destroy();
    EXPECT_EQ(bytes_in_use(), before);
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_FALSE(resumed);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(await_lifetimes, a_coroutine_destroyed_while_it_is_queued_at_its_executor_is_not_resumed) {
    NEEDS_A_GATE();
    std::atomic<bool> resumed = false;
    run_loop loop;
    gate held(home);
    auto waiting = note_after_going_to(spawn(host_call([] {}), pool), loop, resumed);
    held.open();
    wait_until_waiters_are_woken(home);  // it is queued by now
    waiting.destroy();
    EXPECT_EQ(loop.run_pending(), 1u);
    EXPECT_FALSE(resumed);
}

TEST_P(await_lifetimes, an_executor_may_be_destroyed_after_the_coroutine_that_waits_for_it) {
    NEEDS_A_GATE();
    std::atomic<bool> resumed = false;
    alignas(run_loop) std::byte room[sizeof(run_loop)];
    auto* const loop = new (room) run_loop;
    gate held(home);
    auto waiting = note_after_going_to(spawn(host_call([] {}), pool), *loop, resumed);
    waiting.destroy();
    loop->~run_loop();
    std::memset(room, 0xab, sizeof(room));
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_FALSE(resumed);
}

// Its post takes its time: it waits for `dropped`, for a while, and notes whether that came meanwhile.
class slow_executor final : public executor {
public:
    explicit slow_executor(std::atomic<bool>& dropped) : dropped_(dropped) {}
    void post(work_item& item) noexcept override {
        is_posting = true;
        for (int i = 0; i < 100 && !dropped_; ++i) std::this_thread::sleep_for(1ms);
        was_dropped_meanwhile = dropped_.load();
        held_.store(&item);
    }
    void run_what_it_holds() { held_.load()->run(); }

    std::atomic<bool> is_posting = false, was_dropped_meanwhile = false;

private:
    std::atomic<bool>& dropped_;
    std::atomic<work_item*> held_ = nullptr;
};

TEST_P(await_lifetimes, a_coroutine_is_not_destroyed_while_a_thread_posts_to_its_executor) {
    NEEDS_A_GATE();
    std::atomic<bool> resumed = false, dropped = false;
    slow_executor slow(dropped);
    gate held(home);
    auto waiting = note_after_going_to(spawn(host_call([] {}), pool), slow, resumed);
    held.open();
    while (!slow.is_posting) std::this_thread::yield();
    waiting.destroy();
    dropped = true;
    EXPECT_FALSE(slow.was_dropped_meanwhile);  // so an executor may be destroyed now, once it has run what it holds
    slow.run_what_it_holds();
    EXPECT_FALSE(resumed);
}

// In post it does something else first; the item runs later.
class busy_executor final : public executor {
public:
    void post(work_item& item) noexcept override {
        before();
        held.store(&item);
    }

    std::function<void()> before;
    std::atomic<work_item*> held = nullptr;
};

TEST_P(await_lifetimes, a_coroutine_may_be_destroyed_by_what_its_executor_runs_in_post) {
    NEEDS_A_GATE();
    std::atomic<bool> resumed = false;
    busy_executor busy;
    gate held(home);
    auto waiting = note_after_going_to(spawn(host_call([] {}), pool), busy, resumed);
    busy.before = [&] { waiting.destroy(); };
    held.open();
    while (busy.held == nullptr) std::this_thread::yield();
    busy.held.load()->run();
    EXPECT_FALSE(resumed);
}

TEST_P(await_lifetimes, a_wait_that_has_timed_out_leaks_nothing) {
    NEEDS_A_GATE();
    gate held(home);
    auto future = spawn(work(1), pool);
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(future.wait_for(0s));
    write_over_the_stack();
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
}

TEST_P(await_lifetimes, a_future_dropped_while_a_gate_holds_its_stream_frees_what_it_holds) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
    gate held(home);
    static_cast<void>(spawn(zip(work(1), host_call([mine = std::move(owned)] { return *mine; })), pool));
    EXPECT_EQ(bytes_in_use(), before);
    EXPECT_FALSE(watch.expired());  // the command has not run yet
    held.open();
    on.synchronize();
    EXPECT_TRUE(watch.expired());
}

TEST_P(await_lifetimes, a_future_dropped_while_its_host_call_runs_frees_what_that_returns) {
    const std::size_t before = bytes_in_use();
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
    signal runs, may_end;
    {
        const auto dropped = spawn(host_call([mine = std::move(owned), &runs, go_on = may_end.latch()]() mutable {
                                       runs.give();
                                       go_on->wait();
                                       return std::move(mine);
                                   }),
                                   pool);
        runs.wait();
    }
    EXPECT_FALSE(watch.expired());
    may_end.give();
    on.synchronize();
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(await_lifetimes, a_future_dropped_when_it_is_complete_frees_what_it_holds) {
    const std::size_t before = bytes_in_use();
    {
        const auto dropped = spawn(zip(work(1), failing_number("unheard")), pool);
        dropped.wait();
        EXPECT_TRUE(dropped.is_ready());
        EXPECT_GT(bytes_in_use(), before);
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(await_lifetimes, a_future_may_outlive_its_runtime_and_be_awaited_then) {
    auto short_lived = std::make_unique<runtime>(GetParam().options);
    auto streams = std::make_unique<round_robin>(short_lived->find(GetParam().device), 2);
    auto fine = spawn(work(1), *streams);
    auto broken = spawn(failing("mine"), *streams);
    auto waited_for = spawn(work(2), *streams);
    streams.reset();
    short_lived.reset();
    EXPECT_EQ(sync_wait(value_of(std::move(fine))), numbers(size, 7));
    EXPECT_EQ(failure_of([&] { sync_wait(value_of(std::move(broken))); }), "mine");
    EXPECT_TRUE(waited_for.wait_for(0s));
    EXPECT_EQ(std::move(waited_for).get(), numbers(size, 10));
}

TEST_P(await_lifetimes, a_coroutine_that_waits_is_resumed_when_its_runtime_is_dropped) {
    NEEDS_A_GATE();
    for (int round = 0; round < 10; ++round) {
        auto short_lived = std::make_unique<runtime>(GetParam().options);
        auto streams = std::make_unique<single_stream>(short_lived->find(GetParam().device));
        sync(work(0), *streams);
        gate held(streams->next());
        auto waiting = spawn(value_of(spawn(work(1), *streams)), here());
        streams.reset();
        std::jthread dropping([&] { short_lived.reset(); });  // waits for the work
        held.open();
        EXPECT_EQ(std::move(waiting).get(), numbers(size, 7));
    }
}

TEST_P(await_lifetimes, the_last_reference_to_a_runtime_may_be_dropped_on_its_completion_thread) {
    NEEDS_A_GATE();
    for (int round = 0; round < 10; ++round) {
        auto last = std::make_unique<runtime>(GetParam().options);
        auto streams = std::make_unique<single_stream>(last->find(GetParam().device));
        sync(work(0), *streams);
        gate held(streams->next());
        auto future = spawn(work(1), *streams);
        streams.reset();
        auto waiting = spawn(drop_after(std::move(last), std::move(future)), here());
        held.open();
        EXPECT_NE(std::move(waiting).get(), std::this_thread::get_id());
    }
}

TEST_P(await_lifetimes, the_last_reference_to_a_runtime_may_be_dropped_while_another_thread_starts_to_wait) {
    for (int round = 0; round < 50; ++round) {
        auto last = std::make_unique<runtime>(GetParam().options);
        auto streams = std::make_unique<single_stream>(last->find(GetParam().device));
        auto future = spawn(work(1), *streams);
        streams.reset();
        // No gate: the work may be complete before, while or after the coroutine is handed over.
        static_cast<void>(sync_wait(drop_after(std::move(last), std::move(future))));
    }
}

TEST_P(await_lifetimes, other_coroutines_continue_when_the_runtime_was_dropped_on_the_completion_thread) {
    NEEDS_A_GATE();
    auto last = std::make_unique<runtime>(GetParam().options);
    auto streams = std::make_unique<single_stream>(last->find(GetParam().device));
    sync(work(0), *streams);
    gate held(streams->next());
    std::vector<spawned<numbers>> waiting;
    for (int i = 0; i < 4; ++i) waiting.push_back(spawn(value_of(spawn(work(2), *streams)), here()));
    auto future = spawn(work(1), *streams);
    for (int i = 0; i < 4; ++i) waiting.push_back(spawn(value_of(spawn(work(2), *streams)), here()));
    streams.reset();
    auto dropping = spawn(drop_after(std::move(last), std::move(future)), here());
    held.open();
    for (auto& each : waiting) EXPECT_EQ(std::move(each).get(), numbers(size, 10));
    static_cast<void>(std::move(dropping).get());
}

}  // namespace sluice::conformance::await_lifetime_tests
