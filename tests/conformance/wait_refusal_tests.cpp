// SPDX-License-Identifier: Apache-2.0
// A wait that could never end is an error, on each thread that runs code for a runtime; a wait that can end is not.
#include <chrono>
#include <latch>
#include <string>

#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/async/when_any.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::wait_refusal_tests {
namespace {

using namespace std::chrono_literals;
using future_of_int = device_future<pending<int>>;

auto one() {
    return host_call([] { return 1; });
}
// Recovers, so it is host-driven.
auto driven_one() {
    return retry(1, [] { return one(); });
}

template <typename Function>
task<> call_after(future_of_int first, Function& f) {
    co_await std::move(first);
    f();
}
task<int> two_after(future_of_int first) { co_return 1 + co_await std::move(first); }
task<int> ready_value() { co_return 3; }

// The words of the refusal on a worker and in a host call; on the completion thread.
const std::string worker = "worker thread";
const std::string completion = "completion thread";

class wait_refusals : public conformance_test {
protected:
    wait_refusals() {  // loads the kernels and fills the pools
        for (int i = 0; i < 2; ++i) sluice::sync(eager(), pool);
        sluice::sync(one(), pool);
    }

    static any_operation<pending<std::vector<unsigned>>> eager() {
        return full<unsigned>({100}, 1).and_then([](auto x) { return step(std::move(x), 4); }).and_then(download);
    }

    // A host call that runs `f` once release() was called. What is submitted to `home` meanwhile comes after it.
    class held_call {
    public:
        template <typename Function>
        held_call(scheduling_policy& on, Function f)
            : open_(std::make_shared<std::latch>(1)),
              running_(spawn(host_call([open = open_, f = std::move(f)]() mutable {
                                 open->wait();
                                 f();
                             }),
                             on)) {}
        held_call(const held_call&) = delete;  // the destructor releases
        held_call& operator=(const held_call&) = delete;
        ~held_call() { release(); }

        void release() {
            if (!std::exchange(is_open_, true)) open_->count_down();
        }
        void finish() {
            release();
            std::move(running_).get();
        }

    private:
        std::shared_ptr<std::latch> open_;
        bool is_open_ = false;
        device_future<std::tuple<>> running_;
    };

    // Calls `f` on the runtime's completion thread.
    template <typename Function>
    void on_completion_thread(Function f) {
        gate held(home);
        auto running = spawn(call_after(spawn_on(home, one()), f), here());
        held.open();
        std::move(running).get();
    }

