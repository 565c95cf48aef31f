// SPDX-License-Identifier: Apache-2.0
// Collectives, on all devices of the tested device's kind; on GPUs through NCCL.
#include <cmath>
#include <limits>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/device_sets.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::collective_tests {
namespace {

class collectives : public conformance_test {
protected:
    const device_set devices_of_kind = devices_of_same_kind(devices, on);
    const communicator all{devices_of_kind};
    const std::size_t ranks = all.size();
    round_robin_devices pool{devices_of_kind, 3};

    // Element j of rank i is i + j % 13, written by a slow kernel.
    template <typename T>
    static T element(std::size_t rank, std::size_t j) {
        return static_cast<T>(static_cast<float>(rank + j % 13));
    }
    template <typename T>
    auto parts(const shape& each) const {
        return on_each(devices_of_kind, [each](std::size_t rank) {
            std::vector<T> values(each.size());
            for (std::size_t j = 0; j < values.size(); ++j) values[j] = element<T>(rank, j);
            return upload(std::move(values), each);
        });
    }
    template <typename T>
    void expect_each(std::vector<tensor<T>> got, const std::vector<std::vector<T>>& expected) {
        ASSERT_EQ(got.size(), ranks);
        for (std::size_t i = 0; i < ranks; ++i) EXPECT_EQ(got[i].memory()->owner().name(), all.devices()[i].name());
        const auto contents = sync(download_each(std::move(got)), pool);
        for (std::size_t i = 0; i < ranks; ++i) {
            ASSERT_EQ(contents[i].size(), expected[i].size());
            for (std::size_t j = 0; j < contents[i].size(); ++j)
                ASSERT_EQ(float(contents[i][j]), float(expected[i][j])) << "rank " << i << ", element " << j;
        }
    }
    template <typename T>
    void sums_are_right() {
        constexpr std::size_t size = 5000;
        std::vector<T> sum(size);
        for (std::size_t j = 0; j < size; ++j)
            sum[j] = static_cast<T>(static_cast<float>(ranks * (ranks - 1) / 2 + ranks * (j % 13)));
        expect_each<T>(
            sync(parts<T>({50, 100}).and_then([this](auto x) { return all_reduce(all, reduce_op::sum, std::move(x)); }),
                 pool),
            std::vector(ranks, sum));
    }
};
INSTANTIATE_TEST_SUITE_P(, collectives, testing::ValuesIn(backends_and_single_device()), backend_name);

}  // namespace

TEST_P(collectives, sums_are_right_for_all_types) {
    sums_are_right<float>();
    sums_are_right<double>();
    sums_are_right<half>();
    sums_are_right<bfloat16>();
    sums_are_right<int>();
    sums_are_right<unsigned>();
}

TEST_P(collectives, the_largest_and_the_smallest_are_right) {
    std::vector<float> largest(100), smallest(100);
    for (std::size_t j = 0; j < 100; ++j) {
        largest[j] = element<float>(ranks - 1, j);
        smallest[j] = element<float>(0, j);
    }
    const auto with = [&](reduce_op how) {
        return sync(parts<float>({100}).and_then([&](auto x) { return all_reduce(all, how, std::move(x)); }), pool);
    };
    expect_each<float>(with(reduce_op::max), std::vector(ranks, largest));
    expect_each<float>(with(reduce_op::min), std::vector(ranks, smallest));
}

TEST_P(collectives, rows_are_gathered_in_the_order_of_ranks) {
    for (const std::size_t rows : {1u, 3u, 100u}) {
        std::vector<unsigned> whole;
        for (std::size_t rank = 0; rank < ranks; ++rank)
            for (std::size_t j = 0; j < rows * 7; ++j) whole.push_back(element<unsigned>(rank, j));
        auto got =
            sync(parts<unsigned>({rows, 7}).and_then([&](auto x) { return all_gather(all, std::move(x)); }), pool);
        EXPECT_EQ(got[0].shape(), (shape{rows * ranks, 7}));
        expect_each<unsigned>(std::move(got), std::vector(ranks, whole));
    }
}

TEST_P(collectives, each_rank_gets_its_rows_of_the_sum) {
    const std::size_t rows = 6;  // per rank
    std::vector<std::vector<float>> expected(ranks, std::vector<float>(rows * 5));
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t j = 0; j < rows * 5; ++j)
            for (std::size_t other = 0; other < ranks; ++other)
                expected[rank][j] += element<float>(other, rank * rows * 5 + j);
    auto got = sync(parts<float>({rows * ranks, 5}).and_then([&](auto x) {
        return reduce_scatter(all, reduce_op::sum, std::move(x));
    }),
                    pool);
    EXPECT_EQ(got[0].shape(), (shape{rows, 5}));
    expect_each<float>(std::move(got), expected);
}

