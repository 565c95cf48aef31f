// SPDX-License-Identifier: Apache-2.0
// spawn() returns at once; get() waits for that operation and returns its result or throws its failure.
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::future_tests {
namespace {

using numbers = std::vector<unsigned>;
using namespace std::chrono_literals;
constexpr std::size_t size = 200;

class futures : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start)
            .and_then([rounds = slow()](auto x) { return step(std::move(x), 4, rounds); })
            .and_then(download);
    }

    futures() { sync(zip(work(0), work(1), work(2)), pool); }  // loads the kernels

    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, futures, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(futures, spawn_does_not_wait_for_the_device) {
    NEEDS_A_GATE();
    single_stream one(on);
    sync(work(1), one);
    gate held(one.next());
    auto future = spawn(work(1), one);
    held.open();
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
}

TEST_P(futures, many_futures_give_their_values_in_any_order) {
    std::vector<device_future<pending<numbers>>> all;
    for (unsigned i = 0; i < 40; ++i) all.push_back(spawn(work(i), pool));
    for (unsigned i = 40; i-- > 0;) EXPECT_EQ(std::move(all[i]).get(), numbers(size, 3 * i + 4));
}

TEST_P(futures, get_returns_in_every_wait_mode) {
    for (const wait_mode mode : {wait_mode::spin, wait_mode::yield, wait_mode::block}) {
        EXPECT_EQ(spawn(work(2), pool).get(mode), numbers(size, 10)) << to_string(mode);
    }
}

TEST_P(futures, get_waits_for_branches_on_other_streams) {
    bool home = false, branch = false;
    const auto note = [&](bool& ran) {
        return with_context(
            [this, &ran](execution_context& context) {
                auto x = submit_to(context.stream(), full<unsigned>({size}, 1));
                for (unsigned i = 0; i < 10; ++i) step_on(context.stream(), x, i, slow());
                context.stream().host_call({"note"}, {[&ran] { ran = true; }});
            },
            branch_threshold);
    };
    spawn(zip(note(home), note(branch)), pool).get();
    EXPECT_TRUE(home);
    EXPECT_TRUE(branch);
}

TEST_P(futures, a_future_can_be_moved_and_used_on_another_thread) {
    auto future = spawn(work(3), pool);
    auto moved = std::move(future);
    numbers got;
    std::jthread([&, mine = std::move(moved)]() mutable { got = std::move(mine).get(); }).join();
    EXPECT_EQ(got, numbers(size, 13));
}

TEST_P(futures, a_future_that_was_used_or_moved_from_is_refused) {
    const auto expect_taken = [](auto& future) {
        EXPECT_FALSE(future.valid());
        expect_refused(errc::invalid_argument, {"once", "wait"}, [&] { future.wait(); });
        expect_refused(errc::invalid_argument, {"once", "wait_for"}, [&] { return future.wait_for(1h); });
        expect_refused(errc::invalid_argument, {"once", "wait_until"},
                       [&] { return future.wait_until(std::chrono::steady_clock::now()); });
        expect_refused(errc::invalid_argument, {"once", "is_ready"}, [&] { return future.is_ready(); });
        expect_refused(errc::invalid_argument, {"once", "get"}, [&] { return std::move(future).get(); });
    };
    auto future = spawn(work(1), pool);
    auto moved = std::move(future);
    expect_taken(future);
    EXPECT_EQ(std::move(moved).get(), numbers(size, 7));
    expect_taken(moved);
}

TEST_P(futures, a_wait_may_have_no_time_limit) {
    auto future = spawn(work(1), pool);
    EXPECT_TRUE(future.wait_for(std::chrono::hours::max()));
    auto other = spawn(work(2), pool);
    EXPECT_TRUE(other.wait_until(std::chrono::steady_clock::time_point::max()));
}

TEST_P(futures, futures_of_host_driven_operations_have_the_same_waits) {
    NEEDS_A_GATE();
    single_stream one(on);
    gate held(one.next());
    auto future = spawn(failing_number("mine").or_else([](std::exception_ptr) { return value(5u); }), one);
    EXPECT_FALSE(future.is_ready());
    EXPECT_FALSE(future.wait_for(1us));
    EXPECT_FALSE(future.wait_until(std::chrono::steady_clock::now()));
    held.open();
    EXPECT_TRUE(future.wait_for(std::chrono::hours::max()));
    future.wait();
    EXPECT_TRUE(future.is_ready());
    EXPECT_EQ(std::move(future).get(wait_mode::yield), 5u);
}

TEST_P(futures, results_of_host_driven_operations_are_opened_on_the_thread_that_takes_them) {
    const auto location = [] {
        return with_context([](execution_context& context) {
            context.stream().host_call({"some work"}, {[] {}});
            return pending<std::thread::id>::from([] { return std::this_thread::get_id(); });
        });
    };
    const auto own = std::this_thread::get_id();
    EXPECT_EQ(sync(timeout(location(), 1h), pool), own);
    auto future = spawn(timeout(location(), 1h), pool);
    future.wait();
    EXPECT_EQ(std::move(future).get(), own);
    std::jthread([&, mine = spawn(timeout(location(), 1h), pool)]() mutable {
        EXPECT_EQ(std::move(mine).get(), std::this_thread::get_id());
    }).join();
}

TEST_P(futures, several_outputs_form_a_tuple_with_pending_values_opened) {
    auto future = spawn(zip(work(1), value(5), full<unsigned>({3}, 1)), pool);
    auto [downloaded, plain, handle] = std::move(future).get();
    EXPECT_EQ(downloaded, numbers(size, 7));
    EXPECT_EQ(plain, 5);
    EXPECT_EQ(contents(std::move(handle), pool.next()), numbers(3, 1));
}

TEST_P(futures, the_result_of_a_future_can_be_used_at_once_on_any_stream) {
    auto x = spawn(full<unsigned>({size}, 1), pool).get();
    EXPECT_EQ(sync(step(std::move(x), 2).and_then(download), pool), numbers(size, 5));
}

TEST_P(futures, a_future_that_has_given_its_value_holds_no_memory) {
    const std::size_t before = on.host_pool().usage().in_use_bytes;
    auto running = spawn(work(1), pool);
    EXPECT_EQ(std::move(running).get(), numbers(size, 7));
    EXPECT_EQ(on.host_pool().usage().in_use_bytes, before);
}

}  // namespace sluice::conformance::future_tests
