// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/plan.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "conformance/expect_refused.hpp"
#include "nn/support/reference_network.hpp"
#include "sluice/devices/on_device.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::plan_tests {
namespace {

using conformance::expect_close;
using conformance::expect_refused;
using testing::floats;
using testing::network_options;
using testing::outputs_of;
using testing::random_floats;
using testing::random_network;

class plans : public ::testing::Test {
protected:
    floats run(const plan& network, const floats& inputs, std::size_t rows) {
        return sync(upload(inputs, {rows, network.in_features()})
                        .and_then([&](auto x) { return network.forward(std::move(x)); })
                        .and_then(download),
                    pool);
    }
    std::size_t bytes_in_use() const {
        return on.device_pool().usage().in_use_bytes + on.host_pool().usage().in_use_bytes;
    }

    runtime machine{{.cuda = false}};
    device& on = machine.default_device();
    round_robin pool{on, 3};
    single_stream single{on};
    random_floats fresh{5};
};

constexpr activation every_activation[] = {activation::none,    activation::relu, activation::gelu,
                                           activation::sigmoid, activation::tanh, activation::softmax};

}  // namespace

TEST_F(plans, give_what_a_reference_in_double_precision_gives) {
    for (const activation hidden : every_activation) {
        for (const activation output : every_activation) {
            for (const bool has_bias : {true, false}) {
                const auto model = random_network({13, 32, 17, 5}, fresh, {hidden, output, has_bias});
                const floats inputs = fresh(std::size_t{21} * 13);
                SCOPED_TRACE(::testing::Message() << to_string(hidden) << ", then " << to_string(output)
                                                  << (has_bias ? " with bias" : " without bias"));
                expect_close(run(sync(make_plan(model), pool), inputs, 21), outputs_of(model, inputs));
            }
        }
    }
}

TEST_F(plans, do_so_for_networks_of_any_shape) {
    const std::vector<std::size_t> shapes[] = {{1, 1},          {1, 40, 1}, {64, 128, 64, 10},
                                               {3, 1, 1, 1, 3}, {257, 129}, {8, 8, 8, 8, 8, 8, 8, 8}};
    for (const auto& widths : shapes) {
        const auto model = random_network(widths, fresh, {.hidden = activation::tanh});
        const plan network = sync(make_plan(model), pool);
        for (const std::size_t rows : {1, 2, 33, 500}) {
            const floats inputs = fresh(rows * widths.front());
            expect_close(run(network, inputs, rows), outputs_of(model, inputs), 2e-5);
        }
    }
}

TEST_F(plans, describe_their_network) {
    const plan network = sync(make_plan(random_network({7, 5, 3}, fresh, {.has_bias = false})), pool);
    EXPECT_EQ(network.in_features(), 7u);
    EXPECT_EQ(network.out_features(), 3u);
    ASSERT_EQ(network.layers().size(), 2u);
    EXPECT_EQ(network.layers()[0].weight->shape(), (shape{5, 7}));
    EXPECT_FALSE(network.layers()[0].bias.has_value());
    EXPECT_EQ(network.layers()[0].after, activation::relu);
    EXPECT_EQ(network.layers()[1].after, activation::none);
}

TEST_F(plans, go_fused_where_that_pays) {
    const auto route = [&](const std::vector<std::size_t>& widths, const network_options& options = {},
                           std::size_t rows = 65) {
        return sync(make_plan(random_network(widths, fresh, options)), pool).route(rows);
    };
    EXPECT_EQ(route({784, 512, 512, 10}), plan_route::fused);
    EXPECT_EQ(route({1024, 1024, 10}), plan_route::fused);
    const std::vector<std::size_t> many_weights{2048, 2048, 2048, 2048, 2048, 2048, 10};
    EXPECT_EQ(route(many_weights), plan_route::layers);
    EXPECT_EQ(route(many_weights, {}, 16), plan_route::fused);
    EXPECT_EQ(route({64, 2049, 10}, {}, 16), plan_route::layers);
    EXPECT_EQ(route({64, 32, 10}, {.hidden = activation::softmax}), plan_route::layers);
    EXPECT_EQ(route(std::vector<std::size_t>(11, 8)), plan_route::layers);
    EXPECT_EQ(sync(make_plan<half>(random_network({64, 32, 10}, fresh)), pool).route(64), plan_route::layers);
}

TEST_F(plans, cut_up_large_batches_only) {
    using rows = std::vector<std::size_t>;
    EXPECT_EQ(pieces_of_batch(64, 1568), rows{64});
    EXPECT_EQ(pieces_of_batch(16384, 128), rows{16384});
    EXPECT_EQ(pieces_of_batch(16384, 1568), (rows{12288, 3072, 1024}));
    EXPECT_EQ(pieces_of_batch(5001, 1568), (rows{3753, 936, 312}));
    EXPECT_EQ(pieces_of_batch(100, 1 << 20), rows{100});
}