TEST_P(collectives, each_rank_gets_the_tensor_of_the_root) {
    for (std::size_t root = 0; root < ranks; ++root) {
        const auto values = counting<float>(777);
        auto x = sluice::sync(on_device(all.devices()[root], upload(values)), pool);
        const void* const place = x.device_data();
        const auto got = sluice::sync(broadcast(all, shared(std::move(x))), pool);
        ASSERT_EQ(got.size(), ranks);
        EXPECT_EQ(got[root]->device_data(), place);
        for (std::size_t i = 0; i < ranks; ++i)
            EXPECT_EQ(sluice::sync(on_device(all.devices()[i], download(got[i])), pool), values);
    }
}

// Each step is slow and starts from the result of the last collective.
TEST_P(collectives, come_after_the_writers_of_their_parts_and_before_the_readers_of_their_results) {
    constexpr unsigned laps = 5;
    constexpr std::size_t size = 200;
    auto parts_now =
        sync(on_each(devices_of_kind, [&](std::size_t i) { return full<unsigned>({size}, unsigned(i)); }), pool);
    unsigned expected = 0;
    std::vector<unsigned> theirs(ranks);
    for (unsigned i = 0; i < ranks; ++i) theirs[i] = i;
    for (unsigned lap = 0; lap < laps; ++lap) {
        auto before = std::make_shared<std::vector<tensor<unsigned>>>(std::move(parts_now));
        parts_now = spawn(on_each(devices_of_kind,
                                  [&, before](std::size_t i) { return step(std::move((*before)[i]), lap, slow()); })
                              .and_then([this](auto x) { return all_reduce(all, reduce_op::sum, std::move(x)); }),
                          pool)
                        .get();
        expected = 0;
        for (unsigned& each : theirs) expected += 3 * each + lap;
        for (unsigned& each : theirs) each = expected;
    }
    expect_each<unsigned>(std::move(parts_now), std::vector(ranks, std::vector<unsigned>(size, expected)));
}

TEST_P(collectives, may_be_parts_of_a_zip_and_run_many_at_once) {
    std::vector<device_future<std::tuple<std::vector<tensor<float>>, std::vector<tensor<float>>>>> many;
    for (int i = 0; i < 10; ++i) {
        many.push_back(spawn(
            zip(parts<float>({40}).and_then([this](auto x) { return all_reduce(all, reduce_op::sum, std::move(x)); }),
                parts<float>({40}).and_then([this](auto x) { return all_gather(all, std::move(x)); })),
            pool));
    }
    for (auto& each : many) {
        auto [sums, gathered] = std::move(each).get();
        const auto contents = sync(download_each(std::move(sums)), pool);
        for (const auto& sum : contents) EXPECT_EQ(sum[1], float(ranks * (ranks - 1) / 2 + ranks));
        EXPECT_EQ(gathered[0].size(), 40 * ranks);
    }
}

TEST_P(collectives, without_elements_do_nothing) {
    auto none = sluice::sync(
        parts<float>({0, 4}).and_then([&](auto x) { return all_reduce(all, reduce_op::sum, std::move(x)); }), pool);
    EXPECT_EQ(none[0].size(), 0u);
    auto empty = sluice::sync(on_device(on, uninitialized<float>({0})), pool);
    EXPECT_EQ(sluice::sync(broadcast(all, shared(std::move(empty))), pool).size(), ranks);
}

TEST_P(collectives, a_nan_is_the_largest_of_all) {
    if (on.kind() == device_kind::cuda) GTEST_SKIP() << "NCCL does not define the maximum of NaN";
    const float nan = std::numeric_limits<float>::quiet_NaN();
    auto got = sync(
        on_each(devices_of_kind, [&](std::size_t i) { return upload(std::vector<float>{i == 0 ? nan : 1.0f, 2.0f}); })
            .and_then([&](auto x) { return all_reduce(all, reduce_op::max, std::move(x)); })
            .and_then(download_each),
        pool);
    EXPECT_TRUE(std::isnan(got[0][0]));
    EXPECT_EQ(got[0][1], 2.0f);
}

