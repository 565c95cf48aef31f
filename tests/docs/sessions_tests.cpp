// SPDX-License-Identifier: Apache-2.0
// The code in docs/sessions.md.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iostream>
#include <span>
#include <vector>

#include "sluice/nn/model_builder.hpp"
#include "sluice/nn/session.hpp"
#include "sluice/nn/session_batch.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs::sessions_tests {
namespace {

// A GRU of 8 units over pieces of 16 samples, and how loud the voice is in each: x [pieces, batch, 16].
nn::model listener() {
    nn::model_builder build("voice.onnx");
    const auto numbers = [&](std::vector<std::size_t> shape) {
        std::size_t count = 1;
        for (const std::size_t each : shape) count *= each;
        std::vector<float> made(count);
        for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<float>(i * 37 % 23) / 23 - 0.5f;
        return build.constant(made, std::move(shape));
    };
    const auto x = build.input("x", {"pieces", "batch", 16}), h0 = build.input("h0", {1, "batch", 8});
    const auto layer = build.node_with_outputs(2, "GRU", {x, numbers({1, 24, 16}), numbers({1, 24, 8}), {}, {}, h0},
                                               {{"hidden_size", 8}});
    build.output("loudness", build.sigmoid(build.matmul(layer[0], numbers({8, 1}))));
    build.output("hn", layer[1]);
    return build.finish();
}

class sessions : public testing::Test {
protected:
    std::vector<float> piece_of_sound() {
        std::vector<float> made(16);
        for (float& each : made) each = static_cast<float>(++samples * 29 % 31) / 31 - 0.5f;
        return made;
    }

    std::size_t samples = 0;
    runtime machine{{.cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
    const nn::network voice = sync(nn::make_network(listener()), pool);
};

}  // namespace

TEST_F(sessions, a_session_listens) {
    nn::session s(voice);  // "hn" is the next "h0"
    for (int i = 0; i < 100; ++i) {
        const std::vector<float> sound = piece_of_sound();
        s.step({{sound, {1, 1, 16}}});  // one piece, of one speaker
        const float loudness = s.output<float>("loudness")[0];
        if (loudness > 0.9f) std::cout << "piece " << i << " is loud\n";
    }
    s.reset();  // the next speaker

    EXPECT_THAT(s.pairs(), testing::ElementsAre(nn::state_pair{"hn", "h0"}));
}

TEST_F(sessions, the_state_is_a_value) {
    nn::session s(voice), other(voice, {.pairs = {{"hn", "h0"}}});
    s.step({{piece_of_sound(), {1, 1, 16}}});

    const nn::session_state kept = s.state();  // of each input of the state, a tensor
    const std::span<const float> h = kept.at("h0").values<float>();
    other.set_state(kept);  // continues where s is

    EXPECT_EQ(h.size(), 8U);
    const std::vector<float> next = piece_of_sound();
    s.step({{next, {1, 1, 16}}});
    other.step({{next, {1, 1, 16}}});
    EXPECT_EQ(s.output<float>("loudness")[0], other.output<float>("loudness")[0]);
}

TEST_F(sessions, many_step_together) {
    nn::session first(voice), second(voice), alone(voice);
    const std::vector<float> a = piece_of_sound(), b = piece_of_sound();

    nn::session_batch together(voice);
    const std::array of_first{nn::input_view(a, {1, 1, 16})}, of_second{nn::input_view(b, {1, 1, 16})};
    together.step(std::array{nn::session_step{&first, of_first}, nn::session_step{&second, of_second}});
    const float loudness = second.output<float>("loudness")[0];

    alone.step({{b, {1, 1, 16}}});
    EXPECT_NEAR(loudness, alone.output<float>("loudness")[0], 1e-6f);
}

}  // namespace sluice::docs::sessions_tests
