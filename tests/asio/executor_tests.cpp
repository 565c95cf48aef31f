// SPDX-License-Identifier: Apache-2.0
// The executors that call handlers, and what is kept for a handler until then.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "asio/support/asio_test.hpp"

namespace sluice::conformance::executor_tests {
namespace {

ASIO_SUITE(asio_executors);

struct memory_count {
    std::atomic<int> allocated = 0;
    std::atomic<int> returned = 0;
    std::atomic<int> failures = 0;  // this many allocations fail next
};

template <typename T>
class counting_allocator {
public:
    using value_type = T;

    explicit counting_allocator(memory_count& count) : count_(&count) {}
    template <typename U>
    counting_allocator(const counting_allocator<U>& other) noexcept : count_(other.count()) {}

    T* allocate(std::size_t size) {
        if (count_->failures > 0) {
            --count_->failures;
            throw std::bad_alloc();
        }
        ++count_->allocated;
        return std::allocator<T>().allocate(size);
    }
    void deallocate(T* address, std::size_t size) {
        ++count_->returned;
        std::allocator<T>().deallocate(address, size);
    }
    memory_count* count() const noexcept { return count_; }

    template <typename U>
    bool operator==(const counting_allocator<U>& other) const noexcept {
        return count_ == other.count();
    }

private:
    memory_count* count_;
};

// The thread that resumes the stream's waiters.
std::thread::id completion_thread(stream on) {
    gate held(on);
    auto waiting = spawn(thread_after(spawn_on(on, host_call([] {}))), here());
    held.open();
    return std::move(waiting).get();
}

}  // namespace

TEST_P(asio_executors, a_handler_is_called_by_its_executor_only) {
    received<numbers> result, complete;
    auto future = spawn(work(2), pool);
    future.wait();
    async_wait(spawn(work(1), pool), on_context(result.handler()));
    async_wait(std::move(future), on_context(complete.handler()));
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(result.calls, 0);
    EXPECT_EQ(complete.calls, 0);
    EXPECT_EQ(context.run(), 2u);
    EXPECT_EQ(result.thread, std::this_thread::get_id());
    EXPECT_EQ(complete.value, combined(2));
}

TEST_P(asio_executors, a_handler_is_not_called_inside_async_wait_even_on_the_executors_own_thread) {
    bool is_inside = false, was_inside = false;
    received<numbers> result;
    net::post(context, [&] {
        auto future = spawn(work(1), pool);
        future.wait();
        is_inside = true;
        async_wait(std::move(future), on_context([&](std::exception_ptr failure, numbers value) {
                       was_inside = is_inside;
                       result.handler()(failure, std::move(value));
                   }));
        is_inside = false;
    });
    context.run();
    EXPECT_EQ(result.calls, 1);
    EXPECT_FALSE(was_inside);
}

TEST_P(asio_executors, the_context_has_work_during_a_wait) {
    NEEDS_A_GATE();
    received<numbers> result;
    gate held(home);
    async_wait(spawn(work(1), pool), on_context(result.handler()));
    EXPECT_EQ(context.poll(), 0u);
    EXPECT_FALSE(context.stopped());
    held.open();
    EXPECT_EQ(context.run(), 1u);
    EXPECT_EQ(result.calls, 1);
    EXPECT_TRUE(context.stopped());
}

TEST_P(asio_executors, without_an_executor_of_its_own_a_handler_runs_on_the_system_executor) {
    const std::thread::id completing = completion_thread(home);
    std::promise<std::thread::id> address;
    async_run(work(1), pool, [&](std::exception_ptr, numbers) { address.set_value(std::this_thread::get_id()); });
    const std::thread::id there = address.get_future().get();
    EXPECT_NE(there, completing);
    EXPECT_NE(there, std::this_thread::get_id());
}

TEST_P(asio_executors, a_download_is_opened_where_the_handler_is_called) {
    received<std::thread::id> result;
    auto opened_at = pending<std::thread::id>::from([] { return std::this_thread::get_id(); });
    auto future = spawn(zip(value(std::move(opened_at)), work(1)).transform([](auto at, auto) { return at; }), pool);
    async_wait(std::move(future), on_context(result.handler()));
    context.run();
    EXPECT_EQ(result.value, std::this_thread::get_id());
}

TEST_P(asio_executors, a_strand_keeps_handlers_apart) {
    auto strand = net::make_strand(context);
    int calls = 0;  // guarded by the strand
    bool all_inside = true;
    for (unsigned i = 0; i < 200; ++i) {
        async_run(work(i), pool, net::bind_executor(strand, [&, i](std::exception_ptr failure, numbers value) {
                      ++calls;
                      all_inside = all_inside && strand.running_in_this_thread();
                      EXPECT_EQ(failure, nullptr);
                      EXPECT_EQ(value, combined(i));
                  }));
    }
    {
        std::jthread other([&] { context.run(); });
        context.run();
    }
    EXPECT_EQ(calls, 200);
    EXPECT_TRUE(all_inside);
}

TEST_P(asio_executors, a_thread_pool_is_joined_after_all_handlers) {
    std::atomic<int> calls = 0;
    net::thread_pool threads(2);
    for (unsigned i = 0; i < 50; ++i)
        async_run(work(i), pool, net::bind_executor(threads, [&](std::exception_ptr, numbers) { ++calls; }));
    threads.join();
    EXPECT_EQ(calls, 50);
}

TEST_P(asio_executors, an_executor_may_be_of_any_type) {
    received<numbers> any, strand, required;
    const net::any_io_executor erased = context.get_executor();
    async_run(work(1), pool, net::bind_executor(erased, any.handler()));
    async_run(work(2), pool, net::bind_executor(net::make_strand(erased), strand.handler()));
    const auto tracked = net::prefer(context.get_executor(), net::execution::outstanding_work.tracked);
    async_run(work(3), pool, net::bind_executor(tracked, required.handler()));
    while (any.calls + strand.calls + required.calls < 3) context.run_one();
    EXPECT_EQ(any.value, combined(1));
    EXPECT_EQ(strand.value, combined(2));
    EXPECT_EQ(required.value, combined(3));
}

TEST_P(asio_executors, the_associated_allocator_is_used_and_gets_its_memory_back_before_the_handler_is_called) {
    memory_count count;
    int not_returned = -1;
    auto handler = [&](std::exception_ptr, numbers) { not_returned = count.allocated - count.returned; };
    async_run(work(1), pool, net::bind_allocator(counting_allocator<void>(count), on_context(std::move(handler))));
    EXPECT_GT(count.allocated, 0);
    context.run();
    EXPECT_EQ(not_returned, 0);
    EXPECT_EQ(count.allocated, count.returned);
}

TEST_P(asio_executors, where_memory_is_out_when_the_wait_ends_the_handler_waits_for_memory) {
    NEEDS_A_GATE();
    memory_count count;
    received<numbers> result;
    {
        gate held(home);
        async_wait(spawn(work(1), pool),
                   net::bind_allocator(counting_allocator<void>(count), on_context(result.handler())));
        count.failures = 3;
    }
    context.run();
    EXPECT_EQ(count.failures, 0);
    EXPECT_EQ(result.calls, 1);
    EXPECT_EQ(result.value, combined(1));
    EXPECT_EQ(count.allocated, count.returned);
}

TEST_P(asio_executors, what_a_handler_throws_leaves_run) {
    async_run(work(1), pool,
              on_context([](std::exception_ptr, numbers) { throw std::runtime_error("the handler's"); }));
    EXPECT_EQ(failure_of([&] { context.run(); }), "the handler's");
    EXPECT_EQ(context.run(), 0u);
}

}  // namespace sluice::conformance::executor_tests
