// SPDX-License-Identifier: Apache-2.0
// Recurrent layers of all kinds with random numbers, as nodes of every element type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/support/single_nodes.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::test_support {

struct recurrent_case {
    std::string op = "LSTM";
    std::size_t steps = 3, batch = 2, hidden = 5, inputs = 3;
    std::string direction = "forward";
    std::int64_t layout = 0;
    bool has_bias = true, has_lengths = false, has_h = false, has_c = false, has_peepholes = false;
    bool is_coupled = false, is_linear = false;  // input_forget, linear_before_reset
    float clip = 0;
    std::vector<std::string> activations = {};  // empty: the usual ones
    std::size_t outputs = 3;                    // an LSTM has one more than the others
    unsigned seed = 1;

    std::size_t gates() const { return op == "RNN" ? 1 : op == "GRU" ? 3 : 4; }
    std::size_t directions() const { return direction == "bidirectional" ? 2 : 1; }
    std::size_t most_outputs() const { return op == "LSTM" ? outputs : std::min<std::size_t>(outputs, 2); }
    std::vector<std::size_t> state_shape() const {
        return layout == 1 ? std::vector{batch, directions(), hidden} : std::vector{directions(), batch, hidden};
    }
};

inline std::ostream& operator<<(std::ostream& to, const recurrent_case& of) {
    to << of.op << ", " << of.steps << " steps, batch " << of.batch << ", " << of.inputs << " to " << of.hidden << ", "
       << of.direction << ", layout " << of.layout << (of.has_bias ? ", bias" : "")
       << (of.has_lengths ? ", lengths" : "") << (of.has_h ? ", h" : "") << (of.has_c ? ", c" : "")
       << (of.has_peepholes ? ", peepholes" : "") << (of.is_coupled ? ", input_forget" : "")
       << (of.is_linear ? ", linear_before_reset" : "") << ", clip " << of.clip;
    for (const std::string& each : of.activations) to << ", " << each;
    return to << ", " << of.outputs << " outputs, seed " << of.seed;
}

template <typename T>
double recurrent_double(T x) {
    if constexpr (std::is_same_v<T, double>) {
        return x;
    } else {
        return static_cast<double>(static_cast<float>(x));
    }
}

// The numbers of a layer.
template <typename T>
struct recurrent_data {
    std::vector<T> x, w, r, b, h, c, p;
    std::vector<std::int32_t> lengths;

    // The same numbers.
    recurrent_data<double> widened() const {
        const auto wide = [](const std::vector<T>& from) {
            std::vector<double> made;
            for (const T each : from) made.push_back(recurrent_double(each));
            return made;
        };
        return {wide(x), wide(w), wide(r), wide(b), wide(h), wide(c), wide(p), lengths};
    }
};

// Products with the inputs are exact in f32, so that they do not depend on the order in which they are added.
template <typename T>
recurrent_data<T> recurrent_numbers(const recurrent_case& of) {
    std::minstd_rand random(of.seed);
    random.discard(10);
    const auto some = [&](std::size_t count, float most, float unit) {
        std::uniform_real_distribution<float> any(-most, most);
        std::vector<T> made;
        for (std::size_t i = 0; i < count; ++i) {
            const float one = any(random);
            made.push_back(T(unit > 0 ? std::round(one / unit) * unit : one));
        }
        return made;
    };
    const std::size_t units = of.directions() * of.hidden, gates = of.gates();
    recurrent_data<T> made;
    made.x = some(of.steps * of.batch * of.inputs, 2, 0.25f);
    made.w = some(units * gates * of.inputs, 1, 0.125f);
    made.r = some(units * gates * of.hidden, 1.5f / std::sqrt(static_cast<float>(of.hidden)), 0);
    if (of.has_bias) made.b = some(units * gates * 2, 0.5f, 0);
    if (of.has_h) made.h = some(units * of.batch, 1, 0);
    if (of.has_c) made.c = some(units * of.batch, 1, 0);
    if (of.has_peepholes) made.p = some(units * 3, 0.5f, 0);
    if (of.has_lengths) {
        std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(of.steps));
        for (std::size_t i = 0; i < of.batch; ++i) made.lengths.push_back(any(random));
    }
    return made;
}

