// SPDX-License-Identifier: Apache-2.0
// session: streams give what whole sequences give, and nothing but a step that succeeds changes the state.
#include "sluice/nn/session.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nn/sessions/session_core.hpp"
#include "nn/support/memory_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::nn::session_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using numbers = std::vector<float>;

class sessions : public ::testing::Test {
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
    static void add(session& s, std::int64_t place) { s.step({{std::vector<std::int64_t>{place}, {1}}}); }
    static float sum_of(const session& s) { return s.state().at("sum_state_in").values<float>()[0]; }

    runtime machine{runtime_options{.cpu_devices = 1, .cpu_workers = 2, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

// A recurrent layer, and how its sequences lie.
struct layer {
    std::string op;
    std::int64_t layout;
};

class recurrent_sessions : public sessions, public ::testing::WithParamInterface<layer> {};

// Of steps [first, first + count) of one sequence; in both layouts the same numbers, since there is one.
std::vector<std::size_t> shape_of(const layer& of, std::size_t steps) {
    return of.layout == 0 ? std::vector<std::size_t>{steps, 1, 3} : std::vector<std::size_t>{1, steps, 3};
}

TEST_P(recurrent_sessions, give_what_the_whole_sequence_gives_however_it_is_cut) {
    const layer how = GetParam();
    const network made = make(recurrent_model(how.op, how.layout));
    constexpr std::size_t steps = 40;
    const numbers x = some_numbers(steps * 3, 7, 2), zeros(4);
    std::vector<any_tensor> given = {any_tensor(x, shape_of(how, steps))};
    while (given.size() < made.inputs().size()) given.emplace_back(zeros, std::vector<std::size_t>{1, 1, 4});
    const std::vector<any_tensor> whole = sync(made.run(given), pool);

    session s(made);
    std::minstd_rand random(3);
    for (int tries = 0; tries < 20; ++tries) {
        numbers answers;
        for (std::size_t first = 0; first < steps;) {
            const std::size_t count =
                tries == 0 ? 1 : std::min<std::size_t>(steps - first, 1 + random() % (tries % 2 == 0 ? 4 : steps));
            s.step({{std::span(x).subspan(3 * first, 3 * count), shape_of(how, count)}});
            const std::span<const float> y = s.output<float>("y");
            EXPECT_EQ(y.size(), 4 * count);
            answers.insert(answers.end(), y.begin(), y.end());
            first += count;
        }
        EXPECT_THAT(answers, Pointwise(FloatNear(1e-5f), whole[0].values<float>()));
        const session_state end = s.state();
        EXPECT_THAT(end.at("h0").values<float>(), Pointwise(FloatNear(1e-5f), whole[1].values<float>()));
        EXPECT_THAT(s.output<float>("hn"), ElementsAreArray(end.at("h0").values<float>()));
        if (how.op == "LSTM") {
            EXPECT_THAT(end.at("c0").values<float>(), Pointwise(FloatNear(1e-5f), whole[2].values<float>()));
        }
        s.reset();
    }
}

INSTANTIATE_TEST_SUITE_P(layers, recurrent_sessions,
                         ::testing::Values(layer{"LSTM", 0}, layer{"GRU", 0}, layer{"RNN", 0}, layer{"LSTM", 1},
                                           layer{"GRU", 1}, layer{"RNN", 1}),
                         [](const auto& its) { return its.param.op + std::to_string(its.param.layout); });

TEST_F(sessions, of_a_causal_convolution_give_what_the_whole_sequence_gives) {
    const network made = make(causal_convolution());
    constexpr std::size_t steps = 30;
    const numbers x = some_numbers(2 * steps, 5);
    const std::vector<any_tensor> whole =
        sync(made.run({any_tensor(x, {1, 2, steps}), any_tensor(numbers(4), {1, 2, 2})}), pool);
    const std::span<const float> expected = whole[0].values<float>();
    session s(made);
    for (const std::size_t count : {1, 2, 5}) {
        s.reset();
        for (std::size_t first = 0; first < steps; first += count) {
            numbers piece;
            for (const std::size_t channel : {0, 1})
                for (std::size_t i = 0; i < count; ++i) piece.push_back(x[channel * steps + first + i]);
            s.step({{piece, {1, 2, count}}});
            for (std::size_t i = 0; i < 2 * count; ++i)
                EXPECT_NEAR(s.output<float>("y")[i], expected[i / count * steps + first + i % count], 1e-5f);
        }
    }
}

TEST_F(sessions, hold_a_state_that_grows) {
    const network made = make(growing_attention());
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { session(made).step({{numbers(4), {1, 1, 4}}}); }),
                AllOf(HasSubstr("'past_key_values.0.key', f32 [1, past, 4]"), HasSubstr("session_options::shapes")));
    session s(made, {.shapes = {{"past_key_values.0.key", {1, 0, 4}}}});
    std::vector<numbers> seen;
    for (int sequence = 0; sequence < 3; ++sequence) {
        for (unsigned t = 0; t < 20; ++t) {
            const numbers& x = seen.emplace_back(some_numbers(4, t + 100 * static_cast<unsigned>(sequence), 2));
            s.step({{x, {1, 1, 4}}});
            std::array<double, 4> expected{};
            double sum = 0;
            for (const numbers& key : seen) {
                double product = 0;
                for (std::size_t i = 0; i < 4; ++i) product += double{key[i]} * double{x[i]};
                sum += std::exp(product);
                for (std::size_t i = 0; i < 4; ++i) expected[i] += std::exp(product) * double{key[i]};
            }
            for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(s.output<float>("y")[i], expected[i] / sum, 1e-4);
            EXPECT_THAT(s.state().at("past_key_values.0.key").shape(), ElementsAre(1, t + 1, 4));
        }
        s.reset();
        EXPECT_THAT(s.state().at("past_key_values.0.key").shape(), ElementsAre(1, 0, 4));
        seen.clear();
    }
}

TEST_F(sessions, say_what_they_take_and_give) {
    const network made = make(recurrent_model("LSTM"));
    const session s(made);
    EXPECT_THAT(s.pairs(), ElementsAre(state_pair{"hn", "h0"}, state_pair{"cn", "c0"}));
    ASSERT_EQ(s.inputs().size(), 1U);
    EXPECT_EQ(s.inputs()[0].name, "x");
    EXPECT_EQ(s.outputs().size(), 3U);
    EXPECT_EQ(&s.of().inside(), &made.inside());
}

TEST_F(sessions, have_a_state_that_can_be_kept_and_set_elsewhere) {
    const network made = make(running_sum());
    session first(made), second(made);
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { static_cast<void>(first.state()); }),
                HasSubstr("the shape of the state 'sum_state_in' is not known before the first step"));
    add(first, 3);
    const session_state kept = first.state();
    add(first, 2);
    EXPECT_EQ(sum_of(first), 1100);
    EXPECT_EQ(kept.at("sum_state_in").values<float>()[0], 1000);
    second.set_state(kept);
    add(second, 0);
    EXPECT_EQ(second.output<float>("y")[0], 2002);
    first.set_state({{"sum_state_in", any_tensor(numbers{-5}, {1})}});
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { first.output<float>("y"); }), HasSubstr("before the first step"));
    add(first, 1);
    EXPECT_EQ(sum_of(first), 5);
    first.reset();
    add(first, 1);
    EXPECT_EQ(sum_of(first), 10);
    EXPECT_EQ(sum_of(second), 1001);
    EXPECT_GE(first.memory_bytes(), 3 * sizeof(float));
}

