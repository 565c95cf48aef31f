// SPDX-License-Identifier: Apache-2.0
// Groups of processes: here all ranks are in one process, which NCCL allows.
#include "sluice/devices/process_group.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "conformance/expect_refused.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/sluice.hpp"

namespace sluice::conformance::process_group_tests {
namespace {

using numbers = std::vector<float>;

class process_groups : public testing::Test {
protected:
    static void wait_until_complete(std::vector<process_group>& ranks) {
        for (process_group& each : ranks) {
            while (!each.is_complete()) std::this_thread::yield();
        }
    }
    // A rank on each of the first GPUs.
    std::vector<process_group> complete(std::size_t size) {
        const auto invitation = process_group::invite();
        std::vector<process_group> ranks;
        for (std::size_t i = 0; i < size; ++i) {
            ranks.emplace_back(machine.find("cuda:" + std::to_string(i)), invitation,
                               process_group::place{.rank = i, .size = size});
        }
        wait_until_complete(ranks);
        return ranks;
    }
    // Runs the function for each rank on a thread of its own, as it would run in a process of its own.
    template <typename Function>
    static void on_each(std::vector<process_group>& ranks, Function function) {
        std::vector<std::jthread> threads;
        for (process_group& each : ranks) {
            threads.emplace_back([&] {
                single_stream policy(each.owner());
                function(each, policy);
            });
        }
    }

    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream pool{gpu};
};

}  // namespace

TEST_F(process_groups, of_one_rank_change_nothing) {
    auto alone = complete(1);
    const numbers values{1, 2, 3};
    auto operation = upload(values)
                         .and_then([&](auto x) { return all_reduce(alone[0], reduce_op::sum, std::move(x)); })
                         .and_then([&](auto x) { return broadcast(alone[0], 0, std::move(x)); });
    EXPECT_EQ(sync(std::move(operation).and_then(download), pool), values);
    EXPECT_EQ(sync(all_reduce(alone[0], reduce_op::max, tensor<int>()), pool).size(), 0u);
}

TEST_F(process_groups, exchange_data_between_ranks) {
    if (device_set::of(machine, "cuda").size() < 2) GTEST_SKIP() << "needs two GPUs";
    auto ranks = complete(2);
    on_each(ranks, [](process_group& mine, single_stream& policy) {
        const float rank = float(mine.rank());
        auto operation = full<float>({1000}, 1 + rank).and_then([&](auto x) {
            return all_reduce(mine, reduce_op::sum, std::move(x));
        });
        EXPECT_EQ(sync(std::move(operation).and_then(download), policy), numbers(1000, 3));
        auto told = full<float>({2, 500}, rank).and_then([&](auto x) { return broadcast(mine, 1, std::move(x)); });
        EXPECT_EQ(sync(std::move(told).and_then(download), policy), numbers(1000, 1));
    });
}

TEST_F(process_groups, that_were_abandoned_report_it) {
    process_group alone(gpu, process_group::invite(), {.rank = 0, .size = 2});
    EXPECT_FALSE(alone.is_complete());
    expect_refused(errc::invalid_argument, {"all_reduce", "joined"},
                   [&] { sync(all_reduce(alone, reduce_op::sum, sync(zeros<float>({1}), pool)), pool); });
    alone.abandon();
    expect_refused(errc::canceled, {"abandoned", gpu.name()}, [&] { alone.is_complete(); });
    alone.abandon();
}

// Of two ranks, only one submits the collective with this number.
class process_groups_with_a_missing_rank : public process_groups, public testing::WithParamInterface<int> {};

TEST_P(process_groups_with_a_missing_rank, end_their_waits_when_they_are_abandoned) {
    if (device_set::of(machine, "cuda").size() < 2) GTEST_SKIP() << "needs two GPUs";
    auto ranks = complete(2);
    const auto sum = [](process_group& mine, single_stream& policy) {
        static_cast<void>(
            sync(full<float>({5}, 1).and_then([&](auto x) { return all_reduce(mine, reduce_op::sum, std::move(x)); }),
                 policy));
    };
    for (int i = 0; i < GetParam(); ++i) on_each(ranks, sum);
    std::future<void> waiting = std::async(std::launch::async, [&] {
        single_stream policy(gpu);
        try {
            sum(ranks[0], policy);
        } catch (const error& end) {
            EXPECT_EQ(end.code(), errc::canceled) << end.what();
        }
    });
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout);
    EXPECT_TRUE(ranks[0].is_complete());
    for (process_group& each : ranks) each.abandon();
    EXPECT_EQ(waiting.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    EXPECT_EQ(sync(full<float>({3}, 2).and_then(download), pool), numbers(3, 2));
}
INSTANTIATE_TEST_SUITE_P(, process_groups_with_a_missing_rank, testing::Values(0, 1, 5));

TEST_F(process_groups, are_not_for_graphs) {
    auto alone = complete(1);
    expect_refused(errc::graph_refused, {"all_reduce", gpu.name()}, [&] {
        compile(
            gpu, [&](tensor<float> x) { return all_reduce(alone[0], reduce_op::sum, std::move(x)); },
            device_input<float>({3}));
    });
}

TEST_F(process_groups, refuse_ranks_and_devices_that_are_not_theirs) {
    expect_refused(errc::invalid_argument, {"rank 2 of 2"},
                   [&] { process_group(gpu, process_group::invite(), {.rank = 2, .size = 2}); });
    auto alone = complete(1);
    expect_refused(errc::invalid_argument, {"broadcast", "rank 1 of 1"},
                   [&] { sync(broadcast(alone[0], 1, sync(zeros<float>({1}), pool)), pool); });
    EXPECT_FALSE(process_group::hardware(gpu).empty());
}

}  // namespace sluice::conformance::process_group_tests