template <typename T>
single_node recurrent_node_of(const recurrent_case& of, const recurrent_data<T>& data) {
    const std::size_t d = of.directions(), n = of.gates(), h = of.hidden;
    single_node made{.op = of.op, .inputs = {}, .with = {}, .opset = 14, .outputs = of.most_outputs()};
    const auto add = [&](const std::vector<T>& numbers, std::vector<std::size_t> shape, bool is_there) {
        made.inputs.push_back(is_there ? any_tensor(numbers, std::move(shape)) : any_tensor());
    };
    add(data.x,
        of.layout == 1 ? std::vector{of.batch, of.steps, of.inputs} : std::vector{of.steps, of.batch, of.inputs}, true);
    add(data.w, {d, n * h, of.inputs}, true);
    add(data.r, {d, n * h, h}, true);
    add(data.b, {d, 2 * n * h}, of.has_bias);
    made.inputs.push_back(of.has_lengths ? list<std::int32_t>(data.lengths) : any_tensor());
    add(data.h, of.state_shape(), of.has_h);
    if (of.op == "LSTM") {
        add(data.c, of.state_shape(), of.has_c);
        add(data.p, {d, 3 * h}, of.has_peepholes);
    }
    made.with = {{"hidden_size", whole(static_cast<std::int64_t>(h))},
                 {"direction", text(of.direction)},
                 {"layout", whole(of.layout)}};
    if (of.clip > 0) made.with.emplace("clip", of.clip);
    if (of.is_coupled) made.with.emplace("input_forget", whole(1));
    if (of.is_linear) made.with.emplace("linear_before_reset", whole(1));
    if (!of.activations.empty()) {
        std::vector<std::string> all;
        for (std::size_t i = 0; i < d; ++i) all.insert(all.end(), of.activations.begin(), of.activations.end());
        const std::vector<float> halves(all.size(), 0.5f);
        made.with.emplace("activations", texts(all));
        made.with.emplace("activation_alpha", reals(halves));
        made.with.emplace("activation_beta", reals(halves));
    }
    return made;
}

// A case with this seed: attributes, optional inputs, sizes up to these.
inline recurrent_case random_recurrent_case(unsigned seed, std::size_t most_hidden, std::size_t most_batch) {
    std::minstd_rand random(seed * 7919 + 1);
    random.discard(10);
    const auto below = [&](std::size_t count) {
        return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
    };
    const auto coin = [&] { return below(2) == 1; };
    recurrent_case made;
    made.op = std::vector<std::string>{"RNN", "GRU", "LSTM"}[below(3)];
    made.steps = 1 + below(6);
    made.batch = 1 + below(most_batch);
    made.hidden = 1 + below(most_hidden);
    made.inputs = 1 + below(6);
    made.direction = std::vector<std::string>{"forward", "reverse", "bidirectional"}[below(3)];
    made.layout = static_cast<std::int64_t>(below(2));
    made.has_bias = coin();
    made.has_lengths = coin();
    made.has_h = coin();
    const bool is_lstm = made.op == "LSTM";
    made.has_c = is_lstm && coin();
    made.has_peepholes = is_lstm && coin();
    made.is_coupled = is_lstm && coin();
    made.is_linear = made.op == "GRU" && coin();
    made.clip = coin() ? 0.75f : 0;
    made.outputs = 1 + below(3);
    // All that are continuous.
    static const std::vector<std::string> curves = {"Sigmoid",    "Tanh",        "Relu", "Affine",   "LeakyRelu",
                                                    "ScaledTanh", "HardSigmoid", "Elu",  "Softsign", "Softplus"};
    if (coin()) {
        const std::size_t count = made.op == "RNN" ? 1 : made.op == "GRU" ? 2 : 3;
        for (std::size_t i = 0; i < count; ++i) made.activations.push_back(curves[below(curves.size())]);
        made.clip = 0.75f;  // some have no bound of their own
        made.steps = std::min<std::size_t>(made.steps, 4);
    }
    made.seed = seed;
    return made;
}

}  // namespace sluice::nn::test_support