TEST_F(plans, need_a_layer) {
    expect_refused(errc::invalid_argument, {"at least one layer"}, [] { plan(std::vector<plan_layer>()); });
    expect_refused(errc::invalid_argument, {"at least one layer"}, [&] { sync(make_plan({}), pool); });
}

TEST_F(plans, refuse_inputs_of_another_shape) {
    const plan network = sync(make_plan(random_network({6, 4}, fresh)), pool);
    const std::size_t before = bytes_in_use();
    for (const shape& wrong : {shape{2, 5}, shape{2, 7}, shape{6}, shape{1, 2, 6}, shape{2, 0}}) {
        expect_refused(errc::shape_mismatch, {"[rows, 6]", to_string(wrong), "cpu:0"}, [&] {
            sync(zeros<float>(wrong).and_then([&](auto x) { return network.forward(std::move(x)); }), pool);
        });
    }
    on.synchronize();
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_F(plans, give_no_rows_for_no_rows) {
    const plan network = sync(make_plan(random_network({6, 4, 3}, fresh)), pool);
    EXPECT_EQ(run(network, {}, 0), floats());
}

TEST_F(plans, share_their_weights_with_their_copies) {
    const auto model = random_network({20, 10}, fresh);
    for (int i = 0; i < 3; ++i)  // the workspace that each stream keeps for itself is there from now on
        run(sync(make_plan(model), single), fresh(20), 1);
    const std::size_t without = bytes_in_use();
    std::optional<plan> network = sync(make_plan(model), pool);
    const std::size_t with_weights = bytes_in_use();
    EXPECT_GE(with_weights, without + (20 + 1) * 10 * sizeof(float));
    {
        const plan copy = *network;
        EXPECT_EQ(bytes_in_use(), with_weights);
        EXPECT_EQ(copy.layers().data(), network->layers().data());
        network.reset();
        EXPECT_EQ(bytes_in_use(), with_weights);
        const floats inputs = fresh(20 * 3);
        expect_close(run(copy, inputs, 3), outputs_of(model, inputs));
    }
    on.synchronize();
    EXPECT_EQ(bytes_in_use(), without);
}

TEST_F(plans, may_be_dropped_while_they_run) {
    const auto model = random_network({30, 40, 5}, fresh);
    const floats inputs = fresh(30 * 50);
    auto outputs =
        spawn(upload(inputs, {50, 30})
                  .and_then([network = sync(make_plan(model), pool)](auto x) { return network.forward(std::move(x)); })
                  .and_then(download),
              pool);
    expect_close(std::move(outputs).get(), outputs_of(model, inputs));
}

TEST_F(plans, work_from_many_threads_and_streams_at_once) {
    const auto model = random_network({16, 24, 8}, fresh, {.output = activation::softmax});
    const plan network = sync(make_plan(model), pool);
    const floats inputs = fresh(16 * 10);
    const auto expected = outputs_of(model, inputs);
    std::vector<std::vector<floats>> results(4);
    {
        std::vector<std::jthread> threads;
        for (auto& mine : results) {
            threads.emplace_back([&] {
                for (int round = 0; round < 25; ++round) mine.push_back(run(network, inputs, 10));
            });
        }
    }
    for (const auto& mine : results) {
        ASSERT_EQ(mine.size(), 25u);
        for (const floats& got : mine) expect_close(got, expected);
    }
}

TEST_F(plans, may_be_used_before_their_weights_have_arrived) {
    const auto model = random_network({16, 24, 8}, fresh);
    const floats inputs = fresh(16 * 10);
    execution_context context(pool);
    const plan network = make_plan(model).submit(context);  // nothing waits
    expect_close(run(network, inputs, 10), outputs_of(model, inputs));
}

// Fused and by layers.
TEST_F(plans, are_replicated_on_other_devices) {
    runtime several({.cpu_devices = 3, .cpu_workers = 1, .cuda = false});
    const device_set all = device_set::of(several);
    round_robin_devices streams(all, 2);
    for (const auto& widths : {std::vector<std::size_t>{16, 32, 4}, {7, 300, 5}}) {
        const auto model = random_network(widths, fresh, {});
        const floats inputs = fresh(std::size_t{20} * widths.front());
        const plan first = sync(on_device(all[0], make_plan(model)), streams);
        const std::vector<plan> everywhere = sync(replicate(all, first), streams);
        ASSERT_EQ(everywhere.size(), 3u);
        for (std::size_t i = 0; i < 3; ++i) {
            const plan& here = everywhere[i];
            EXPECT_EQ(&here.layers()[0].weight->memory()->owner(), &all[i]);
            EXPECT_EQ(here.fused().has_value(), first.fused().has_value());
            expect_close(sync(upload(inputs, {20, widths.front()})
                                  .and_then([&](auto x) { return here.forward(std::move(x)); })
                                  .and_then(download),
                              streams.on(all[i])),
                         outputs_of(model, inputs));
        }
        EXPECT_EQ(everywhere[0].layers()[0].weight->memory(), first.layers()[0].weight->memory());
    }
}

}  // namespace sluice::nn::plan_tests
