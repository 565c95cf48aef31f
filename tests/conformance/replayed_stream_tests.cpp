// SPDX-License-Identifier: Apache-2.0
// Streams that replay what repeats (stream_options::replays): commands are kept until an operation has been submitted,
// and nothing else may show it. Each test repeats its work often enough to be replayed on a GPU; on other devices the
// option has no effect.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::replayed_stream_tests {
namespace {

using numbers = std::vector<unsigned>;
constexpr std::size_t size = 300;
constexpr unsigned repeats = 12;
constexpr stream_options replaying{.replays = true};

CONFORMANCE_SUITE(replayed_streams);

// Upload, zeros, `steps` kernels, a sum and a download.
auto pipeline(unsigned start, unsigned steps) {
    return zip(upload(numbers(size, start)), share(zeros<unsigned>({size})))
        .and_then([steps](auto x, auto zero) {
            any_operation<tensor<unsigned>> all = value(std::move(x));
            for (unsigned i = 0; i < steps; ++i)
                all = std::move(all).and_then([i](tensor<unsigned> y) { return step(std::move(y), i); });
            return std::move(all).and_then([zero](tensor<unsigned> y) { return add(zero, std::move(y)); });
        })
        .and_then(download);
}

}  // namespace

TEST_P(replayed_streams, give_the_results_of_each_time) {
    single_stream pool(on, replaying);
    const std::size_t before = bytes_in_use();
    for (unsigned i = 0; i < repeats; ++i) EXPECT_EQ(sync(pipeline(i, 3), pool), numbers(size, after_steps(i, 3))) << i;
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(replayed_streams, tell_work_apart_that_begins_alike) {
    single_stream pool(on, replaying);
    for (unsigned i = 0; i < 10 * repeats; ++i) {
        const unsigned steps = 1 + i * i % 5;
        ASSERT_EQ(sync(pipeline(i, steps), pool), numbers(size, after_steps(i, steps))) << i;
    }
}

TEST_P(replayed_streams, run_more_commands_than_a_stretch_has) {
    single_stream pool(on, replaying);
    for (unsigned i = 0; i < 6; ++i) ASSERT_EQ(sync(pipeline(i, 400), pool), numbers(size, after_steps(i, 400))) << i;
}

TEST_P(replayed_streams, keep_more_kinds_of_work_than_they_remember) {
    single_stream pool(on, replaying);
    for (unsigned round = 0; round < 5; ++round) {
        for (unsigned steps = 1; steps < 25; ++steps)
            ASSERT_EQ(sync(pipeline(round, steps), pool), numbers(size, after_steps(round, steps)));
    }
}

TEST_P(replayed_streams, have_several_results_in_flight) {
    round_robin pool(on, 3, replaying);
    for (unsigned round = 0; round < repeats; ++round) {
        std::vector<device_future<pending<numbers>>> all;
        for (unsigned i = 0; i < 7; ++i) all.push_back(spawn(pipeline(100 * round + i, 2), pool));
        if (round % 3 == 1) all.pop_back();  // dropped while it runs
        for (unsigned i = 0; i < all.size(); ++i)
            ASSERT_EQ(std::move(all[i]).get(), numbers(size, after_steps(100 * round + i, 2)));
    }
}

TEST_P(replayed_streams, run_what_nobody_waits_for) {
    single_stream pool(on, replaying);
    for (unsigned i = 0; i < repeats; ++i) {
        auto result = spawn(pipeline(i, 2), pool);
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!result.is_ready() && std::chrono::steady_clock::now() < limit) pool.next().poll();
        ASSERT_TRUE(result.is_ready());
        EXPECT_EQ(std::move(result).get(), numbers(size, after_steps(i, 2)));
    }
}

TEST_P(replayed_streams, come_before_what_other_streams_do_with_their_results) {
    single_stream first(on, replaying), second(on, replaying);
    for (unsigned i = 0; i < repeats; ++i) {
        const shared_tensor<unsigned> weight = submit_to(
            first.next(), share(upload(numbers(size, i)).and_then([](auto x) { return step(std::move(x), 1, 2000); })));
        auto sum = full<unsigned>({size}, 2).and_then([weight](auto x) { return add(weight, std::move(x)); });
        EXPECT_EQ(sync(std::move(sum).and_then(download), second), numbers(size, 3 * i + 3)) << i;
    }
}

