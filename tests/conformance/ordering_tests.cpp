// SPDX-License-Identifier: Apache-2.0
// Commands on different streams that access the same memory run in the order of their submission without explicit
// waits. Held streams show that a command waits; slow kernels show that it waits long enough.
#include <array>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::ordering_tests {
namespace {

class ordering : public conformance_test {
protected:
    // Loads the kernels that the tests launch and fills the pools: while a stream is held, no call may wait for the
    // device.
    ordering() {
        for (int i = 0; i < 4; ++i) {
            std::vector<pending<std::vector<unsigned>>> all;
            for (stream* each : {&a, &b, &c}) {
                auto from = submit_to(*each, full<unsigned>({size}, 1));
                auto to = submit_to(*each, zeros<unsigned>({size}));
                step_on(*each, from, 0);
                relay_on(*each, from, to);
                set_on(*each, from, 0);
                all.push_back(submit_to(*each, download(std::move(to))));
            }
            on.synchronize();
        }
    }

    // Gives commands of other streams every chance to run.
    void let_others_run() {
        if (GetParam().runs_concurrently) sync_on(full<unsigned>({size}, 1), c);
    }

    static constexpr std::size_t size = 300;
    round_robin streams{on, 3};
    stream a = streams.next();
    stream b = streams.next();
    stream c = streams.next();
};
INSTANTIATE_TEST_SUITE_P(, ordering, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(ordering, a_read_waits_for_the_write_on_another_stream) {
    NEEDS_A_GATE();
    auto x = submit_to(a, zeros<unsigned>({size}));
    auto y = submit_to(b, zeros<unsigned>({size}));
    gate held(a);
    set_on(a, x, 7);
    relay_on(b, x, y);
    const ticket reader = b.issued();
    let_others_run();
    EXPECT_FALSE(has_passed(b, reader));
    held.open();
    EXPECT_EQ(contents(std::move(y), b), std::vector<unsigned>(size, 7));
}

TEST_P(ordering, a_write_waits_for_the_readers_on_all_other_streams) {
    NEEDS_A_GATE();
    auto x = submit_to(c, full<unsigned>({size}, 5));
    auto y = submit_to(a, zeros<unsigned>({size}));
    auto z = submit_to(b, zeros<unsigned>({size}));
    on.synchronize();
    std::optional<gate> held(a);
    relay_on(a, x, y);
    relay_on(b, x, z);
    set_on(b, x, 6);  // the same stream as one reader, not as the other
    const ticket writer = b.issued();
    let_others_run();
    EXPECT_FALSE(has_passed(b, writer));
    held.reset();
    EXPECT_EQ(contents(std::move(y), c), std::vector<unsigned>(size, 5));
    EXPECT_EQ(contents(std::move(z), c), std::vector<unsigned>(size, 5));
    EXPECT_EQ(contents(std::move(x), c), std::vector<unsigned>(size, 6));
}

TEST_P(ordering, a_write_waits_for_the_write_on_another_stream) {
    NEEDS_A_GATE();
    auto x = submit_to(a, zeros<unsigned>({size}));
    gate held(a);
    set_on(a, x, 1);
    set_on(b, x, 2);
    const ticket second = b.issued();
    let_others_run();
    EXPECT_FALSE(has_passed(b, second));
    held.open();
    EXPECT_EQ(contents(std::move(x), c), std::vector<unsigned>(size, 2));
}

TEST_P(ordering, readers_on_different_streams_do_not_wait_for_each_other) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "with one worker nothing runs concurrently";
    const auto x = submit_to(c, full<unsigned>({size}, 5));
    auto y = submit_to(a, zeros<unsigned>({size}));
    auto z = submit_to(b, zeros<unsigned>({size}));
    on.synchronize();
    gate held(a);
    relay_on(a, x, y);
    relay_on(b, x, z);
    EXPECT_EQ(contents(std::move(z), b), std::vector<unsigned>(size, 5));  // while the other is held
    held.open();
    EXPECT_EQ(contents(std::move(y), a), std::vector<unsigned>(size, 5));
}

TEST_P(ordering, commands_after_an_explicit_wait_run_after_its_point) {
    NEEDS_A_GATE();
    auto x = submit_to(b, zeros<unsigned>({size}));
    on.synchronize();
    gate held(a);
    b.order_after(a.point(a.issued()));
    set_on(b, x, 3);
    let_others_run();
    EXPECT_FALSE(has_passed(b, b.issued()));
    held.open();
    EXPECT_EQ(contents(std::move(x), b), std::vector<unsigned>(size, 3));
}

TEST_P(ordering, slow_reads_and_writes_on_three_streams_never_race) {
    auto x = submit_to(a, zeros<unsigned>({size}));
    auto y = submit_to(b, zeros<unsigned>({size}));
    for (unsigned i = 1; i <= 100; ++i) {
        set_on(a, x, i, slow());
        relay_on(b, x, y, slow());            // read after write
        set_on(c, x, i + 1'000'000, slow());  // write after read
        set_on(a, x, i + 2'000'000);          // write after write
        auto read = submit_to(c, download(submit_to(b, copy(shared_tensor<unsigned>(std::move(y))))));
        y = submit_to(b, zeros<unsigned>({size}));
        relay_on(c, x, y);
        c.wait(c.issued(), wait_mode::block);
        EXPECT_EQ(detail::open(std::move(read)), std::vector<unsigned>(size, i));
        auto last = submit_to(b, download(std::move(y)));
        b.wait(b.issued(), wait_mode::block);
        ASSERT_EQ(detail::open(std::move(last)), std::vector<unsigned>(size, i + 2'000'000));
        y = submit_to(a, zeros<unsigned>({size}));
    }
}

TEST_P(ordering, a_chain_may_change_streams_at_each_step) {
    constexpr unsigned hops = 400;
    round_robin many(on, 7);
    auto x = submit_to(many.next(), full<unsigned>({size}, 1));
    for (unsigned i = 0; i < hops; ++i) step_on(many.next(), x, i, i % 16 == 0 ? slow() : 0);
    EXPECT_EQ(contents(std::move(x), many.next()), std::vector<unsigned>(size, after_steps(1, hops)));
}

TEST_P(ordering, freed_memory_is_not_reused_before_its_last_use) {
    const std::vector<unsigned> sevens(size, 7);
    for (int round = 0; round < 50; ++round) {
        auto y = submit_to(a, zeros<unsigned>({size}));
        {
            auto x = submit_to(a, full<unsigned>({size}, 7));
            relay_on(a, x, y, slow());
        }  // back to the pool, and still read
        std::vector<tensor<unsigned>> greedy;
        for (stream* each : {&b, &c, &a}) greedy.push_back(submit_to(*each, full<unsigned>({size}, 666)));
        ASSERT_EQ(contents(std::move(y), b), sevens) << round;
    }
}

TEST_P(ordering, heavy_branches_of_a_zip_run_on_separate_streams_and_join) {
    const auto heavy = [this](unsigned start, command_queue*& ran_on) {
        return with_context(
            [this, start, &ran_on](execution_context& context) {
                ran_on = &context.stream().queue();
                auto x = submit_to(context.stream(), full<unsigned>({size}, start));
                for (unsigned i = 0; i < 10; ++i) step_on(context.stream(), x, i, slow());
                return x;
            },
            branch_threshold);
    };
    for (int round = 0; round < 20; ++round) {
        std::array<command_queue*, 3> ran_on{};
        auto joined = zip(heavy(1, ran_on[0]), heavy(2, ran_on[1]), heavy(3, ran_on[2]))
                          .and_then([](auto first, auto second, auto third) {
                              return add(shared_tensor<unsigned>(std::move(first)), std::move(second))
                                  .and_then([third = shared_tensor<unsigned>(std::move(third))](auto sum) {
                                      return add(third, std::move(sum));
                                  });
                          });
        const unsigned sum = after_steps(1, 10) + after_steps(2, 10) + after_steps(3, 10);
        ASSERT_EQ(sluice::sync(std::move(joined).and_then(download), streams), std::vector<unsigned>(size, sum));
        EXPECT_NE(ran_on[0], ran_on[1]);
        EXPECT_NE(ran_on[1], ran_on[2]);
        EXPECT_NE(ran_on[0], ran_on[2]);
    }
}

TEST_P(ordering, light_parts_of_a_zip_stay_on_one_stream) {
    command_queue* first = nullptr;
    command_queue* second = nullptr;
    sync(zip(with_context([&](execution_context& context) { first = &context.stream().queue(); }),
             with_context([&](execution_context& context) { second = &context.stream().queue(); })),
         streams);
    EXPECT_EQ(first, second);
}

TEST_P(ordering, shared_work_runs_once_and_before_its_readers_on_all_streams) {
    int submissions = 0;
    auto weight = share(
        full<unsigned>({size}, 1).and_then([&, this](auto x) { return ++submissions, step(std::move(x), 4, slow()); }));
    std::vector<device_future<pending<std::vector<unsigned>>>> readers;
    for (unsigned i = 0; i < 12; ++i) {
        auto reader =
            zip(weight, full<unsigned>({size}, i)).and_then([](auto w, auto x) { return add(w, std::move(x)); });
        readers.push_back(spawn(std::move(reader).and_then(download), streams));
    }
    for (unsigned i = 0; i < 12; ++i) {
        EXPECT_EQ(std::move(readers[i]).get(), std::vector<unsigned>(size, 7 + i));
    }
    EXPECT_EQ(submissions, 1);
}

TEST_P(ordering, shared_work_may_be_submitted_by_several_threads_at_once) {
    for (int round = 0; round < 10; ++round) {
        std::atomic<int> submissions = 0;
        const auto weight = share(full<unsigned>({size}, 1).and_then(
            [&, this](auto x) { return ++submissions, step(std::move(x), 4, slow()); }));
        std::array<std::vector<unsigned>, 4> results;
        {
            std::vector<std::jthread> threads;
            for (unsigned i = 0; i < results.size(); ++i) {
                threads.emplace_back([&, i, mine = weight]() mutable {
                    auto reader = zip(std::move(mine), full<unsigned>({size}, i)).and_then([](auto w, auto x) {
                        return add(w, std::move(x));
                    });
                    results[i] = sluice::sync(std::move(reader).and_then(download), streams);
                });
            }
        }
        for (unsigned i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], std::vector<unsigned>(size, 7 + i));
        EXPECT_EQ(submissions, 1);
    }
}

}  // namespace sluice::conformance::ordering_tests
