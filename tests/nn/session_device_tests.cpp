// SPDX-License-Identifier: Apache-2.0
// session on a device that has memory of its own: a GPU where there is one, else the simulator's. From the third step
// with the same shapes on a step is one launch.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <system_error>
#include <vector>

#include "nn/support/memory_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/session.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::nn::session_device_tests {
namespace {

using namespace test_support;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;
using numbers = std::vector<float>;

class sessions_elsewhere : public ::testing::Test {
protected:
    void TearDown() override { EXPECT_TRUE(simulated.findings().empty()); }

    runtime machine;
    sim::simulator simulated;
    single_stream on{machine.default_device().shares_host_memory() ? simulated.device() : machine.default_device()};
    round_robin pool{machine.find("cpu:0"), 1};
};

}  // namespace

TEST_F(sessions_elsewhere, give_the_same_in_any_order_of_calls) {
    for (const bool has_places : {true, false}) {
        const auto model_of = [&] { return has_places ? running_sum() : causal_convolution(); };
        const network made = sync(make_network(model_of()), on), here = sync(make_network(model_of()), pool);
        session there(made), s(here);
        std::mt19937 random(7);
        const auto both = [&](auto&& call) {
            const auto outcome_of = [&](session& one) {
                try {
                    call(one);
                    return std::error_code();
                } catch (const error& failure) {
                    return failure.code();
                }
            };
            EXPECT_EQ(outcome_of(there), outcome_of(s));
        };
        std::size_t batch = 2, length = 3, launches = 0;
        for (int i = 0; i < 300; ++i) {
            const std::size_t what = random() % 40;
            if (what == 0) {
                both([](session& one) { one.reset(); });
                batch = 1 + random() % 2;
                length = 1 + random() % 3;
            } else if (what == 1) {
                both([&](session& one) { one.set_state(one.state()); });
            } else if (has_places) {
                // One place in twenty does not exist: the state is what it was.
                std::vector<std::int64_t> places(batch);
                for (std::int64_t& each : places) each = what == 2 ? 99 : static_cast<std::int64_t>(random() % 3);
                both([&](session& one) { one.step({{places, {batch}}}); });
            } else {
                const std::size_t now = what < 4 ? length + 1 : length;
                const numbers x = some_numbers(batch * 2 * now, static_cast<unsigned>(random()));
                both([&](session& one) { one.step({{x, {batch, 2, now}}}); });
            }
            const std::size_t bytes = there.memory_bytes();
            launches += bytes > s.memory_bytes() ? 1 : 0;
            session_state at_there, at_here;
            both([&](session& one) { (&one == &there ? at_there : at_here) = one.state(); });
            ASSERT_EQ(at_there.size(), at_here.size());
            for (const auto& [name, value] : at_here)
                ASSERT_THAT(at_there.at(name).values<float>(), Pointwise(FloatNear(1e-5f), value.values<float>()))
                    << "after call " << i;
            both([&](session& one) { one.output<float>("y"); });
        }
        EXPECT_GT(launches, 100U);
    }
}

TEST_F(sessions_elsewhere, hold_a_state_that_grows) {
    const network made = sync(make_network(growing_attention()), on);
    const network here = sync(make_network(growing_attention()), pool);
    const session_options options{.pairs = {}, .shapes = {{"past_key_values.0.key", {1, 0, 4}}}};
    session there(made, options), s(here, options);
    for (unsigned t = 0; t < 10; ++t) {
        const numbers x = some_numbers(4, t, 2);
        there.step({{x, {1, 1, 4}}});
        s.step({{x, {1, 1, 4}}});
        EXPECT_THAT(there.output<float>("y"), Pointwise(FloatNear(1e-5f), s.output<float>("y")));
        EXPECT_THAT(there.state().at("past_key_values.0.key").shape(), ElementsAre(1, t + 1, 4));
    }
}

TEST_F(sessions_elsewhere, of_recurrent_layers_give_what_a_cpu_gives) {
    for (const char* const op : {"LSTM", "GRU", "RNN"}) {
        const network made = sync(make_network(recurrent_model(op)), on);
        const network here = sync(make_network(recurrent_model(op)), pool);
        session there(made), s(here);
        for (int sequence = 0; sequence < 3; ++sequence) {
            const numbers x = some_numbers(60, static_cast<unsigned>(sequence), 2);
            for (std::size_t t = 0; t < 20; ++t) {
                const input_view one(std::span<const float>(x).subspan(3 * t, 3), {1, 1, 3});
                there.step({one});
                s.step({one});
                EXPECT_THAT(there.output<float>("y"), Pointwise(FloatNear(1e-5f), s.output<float>("y"))) << op;
            }
            // A state goes from one to the other and back.
            const session_state kept = there.state();
            s.set_state(kept);
            there.set_state(s.state());
        }
    }
}

}  // namespace sluice::nn::session_device_tests
