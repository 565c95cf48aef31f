// SPDX-License-Identifier: Apache-2.0
// A pending value may be moved out of the operation that produces it into another operation. A waiter for the other
// operation also waits for the value, and receives its failure.
#include <optional>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::carried_pending_tests {
namespace {

using numbers = std::vector<unsigned>;
using namespace std::chrono_literals;
constexpr std::size_t size = 200;

class carried_pendings : public conformance_test {
protected:
    carried_pendings() { sync(full<unsigned>({size}, 0).and_then(download), pool); }  // loads the kernels

    pending<numbers> landing_on(stream target, unsigned number) {
        return submit_to(target, full<unsigned>({size}, number).and_then(download));
    }
    pending<unsigned> failed_on(stream target) { return submit_to(target, failing_number("mine")); }

    round_robin pool{on, 2};
    stream a = pool.next();
    stream b = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, carried_pendings, testing::ValuesIn(enrolled_backends()), backend_name);

template <typename T>
shared<pending<T>> shared_of(pending<T> value) {
    return shared<pending<T>>(std::move(value));
}

}  // namespace

TEST_P(carried_pendings, are_waited_for_by_get) {
    NEEDS_A_GATE();
    gate held(a);
    auto future = spawn_on(b, value(landing_on(a, 7)));
    EXPECT_FALSE(future.is_ready());
    EXPECT_FALSE(future.wait_for(0s));
    held.open();
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
}

TEST_P(carried_pendings, are_waited_for_by_sync) {
    NEEDS_A_GATE();
    gate held(a);
    auto carried = landing_on(a, 8);
    std::jthread opens([&] { held.open(); });
    EXPECT_EQ(sync_on(value(std::move(carried)), b), numbers(size, 8));
}

TEST_P(carried_pendings, are_waited_for_by_coroutines) {
    NEEDS_A_GATE();
    gate held(a);
    auto waiting = spawn(value_of(spawn_on(b, value(landing_on(a, 9)))), here());
    EXPECT_FALSE(waiting.is_ready());
    held.open();
    EXPECT_EQ(std::move(waiting).get(), numbers(size, 9));
}

TEST_P(carried_pendings, are_waited_for_in_tuples_and_when_they_are_shared) {
    NEEDS_A_GATE();
    gate held(a);
    auto both = spawn_on(b, value(landing_on(b, 1), landing_on(a, 2)));
    auto one = spawn_on(b, value(shared_of(landing_on(a, 3))));
    EXPECT_FALSE(both.is_ready());
    EXPECT_FALSE(one.is_ready());
    held.open();
    const auto [first, second] = std::move(both).get();
    EXPECT_EQ(first, numbers(size, 1));
    EXPECT_EQ(second, numbers(size, 2));
    EXPECT_EQ(*std::move(one).get(), numbers(size, 3));
}

TEST_P(carried_pendings, are_waited_for_after_commands_of_the_operation_itself) {
    NEEDS_A_GATE();
    gate held(a);
    auto future = spawn_on(b, full<unsigned>({size}, 1).and_then([p = landing_on(a, 4)](auto x) mutable {
        return zip(download(std::move(x)), value(std::move(p)));
    }));
    EXPECT_FALSE(future.is_ready());
    held.open();
    const auto [own, carried] = std::move(future).get();
    EXPECT_EQ(own, numbers(size, 1));
    EXPECT_EQ(carried, numbers(size, 4));
}

TEST_P(carried_pendings, from_another_device_are_waited_for) {
    NEEDS_A_GATE();
    single_stream elsewhere(other_device());
    sync(full<unsigned>({size}, 0), elsewhere);
    gate held(elsewhere.next());
    auto future = spawn_on(b, value(landing_on(elsewhere.next(), 5)));
    EXPECT_FALSE(future.is_ready());
    held.open();
    EXPECT_EQ(std::move(future).get(), numbers(size, 5));
}

TEST_P(carried_pendings, from_another_runtime_are_waited_for) {
    std::optional<device_future<pending<numbers>>> future;
    {
        runtime other(GetParam().options);
        single_stream there(other.find(GetParam().device));
        future.emplace(spawn_on(b, value(landing_on(there.next(), 6))));
    }
    EXPECT_TRUE(future->wait_for(1h));
    EXPECT_EQ(std::move(*future).get(), numbers(size, 6));
}

TEST_P(carried_pendings, are_waited_for_in_host_driven_operations) {
    NEEDS_A_GATE();
    gate held(a);
    auto attempt = spawn(timeout(value(landing_on(a, 1)), 1h), pool);
    auto within =
        spawn(timeout(value(0), 1h).transform([p = landing_on(a, 2)](int) mutable { return std::move(p); }), pool);
    EXPECT_FALSE(attempt.is_ready());
    EXPECT_FALSE(within.is_ready());
    held.open();
    EXPECT_EQ(std::move(attempt).get(), numbers(size, 1));
    EXPECT_EQ(std::move(within).get(), numbers(size, 2));
}

TEST_P(carried_pendings, that_failed_throw_when_they_are_opened) {
    EXPECT_EQ(failure_of([&] { sync_on(value(failed_on(a)), b); }), "mine");
    EXPECT_EQ(failure_of(spawn_on(b, value(failed_on(a)))), "mine");
    EXPECT_EQ(failure_of(spawn(value_of(spawn_on(b, value(failed_on(a)))), here())), "mine");
    EXPECT_EQ(failure_of(spawn_on(b, value(1, shared_of(failed_on(a))))), "mine");
    auto late = failed_on(a);
    on.synchronize();
    EXPECT_EQ(failure_of([&] { sync_on(value(std::move(late)), b); }), "mine");
}

TEST_P(carried_pendings, that_failed_can_be_recovered) {
    auto attempt = value(failed_on(a)).or_else([](std::exception_ptr) { return value(pending<unsigned>(5u)); });
    EXPECT_EQ(sync(std::move(attempt), pool), 5u);
}

TEST_P(carried_pendings, that_failed_on_another_device_throw_when_they_are_opened) {
    single_stream elsewhere(other_device());
    EXPECT_EQ(failure_of(spawn_on(b, value(failed_on(elsewhere.next())))), "mine");
}

}  // namespace sluice::conformance::carried_pending_tests