TEST_F(sessions, take_sequences_of_other_batches_after_a_reset) {
    session s(make(running_sum()));
    s.step({{std::vector<std::int64_t>{0, 1, 2}, {3}}});
    EXPECT_THAT(s.output<float>("y"), ElementsAre(2, 20, 200));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { add(s, 0); }), HasSubstr("'n'"));
    EXPECT_THAT(s.state().at("sum_state_in").values<float>(), ElementsAre(1, 10, 100));
    s.reset();
    add(s, 0);
    EXPECT_EQ(sum_of(s), 1);
}

TEST_F(sessions, keep_their_state_where_a_step_fails) {
    const network made = make(running_sum());
    session s(made);
    EXPECT_THAT(refusal(errc::out_of_range, [&] { add(s, 4); }), HasSubstr("index 4"));
    EXPECT_THROW(static_cast<void>(s.state()), error);  // as before: the shape is not known
    float expected = 0;
    for (int i = 0; i < 8; ++i) {
        add(s, 1);
        expected += 10;
        EXPECT_THAT(refusal(errc::out_of_range, [&] { add(s, 4); }), HasSubstr("index 4"));
        EXPECT_EQ(sum_of(s), expected);
    }
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { s.step({}); }), HasSubstr("a step takes 1 inputs ('place')"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { s.step({{numbers{1}, {1}}}); }),
                HasSubstr("input 'place' is i64, and is given f32"));
    EXPECT_EQ(sum_of(s), expected);
}