TEST_P(collectives, wrong_parts_are_refused) {
    std::vector<tensor<float>> none;
    expect_refused_here(errc::invalid_argument, {"0 parts", std::to_string(ranks) + " rank"},
                        [&] { all_reduce(all, reduce_op::sum, std::move(none)); });
    if (ranks == 1) return;
    auto mixed = sluice::sync(on_each(devices_of_kind, [](std::size_t i) { return zeros<float>({4 + i}); }), pool);
    expect_refused_here(errc::shape_mismatch, {"part 1", "[5]", "[4]"},
                        [&] { all_reduce(all, reduce_op::sum, std::move(mixed)); });
    auto right = sluice::sync(parts<float>({5}), pool);
    std::swap(right[0], right[1]);
    expect_refused_here(errc::invalid_argument, {"part 0", all.devices()[1].name(), all.devices()[0].name()},
                        [&] { all_gather(all, std::move(right)); });
    auto uneven = sluice::sync(parts<float>({2 * ranks + 1, 3}), pool);
    expect_refused_here(errc::shape_mismatch, {"divide", std::to_string(ranks)},
                        [&] { reduce_scatter(all, reduce_op::sum, std::move(uneven)); });
    const communicator one(device_set{all.devices()[0]});
    const shared_tensor<float> elsewhere(sluice::sync(on_device(all.devices()[1], zeros<float>({3})), pool));
    expect_refused_here(errc::invalid_argument, {all.devices()[1].name(), "no rank"},
                        [&] { broadcast(one, elsewhere); });
    auto whole = sluice::sync(parts<float>({5}), pool);
    expect_refused_here(errc::invalid_argument, {"rank 0", all.devices()[0].name()},
                        [&] { all_reduce(pool.on(all.devices()[1]).next(), all, reduce_op::sum, whole); });
    if (on.kind() == device_kind::cuda)
        expect_refused(errc::unsupported, {"once"}, [&] { communicator(device_set{on, on}); });
}

// A collective of all ranks, in a graph of the first rank's device.
TEST_P(collectives, may_be_a_node_of_a_graph) {
    auto parts_now =
        sync(on_each(devices_of_kind, [](std::size_t i) { return full<unsigned>({100}, unsigned(i) + 1); }), pool);
    const auto graph = record(all.devices()[0],
                              [&](stream on_stream) {
                                  step_on(on_stream, parts_now[0], 5, slow());
                                  all_reduce(on_stream, all, reduce_op::sum, parts_now);
                                  step_on(on_stream, parts_now[0], 7, 0);
                              },
                              {.name = "summed"});
    std::vector<unsigned> expected(ranks);
    for (std::size_t i = 0; i < ranks; ++i) expected[i] = unsigned(i) + 1;
    for (int launch = 0; launch < 3; ++launch) {
        sync(graph(), pool.on(all.devices()[0]));
        unsigned sum = 3 * expected[0] + 5;
        for (std::size_t i = 1; i < ranks; ++i) sum += expected[i];
        for (unsigned& each : expected) each = sum;
        expected[0] = 3 * sum + 7;
        // The other ranks continue with their results, ordered after the graph.
        for (std::size_t i = 1; i < ranks; ++i) {
            step_on(pool.on(all.devices()[i]).next(), parts_now[i], 1, slow());
            expected[i] = 3 * expected[i] + 1;
        }
    }
    const auto got = sync(download_each(std::move(parts_now)), pool);
    for (std::size_t i = 0; i < ranks; ++i) EXPECT_EQ(got[i], std::vector<unsigned>(100, expected[i])) << i;
}

TEST_P(collectives, of_one_device_may_be_in_its_graph) {
    const communicator one(device_set{on});
    const auto fast = compile(
        pool.on(on),
        [&](tensor<float> x) {
            std::vector<tensor<float>> part;
            part.push_back(std::move(x));
            return all_reduce(one, reduce_op::sum, std::move(part)).and_then([](auto y) {
                return download(std::move(y[0]));
            });
        },
        device_input<float>({100}));
    for (const float value : {1.0f, 2.0f})
        EXPECT_EQ(sync(full<float>({100}, value).and_then(fast), pool.on(on)), std::vector<float>(100, value));
}

TEST_P(collectives, among_processes_need_gpus) {
    device& cpu = devices.find("cpu:0");
    EXPECT_EQ(process_group::hardware(cpu), "");
    expect_refused(errc::unsupported, {"process_group", "cpu:0"},
                   [&] { process_group(cpu, {}, {.rank = 0, .size = 1}); });
}

}  // namespace sluice::conformance::collective_tests