    void expect_refused_wait(const std::string& thread, const std::string& call, const std::function<void()>& wait) {
        SCOPED_TRACE(call);
        expect_refused(errc::invalid_argument, {thread, call, on.name()}, wait);
    }

    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, wait_refusals, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(wait_refusals, in_a_host_call_sync_submits_nothing) {
    NEEDS_A_GATE();
    const auto graph = compile(on, [] { return eager(); });
    sluice::sync(graph(), pool);
    ticket before = 0;
    ticket after = 0;
    held_call call(pool, [&] {
        before = home.issued();
        expect_refused_wait(worker, "sync", [&] { sluice::sync(eager(), pool); });
        expect_refused_wait(worker, "sync", [&] { sync_on(eager(), home); });
        expect_refused_wait(worker, "sync", [&] { sluice::sync(driven_one(), pool); });
        expect_refused_wait(worker, "sync", [&] { sluice::sync(graph(), pool); });
        after = home.issued();
    });
    call.finish();
    EXPECT_EQ(before, after);
}

TEST_P(wait_refusals, in_a_host_call_no_future_that_is_not_ready_is_waited_for) {
    NEEDS_A_GATE();
    const auto graph = compile(on, [] { return eager(); });
    const auto result = sluice::sync(graph(), pool);
    std::optional<future_of_int> plain;
    auto launched = std::optional(spawn(graph(), pool));
    held_call call(pool, [&] {
        expect_refused_wait(worker, "get", [&] { std::move(*plain).get(); });
        expect_refused_wait(worker, "wait", [&] { plain->wait(); });
        expect_refused_wait(worker, "wait_for", [&] { plain->wait_for(1h); });
        expect_refused_wait(worker, "wait_for", [&] { plain->wait_for(0s); });  // would query the device
        expect_refused_wait(worker, "wait_for", [&] { plain->wait_until(std::chrono::steady_clock::now() + 1h); });
        expect_refused_wait(worker, "get", [&] { std::move(*launched).get(); });
    });
    plain = spawn(one(), pool);
    launched = spawn(graph(), pool);
    call.finish();
    EXPECT_EQ(std::move(*plain).get(), 1);  // the refusals took nothing from the futures
    EXPECT_EQ(std::move(*launched).get(), result);
}

TEST_P(wait_refusals, in_a_host_call_nothing_else_waits) {
    NEEDS_A_GATE();
    auto x = submit_to(home, full<unsigned>({100}, 1));
    host_buffer<unsigned> landed(home, 100);
    std::optional<event> later;
    ticket last = 0;
    std::optional<spawned<int>> task_behind;
    std::optional<future_of_int> awaited;
    std::optional<spawned<int>> driven;
    held_call call(pool, [&] {
        expect_refused_wait(worker, "wait", [&] { home.wait(last, wait_mode::block); });
        expect_refused_wait(worker, "synchronize", [&] { on.synchronize(); });
        expect_refused_wait(worker, "event::wait", [&] { later->wait(); });
        expect_refused_wait(worker, "wait for memory", [&] { static_cast<void>(landed.read()); });
        expect_refused_wait(worker, "wait for memory", [&] { static_cast<void>(landed.write()); });
        expect_refused_wait(worker, "get", [&] { std::move(*driven).get(); });
        expect_refused_wait(worker, "sync_wait", [&] { sync_wait(std::move(*awaited)); });
        expect_refused(errc::invalid_argument, {"get", "cannot wait for a task"},
                       [&] { std::move(*task_behind).get(); });
    });
    detail::copy_bytes(home, {"copy"}, *landed.memory(), *x.memory(), landed.size_bytes(),
                       copy_direction::device_to_host);
    last = home.issued();
    later = event::record(home);
    task_behind = spawn(two_after(spawn_on(home, one())), here());
    awaited = spawn_on(home, one());
    driven = spawn(driven_one(), pool);
    call.finish();
    EXPECT_EQ(std::move(*task_behind).get(), 2);
    EXPECT_EQ(std::move(*driven).get(), 1);
    EXPECT_EQ(landed.read()[0], 1u);
}

TEST_P(wait_refusals, in_a_host_call_what_is_complete_is_given) {
    auto plain = spawn(one(), pool);
    plain.wait();
    auto ended = spawn(ready_value(), here());
    int sum = 0;
    held_call call(pool, [&] {
        sum += std::move(plain).get();
        sum += std::move(ended).get();
        sum += sync_wait(ready_value());
    });
    call.finish();
    EXPECT_EQ(sum, 7);
}

TEST_P(wait_refusals, a_host_call_may_wait_for_an_independent_device) {
    if (on.kind() != device_kind::cpu) GTEST_SKIP() << "host calls of a GPU wait for no GPU";
    single_stream others(other_device());
    int got = 0;
    held_call call(pool, [&] { got = sluice::sync(one(), others); });
    call.finish();
    EXPECT_EQ(got, 1);
}

TEST_P(wait_refusals, in_a_host_call_no_device_that_waits_for_this_one_is_waited_for) {
    NEEDS_A_GATE();
    if (!on.is_peer_of(other_device())) GTEST_SKIP() << "the other device is of another kind";
    single_stream others(other_device());
    const stream there = others.next();
    sync_on(one(), there);
    std::optional<future_of_int> later;
    held_call call(pool, [&] {
        expect_refused(errc::invalid_argument, {worker, "get", other_device().name()},
                       [&] { std::move(*later).get(); });
        expect_refused(errc::invalid_argument, {worker, "synchronize", other_device().name()},
                       [&] { other_device().synchronize(); });
    });
    home.host_call({"later"}, {[] {}});
    there.order_after(home.point(home.issued()));
    later = spawn_on(there, one());
    call.finish();
    EXPECT_EQ(std::move(*later).get(), 1);
}

TEST_P(wait_refusals, the_completion_thread_may_wait_for_what_streams_do) {
    NEEDS_A_GATE();
    const auto graph = compile(on, [] { return eager(); });
    const auto result = sluice::sync(eager(), pool);
    on_completion_thread([&] {
        EXPECT_EQ(sluice::sync(eager(), pool), result);
        EXPECT_EQ(sluice::sync(graph(), pool), result);
        EXPECT_EQ(spawn(graph(), pool).get(), result);
        auto future = spawn(eager(), pool);
        future.wait();
        EXPECT_TRUE(future.wait_for(0s));
        EXPECT_EQ(std::move(future).get(), result);
        EXPECT_EQ(sync_wait(ready_value()), 3);
        on.synchronize();
    });
}

TEST_P(wait_refusals, the_completion_thread_cannot_wait_for_what_it_would_resume) {
    NEEDS_A_GATE();
    single_stream others(on);
    const stream held = others.next();
    std::optional<spawned<int>> later;
    std::optional<gate> closed;
    on_completion_thread([&] {
        closed.emplace(held);
        expect_refused_wait(completion, "sync", [&] { sluice::sync(driven_one(), pool); });
        expect_refused_wait(completion, "get", [&] { spawn(driven_one(), others).get(); });
        expect_refused_wait(completion, "wait", [&] { spawn(driven_one(), others).wait(); });
        auto future = spawn_on(held, one());
        expect_refused_wait(completion, "wait_for", [&] { future.wait_for(1h); });
        EXPECT_FALSE(future.wait_for(0s));  // only asks
        expect_refused_wait(completion, "sync_wait", [&] { sync_wait(std::move(future)); });
        expect_refused_wait(completion, "sync_wait", [&] { sync_wait(two_after(spawn_on(held, one()))); });
        later = spawn(two_after(spawn_on(held, one())), here());
        expect_refused(errc::invalid_argument, {"get", completion, "task"}, [&] { std::move(*later).get(); });
        expect_refused(errc::invalid_argument, {"wait_for", completion, "task"}, [&] { later->wait_for(1h); });
        expect_refused(errc::invalid_argument, {"sync_wait", completion, "task"},
                       [&] { sync_wait(std::move(*later)); });
    });
    auto again = spawn(two_after(spawn_on(held, one())), here());
    closed.reset();
    EXPECT_EQ(std::move(again).get(), 2);
}

TEST_P(wait_refusals, the_completion_thread_may_start_what_it_does_not_wait_for) {
    NEEDS_A_GATE();
    single_stream others(on);
    const stream held = others.next();
    std::optional<spawned<int>> later;
    std::optional<gate> closed;
    const auto starts_another = [&]() -> task<int> {
        later = spawn(two_after(spawn_on(held, one())), here());
        co_return 3;
    };
    on_completion_thread([&] {
        closed.emplace(held);
        EXPECT_EQ(sync_wait(starts_another()), 3);
        EXPECT_FALSE(later->wait_for(0s));  // only asks
        EXPECT_EQ(sync_wait(when_any(two_after(spawn_on(held, one())), ready_value())).index, 1u);
    });
    closed.reset();
    EXPECT_EQ(std::move(*later).get(), 2);
}

}  // namespace sluice::conformance::wait_refusal_tests
