// SPDX-License-Identifier: Apache-2.0
// Library calls and host calls run in stream order; their exceptions reach the waiters for these calls and no other
// waiter.
#include <array>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::library_call_tests {
namespace {

using numbers = std::vector<unsigned>;

class library_calls : public conformance_test {
protected:
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, library_calls, testing::ValuesIn(enrolled_backends()), backend_name);

auto host_call(std::function<void()> call) {
    return with_context(
        [call = std::move(call)](execution_context& context) { context.stream().host_call({"host call"}, {call}); });
}

auto failing(const char* message) {
    return host_call([message] { throw std::runtime_error(message); });
}

// Larger than a closure that a CPU stream stores without an allocation.
struct large_closure {
    std::array<int, 200> values;
    std::array<int, 200>* to;
    native_stream* seen;
};

void note(const native_stream& on, const void* erased) {
    const auto& closure = *static_cast<const large_closure*>(erased);
    *closure.to = closure.values;
    *closure.seen = on;
}

template <typename Future>
std::string failure_of(Future future) {
    try {
        std::move(future).get();
        return "";
    } catch (const std::runtime_error& failure) {
        return failure.what();
    }
}

}  // namespace

TEST_P(library_calls, a_call_is_handed_a_copy_of_its_closure_and_the_native_stream) {
    std::array<int, 200> to{};
    native_stream seen{};
    {
        large_closure closure{{}, &to, &seen};
        closure.values.fill(7);
        home.library_call({"note"}, {&note, &closure, sizeof(closure)});
        closure.values.fill(8);  // the caller's copy may change at once
    }
    on.synchronize();
    EXPECT_EQ(to[0], 7);
    EXPECT_EQ(to[199], 7);
    EXPECT_EQ(seen.kind, on.kind());
    EXPECT_EQ(seen.queue, &home.queue());
    EXPECT_EQ(seen.handle, home.native().handle);
}

TEST_P(library_calls, host_calls_run_in_stream_order) {
    std::vector<int> order;
    for (int i = 0; i < 300; ++i) home.host_call({"note"}, {[&order, i] { order.push_back(i); }});
    on.synchronize();
    std::vector<int> expected(300);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
}

TEST_P(library_calls, a_host_call_sees_what_the_commands_before_it_wrote) {
    host_buffer<unsigned> landed(home, 100);
    auto x = submit_to(home, full<unsigned>({100}, 1));
    step_on(home, x, 4, slow());
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{landed.memory(), access_mode::write}};
    home.copy({"copy", accesses}, {landed.device_data(), x.device_data(), 400, copy_direction::device_to_host, {}});
    unsigned seen = 0;
    const std::array reads{memory_access{landed.memory(), access_mode::read}};
    home.host_call({"look", reads}, {[&seen, data = landed.device_data()] { seen = data[99]; }});
    on.synchronize();
    EXPECT_EQ(seen, 7u);
}

TEST_P(library_calls, what_a_host_call_owns_is_destroyed_when_it_has_run) {
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
    sync(host_call([owned] {}), pool);
    owned.reset();
    EXPECT_TRUE(watch.expired());
}

TEST_P(library_calls, an_exception_reaches_exactly_the_waiter_whose_call_threw) {
    auto before = spawn(host_call([] {}), pool);
    auto first = spawn(zip(host_call([] {}), failing("first")), pool);
    auto between = spawn(full<unsigned>({5}, 1).and_then(download), pool);
    auto second = spawn(failing("second"), pool);
    auto after = spawn(host_call([] {}), pool);
    // In another order than they were submitted.
    EXPECT_EQ(failure_of(std::move(second)), "second");
    EXPECT_EQ(failure_of(std::move(after)), "");
    EXPECT_EQ(std::move(between).get(), numbers(5, 1));
    EXPECT_EQ(failure_of(std::move(before)), "");
    EXPECT_EQ(failure_of(std::move(first)), "first");
}

TEST_P(library_calls, a_waiter_gets_the_first_of_several_exceptions) {
    EXPECT_EQ(failure_of(spawn(zip(failing("first"), failing("second"), failing("third")), pool)), "first");
    EXPECT_EQ(failure_of(spawn(failing("next"), pool)), "next");
}

TEST_P(library_calls, an_exception_in_a_branch_reaches_the_waiter) {
    round_robin streams(on, 2);
    auto branch = with_context([](execution_context&) { return failing("in a branch"); }, branch_threshold);
    auto home_part = with_context([](execution_context&) { return host_call([] {}); }, branch_threshold);
    EXPECT_EQ(failure_of(spawn(zip(std::move(home_part), std::move(branch)), streams)), "in a branch");
}

TEST_P(library_calls, the_stream_continues_after_an_exception) {
    EXPECT_THROW(sync(failing("broken"), pool), std::runtime_error);
    EXPECT_EQ(sync(full<unsigned>({5}, 1).and_then(download), pool), numbers(5, 1));
}

TEST_P(library_calls, exceptions_without_a_waiter_are_dropped) {
    for (int i = 0; i < 1000; ++i) spawn(failing("unheard"), pool);
    on.synchronize();
    EXPECT_EQ(sync(full<unsigned>({5}, 1).and_then(download), pool), numbers(5, 1));
}

TEST_P(library_calls, an_exception_of_a_library_call_reaches_the_caller_of_sync) {
    // Thrown at submission on backends where library calls run then, otherwise on the worker.
    const auto broken = [](execution_context& context) {
        context.stream().library_call(
            {"broken"}, {[](const native_stream&, const void*) { throw std::runtime_error("broken"); }, nullptr, 0});
    };
    EXPECT_THROW(sync(with_context(broken), pool), std::runtime_error);
    EXPECT_EQ(sync(full<unsigned>({5}, 1).and_then(download), pool), numbers(5, 1));
}

TEST_P(library_calls, an_exception_does_not_reach_an_operation_that_another_thread_submits_meanwhile) {
    std::promise<void> other_has_begun, broken_is_submitted;
    std::thread other([&] {
        execution_context fine(home);
        other_has_begun.set_value();
        broken_is_submitted.get_future().wait();
        fine.stream().host_call({"fine"}, {[] {}});
        fine.submission()->await_completion({});
        EXPECT_NO_THROW(fine.submission()->rethrow_failure());
    });
    execution_context broken(home);
    other_has_begun.get_future().wait();
    broken.stream().host_call({"broken"}, {[] { throw std::runtime_error("mine"); }});
    broken_is_submitted.set_value();
    other.join();
    broken.submission()->await_completion({});
    EXPECT_THROW(broken.submission()->rethrow_failure(), std::runtime_error);
}

}  // namespace sluice::conformance::library_call_tests
