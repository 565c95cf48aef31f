// SPDX-License-Identifier: Apache-2.0
// The engine delivers all rows in order, and keeps within its options.
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "conformance/expect_refused.hpp"
#include "nn/support/engine_test.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::nn::engine_tests {
namespace {

using conformance::expect_close;
using conformance::expect_refused;
using ::testing::ElementsAre;
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
    for (const std::size_t batch : {1, 10, 60}) {
        for (const std::size_t in_flight : {1, 3, 8}) {
            const engine both = make({.batch = batch, .in_flight = in_flight}, 2, 2);
            std::vector<std::size_t> before;
            for (device* each : machine.devices()) before.push_back(each->device_pool().usage().allocations);
            expect_close(run(both), expected);
            for (std::size_t i = 0; i < 2; ++i) {
                EXPECT_GT(machine.devices()[i]->device_pool().usage().allocations, before[i]) << batch;
            }
        }
    }
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
    const std::size_t before = bytes_in_use();
    for (const std::size_t count : {rows, std::size_t{1}, std::size_t{10}, rows}) warm.warm_up(count);
    EXPECT_EQ(bytes_in_use(), before);
    EXPECT_EQ(inputs.use_count(), 1);
    expect_close(run(warm), expected);
}

TEST_F(engines, leave_no_memory_in_use_when_all_went_well) {
    const engine used = make({.batch = 10, .in_flight = 4}, 2, 2);
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
    const plan network = sync(make_plan(random_network({12, 4}, fresh)), pool);
    engine warm({.batch = 10, .in_flight = 4});
    warm.add(network, pool);
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
