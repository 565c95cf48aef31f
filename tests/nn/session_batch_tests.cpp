// SPDX-License-Identifier: Apache-2.0
// session_batch: sessions that step together have what each alone would have.
#include "sluice/nn/session_batch.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/support/memory_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::nn::session_batch_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using numbers = std::vector<float>;

class session_batches : public ::testing::Test {
protected:
    network make(model from) { return sync(make_network(std::move(from)), pool); }

    static std::string refusal(errc code, auto&& call) {
        try {
            call();
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), code) << failure.what();
            return failure.what();
        }
        return "no error";
    }

    runtime machine{runtime_options{.cpu_devices = 1, .cpu_workers = 2, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

// Sessions of 1, 2 and 3 sequences, of which some step together, in any order.
TEST_F(session_batches, give_what_each_session_gives_alone) {
    for (const std::string op : {"LSTM", "GRU", "RNN"}) {
        for (const std::int64_t layout : {0, 1}) {
            SCOPED_TRACE(op + std::to_string(layout));
            const network made = make(recurrent_model(op, layout));
            session_batch together(made);
            std::vector<session> batched, alone;
            for (int i = 0; i < 3; ++i) {
                batched.emplace_back(made);
                alone.emplace_back(made);
            }
            for (unsigned t = 0; t < 24; ++t) {
                std::vector<numbers> x;
                std::vector<std::vector<input_view>> inputs;
                for (std::size_t i = 0; i < 3; ++i) {
                    x.push_back(some_numbers(3 * (i + 1), 100 * static_cast<unsigned>(i) + t));
                    inputs.push_back({layout == 0 ? input_view(x[i], {1, i + 1, 3}) : input_view(x[i], {i + 1, 1, 3})});
                }
                std::vector<session_step> steps;
                for (std::size_t i = 0; i < 3; ++i) {
                    if (t % 4 == i) continue;  // in some rounds it waits
                    steps.insert(steps.begin(), {&batched[i], inputs[i]});
                    alone[i].step(inputs[i]);
                }
                together.step(steps);
                for (const session_step& each : steps) {
                    const auto i = static_cast<std::size_t>(each.of - batched.data());
                    for (const std::string name : {"y", "hn"})
                        EXPECT_THAT(each.of->output<float>(name),
                                    Pointwise(FloatNear(1e-5f), alone[i].output<float>(name)));
                }
            }
        }
    }
}

TEST_F(session_batches, of_a_causal_convolution_have_caches_of_their_own) {
    const network made = make(causal_convolution());
    session_batch together(made);
    std::vector<session> batched, alone;
    for (int i = 0; i < 5; ++i) {
        batched.emplace_back(made);
        alone.emplace_back(made);
    }
    for (unsigned t = 0; t < 10; ++t) {
        std::vector<numbers> x;
        std::vector<std::vector<input_view>> inputs;
        std::vector<session_step> steps;
        for (std::size_t i = 0; i < 5; ++i) x.push_back(some_numbers(6, 10 * t + static_cast<unsigned>(i)));
        for (std::size_t i = 0; i < 5; ++i) inputs.push_back({input_view(x[i], {1, 2, 3})});
        for (std::size_t i = 0; i < 5; ++i) steps.push_back({&batched[i], inputs[i]});
        together.step(steps);
        for (std::size_t i = 0; i < 5; ++i) {
            alone[i].step(inputs[i]);
            EXPECT_THAT(batched[i].output<float>("y"), Pointwise(FloatNear(1e-5f), alone[i].output<float>("y")));
        }
    }
}

TEST_F(session_batches, refuse_what_does_not_fit_and_leave_all_sessions_as_they_were) {
    const network made = make(running_sum());
    session_batch together(made);
    session a(made), b(made), late(made), other(make(running_sum()));
    const std::vector<std::int64_t> one = {1}, wrong = {4}, two = {1, 2};
    const std::array right{input_view(one, {1})}, refused{input_view(wrong, {1})}, pair{input_view(two, {2})};
    together.step(std::array{session_step{&a, right}, session_step{&b, right}});
    const auto step = [&](session* which, std::span<const input_view> inputs) {
        together.step(std::array{session_step{&a, right}, session_step{which, inputs}});
    };
    const auto expect_unchanged = [&] {
        EXPECT_THAT(a.state().at("sum_state_in").values<float>(), ElementsAre(10));
        EXPECT_THAT(b.state().at("sum_state_in").values<float>(), ElementsAre(10));
        EXPECT_THROW(static_cast<void>(late.state()), error);
    };
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { step(&other, right); }),
                HasSubstr("session 1 of the batch: it is of another network"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { step(&a, right); }), HasSubstr("it is here twice"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { step(nullptr, right); }), HasSubstr("it is null"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { step(&b, {}); }), HasSubstr("a step takes 1 inputs"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { step(&b, pair); }), HasSubstr("another number of rows than 2"));
    const std::array nowhere{input_view(io::dtype::i64, nullptr, std::array<std::size_t, 1>{1})};
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { step(&b, nowhere); }), HasSubstr("'place' has no memory"));
    expect_unchanged();
    for (int i = 0; i < 4; ++i) {
        EXPECT_THAT(refusal(errc::out_of_range, [&] { step(&b, refused); }), HasSubstr("index 4"));
        EXPECT_THAT(refusal(errc::out_of_range, [&] { step(&late, refused); }), HasSubstr("index 4"));
        expect_unchanged();
    }
    session ended = std::move(other);
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { step(&other, right); }), HasSubstr("has ended"));
    step(&late, pair);
    EXPECT_THAT(late.output<float>("y"), ElementsAre(20, 200));
    EXPECT_THAT(a.output<float>("y"), ElementsAre(40));
    together.step({});
}

TEST_F(session_batches, are_refused_where_rows_are_not_proven_to_be_independent) {
    EXPECT_THAT(refusal(errc::unsupported, [&] { session_batch(make(growing_attention())); }),
                AllOf(HasSubstr("not proven to be independent"), HasSubstr("'x' has no dimension of any length")));
    model mixing = running_sum();
    mixing.body.nodes.push_back(make_node("Softmax", {"y"}, {"z"}));
    mixing.body.outputs.push_back(f32("z", {named("n")}));
    EXPECT_THAT(refusal(errc::unsupported, [&] { session_batch(make(mixing)); }), HasSubstr("Softmax"));
    sim::simulator simulated;
    single_stream on(simulated.device());
    EXPECT_THAT(refusal(errc::unsupported, [&] { session_batch(sync(make_network(running_sum()), on)); }),
                HasSubstr("on CPUs only"));
}

}  // namespace
}  // namespace sluice::nn::session_batch_tests
