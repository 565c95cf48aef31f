// SPDX-License-Identifier: Apache-2.0
// Kernels that stay on the default device, a GPU where there is one.
#include "sluice/kernels/resident_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "conformance/expect_refused.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::resident_kernel_tests {

using conformance::expect_refused;
using namespace std::chrono_literals;

// Before the process first uses CUDA.
const int loads_kernels_at_once = setenv("CUDA_MODULE_LOADING", "EAGER", 1);

struct accumulator {
    long long sum = 0;
    SLUICE_KERNEL void operator()(const thread_block& block, const int& more, long long& answer) {
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() == 0) answer = sum += more;
        });
    }
};

// What the threads of a block pass to each other is in the members. Sizes are no multiples of a word.
template <std::size_t Size>
struct reversal {
    static constexpr std::size_t size = Size;
    struct text {
        unsigned char letter[Size];
    };
    unsigned calls = 0;
    unsigned char scratch[Size] = {};

    SLUICE_KERNEL void operator()(const thread_block& block, const text& asked, text& answer) {
        block.for_each_thread([&](const block_thread& t) {
            for (std::size_t i = t.index(); i < Size; i += block.threads()) scratch[i] = asked.letter[i];
            if (t.index() == 0) ++calls;
        });
        block.sync();
        block.for_each_thread([&](const block_thread& t) {
            for (std::size_t i = t.index(); i < Size; i += block.threads())
                answer.letter[i] = static_cast<unsigned char>(scratch[Size - 1 - i] + calls);
        });
    }
};

struct place {
    unsigned lane, lanes, threads;
};
struct alignas(64) aligned_kernel {
    unsigned char first = 7;
    SLUICE_KERNEL void operator()(const thread_block& block, const unsigned&, place& answer) const {
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() + 1 == block.threads() && reinterpret_cast<std::size_t>(this) % 64 == 0 && first == 7) {
                answer = {static_cast<unsigned>(block.index()), static_cast<unsigned>(block.grid().count()),
                          block.threads()};
            }
        });
    }
};

class resident_kernels : public ::testing::Test {
protected:
    bool is_on_gpu() const { return on.kind() == device_kind::cuda; }

    template <std::size_t Size>
    void expect_reversals(unsigned threads) {
        using kernel = reversal<Size>;
        SCOPED_TRACE(::testing::Message() << Size << " bytes, " << threads << " threads");
        const resident_kernel stays(on, kernel{}, {.threads = threads});
        for (unsigned round = 1; round <= 20; ++round) {
            typename kernel::text asked{};
            for (std::size_t i = 0; i < Size; ++i) asked.letter[i] = static_cast<unsigned char>(7 * i + round);
            const auto answer = stays.ask(asked);
            for (std::size_t i = 0; i < Size; ++i)
                ASSERT_EQ(answer.letter[i], static_cast<unsigned char>(asked.letter[Size - 1 - i] + round)) << i;
        }
    }

    runtime machine;
    device& on = machine.default_device();
    single_stream pool{on};
};

TEST_F(resident_kernels, keep_their_state_from_request_to_request) {
    const resident_kernel add(on, accumulator{100}, {.lanes = 2});
    for (int i = 1; i <= 1000; ++i) ASSERT_EQ(add.ask(i), 100 + i * (i + 1LL) / 2);
    // A lane has a state of its own.
    EXPECT_EQ(add.ask(5, 1), 105);
    EXPECT_EQ(add.ask(6, 1), 111);
    EXPECT_EQ(add.ask(0), 100 + 500500);
    // So has each kernel.
    EXPECT_EQ(resident_kernel(on, accumulator{}).ask(1), 1);
}

TEST_F(resident_kernels, take_requests_of_any_size) {
    for (const unsigned threads : {1U, 32U, 33U, 256U, 1024U}) {
        expect_reversals<1>(threads);
        expect_reversals<4>(threads);
        expect_reversals<129>(threads);
        expect_reversals<4093>(threads);
    }
}

TEST_F(resident_kernels, know_their_lane_and_are_aligned) {
    const resident_kernel where(on, aligned_kernel{}, {.threads = 96, .lanes = 3});
    EXPECT_EQ(where.lanes(), 3u);
    EXPECT_EQ(where.multiprocessors(), is_on_gpu() ? 4u : 0u);
    EXPECT_EQ(where.free_multiprocessors(),
              static_cast<std::size_t>(on.properties().compute_units) - where.multiprocessors());
    for (unsigned lane = 0; lane < 3; ++lane) {
        const place made = where.ask(0, lane);
        EXPECT_EQ(made.lane, lane);
        EXPECT_EQ(made.lanes, 3u);
        EXPECT_EQ(made.threads, 96u);
    }
}

