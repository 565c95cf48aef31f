// SPDX-License-Identifier: Apache-2.0
// Any object may be dropped at any moment, and objects that outlive their runtime keep what they own.
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::lifetime_tests {
namespace {

constexpr std::size_t size = 500;
using numbers = std::vector<unsigned>;

class lifetimes : public conformance_test {
protected:
    auto slow_work(unsigned start) const {
        return full<unsigned>({size}, start).and_then([rounds = slow()](auto x) {
            return step(std::move(x), 4, rounds);
        });
    }

    // Loads the kernels: while a stream is held, no call may wait for the device.
    lifetimes() {
        sync(slow_work(1), streams);
        on.synchronize();
    }

    // Runs the call, which must throw std::runtime_error("mine"), and checks that it leaks nothing.
    template <typename Function>
    void expect_nothing_leaks(Function&& call) {
        on.synchronize();
        const std::size_t before = bytes_in_use();
        try {
            call();
            ADD_FAILURE() << "nothing was thrown";
        } catch (const std::runtime_error& mine) {
            EXPECT_STREQ(mine.what(), "mine");
        }
        EXPECT_EQ(bytes_in_use(), before);
        EXPECT_EQ(sync(full<unsigned>({size}, 3).and_then(download), streams), numbers(size, 3));
    }

    round_robin streams{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, lifetimes, testing::ValuesIn(enrolled_backends()), backend_name);

struct throwing {
    template <typename... Ts>
    any_operation<tensor<unsigned>> operator()(Ts&&...) const {
        throw std::runtime_error("mine");
    }
};

}  // namespace

TEST_P(lifetimes, dropping_tensors_in_use_by_a_held_stream_does_not_block) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    gate held(streams.next());
    {
        stream other = streams.next();
        stream home = streams.next();
        auto x = submit_to(home, full<unsigned>({size}, 1));
        auto y = submit_to(other, full<unsigned>({size}, 2));
        step_on(home, x, 1);
        step_on(home, y, 1);
        step_on(other, x, 1);
    }
    EXPECT_EQ(bytes_in_use(), before);
    held.open();
    on.synchronize();
}

// The tensor is gone, and its memory may belong to another tensor, before the copy begins.
TEST_P(lifetimes, a_download_outlives_its_tensor) {
    NEEDS_A_GATE();
    single_stream alone(on);
    const stream home = alone.next(), other = streams.next();
    gate held(home);
    auto copied = spawn(full<unsigned>({size}, 3).and_then(download), alone);  // the tensor ends here
    std::vector<tensor<unsigned>> next;
    for (const stream each : {home, other}) next.push_back(submit_to(each, full<unsigned>({size}, 9)));
    held.open();
    EXPECT_EQ(std::move(copied).get(), numbers(size, 3));
}

TEST_P(lifetimes, an_operation_dropped_before_submission_does_nothing) {
    const std::size_t before = bytes_in_use();
    stream home = streams.next();
    const ticket issued = home.issued();
    bool ran = false;
    {
        auto built = zip(upload(counting<unsigned>(size)), share(zeros<unsigned>({size}))).and_then([&](auto x, auto) {
            return ran = true, step(std::move(x), 1);
        });
        auto half = std::move(built).transform([&](auto x) { return ran = true, std::move(x); });
        any_operation<tensor<unsigned>> erased(std::move(half));
    }
    EXPECT_FALSE(ran);
    EXPECT_EQ(home.issued(), issued);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(lifetimes, futures_dropped_in_flight_free_what_they_hold) {
    const std::size_t before = bytes_in_use();
    {
        std::vector<device_future<pending<numbers>>> dropped;
        for (unsigned i = 0; i < 20; ++i) dropped.push_back(spawn(slow_work(i).and_then(download), streams));
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(lifetimes, dropping_a_future_on_a_held_stream_does_not_block) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    sync(zip(slow_work(0), slow_work(1)), streams);
    gate held(streams.next());
    for (int i = 0; i < 2; ++i) spawn(slow_work(7), streams);
    EXPECT_EQ(bytes_in_use(), before);
    held.open();
}

TEST_P(lifetimes, pending_values_dropped_unopened_free_their_memory) {
    const std::size_t before = bytes_in_use();
    {
        std::vector<pending<numbers>> dropped;
        for (unsigned i = 0; i < 20; ++i) dropped.push_back(submit_to(streams.next(), slow_work(i).and_then(download)));
        EXPECT_GT(bytes_in_use(), before);
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(lifetimes, a_policy_dropped_while_its_streams_work_loses_nothing) {
    std::optional<round_robin> short_lived(std::in_place, on, 3);
    std::vector<device_future<pending<numbers>>> futures;
    for (unsigned i = 0; i < 9; ++i) futures.push_back(spawn(slow_work(i).and_then(download), *short_lived));
    short_lived.reset();
    round_robin next_to_lend(on, 5);  // leases the same streams, with that work on them
    for (unsigned i = 0; i < 9; ++i) spawn(slow_work(i), next_to_lend);
    for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(std::move(futures[i]).get(), numbers(size, 3 * i + 4));
}

TEST_P(lifetimes, the_last_handle_of_a_shared_tensor_may_be_dropped_while_it_is_read) {
    const std::size_t before = bytes_in_use();
    for (int round = 0; round < 20; ++round) {
        std::optional<shared_tensor<unsigned>> weight(sync(share(full<unsigned>({size}, 5)), streams));
        std::vector<device_future<pending<numbers>>> futures;
        for (unsigned i = 0; i < 3; ++i) {
            auto reader = full<unsigned>({size}, i).and_then(
                [w = *weight, this](auto x) { return add(w, std::move(x), slow()); });
            futures.push_back(spawn(std::move(reader).and_then(download), streams));
        }
        weight.reset();
        sluice::sync(full<unsigned>({size}, 666), streams);  // would reuse its memory
        for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(std::move(futures[i]).get(), numbers(size, 5 + i));
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(lifetimes, an_exception_in_and_then_leaks_nothing) {
    expect_nothing_leaks([&] { sync(slow_work(1).and_then(throwing()), streams); });
}

TEST_P(lifetimes, an_exception_in_transform_leaks_nothing) {
    expect_nothing_leaks(
        [&] { sync(slow_work(1).transform([](auto) -> int { throw std::runtime_error("mine"); }), streams); });
}

TEST_P(lifetimes, an_exception_in_with_context_leaks_nothing) {
    expect_nothing_leaks([&] {
        sync(zip(slow_work(1), with_context([](execution_context& context) -> int {
                     const tensor<float> scratch(context.stream(), {1000});
                     throw std::runtime_error("mine");
                 })),
             streams);
    });
}

TEST_P(lifetimes, an_exception_in_one_part_of_a_zip_leaks_nothing_from_the_others) {
    const auto heavy = [&](unsigned start) {
        return with_context([this, start](execution_context&) { return slow_work(start); }, branch_threshold);
    };
    expect_nothing_leaks(
        [&] { sync(zip(heavy(1), heavy(2), slow_work(1).and_then(throwing()), slow_work(2)), streams); });
}

TEST_P(lifetimes, an_exception_while_spawning_leaks_nothing) {
    expect_nothing_leaks([&] { spawn(slow_work(1).and_then(throwing()), streams); });
}

TEST_P(lifetimes, an_exception_in_shared_work_reaches_every_copy_and_leaks_nothing) {
    const auto work = share(slow_work(1).and_then(throwing()));
    for (int i = 0; i < 3; ++i) {
        expect_nothing_leaks([&] { sync(std::remove_const_t<decltype(work)>(work), streams); });
    }
}

TEST_P(lifetimes, a_future_and_tensors_may_outlive_their_runtime) {
    std::optional<runtime> short_lived(options());
    std::optional<round_robin> pool(std::in_place, short_lived->find(GetParam().device), 2);
    auto future = spawn(slow_work(1).and_then(download), *pool);
    auto more = spawn(slow_work(2), *pool);
    auto kept = sync(share(slow_work(3)), *pool);
    auto unopened = submit_to(pool->next(), download(kept));
    short_lived.reset();
    pool.reset();
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
    EXPECT_EQ(std::move(more).get().size(), size);
    EXPECT_EQ(detail::open(std::move(unopened)), numbers(size, 13));  // the runtime's destructor has waited for it
    EXPECT_EQ(kept->size(), size);
}

TEST_P(lifetimes, work_after_the_runtime_was_destroyed_is_refused) {
    std::optional<runtime> short_lived(options());
    device& gone = short_lived->find(GetParam().device);
    round_robin pool(gone, 2);
    auto kept = sync(slow_work(3), pool);
    short_lived.reset();
    const std::string name = GetParam().device;
    expect_refused(errc::runtime_closed, {name}, [&] { sync(zeros<int>({8}), pool); });
    expect_refused(errc::runtime_closed, {name}, [&] { spawn(slow_work(1), pool); });
    expect_refused(errc::runtime_closed, {name}, [&] { step_on(pool.next(), kept, 1); });
    expect_refused(errc::runtime_closed, {name}, [&] { event::record(pool.next()); });
    expect_refused(errc::runtime_closed, {name}, [&] { host_buffer<int>(pool.next(), 8); });
    expect_refused(errc::runtime_closed, {name}, [&] { pool.next().workspace(8); });
    expect_refused(errc::runtime_closed, {name}, [&] { round_robin(gone, 1); });
    expect_refused(errc::runtime_closed, {name}, [&] { sync(download(std::move(kept)), pool); });
}

TEST_P(lifetimes, dropping_a_runtime_waits_for_its_work) {
    bool ran = false;
    {
        runtime short_lived(options());
        single_stream pool(short_lived.find(GetParam().device));
        auto x = submit_to(pool.next(), full<unsigned>({size}, 1));
        for (unsigned i = 0; i < 50; ++i) step_on(pool.next(), x, i, slow());
        pool.next().host_call({"note"}, {[&] { ran = true; }});
    }
    EXPECT_TRUE(ran);
}

TEST_P(lifetimes, a_moved_runtime_keeps_its_devices) {
    runtime first(options());
    single_stream pool(first.find(GetParam().device));
    runtime second(std::move(first));
    EXPECT_EQ(sync(slow_work(1).and_then(download), pool), numbers(size, 7));
    runtime third({.cpu_devices = 1, .cpu_workers = 1, .cuda = false});
    third = std::move(second);
    EXPECT_EQ(third.find(GetParam().device).name(), GetParam().device);
    EXPECT_EQ(sync(slow_work(2).and_then(download), pool), numbers(size, 10));
}

TEST_P(lifetimes, two_runtimes_may_exist_at_once) {
    runtime second(options());
    round_robin theirs(second.find(GetParam().device), 2);
    auto ours = spawn(slow_work(1).and_then(download), streams);
    auto other = spawn(slow_work(2).and_then(download), theirs);
    EXPECT_EQ(std::move(ours).get(), numbers(size, 7));
    EXPECT_EQ(std::move(other).get(), numbers(size, 10));
}

TEST_P(lifetimes, a_runtime_may_be_dropped_while_another_thread_submits) {
    for (int round = 0; round < 20; ++round) {
        auto mine = std::make_unique<runtime>(options());
        round_robin pool(mine->find(GetParam().device), 2);
        std::promise<void> has_begun;
        std::thread other([&] {
            try {
                for (int i = 0;; ++i) {
                    EXPECT_EQ(sync(full<unsigned>({8}, 3u).and_then(download), pool), numbers(8, 3));
                    if (i == 0) has_begun.set_value();
                }
            } catch (const error& refusal) {
                EXPECT_EQ(refusal.code(), errc::runtime_closed);
            }
        });
        has_begun.get_future().wait();
        mine.reset();
        other.join();
    }
}

TEST_P(lifetimes, a_future_gives_its_value_once) {
    auto future = spawn(slow_work(1), streams);
    EXPECT_TRUE(future.valid());
    static_cast<void>(std::move(future).get());
    EXPECT_FALSE(future.valid());
    EXPECT_THROW(static_cast<void>(std::move(future).get()), error);
}

TEST_P(lifetimes, a_tensor_moved_from_is_refused) {
    tensor<unsigned> x = sync(full<unsigned>({size}, 1u), streams);
    const tensor<unsigned> y = std::move(x);
    // NOLINTBEGIN(bugprone-use-after-move): tested here
    expect_refused(errc::invalid_argument, {"moved from"}, [&] { step_on(streams.next(), x, 1); });
    expect_refused(errc::invalid_argument, {"download", "moved from"}, [&] { sync(download(std::move(x)), streams); });
    // NOLINTEND(bugprone-use-after-move)
    EXPECT_EQ(y.size(), size);
}

}  // namespace sluice::conformance::lifetime_tests
