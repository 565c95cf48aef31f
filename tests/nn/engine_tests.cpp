// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/engine.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
#include <utility>

#include "conformance/expect_refused.hpp"
#include "nn/support/reference_network.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::nn {
namespace {

using conformance::expect_close;
using conformance::expect_refused;
using testing::doubles;
using ::testing::ElementsAre;
using testing::floats;
using testing::outputs_of;
using testing::random_floats;
using testing::random_network;

constexpr std::size_t rows = 103, in_features = 12, out_features = 4;

class engines : public ::testing::Test {
protected:
    // Rows of `inputs`, whose memory the operation shares.
    any_operation<tensor<float>> rows_from(std::size_t first, std::size_t count) const {
        const auto part = std::span(*inputs).subspan(first * in_features, count * in_features);
        return upload(part, inputs, {count, in_features});
    }
    row_source source() const {
        return [this](std::size_t first, std::size_t count) { return rows_from(first, count); };
    }
    // An engine on the first device; with `lanes` of 2, on both.
    engine make(const engine_options& options, std::size_t streams = 2, std::size_t lanes = 1) {
        engine made(options);
        for (std::size_t i = 0; i < lanes; ++i) {
            policies.push_back(std::make_unique<round_robin>(*machine.devices()[i], streams));
            made.add(sync(make_plan(model), *policies.back()), *policies.back());
            // The workspace that each stream keeps for itself is there from now on.
            const plan network = sync(make_plan(model), *policies.back());
            for (std::size_t j = 0; j < streams; ++j) {
                sync(zeros<float>({1, in_features}).and_then([&](auto x) { return network.forward(std::move(x)); }),
                     *policies.back());
            }
        }
        return made;
    }
    // Runs all rows; they must come in order, on this thread.
    floats run(const engine& with) const {
        floats outputs;
        const auto here = std::this_thread::get_id();
        with.run(rows, source(), [&](std::size_t first, std::span<const float> part) {
            EXPECT_EQ(first * out_features, outputs.size());
            EXPECT_EQ(part.size() % out_features, 0u);
            EXPECT_EQ(std::this_thread::get_id(), here);
            outputs.insert(outputs.end(), part.begin(), part.end());
        });
        return outputs;
    }
    std::size_t bytes_in_use() const {
        std::size_t sum = 0;
        for (device* each : machine.devices()) {
            sum += each->device_pool().usage().in_use_bytes + each->host_pool().usage().in_use_bytes;
        }
        return sum;
    }

    runtime machine{{.cpu_devices = 2, .cuda = false}};
    random_floats fresh{11};
    const mlp_model model = random_network({in_features, 20, out_features}, fresh);
    const std::shared_ptr<const floats> inputs = std::make_shared<const floats>(fresh(rows * in_features));
    const doubles expected = outputs_of(model, *inputs);
    std::vector<std::unique_ptr<round_robin>> policies;
};

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

void ignore(std::size_t, std::span<const float>) {}

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

TEST_F(engines, pass_on_what_the_source_throws) {
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

TEST_F(engines, pass_on_what_the_sink_throws) {
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

namespace {

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

TEST_F(engines, pass_on_the_first_failure_of_the_device_in_the_order_of_rows) {
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

TEST_F(engines, prefer_the_first_failure_to_those_that_follow) {
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

TEST_F(engines, wait_for_what_still_reads_the_source) {
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

TEST_F(engines, refuse_rows_of_another_width) {
    const engine used = make({.batch = 10, .in_flight = 4});
    const std::size_t before = bytes_in_use();
    expect_refused(errc::shape_mismatch, {"[rows, 12]", "[10, 11]"}, [&] {
        used.run(rows, [](std::size_t, std::size_t count) { return zeros<float>({count, in_features - 1}); }, ignore);
    });
    machine.devices()[0]->synchronize();
    EXPECT_EQ(bytes_in_use(), before);
    expect_close(run(used), expected);
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

}  // namespace sluice::nn
