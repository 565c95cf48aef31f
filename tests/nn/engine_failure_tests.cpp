// SPDX-License-Identifier: Apache-2.0
// What the engine does when a source, a sink, a device or the memory fails.
#include <gmock/gmock.h>

#include <stdexcept>
#include <utility>

#include "conformance/expect_refused.hpp"
#include "nn/support/engine_test.hpp"
#include "sluice/nn/model_builder.hpp"

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

// Gives, for each of a row's numbers, the element of a table at that place, 0 to 9. Other places are an error.
network looking_up(scheduling_policy& pool) {
    model_builder build("looking up");
    const auto table = build.constant({0.f, 1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f, 9.f}, {10});
    const auto places = build.node("Cast", {build.input("x", {"rows", 3})}, {{"to", 7}});
    build.output("y", build.node("Gather", {table, places}));
    return sync(make_network(build.finish()), pool);
}

}  // namespace

TEST_F(engines_that_fail, pass_on_the_first_failure_of_the_device_in_the_order_of_rows) {
    round_robin pool(*machine.devices()[0], 4);
    engine used({.batch = 10, .in_flight = 4});
    used.add(looking_up(pool), pool);
    floats places(100 * 3, 2.0f);
    std::size_t delivered = 0;
    const auto run = [&] {
        delivered = 0;
        used.run(
            100,
            [&](std::size_t first, std::size_t count) {
                return std::span<const float>(places).subspan(first * 3, count * 3);
            },
            [&](std::size_t first, std::span<const float> outputs) {
                EXPECT_EQ(outputs.front(), 2.0f);
                delivered = first + outputs.size() / 3;
            });
    };
    run();
    EXPECT_EQ(delivered, 100u);
    places[32 * 3] = 31;  // in the batch at 30
    places[45 * 3] = 45;
    expect_refused(errc::out_of_range, {"31"}, run);
    EXPECT_LE(delivered, 30u);
    expect_refused(errc::out_of_range, {"31"}, [&] {
        floats outputs(places.size());
        used.run(places, outputs);
    });
    places[32 * 3] = places[45 * 3] = 2;
    run();  // as good as new
    EXPECT_EQ(delivered, 100u);
}

TEST_F(engines_that_fail, prefer_the_first_failure_to_those_that_follow) {
    round_robin pool(*machine.devices()[0], 4);
    engine used({.batch = 10, .in_flight = 4});
    used.add(looking_up(pool), pool);
    floats places(100 * 3, 2.0f);
    places[60 * 3] = 60;
    EXPECT_EQ(planned_failure_of([&] {
                  used.run(
                      100,
                      [&](std::size_t first, std::size_t count) {
                          return std::span<const float>(places).subspan(first * 3, count * 3);
                      },
                      [](std::size_t, std::span<const float>) { throw planned("the sink failed"); });
              }),
              "the sink failed");
}

TEST_F(engines_that_fail, refuse_rows_of_another_width) {
    const engine used = make({.batch = 10, .in_flight = 4});
    used.warm_up(rows);
    const std::size_t before = bytes_in_use();
    expect_refused(errc::shape_mismatch, {"rows of 12 must have", "values, they have"}, [&] {
        used.run(rows, [](std::size_t, std::size_t count) { return floats(count * (in_features - 1)); }, ignore);
    });
    machine.devices()[0]->synchronize();
    EXPECT_EQ(bytes_in_use(), before);
    expect_close(run(used), expected);
}

// It gives 8 rows for any number of rows: no proof would hold for it.
TEST_F(engines_that_fail, refuse_a_network_that_gives_another_number_of_rows) {
    model_builder build("expand");
    const auto one = build.node("ReduceMax", {build.input("x", {"rows", 3})}, {{"keepdims", 1}});
    build.output("y", build.node("Expand", {one, build.constant({std::int64_t{8}, std::int64_t{3}}, {2})}));
    round_robin pool(*machine.devices()[0], 2);
    engine used({.batch = 8});
    used.add(sync(make_network(build.finish()), pool), pool);
    const floats nine(9 * 3, 1.0f);
    floats outputs(9 * 3);
    expect_refused(errc::shape_mismatch, {"[8, 3]"}, [&] { used.run(nine, outputs); });
}

TEST(engine_memory, names_the_requested_and_the_free_amount) {
    constexpr std::size_t limit = std::size_t{4} << 20, many = 8192;
    runtime machine({.cpu_memory_bytes = limit, .cuda = false});
    device& on = machine.default_device();
    round_robin pool(on, 2);
    random_floats fresh{3};
    const auto layers = random_network({256, 256, 8}, fresh);
    const network made = sync(make_network(to_model(layers)), pool);
    const std::size_t before = on.device_pool().usage().in_use_bytes;

    engine large({.batch = many});
    large.add(made, pool);
    for (const bool warms_up : {true, false}) {
        try {
            const auto zeros_of = [](std::size_t, std::size_t count) { return floats(count * 256); };
            warms_up ? large.warm_up(many) : large.run(many, zeros_of, ignore);
            ADD_FAILURE() << "there is no room for that";
        } catch (const out_of_memory& refusal) {
            EXPECT_GE(refusal.requested_bytes(), many * 256 * sizeof(float));
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
    small.add(made, pool);
    const floats inputs = fresh(1000 * 256);
    floats outputs(1000 * 8);
    small.run(inputs, outputs);
    expect_close(outputs, outputs_of(layers, inputs), 2e-5);
}

}  // namespace sluice::nn::engine_failure_tests