TEST_F(sessions, refuse_states_that_are_not_theirs) {
    session s(make(recurrent_model("LSTM")));
    const any_tensor right(numbers(4), {1, 1, 4});
    const auto refused = [&](errc code, const session_state& state) {
        return refusal(code, [&] { s.set_state(state); });
    };
    EXPECT_THAT(refused(errc::invalid_argument, {{"h0", right}}), HasSubstr("the state lacks 'c0'"));
    EXPECT_THAT(refused(errc::invalid_argument, {{"h0", right}, {"c0", right}, {"c1", right}}),
                HasSubstr("no state 'c1'"));
    EXPECT_THAT(refused(errc::shape_mismatch, {{"h0", right}, {"c0", any_tensor(numbers(5), {1, 1, 5})}}),
                HasSubstr("'c0' is f32 [1, batch, 4], and is given the shape [1, 1, 5]"));
    EXPECT_THAT(refused(errc::shape_mismatch, {{"h0", right}, {"c0", any_tensor(std::vector<double>(4), {1, 1, 4})}}),
                HasSubstr("f64"));
    EXPECT_THAT(refused(errc::invalid_argument, {{"h0", right}, {"c0", any_tensor()}}),
                HasSubstr("not in host memory"));
    s.set_state({{"h0", right}, {"c0", right}});
}

TEST_F(sessions, refuse_a_second_thread) {
    session s(make(running_sum()));
    const detail::session_core::entry first(s.inside());
    const std::vector<std::function<void()>> calls{[&] { add(s, 0); }, [&] { s.reset(); },
                                                   [&] { static_cast<void>(s.state()); }, [&] { s.set_state({}); }};
    for (const auto& call : calls)
        EXPECT_THAT(refusal(errc::invalid_argument, call), HasSubstr("another thread is in this session"));
}

TEST_F(sessions, end_when_they_are_moved_from) {
    session s(make(running_sum()));
    add(s, 1);
    session other = std::move(s);
    add(other, 1);
    EXPECT_EQ(sum_of(other), 20);
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { add(s, 1); }), HasSubstr("the session has ended"));
    EXPECT_THROW(s.reset(), error);
    EXPECT_THROW(static_cast<void>(s.state()), error);
}

namespace {

// y has `length` numbers, all of them the sum of the lengths so far; next = length + 1.
model of_lengths() {
    model made = memory_model(
        "lengths.onnx", {{"length", io::dtype::i64, {{of(1)}}}, f32("sum_in", {of(1)})},
        {f32("y", {named("n")}), f32("sum_out", {of(1)}), {"next", io::dtype::i64, {{of(1)}}}},
        {make_node("Cast", {"length"}, {"added"}), make_node("Add", {"sum_in", "added"}, {"sum_out"}),
         make_node("Expand", {"sum_out", "length"}, {"y"}), make_node("Add", {"length", "one"}, {"next"})});
    made.body.nodes[0].attributes = {{"to", std::int64_t{1}}};
    made.body.constants = {{"one", tensor_of<std::int64_t>({1}, {1})}};
    return made;
}

}  // namespace

TEST_F(sessions, may_have_numbers_that_decide_about_shapes) {
    session s(make(of_lengths()), {.pairs = {{"sum_out", "sum_in"}}});
    float sum = 0;
    for (const std::int64_t length : {2, 2, 2, 3, 3, 2, 2, 5, 1, 1, 1}) {
        s.step({{std::vector<std::int64_t>{length}, {1}}});
        sum += static_cast<float>(length);
        EXPECT_THAT(s.output<float>("y"), AllOf(::testing::SizeIs(length), Each(sum)));
    }
}

// The input of a step is in the memory that the step writes.
TEST_F(sessions, may_take_an_output_of_the_step_before) {
    session s(make(of_lengths()), {.pairs = {{"sum_out", "sum_in"}}});
    s.step({{std::vector<std::int64_t>{1}, {1}}});
    float sum = 1;
    for (std::size_t length = 2; length < 9; ++length) {
        s.step({s.output(2)});
        sum += static_cast<float>(length);
        EXPECT_THAT(s.output<float>("y"), AllOf(::testing::SizeIs(length), Each(sum)));
    }
}