TEST_F(resident_kernels, have_several_requests_in_flight) {
    const resident_kernel add(on, accumulator{}, {.requests = 3});
    for (int round = 0; round < 100; ++round) {
        auto first = add.post(1), second = add.post(1), third = add.post(1);
        EXPECT_EQ(std::move(second).get(), 3 * round + 2);
        EXPECT_EQ(std::move(third).get(), 3 * round + 3);
        while (!first.is_there()) {
        }
        EXPECT_EQ(std::move(first).get(), 3 * round + 1);
        expect_refused(errc::invalid_argument, {"a resident kernel"},
                       [&] { static_cast<void>(std::move(first).get()); });  // NOLINT(bugprone-use-after-move)
    }
    // Answers that are dropped make room, before they come and afterwards.
    for (int i = 0; i < 100; ++i) {
        auto dropped = add.post(0);
        if (i % 3 == 0) dropped = add.post(0);
        if (i % 2 == 0) {
            while (!dropped.is_there()) {
            }
        }
    }
    EXPECT_EQ(add.ask(0), 300);
}

TEST_F(resident_kernels, are_bounded) {
    const resident_kernel add(on, accumulator{}, {.requests = 2, .longest_wait = 1s});
    // Two in flight, and two answers more that are kept.
    auto first = add.post(1), second = add.post(1), third = add.post(1), fourth = add.post(1);
    expect_refused(errc::timed_out, {"resident_kernel", "2 requests", "have not been taken"},
                   [&] { static_cast<void>(add.post(1)); });
    expect_refused(errc::timed_out, {"2 requests"}, [&] { static_cast<void>(add.ask(1)); });
    EXPECT_EQ(std::move(first).get(), 1);  // the kernel is not at fault, and continues
    EXPECT_EQ(std::move(add.post(1)).get(), 5);
    EXPECT_EQ(std::move(second).get(), 2);
    EXPECT_EQ(std::move(fourth).get(), 4);
    EXPECT_EQ(std::move(third).get(), 3);
}

