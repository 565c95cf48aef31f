// SPDX-License-Identifier: Apache-2.0
// The engine over rows in host memory: batches that share a command have the bits that each has alone, and whatever
// happens, the caller's memory is not used after the run.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "conformance/expect_refused.hpp"
#include "nn/batch_calls.hpp"
#include "nn/support/engine_test.hpp"
#include "sluice/nn/model_builder.hpp"
#include "support/gate.hpp"

namespace sluice::nn::engine_host_rows_tests {
namespace {

using conformance::expect_close;
using conformance::expect_refused;
using ::testing::ElementsAre;
using testing::floats;
using testing::ignore;
using testing::in_features;
using testing::out_features;
using testing::random_floats;
using testing::random_network;

// Enough for many commands of many batches.
constexpr std::size_t many = 5003;

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

bool have_same_bits(const floats& left, const floats& right) {
    return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

// Each batch alone.
floats in_batches_of(std::size_t batch, const network& made, const floats& inputs, scheduling_policy& pool) {
    const std::size_t in = *made.inputs().front().shape->back().length, rows = inputs.size() / in;
    floats outputs;
    for (std::size_t first = 0; first < rows; first += batch) {
        const std::size_t count = std::min(batch, rows - first);
        const floats part(inputs.begin() + static_cast<std::ptrdiff_t>(first * in),
                          inputs.begin() + static_cast<std::ptrdiff_t>((first + count) * in));
        const auto answers = sync(made.run({any_tensor(part, {count, in})}), pool);
        const std::span<const float> numbers = answers.front().values<float>();
        outputs.insert(outputs.end(), numbers.begin(), numbers.end());
    }
    return outputs;
}

// What a source was asked for, and what a sink was given.
struct calls {
    std::vector<std::pair<std::size_t, std::size_t>> asked, taken;
};

class engines_over_host_rows : public testing::engine_test {
protected:
    std::span<const float> rows_at(std::size_t first, std::size_t count) const {
        return std::span(*numbers).subspan(first * in_features, count * in_features);
    }
    host_row_source from_memory(calls* seen = nullptr) const {
        return [this, seen](std::size_t first, std::size_t count) {
            if (seen != nullptr) seen->asked.emplace_back(first, count);
            return host_rows(rows_at(first, count), numbers);
        };
    }
    floats run(const engine& with, calls* seen = nullptr) const {
        floats outputs;
        const auto here = std::this_thread::get_id();
        with.run(many, from_memory(seen), [&](std::size_t first, std::span<const float> part) {
            EXPECT_EQ(first * out_features, outputs.size());
            EXPECT_EQ(std::this_thread::get_id(), here);
            if (seen != nullptr) seen->taken.emplace_back(first, part.size() / out_features);
            outputs.insert(outputs.end(), part.begin(), part.end());
        });
        return outputs;
    }
    floats alone(std::size_t batch) {
        single_stream pool(*machine.devices()[0]);
        return in_batches_of(batch, sync(make_network(to_model(model)), pool), *numbers, pool);
    }

    const std::shared_ptr<const floats> numbers = std::make_shared<const floats>(fresh(many * in_features));
};

}  // namespace

TEST_F(engines_over_host_rows, give_the_bits_of_each_batch_alone) {
    for (const std::size_t batch : {1, 2, 3, 10, 64, 2501, 5002, 5003, 100'000}) {
        const floats expected_bits = alone(batch);
        for (const std::size_t in_flight : {1, 3, 8}) {
            for (const std::size_t lanes : {1, 2}) {
                SCOPED_TRACE(::testing::Message() << batch << " rows, " << in_flight << " in flight, " << lanes);
                const engine used = make({.batch = batch, .in_flight = in_flight}, 3, lanes);
                for (int pass = 0; pass < 2; ++pass) EXPECT_TRUE(have_same_bits(run(used), expected_bits));
                floats outputs(many * out_features, -1.0f);
                used.run(*numbers, outputs);
                EXPECT_TRUE(have_same_bits(outputs, expected_bits));
                EXPECT_EQ(numbers.use_count(), 1);
            }
        }
    }
}

TEST_F(engines_over_host_rows, put_several_small_batches_into_a_command) {
    calls seen;
    run(make({.batch = 4, .in_flight = 2}, 2), &seen);
    EXPECT_EQ(seen.asked, seen.taken);
    const std::size_t batches = (many + 3) / 4;
    EXPECT_LT(seen.asked.size(), batches / 2);
    std::size_t next = 0, most = 0;
    for (const auto& [first, count] : seen.asked) {
        EXPECT_EQ(first, next);
        next = first + count;
        EXPECT_TRUE(count % 4 == 0 || next == many) << first;
        most = std::max(most, count);
    }
    EXPECT_EQ(next, many);
    EXPECT_GE(most, 8u);
}

TEST_F(engines_over_host_rows, give_larger_batches_a_command_each) {
    random_floats numbers_of{5};
    single_stream pool(*machine.devices()[0]);
    const network made = sync(make_network(to_model(random_network({300, 300, 4}, numbers_of))), pool);
    engine used({.batch = 1000, .in_flight = 2});  // 1.2 MB
    used.add(made, pool);
    const floats from = numbers_of(2500 * 300);
    std::vector<std::pair<std::size_t, std::size_t>> asked;
    floats outputs;
    used.run(
        2500,
        [&](std::size_t first, std::size_t count) {
            asked.emplace_back(first, count);
            const auto part = std::span(from).subspan(first * 300, count * 300);
            return floats(part.begin(), part.end());  // whose memory is not there for longer than it is needed
        },
        [&](std::size_t, std::span<const float> part) { outputs.insert(outputs.end(), part.begin(), part.end()); });
    EXPECT_THAT(asked, ElementsAre(std::pair(0, 1000), std::pair(1000, 1000), std::pair(2000, 500)));
    EXPECT_TRUE(have_same_bits(outputs, in_batches_of(1000, made, from, pool)));
}

TEST_F(engines_over_host_rows, take_networks_of_which_only_the_last_batch_is_small) {
    random_floats numbers_of{5};
    single_stream pool(*machine.devices()[0]);
    const network made = sync(make_network(to_model(random_network({2048, 64, 3}, numbers_of))), pool);
    engine used({.batch = 200, .in_flight = 4});
    used.add(made, pool);
    const floats from = numbers_of(603 * 2048);
    floats outputs(603 * 3);
    used.run(from, outputs);  // the others are uploaded, from memory without an owner
    EXPECT_TRUE(have_same_bits(outputs, in_batches_of(200, made, from, pool)));
}

// Random numbers differ from run to run, and what is on the host depends on the numbers.
TEST_F(engines_over_host_rows, take_networks_that_cannot_be_prepared) {
    single_stream pool(*machine.devices()[0]);
    model_builder build("noise");
    const auto x = build.input("x", {"rows", 12});
    build.output("y", build.add(x, build.node("RandomUniformLike", {x}, {{"low", 0.0}, {"high", 0.25}})));
    engine used({.batch = 7, .in_flight = 4});
    used.add(sync(make_network(build.finish()), pool), pool);
    floats outputs(many * in_features);
    used.run(*numbers, outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) ASSERT_NEAR(outputs[i], (*numbers)[i] + 0.125f, 0.126f) << i;
}

TEST_F(engines_over_host_rows, pass_on_what_the_source_throws) {
    const engine used = make({.batch = 2, .in_flight = 4}, 2, 2);
    used.warm_up(many);
    const std::size_t before = bytes_in_use();
    for (const std::size_t last : {std::size_t{0}, std::size_t{50}, many / 2, many - 1}) {
        std::size_t delivered = 0;
        EXPECT_EQ(planned_failure_of([&] {
                      used.run(
                          many,
                          [&](std::size_t first, std::size_t count) {
                              if (first + count > last) throw planned("the source failed");
                              return host_rows(rows_at(first, count), numbers);
                          },
                          [&](std::size_t first, std::span<const float> part) {
                              EXPECT_EQ(first, delivered);
                              delivered += part.size() / out_features;
                          });
                  }),
                  "the source failed");
        EXPECT_LE(delivered, last);
        EXPECT_EQ(numbers.use_count(), 1);
        EXPECT_EQ(bytes_in_use(), before);
    }
    EXPECT_TRUE(have_same_bits(run(used), alone(2)));  // as good as new
}

TEST_F(engines_over_host_rows, pass_on_what_the_sink_throws_and_stop) {
    const engine used = make({.batch = 2, .in_flight = 4}, 2, 2);
    used.warm_up(many);
    const std::size_t before = bytes_in_use();
    for (const std::size_t last : {std::size_t{0}, std::size_t{50}, many / 2, many - 1}) {
        bool has_thrown = false;
        EXPECT_EQ(planned_failure_of([&] {
                      used.run(many, from_memory(), [&](std::size_t first, std::span<const float> part) {
                          EXPECT_FALSE(has_thrown) << first;
                          if (first + part.size() / out_features <= last) return;
                          has_thrown = true;
                          throw planned("the sink failed");
                      });
                  }),
                  "the sink failed");
        EXPECT_EQ(numbers.use_count(), 1);
        EXPECT_EQ(bytes_in_use(), before);
    }
    EXPECT_TRUE(have_same_bits(run(used), alone(2)));
}

TEST_F(engines_over_host_rows, refuse_a_source_with_another_number_of_values) {
    const engine used = make({.batch = 2, .in_flight = 4}, 2);
    for (const std::size_t first_bad : {std::size_t{0}, std::size_t{40}, many / 2}) {
        expect_refused(errc::shape_mismatch, {"engine", "rows of 12", "values"}, [&] {
            used.run(
                many,
                [&](std::size_t first, std::size_t count) {
                    const auto part = rows_at(first, count);
                    return host_rows(first < first_bad ? part : part.first(part.size() - 1), numbers);
                },
                ignore);
        });
        EXPECT_EQ(numbers.use_count(), 1);
    }
    EXPECT_TRUE(have_same_bits(run(used), alone(2)));
}

TEST_F(engines_over_host_rows, refuse_memory_that_does_not_fit) {
    const engine used = make({.batch = 2, .in_flight = 4}, 2);
    floats room(10 * out_features, -1.0f), both(10 * in_features, 0.5f);
    const std::span<const float> ten = rows_at(0, 10);
    expect_refused(errc::shape_mismatch, {"inputs", "rows of 12"}, [&] { used.run(ten.first(119), room); });
    expect_refused(errc::shape_mismatch, {"outputs", "10 rows of 4", "have 36"},
                   [&] { used.run(ten, std::span(room).first(36)); });
    expect_refused(errc::invalid_argument, {"overlap"},
                   [&] { used.run(both, std::span(both).last(10 * out_features)); });
    EXPECT_EQ(std::ranges::count(room, -1.0f), 10 * static_cast<std::ptrdiff_t>(out_features));
    used.run(std::span<const float>(), std::span<float>());
    floats halves = both;  // next to each other is no overlap
    halves.resize(10 * (in_features + out_features));
    used.run(std::span(halves).first(10 * in_features), std::span(halves).last(10 * out_features));
    used.run(both, room);
    EXPECT_TRUE(std::equal(room.begin(), room.end(), halves.end() - 10 * out_features));
    expect_refused(errc::invalid_argument, {"no device"}, [&] { engine().run(both, room); });
    expect_refused(errc::invalid_argument, {"no device"}, [&] { engine().run(10, from_memory(), ignore); });
}

TEST_F(engines_over_host_rows, do_not_use_the_memory_after_a_failure) {
    const engine used = make({.batch = 2, .in_flight = 8}, 1);
    sluice::test_support::gate held(policies.back()->next());
    held.wait_until_reached();
    // A run that does not wait comes back while the stream still has its commands.
    std::atomic<bool> is_open = false;
    const std::jthread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        is_open = true;
        held.open();
    });
    auto own = std::make_unique<floats>(rows_at(0, 100).begin(), rows_at(0, 100).end());
    int asked = 0;
    EXPECT_EQ(planned_failure_of([&] {
                  used.run(
                      100,
                      [&](std::size_t first, std::size_t count) {
                          if (++asked == 4) throw planned("the source failed");
                          return std::span<const float>(*own).subspan(first * in_features, count * in_features);
                      },
                      ignore);
              }),
              "the source failed");
    EXPECT_TRUE(is_open);
    own.reset();
    EXPECT_TRUE(have_same_bits(run(used), alone(2)));
}

TEST_F(engines_over_host_rows, pass_on_the_loss_of_the_device) {
    const engine used = make({.batch = 2, .in_flight = 4}, 2);
    std::size_t delivered = 0;
    EXPECT_EQ(planned_failure_of([&] {
                  used.run(many, from_memory(), [&](std::size_t first, std::span<const float> part) {
                      delivered = first + part.size() / out_features;
                      if (delivered > 20)
                          machine.devices()[0]->poison(std::make_exception_ptr(planned("the device is lost")));
                  });
              }),
              "the device is lost");
    EXPECT_LT(delivered, many);
    EXPECT_EQ(numbers.use_count(), 1);
}

TEST_F(engines_over_host_rows, serve_several_threads) {
    const engine used = make({.batch = 3, .in_flight = 4}, 4);
    const floats expected_bits = alone(3);
    std::vector<floats> made(3, floats(many * out_features));
    {
        std::vector<std::jthread> threads;
        for (floats& each : made) threads.emplace_back([&] { used.run(*numbers, each); });
    }
    for (const floats& each : made) EXPECT_TRUE(have_same_bits(each, expected_bits));
}

TEST_F(engines_over_host_rows, may_end_a_command_with_a_smaller_batch) {
    single_stream pool(*machine.devices()[0]);
    const network made = sync(make_network(to_model(model)), pool);
    const auto time = std::make_shared<detail::batch_time>();
    const auto open = std::make_shared<detail::open_commands>();
    detail::batch_calls calls(made, in_features, out_features);
    const floats first_rows(numbers->begin(), numbers->begin() + 23 * in_features);
    floats outputs(23 * out_features, -1.0f);
    detail::spawn_batches({numbers->data(),
                           numbers,
                           {},
                           outputs.data(),
                           23,
                           in_features,
                           out_features,
                           calls.of_rows(5),
                           calls.of_rows(3)},
                          time, open, pool)
        .get();
    open->wait_until_none();
    EXPECT_EQ(numbers.use_count(), 1);
    EXPECT_TRUE(have_same_bits(outputs, in_batches_of(5, made, first_rows, pool)));
}

TEST_F(engines_over_host_rows, keep_calls_for_the_latest_sizes) {
    single_stream pool(*machine.devices()[0]);
    detail::batch_calls calls(sync(make_network(to_model(model)), pool), in_features, out_features);
    const auto five = calls.of_rows(5);
    ASSERT_NE(five, nullptr);
    for (std::size_t rows = 6; rows < 20; ++rows) {
        ASSERT_NE(calls.of_rows(rows), nullptr);
        EXPECT_EQ(calls.of_rows(5), five);  // used in between
    }
    const std::size_t kept = bytes_in_use();
    for (std::size_t rows = 6; rows < 20; ++rows) static_cast<void>(calls.of_rows(rows));
    EXPECT_LE(bytes_in_use(), 2 * kept);
    EXPECT_EQ(calls.of_rows(100'000), nullptr);  // several MB
}

TEST(batch_times, make_commands_of_half_a_millisecond) {
    detail::batch_time time;
    EXPECT_EQ(time.batches_of_command(1'000'000, 2), 1u);  // not known
    time.add(4'000, 2);
    EXPECT_EQ(time.batches_of_command(1'000'000, 2), 250u);
    time.add(9'000, 2);  // a thread that was interrupted
    EXPECT_EQ(time.batches_of_command(1'000'000, 2), 250u);
    time.add(100'000, 100);
    EXPECT_EQ(time.batches_of_command(1'000'000, 2), 500u);
    EXPECT_EQ(time.batches_of_command(40, 2), 10u);  // so that both workers end at the same time
    EXPECT_EQ(time.batches_of_command(3, 2), 1u);
    EXPECT_EQ(time.batches_of_command(1, 2), 1u);
    time.add(0, 7);
    EXPECT_EQ(time.batches_of_command(1'000'000'000, 2), 500'000u);

    detail::batch_time slow;
    slow.add(1'500'000, 1);
    EXPECT_EQ(slow.batches_of_command(1'000'000, 2), 1u);
}

}  // namespace sluice::nn::engine_host_rows_tests