TEST_P(replayed_streams, let_a_function_of_an_operation_wait_for_its_commands) {
    single_stream pool(on, replaying);
    for (unsigned i = 0; i < repeats; ++i) {
        unsigned seen = 0;
        auto operation = upload(numbers(size, i)).and_then([&](auto x) {
            return with_context([&, x = std::move(x)](execution_context& context) mutable {
                const stream here = context.stream();
                step_on(here, x, 5);
                here.wait(here.issued(), wait_mode::spin);
                EXPECT_TRUE(has_passed(here, here.issued()));
                seen = sync_on(download(std::move(x)), here).front();
            });
        });
        sluice::sync(std::move(operation), pool);
        EXPECT_EQ(seen, 3 * i + 5);
    }
}

TEST_P(replayed_streams, call_host_functions_in_their_order) {
    single_stream pool(on, replaying);
    numbers called;
    for (unsigned i = 0; i < repeats; ++i) {
        auto operation = upload(numbers(size, i))
                             .and_then([](auto x) { return step(std::move(x), 1); })
                             .and_then([&](auto x) {
                                 return zip(value(std::move(x)), host_call([&called, i] {
                                                called.push_back(i);
                                                return i;
                                            }));
                             })
                             .and_then([](auto x, auto) { return step(std::move(x), 2); })
                             .and_then(download);
        EXPECT_EQ(sluice::sync(std::move(operation), pool), numbers(size, 3 * (3 * i + 1) + 2));
        EXPECT_EQ(called.size(), i + 1);
    }
}

TEST_P(replayed_streams, submit_what_comes_before_an_exception) {
    single_stream pool(on, replaying);
    const std::size_t before = bytes_in_use();
    for (unsigned i = 0; i < repeats; ++i) {
        auto fails =
            upload(numbers(size, i)).and_then([](auto x) { return step(std::move(x), 1); }).and_then([i](auto x) {
                if (i % 2 == 1) throw std::runtime_error("a user's");
                return step(std::move(x), 2);
            });
        if (i % 2 == 1) {
            EXPECT_THROW(sluice::sync(std::move(fails).and_then(download), pool), std::runtime_error);
        } else {
            EXPECT_EQ(sluice::sync(std::move(fails).and_then(download), pool), numbers(size, 3 * (3 * i + 1) + 2));
        }
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(replayed_streams, keep_nothing_from_code_that_has_their_handle) {
    single_stream pool(on, replaying);
    for (unsigned i = 0; i < repeats; ++i) {
        single_stream fresh(on, replaying);
        for (unsigned again = 0; again < 5; ++again) sync(pipeline(i, 2), fresh);
        const native_stream native = fresh.next().native();
        tensor<unsigned> to = sluice::sync(zeros<unsigned>({size}), fresh);
        auto operation = upload(numbers(size, i)).and_then([&](auto x) {
            return with_context([&, x = std::move(x)](execution_context& context) mutable {
                step_on(context.stream(), x, 4);
                if (on.kind() == device_kind::cuda) copy_by_hand(native, x.device_data(), to.device_data(), size);
                return std::move(x);
            });
        });
        tensor<unsigned> x = sluice::sync(std::move(operation), fresh);
        fresh.next().wait(fresh.next().issued(), wait_mode::spin);
        EXPECT_EQ(contents(std::move(x), fresh.next()), numbers(size, 3 * i + 4));
        if (on.kind() == device_kind::cuda) {
            EXPECT_EQ(contents(std::move(to), fresh.next()), numbers(size, 3 * i + 4));
        }
    }
}

TEST_P(replayed_streams, are_shared_by_threads) {
    round_robin pool(on, 2, replaying);
    std::atomic<unsigned> wrong = 0;
    {
        std::vector<std::jthread> threads;
        for (unsigned id = 0; id < 4; ++id) {
            threads.emplace_back([&, id] {
                for (unsigned i = 0; i < 100; ++i) {
                    const unsigned steps = 1 + (id + i / 10) % 3;
                    if (sluice::sync(pipeline(1000 * id + i, steps), pool) !=
                        numbers(size, after_steps(1000 * id + i, steps)))
                        ++wrong;
                }
            });
        }
    }
    EXPECT_EQ(wrong, 0u);
}

}  // namespace sluice::conformance::replayed_stream_tests