// Each thread asks again while it has an answer to take.
TEST_F(resident_kernels, threads_that_share_a_lane_do_not_stop_each_other) {
    constexpr int threads = 4, at_once = 2;
    const int rounds = is_on_gpu() ? 20'000 : 300;
    const resident_kernel add(on, accumulator{}, {.requests = threads * at_once});
    std::atomic<unsigned> wrong{0};
    {
        std::vector<std::jthread> all;
        for (int i = 0; i < threads; ++i) {
            all.emplace_back([&] {
                long long before = 0;
                for (int round = 0; round < rounds; ++round) {
                    auto one = add.post(1), other = add.post(1);
                    const long long later = std::move(other).get(), now = std::move(one).get();
                    if (now <= before || later <= now) ++wrong;
                    before = later;
                }
            });
        }
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(add.ask(0), threads * at_once * rounds);
}

TEST_F(resident_kernels, answer_many_threads) {
    const resident_kernel add(on, accumulator{}, {.lanes = 2, .requests = 3});
    constexpr int threads = 8;
    const int rounds = is_on_gpu() ? 3000 : 300;
    std::atomic<unsigned> wrong{0};
    {
        std::vector<std::jthread> all;
        for (int i = 0; i < threads; ++i) {
            all.emplace_back([&, i] {
                long long before = 0;  // the sum only grows
                for (int round = 0; round < rounds; ++round) {
                    const long long now = round % 3 == 0 ? add.post(1, std::size_t(i % 2)).get() : add.ask(1, i % 2);
                    if (now <= before || now > threads / 2 * rounds) ++wrong;
                    before = now;
                }
            });
        }
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(add.ask(0, 0), threads / 2 * rounds);
    EXPECT_EQ(add.ask(0, 1), threads / 2 * rounds);
}

TEST_F(resident_kernels, are_operations) {
    const resident_kernel add(on, accumulator{});
    for (int i = 1; i <= 20; ++i) EXPECT_EQ(sync(add(1), pool), i);
    EXPECT_EQ(sync(add(1).and_then([](pending<long long> sum) {
                  return host_call([](long long each) { return each + 1000; }, std::move(sum));
              }),
                   pool),
              1021);
    // The kernel is kept by what uses it.
    auto operation = resident_kernel(on, accumulator{7})(1);
    EXPECT_EQ(sync(std::move(operation), pool), 8);
    auto answer = resident_kernel(on, accumulator{7}).post(2);
    EXPECT_EQ(std::move(answer).get(), 9);
    EXPECT_THROW(sync(add(1, 5), pool), error);  // in the host call
    resident_kernel<accumulator> moved = add;
    const resident_kernel<accumulator> last = std::move(moved);
    expect_refused(errc::invalid_argument, {"a resident kernel"},
                   [&] { moved.ask(1); });  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(last.ask(0), 21);
}

TEST_F(resident_kernels, run_in_the_simulator) {
    const resident_kernel add(on, accumulator{5});
    const auto seen = sim::explore(
        [&] {
            return zip(add(0), add(0)).and_then([](pending<long long> a, pending<long long> b) {
                return host_call([](long long x, long long y) { return x + y; }, std::move(a), std::move(b));
            });
        },
        {.schedules = 20});
    seen.require_clean();
    EXPECT_EQ(seen.schedules, 20u);
}

TEST_F(resident_kernels, leave_the_device_to_other_work) {
    const resident_kernel add(on, accumulator{}, {.lanes = 2});
    for (int i = 0; i < 20; ++i) {
        const std::vector<float> x(std::size_t{1000} << i % 8, -1.F);
        EXPECT_EQ(sync(upload(x).and_then(relu).and_then(download), pool), std::vector<float>(x.size(), 0.F));
        on.synchronize();
        on.trim();
        EXPECT_EQ(add.ask(1), i + 1);
    }
}

TEST_F(resident_kernels, end_at_every_moment) {
    for (int i = 0; i < 30; ++i) {
        const resident_kernel never_asked(on, accumulator{});
        resident_kernel add(on, accumulator{i}, {.requests = 3, .pause = std::chrono::microseconds(i)});
        if (i % 2 == 0) {
            EXPECT_EQ(add.ask(1), i + 1);
        }
        const resident_kernel copy = add;
        auto in_flight = add.post(0);
        if (i % 3 == 0) auto never_taken = add.post(0);
        add = resident_kernel(on, accumulator{});
        EXPECT_EQ(copy.ask(0), i % 2 == 0 ? i + 1 : i);
    }
    // Threads that ask while the runtime is destroyed get an answer or the reason.
    for (int i = 0; i < 10; ++i) {
        std::optional<runtime> other(std::in_place);
        const resident_kernel add(other->default_device(), accumulator{}, {.lanes = 2});
        std::latch begun(3);
        std::atomic<unsigned> others{0};
        {
            std::vector<std::jthread> all;
            for (int thread = 0; thread < 3; ++thread) {
                all.emplace_back([&, thread] {
                    begun.count_down();
                    try {
                        for (;;) {
                            static_cast<void>(add.ask(1, thread % 2));
                            static_cast<void>(add.post(1, thread % 2).get());
                            auto dropped = add.post(1, thread % 2);
                        }
                    } catch (const error& refusal) {
                        if (refusal.code() != errc::runtime_closed) ++others;
                    }
                });
            }
            begun.wait();
            other.reset();
        }
        EXPECT_EQ(others, 0u);
    }
}

#if !defined(__CUDACC__)
struct refusing {
    void operator()(const thread_block&, const int& asked, int& answer) const {
        if (asked < 0) throw error(errc::invalid_argument, "below 0");
        answer = asked;
    }
};
TEST_F(resident_kernels, throw_what_the_operator_throws_on_a_cpu) {
    const resident_kernel same(on, refusing{}, {.requests = 1});
    for (int i = 0; i < 5; ++i) {
        EXPECT_THROW(same.ask(-1), error);
        EXPECT_THROW(static_cast<void>(same.post(-1)), error);
        EXPECT_EQ(same.ask(i), i);
    }
}
#endif

TEST_F(resident_kernels, refuse_what_they_cannot_do) {
    ASSERT_EQ(loads_kernels_at_once, 0);
    const auto refused = [&](errc code, const resident_kernel_options& options, const std::string& why) {
        expect_refused(code, {"resident_kernel", why}, [&] { resident_kernel(on, accumulator{}, options); });
    };
    refused(errc::invalid_argument, {.threads = 0}, "threads is 0; 1 to 1024");
    refused(errc::invalid_argument, {.threads = 1025}, "threads is 1025; 1 to 1024");
    refused(errc::invalid_argument, {.lanes = 0}, "lanes is 0");
    refused(errc::invalid_argument, {.requests = 0}, "requests is 0; 1 to 1024");
    refused(errc::invalid_argument, {.requests = 1025}, "requests is 1025; 1 to 1024");
    refused(errc::invalid_argument, {.pause = 1s}, "pause");
    refused(errc::invalid_argument, {.longest_wait = {}}, "longest_wait");
    const resident_kernel add(on, accumulator{}, {.lanes = 2});
    expect_refused(errc::invalid_argument, {"lane 2 of 2"}, [&] { add.ask(1, 2); });
    expect_refused(errc::invalid_argument, {"lane 2 of 2"}, [&] { static_cast<void>(add.post(1, 2)); });
    const auto large = std::make_unique<reversal<100'000>>();
    expect_refused(errc::invalid_argument, {"bytes of shared memory"}, [&] { resident_kernel(on, *large); });
    if (!is_on_gpu()) return;
    refused(errc::invalid_argument, {.lanes = 100000}, "multiprocessors");
    runtime blocking({.blocks_each_command = true});
    expect_refused(errc::unsupported, {"blocks_each_command"},
                   [&] { resident_kernel(blocking.default_device(), accumulator{}); });
}

}  // namespace sluice::resident_kernel_tests
