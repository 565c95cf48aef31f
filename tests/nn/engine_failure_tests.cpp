// SPDX-License-Identifier: Apache-2.0
// What the engine does when a source, a sink, a device or the memory fails.
#include <gmock/gmock.h>

#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
#include <utility>

#include "conformance/expect_refused.hpp"
#include "nn/support/engine_test.hpp"
#include "sluice/op/with_context.hpp"

namespace sluice::nn::engine_failure_tests {
namespace {

using conformance::expect_close;
using conformance::expect_refused;
using testing::floats;
using testing::ignore;
using testing::in_features;
using testing::outputs_of;
using testing::random_floats;
using testing::random_network;
using testing::rows;

class engines_that_fail : public testing::engine_test {};

// What a test throws.
struct planned : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename Function>
std::string planned_failure_of(Function&& call) {
    try {
        call();
    } catch (const planned& thrown) {
        return thrown.what();
    }
    return "nothing was thrown";
}

// Rows whose stream throws, or waits, before they are there.
template <typename Before>
auto rows_after(Before before, std::shared_ptr<const floats> from, std::size_t first, std::size_t count) {
    return with_context([=](execution_context& context) {
        context.stream().host_call({"before"}, {before});
        const auto part = std::span(*from).subspan(first * in_features, count * in_features);
        return upload(part, from, {count, in_features});
    });
}

}  // namespace

TEST_F(engines_that_fail, pass_on_what_the_source_throws) {
    const engine used = make({.batch = 10, .in_flight = 4}, 2, 2);
    const std::size_t before = bytes_in_use();
    for (const std::size_t last : {0, 10, 50, 100}) {
        std::vector<std::size_t> delivered;
        EXPECT_EQ(planned_failure_of([&] {
                      used.run(
                          rows,
                          [&](std::size_t first, std::size_t count) {
                              if (first == last) throw planned("the source failed");
                              return rows_from(first, count);
                          },
                          [&](std::size_t first, std::span<const float>) { delivered.push_back(first); });
                  }),
                  "the source failed");
        EXPECT_EQ(inputs.use_count(), 1);
        EXPECT_EQ(bytes_in_use(), before);
        for (std::size_t i = 0; i < delivered.size(); ++i) EXPECT_EQ(delivered[i], 10 * i);
        EXPECT_LE(delivered.size() * 10, last);
    }
    expect_close(run(used), expected);  // as good as new
}

TEST_F(engines_that_fail, pass_on_what_the_sink_throws) {
    const engine used = make({.batch = 10, .in_flight = 4}, 2, 2);
    const std::size_t before = bytes_in_use();
    for (const std::size_t last : {0, 10, 50, 100}) {
        EXPECT_EQ(planned_failure_of([&] {
                      used.run(rows, source(), [&](std::size_t first, std::span<const float>) {
                          EXPECT_LE(first, last);
                          if (first == last) throw planned("the sink failed");
                      });
                  }),
                  "the sink failed");
        EXPECT_EQ(inputs.use_count(), 1);
        EXPECT_EQ(bytes_in_use(), before);
    }
    expect_close(run(used), expected);
}

TEST_F(engines_that_fail, pass_on_the_first_failure_of_the_device_in_the_order_of_rows) {
    const engine used = make({.batch = 10, .in_flight = 4}, 2, 2);
    const std::size_t before = bytes_in_use();
    std::size_t delivered = 0;
    EXPECT_EQ(planned_failure_of([&] {
                  used.run(
                      rows,
                      [&](std::size_t first, std::size_t count) -> any_operation<tensor<float>> {
                          if (first < 30) return rows_from(first, count);
                          const std::string why = "batch at " + std::to_string(first);
                          return rows_after([why] { throw planned(why); }, inputs, first, count);
                      },
                      [&](std::size_t, std::span<const float>) { ++delivered; });
              }),
              "batch at 30");
    EXPECT_EQ(delivered, 3u);
    EXPECT_EQ(inputs.use_count(), 1);
    EXPECT_EQ(bytes_in_use(), before);
    expect_close(run(used), expected);
}

TEST_F(engines_that_fail, prefer_the_first_failure_to_those_that_follow) {
    const engine used = make({.batch = 10, .in_flight = 4});
    EXPECT_EQ(planned_failure_of([&] {
                  used.run(
                      rows,
                      [&](std::size_t first, std::size_t count) -> any_operation<tensor<float>> {
                          if (first == 0) return rows_from(first, count);
                          return rows_after([] { throw planned("a later batch failed"); }, inputs, first, count);
                      },
                      [](std::size_t, std::span<const float>) { throw planned("the sink failed"); });
              }),
              "the sink failed");
    EXPECT_EQ(inputs.use_count(), 1);
}

TEST_F(engines_that_fail, wait_for_what_still_reads_the_source) {
    // One stream is held from the second batch on, until the sink has thrown: a run that does not wait comes back while
    // the stream still reads. One that does passes however long the stream is held.
    const engine used = make({.batch = 10, .in_flight = 8});
    std::latch sink_threw(1);
    const auto held = std::make_shared<std::latch>(1);
    const std::jthread opener([&] {
        sink_threw.wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        held->count_down();
    });
    EXPECT_EQ(planned_failure_of([&] {
                  used.run(
                      80,
                      [&](std::size_t first, std::size_t count) -> any_operation<tensor<float>> {
                          if (first == 0) return rows_from(first, count);
                          return rows_after([held] { held->wait(); }, inputs, first, count);
                      },
                      [&](std::size_t, std::span<const float>) {
                          sink_threw.count_down();
                          throw planned("the sink failed");
                      });
              }),
              "the sink failed");
    EXPECT_TRUE(held->try_wait());
    EXPECT_EQ(inputs.use_count(), 1);
}

TEST_F(engines_that_fail, refuse_rows_of_another_width) {
    const engine used = make({.batch = 10, .in_flight = 4});
    const std::size_t before = bytes_in_use();
    expect_refused(errc::shape_mismatch, {"[rows, 12]", "[10, 11]"}, [&] {
        used.run(rows, [](std::size_t, std::size_t count) { return zeros<float>({count, in_features - 1}); }, ignore);
    });
    machine.devices()[0]->synchronize();
    EXPECT_EQ(bytes_in_use(), before);
    expect_close(run(used), expected);
}

TEST(engine_memory, names_the_requested_and_the_free_amount) {
    constexpr std::size_t limit = std::size_t{4} << 20;
    runtime machine({.cpu_memory_bytes = limit, .cuda = false});
    device& on = machine.default_device();
    round_robin pool(on, 2);
    random_floats fresh{3};
    const auto model = random_network({256, 256, 8}, fresh);
    const plan network = sync(make_plan(model), pool);
    const std::size_t before = on.device_pool().usage().in_use_bytes;
    const auto zeros_of = [](std::size_t, std::size_t count) { return zeros<float>({count, 256}); };

    engine large({.batch = 1 << 20});
    large.add(network, pool);
    for (const bool warms_up : {true, false}) {
        try {
            warms_up ? large.warm_up(1 << 20) : large.run(1 << 20, zeros_of, ignore);
            ADD_FAILURE() << "there is no room for that";
        } catch (const out_of_memory& refusal) {
            EXPECT_GE(refusal.requested_bytes(), std::size_t{1} << 30);
            EXPECT_LE(refusal.free_bytes(), limit);
            EXPECT_EQ(refusal.device(), "cpu:0");
            EXPECT_THAT(refusal.what(),
                        ::testing::HasSubstr("asked for " + std::to_string(refusal.requested_bytes()) + " bytes, " +
                                             std::to_string(refusal.free_bytes()) + " bytes are free"));
        }
        on.synchronize();
        EXPECT_EQ(on.device_pool().usage().in_use_bytes, before);
    }

    engine small({.batch = 64, .in_flight = 4});
    small.add(network, pool);
    const floats inputs = fresh(1000 * 256);
    floats outputs;
    small.run(
        1000,
        [&](std::size_t first, std::size_t count) {
            return upload(floats(inputs.begin() + static_cast<std::ptrdiff_t>(first * 256),
                                 inputs.begin() + static_cast<std::ptrdiff_t>((first + count) * 256)),
                          {count, 256});
        },
        [&](std::size_t, std::span<const float> part) { outputs.insert(outputs.end(), part.begin(), part.end()); });
    expect_close(outputs, outputs_of(model, inputs), 2e-5);
}

TEST(engine_memory, running_out_in_the_middle_gives_back_what_was_under_way) {
    // Room for the weights and a few batches, but not for the largest one.
    runtime machine({.cpu_memory_bytes = std::size_t{2} << 20, .cuda = false});
    device& on = machine.default_device();
    round_robin pool(on, 2);
    random_floats fresh{3};
    const plan network = sync(make_plan(random_network({64, 8}, fresh)), pool);
    for (int i = 0; i < 2; ++i)  // the workspace that each stream keeps for itself is there from now on
        sync(zeros<float>({1, 64}).and_then([&](auto x) { return network.forward(std::move(x)); }), pool);
    const std::size_t before = on.device_pool().usage().in_use_bytes;
    engine used({.batch = 16, .in_flight = 4});
    used.add(network, pool);
    std::size_t delivered = 0;
    expect_refused(errc::out_of_memory, {"asked for", "are free", "cpu:0"}, [&] {
        used.run(
            160, [](std::size_t first, std::size_t count) { return zeros<float>({first == 96 ? 1 << 20 : count, 64}); },
            [&](std::size_t, std::span<const float>) { ++delivered; });
    });
    EXPECT_LE(delivered, 6u);
    on.synchronize();
    EXPECT_EQ(on.device_pool().usage().in_use_bytes, before);
    EXPECT_EQ(on.host_pool().usage().in_use_bytes, 0u);
}

}  // namespace sluice::nn::engine_failure_tests