TEST_F(sessions, refuse_wrong_pairs_and_shapes) {
    const network made = make(recurrent_model("LSTM"));
    const auto refused = [&](errc code, session_options options) {
        return refusal(code, [&] { session(made, std::move(options)); });
    };
    EXPECT_THAT(refused(errc::invalid_argument, {.pairs = {{"hn", "h1"}}}), HasSubstr("no input 'h1'; is 'h0' meant?"));
    EXPECT_THAT(refused(errc::invalid_argument, {.pairs = {{"h0", "h0"}}}), HasSubstr("no output 'h0'"));
    EXPECT_THAT(refused(errc::invalid_argument, {.pairs = {{"hn", "h0"}, {"cn", "h0"}}}), HasSubstr("in two pairs"));
    EXPECT_THAT(refused(errc::invalid_argument, {.pairs = {{"hn", "h0"}, {"hn", "c0"}}}), HasSubstr("in two pairs"));
    EXPECT_THAT(refused(errc::shape_mismatch, {.pairs = {{"y", "h0"}}}), HasSubstr("cannot be the next input 'h0'"));
    EXPECT_THAT(refused(errc::shape_mismatch, {.shapes = {{"h0", {1, 1, 5}}}}), HasSubstr("[1, 1, 5]"));
    EXPECT_THAT(refused(errc::invalid_argument, {.shapes = {{"z", {1}}}}), HasSubstr("no input 'z'"));
    session crossed(made, {.pairs = {{"hn", "c0"}, {"cn", "h0"}}});  // what is said is done
    EXPECT_THAT(crossed.pairs(), ElementsAre(state_pair{"cn", "h0"}, state_pair{"hn", "c0"}));
}

TEST_F(sessions, give_inputs_that_are_no_state_to_each_step) {
    session s(make(recurrent_model("LSTM")), {.pairs = {{"hn", "h0"}}});
    EXPECT_EQ(s.inputs().size(), 2U);
    const numbers x(3), c(4);
    s.step({{x, {1, 1, 3}}, {c, {1, 1, 4}}});
    EXPECT_EQ(s.output<float>("cn").size(), 4U);
}

TEST_F(sessions, of_one_network_are_stepped_by_threads_at_the_same_time) {
    const network made = make(recurrent_model("GRU"));
    const numbers x = some_numbers(60, 11);
    const auto last = [&](const numbers& of) {
        session s(made);
        for (int round = 0; round < 10; ++round) {
            s.reset();
            for (std::size_t t = 0; t < 20; ++t) s.step({{std::span(of).subspan(3 * t, 3), {1, 1, 3}}});
        }
        const std::span<const float> y = s.output<float>("y");
        return numbers(y.begin(), y.end());
    };
    std::vector<numbers> given(4), expected(4), found(4);
    for (std::size_t i = 0; i < 4; ++i) {
        given[i] = some_numbers(60, static_cast<unsigned>(20 + i));
        expected[i] = last(given[i]);
    }
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < 4; ++i) threads.emplace_back([&, i] { found[i] = last(given[i]); });
    }
    EXPECT_EQ(found, expected);
}

// The simulator's device does not share the host's memory, as a GPU: the state stays there.
TEST_F(sessions, keep_their_state_on_a_device_with_memory_of_its_own) {
    sim::simulator simulated;
    single_stream on(simulated.device());
    const network made = sync(make_network(recurrent_model("LSTM")), on);
    const network here = make(recurrent_model("LSTM"));
    session there(made), s(here);
    const numbers x = some_numbers(30, 2);
    for (int round = 0; round < 2; ++round) {
        for (std::size_t t = 0; t < 10; ++t) {
            const input_view one(std::span<const float>(x).subspan(3 * t, 3), {1, 1, 3});
            there.step({one});
            s.step({one});
            EXPECT_THAT(there.output<float>("y"), Pointwise(FloatNear(1e-5f), s.output<float>("y")));
        }
        EXPECT_THAT(refusal(errc::unsupported, [&] { there.output<float>("hn"); }), HasSubstr("state() brings it"));
        EXPECT_THAT(there.state().at("c0").values<float>(),
                    Pointwise(FloatNear(1e-5f), s.state().at("c0").values<float>()));
        there.reset();
        s.reset();
    }
    there.step({{std::span(x).first(3), {1, 1, 3}}});
    s.set_state(there.state());
    there.set_state(s.state());
    EXPECT_THROW(there.step({{numbers(4), {1, 1, 4}}}), error);
    EXPECT_THAT(there.state().at("h0").values<float>(), ElementsAreArray(s.state().at("h0").values<float>()));
    EXPECT_TRUE(simulated.findings().empty());
}

TEST_F(sessions, are_refused_once_the_runtime_has_ended) {
    auto other = std::make_unique<runtime>(runtime_options{.cpu_workers = 1, .cuda = false});
    auto on = std::make_unique<single_stream>(other->find("cpu:0"));
    session s(sync(make_network(running_sum()), *on));
    add(s, 1);
    on.reset();
    other.reset();
    EXPECT_THROW(add(s, 1), error);
}

}  // namespace
}  // namespace sluice::nn::session_tests
