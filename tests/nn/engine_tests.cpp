// SPDX-License-Identifier: Apache-2.0
// The engine delivers all rows in order, and keeps within its options.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "conformance/expect_refused.hpp"
#include "nn/support/engine_test.hpp"
#include "sluice/nn/model_builder.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::nn::engine_tests {
namespace {

using conformance::expect_close;
using conformance::expect_refused;
using ::testing::ElementsAre;
using testing::floats;
using testing::ignore;
using testing::in_features;
using testing::random_floats;
using testing::random_network;
using testing::rows;

class engines : public testing::engine_test {};

}  // namespace

TEST_F(engines, deliver_all_rows_in_order) {
    for (const std::size_t batch : {1, 2, 10, 51, 102, 103, 104, 100'000}) {
        for (const std::size_t in_flight : {1, 2, 3, 8, 1000}) {
            for (const std::size_t streams : {1, 4}) {
                SCOPED_TRACE(::testing::Message() << batch << " rows, " << in_flight << " in flight, " << streams);
                expect_close(run(make({.batch = batch, .in_flight = in_flight}, streams)), expected);
            }
        }
    }
}

TEST_F(engines, divide_the_batches_among_devices) {
    std::vector<mlp_layer> opposite = model;
    for (float& each : opposite.back().weight) each = -each;
    for (float& each : opposite.back().bias) each = -each;
    for (const std::size_t batch : {1, 10, 60}) {
        for (const std::size_t in_flight : {1, 3, 8}) {
            engine both = make({.batch = batch, .in_flight = in_flight});
            policies.push_back(std::make_unique<round_robin>(*machine.devices()[1], 2));
            both.add(sync(make_network(to_model(opposite)), *policies.back()), *policies.back());
            const floats outputs = run(both);
            ASSERT_EQ(outputs.size(), expected.size());
            std::size_t of_first = 0;
            for (std::size_t i = 0; i < outputs.size(); ++i) {
                ASSERT_NEAR(std::abs(outputs[i]), std::abs(expected[i]), 1e-4);
                of_first += outputs[i] * expected[i] >= 0 ? 1 : 0;
            }
            EXPECT_GT(of_first, 0u) << batch;
            EXPECT_LT(of_first, outputs.size()) << batch;
        }
    }
}

TEST_F(engines, refuse_networks_that_do_not_run_row_by_row) {
    engine used;
    round_robin pool(*machine.devices()[0], 1);
    const auto add = [&](const model_builder& build) { used.add(sync(make_network(build.finish()), pool), pool); };
    model_builder two("two");
    two.output("y", two.add(two.input("a", {"rows", 3}), two.input("b", {"rows", 3})));
    expect_refused(errc::shape_mismatch, {"2 inputs", "one input f32 [rows, features]"}, [&] { add(two); });
    model_builder cube("cube");
    cube.output("y", cube.relu(cube.input("x", {"rows", 3, 2})));
    expect_refused(errc::shape_mismatch, {"has another input"}, [&] { add(cube); });
    model_builder turned("turned");
    turned.output("y", turned.node("Transpose", {turned.input("x", {"rows", 3})}, {{"perm", {1, 0}}}));
    expect_refused(errc::shape_mismatch, {"gives f32 [3, 1024]", "for 1024 rows"}, [&] { add(turned); });
    used.add(sync(make_network(to_model(model)), pool), pool);
    expect_refused(errc::shape_mismatch, {"takes 5 features", "the first device takes 12 and gives 4"},
                   [&] { used.add(sync(make_network(to_model(random_network({5, 4}, fresh))), pool), pool); });
}

TEST_F(engines, read_each_row_once_in_batches_of_the_given_size) {
    std::vector<std::pair<std::size_t, std::size_t>> asked;
    make({.batch = 40, .in_flight = 2})
        .run(
            rows,
            [&](std::size_t first, std::size_t count) {
                asked.emplace_back(first, count);
                return rows_from(first, count);
            },
            ignore);
    EXPECT_THAT(asked, ElementsAre(std::pair(0, 40), std::pair(40, 40), std::pair(80, 23)));
}

TEST_F(engines, have_no_more_in_flight_than_allowed) {
    for (const std::size_t in_flight : {1, 2, 5}) {
        std::size_t fed = 0, delivered = 0, most = 0;
        make({.batch = 2, .in_flight = in_flight}, 4)
            .run(
                rows,
                [&](std::size_t first, std::size_t count) {
                    most = std::max(most, ++fed - delivered);
                    return rows_from(first, count);
                },
                [&](std::size_t, std::span<const float>) { ++delivered; });
        EXPECT_EQ(most, in_flight);
    }
}

TEST_F(engines, do_nothing_for_no_rows) {
    const engine idle = make({});
    const auto fail = [](auto...) { ADD_FAILURE() << "no row may be requested"; };
    idle.run(
        0,
        [&](std::size_t first, std::size_t count) {
            fail();
            return rows_from(first, count);
        },
        [&](std::size_t, std::span<const float>) { fail(); });
    idle.warm_up(0);
}

TEST_F(engines, refuse_options_of_zero) {
    expect_refused(errc::invalid_argument, {"engine", "at least one row"}, [] { engine({.batch = 0}); });
    expect_refused(errc::invalid_argument, {"engine", "at least one is in flight"}, [] { engine({.in_flight = 0}); });
}

TEST_F(engines, need_a_device_to_run) {
    expect_refused(errc::invalid_argument, {"no device"}, [&] { engine().run(rows, source(), ignore); });
}

TEST_F(engines, may_be_warmed_up_without_a_trace) {
    const engine warm = make({.batch = 10, .in_flight = 4}, 2, 2);
    for (const std::size_t count : {rows, std::size_t{1}}) warm.warm_up(count);
    const std::size_t before = bytes_in_use();
    for (const std::size_t count : {rows, std::size_t{1}, std::size_t{10}, rows}) warm.warm_up(count);
    EXPECT_EQ(bytes_in_use(), before);
    EXPECT_EQ(inputs.use_count(), 1);
    expect_close(run(warm), expected);
}

TEST_F(engines, leave_no_memory_in_use_when_all_went_well) {
    const engine used = make({.batch = 10, .in_flight = 4}, 2, 2);
    used.warm_up(rows);
    const std::size_t before = bytes_in_use();
    run(used);
    EXPECT_EQ(bytes_in_use(), before);
    EXPECT_EQ(inputs.use_count(), 1);
}

TEST(engine_warm_up, runs_no_more_batches_than_there_will_be) {
    trace_recorder recorder;
    runtime machine({.cuda = false, .trace = &recorder});
    round_robin pool(machine.default_device(), 2);
    random_floats fresh{3};
    const network made = sync(make_network(to_model(random_network({12, 4}, fresh))), pool);
    engine warm({.batch = 10, .in_flight = 4});
    warm.add(made, pool);
    static_cast<void>(recorder.take());
    // Rows of the whole batches, and of the last one.
    for (const auto& [all, batches] : {std::pair(25, 3), std::pair(20, 2), std::pair(5, 1), std::pair(100, 4)}) {
        warm.warm_up(static_cast<std::size_t>(all));
        int downloads = 0;
        for (const trace_event& each : recorder.take().events) {
            downloads += each.kind == trace_kind::device_to_host ? 1 : 0;
        }
        EXPECT_EQ(downloads, batches) << all << " rows";
    }
}

}  // namespace sluice::nn::engine_tests
