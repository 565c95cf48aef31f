// SPDX-License-Identifier: Apache-2.0
// DynamicQuantizeLSTM on a CPU, over shapes, attributes and extremes at random: what it gives with constant weights, in
// one command, and with weights that are inputs, in kernels for each step, is what its formula gives, number by number.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/operator_families.hpp"

namespace sluice::nn::dynamic_lstm_tests {
namespace {

using namespace test_support;

struct integers_of_8_bits {
    float scale = 1;
    int zero = 0;

    // Of the smallest and the largest of some numbers and 0.
    integers_of_8_bits(float low, float high) {
        if ((high - low) / 255 > 0) scale = (high - low) / 255;
        zero = static_cast<int>(std::rint(std::clamp(-low / scale, 0.0f, 255.0f)));
    }
    int operator()(float x) const { return std::clamp(static_cast<int>(std::rint(x / scale)) + zero, 0, 255) - zero; }
};

// A node, and what it is given. Weights are [directions, inner, 4 * hidden]; what may be left out is empty then.
struct lstm_case {
    std::size_t steps, batch, inputs, hidden;
    std::string direction;
    std::vector<float> x, bias, h, c, peepholes;
    std::vector<std::int32_t> lengths_of;
    std::array<std::vector<int>, 2> weights, zeros;  // of inputs, of the state
    std::array<std::vector<float>, 2> scales;
    bool is_signed, is_coupled;
    float clip;

    std::size_t directions() const { return direction == "bidirectional" ? 2 : 1; }
    std::size_t columns() const { return 4 * hidden; }
};

struct lstm_outputs {
    std::vector<float> y, h, c;
};

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// One direction, by the formula.
class reference {
public:
    reference(const lstm_case& of, std::size_t direction, lstm_outputs& to)
        : of_(of), d_(direction), to_(to), h_(of.batch * of.hidden), c_(h_) {
        const std::size_t first = d_ * h_.size();
        for (std::size_t i = 0; i < h_.size(); ++i) {
            if (!of.h.empty()) h_[i] = of.h[first + i];
            if (!of.c.empty()) c_[i] = of.c[first + i];
        }
    }

    void run() {
        std::size_t longest = of_.lengths_of.empty() ? of_.steps : 0;
        for (const std::int32_t each : of_.lengths_of) longest = std::max(longest, static_cast<std::size_t>(each));
        float low = 0, high = 0;
        for (std::size_t i = 0; i < longest * of_.batch * of_.inputs; ++i) {
            low = std::min(low, of_.x[i]);
            high = std::max(high, of_.x[i]);
        }
        const integers_of_8_bits of_x(low, high);
        for (std::size_t t = 0; t < of_.steps; ++t) step(t, of_x);
        for (std::size_t i = 0; i < h_.size(); ++i) {
            to_.h[d_ * h_.size() + i] = h_[i];
            to_.c[d_ * h_.size() + i] = c_[i];
        }
    }

private:
    std::size_t length(std::size_t sequence) const {
        return of_.lengths_of.empty() ? of_.steps : static_cast<std::size_t>(of_.lengths_of[sequence]);
    }
    // A row of integers times a column of weights.
    float product(const float* row, const integers_of_8_bits& by, std::size_t which, std::size_t column) const {
        const std::size_t inner = which == 0 ? of_.inputs : of_.hidden, columns = of_.columns();
        const auto of_column = [&](const auto& from) {
            return from.size() == of_.directions() ? from[d_] : from[d_ * columns + column];
        };
        int sum = 0;
        for (std::size_t k = 0; k < inner; ++k) {
            sum += by(row[k]) * (of_.weights[which][(d_ * inner + k) * columns + column] - of_column(of_.zeros[which]));
        }
        return static_cast<float>(sum) * (by.scale * of_column(of_.scales[which]));
    }

    void step(std::size_t t, const integers_of_8_bits& of_x) {
        float low = 0, high = 0;
        for (std::size_t s = 0; s < of_.batch; ++s) {
            if (t > length(s)) continue;
            for (std::size_t u = 0; u < of_.hidden; ++u) {
                low = std::min(low, h_[s * of_.hidden + u]);
                high = std::max(high, h_[s * of_.hidden + u]);
            }
        }
        const integers_of_8_bits of_h(low, high);
        const std::vector<float> before = h_;
        for (std::size_t s = 0; s < of_.batch; ++s) {
            const bool is_over = t >= length(s), is_reversed = d_ == 1 || of_.direction == "reverse";
            const std::size_t position = !is_over && is_reversed ? length(s) - 1 - t : t;
            for (std::size_t u = 0; u < of_.hidden; ++u) {
                if (length(s) == 0) h_[s * of_.hidden + u] = c_[s * of_.hidden + u] = 0;
                float& y = to_.y[((position * of_.directions() + d_) * of_.batch + s) * of_.hidden + u];
                if (is_over) {
                    y = 0;
                } else {
                    y = h_[s * of_.hidden + u] = unit(of_.x.data() + (position * of_.batch + s) * of_.inputs, of_x,
                                                      before.data() + s * of_.hidden, of_h, c_[s * of_.hidden + u], u);
                }
            }
        }
    }

    float unit(const float* x, const integers_of_8_bits& of_x, const float* h, const integers_of_8_bits& of_h, float& c,
               std::size_t u) const {
        const auto argument = [&](std::size_t gate, float cell) {
            const std::size_t column = gate * of_.hidden + u, biases = d_ * 2 * of_.columns();
            float sum = product(x, of_x, 0, column) + product(h, of_h, 1, column);
            if (!of_.bias.empty()) sum += of_.bias[biases + column] + of_.bias[biases + of_.columns() + column];
            if (!of_.peepholes.empty() && gate < 3) sum += of_.peepholes[d_ * 3 * of_.hidden + column] * cell;
            return of_.clip > 0 ? std::clamp(sum, -of_.clip, of_.clip) : sum;
        };
        const float input = sigmoid(argument(0, c));
        const float forget = of_.is_coupled ? 1 - input : sigmoid(argument(2, c));
        c = forget * c + input * std::tanh(argument(3, 0));
        return sigmoid(argument(1, c)) * std::tanh(c);
    }

    const lstm_case& of_;
    const std::size_t d_;
    lstm_outputs& to_;
    std::vector<float> h_, c_;
};

lstm_outputs expected_of(const lstm_case& of) {
    const std::size_t state = of.directions() * of.batch * of.hidden;
    lstm_outputs made{std::vector<float>(of.steps * state), std::vector<float>(state), std::vector<float>(state)};
    for (std::size_t d = 0; d < of.directions(); ++d) reference(of, d, made).run();
    return made;
}

// Of one number for each direction, [directions]; else for each column.
lengths shape_of(const lstm_case& of, std::size_t count) {
    return count == of.directions() ? lengths{count} : lengths{of.directions(), of.columns()};
}

any_tensor bytes_of(const std::vector<int>& from, lengths shape, bool is_signed) {
    if (is_signed) return any_tensor(std::vector<std::int8_t>(from.begin(), from.end()), std::move(shape));
    return any_tensor(std::vector<std::uint8_t>(from.begin(), from.end()), std::move(shape));
}

single_node node_of(const lstm_case& of) {
    const std::size_t d = of.directions();
    const auto perhaps = [](const auto& from, lengths shape) {
        return from.empty() ? any_tensor() : any_tensor(from, std::move(shape));
    };
    const lengths state{d, of.batch, of.hidden};
    single_node made{.op = "DynamicQuantizeLSTM",
                     .inputs = {any_tensor(of.x, {of.steps, of.batch, of.inputs}),
                                bytes_of(of.weights[0], {d, of.inputs, of.columns()}, of.is_signed),
                                bytes_of(of.weights[1], {d, of.hidden, of.columns()}, of.is_signed),
                                perhaps(of.bias, {d, 2 * of.columns()}), perhaps(of.lengths_of, {of.batch}),
                                perhaps(of.h, state), perhaps(of.c, state), perhaps(of.peepholes, {d, 3 * of.hidden})},
                     .with = {{"hidden_size", whole(static_cast<std::int64_t>(of.hidden))},
                              {"direction", text(of.direction)},
                              {"input_forget", whole(of.is_coupled ? 1 : 0)}},
                     .domain = "com.microsoft",
                     .outputs = 3};
    for (std::size_t i = 0; i < 2; ++i) {
        made.inputs.push_back(any_tensor(of.scales[i], shape_of(of, of.scales[i].size())));
        made.inputs.push_back(bytes_of(of.zeros[i], shape_of(of, of.zeros[i].size()), of.is_signed));
    }
    if (of.clip > 0) made.with["clip"] = of.clip;
    return made;
}

class dynamic_lstm : public operator_families {
protected:
    std::vector<float> numbers(std::size_t count, float scale) {
        std::normal_distribution<float> one(0, scale);
        std::vector<float> made(count);
        for (float& each : made) each = one(numbers_);
        return made;
    }
    std::vector<float> perhaps(std::size_t count, float scale) {
        return maybe() ? numbers(count, scale) : std::vector<float>();
    }
    int integer(int low, int high) { return low + static_cast<int>(any(0, static_cast<std::size_t>(high - low))); }

    lstm_case any_case() {
        static constexpr std::array<const char*, 3> ways = {"forward", "reverse", "bidirectional"};
        constexpr std::array<std::size_t, 8> odd = {1, 2, 3, 7, 16, 17, 33, 70};
        lstm_case made{};
        made.steps = any(1, 8);
        made.batch = maybe() ? any(1, 3) : any(1, 60);
        made.inputs = maybe() ? any(1, 5) : any(5, 40);
        made.hidden = odd[any(0, odd.size() - 1)];
        made.direction = ways[any(0, 2)];
        made.is_signed = maybe();
        made.is_coupled = any(0, 3) == 0;
        made.clip = any(0, 3) == 0 ? 0.7f : 0;
        const std::size_t d = made.directions(), state = d * made.batch * made.hidden;
        made.x = numbers(made.steps * made.batch * made.inputs, 1);
        if (any(0, 3) == 0)
            for (float& each : made.x) each = std::fabs(each);
        if (any(0, 9) == 0) std::ranges::fill(made.x, 0.0f);
        made.bias = perhaps(d * 2 * made.columns(), 0.3f);
        made.h = perhaps(state, 0.6f);
        made.c = perhaps(state, 0.6f);
        made.peepholes = perhaps(d * 3 * made.hidden, 0.3f);
        if (maybe()) {
            made.lengths_of.resize(made.batch);
            for (std::int32_t& each : made.lengths_of) each = static_cast<std::int32_t>(any(0, made.steps));
        }
        fill_weights(made);
        return made;
    }

private:
    // With all integers that there are. The zero points may take them out of signed bytes.
    void fill_weights(lstm_case& to) {
        const bool has_columns = maybe();
        for (std::size_t i = 0; i < 2; ++i) {
            const std::size_t inner = i == 0 ? to.inputs : to.hidden;
            const std::size_t count = has_columns ? to.directions() * to.columns() : to.directions();
            const int low = to.is_signed ? -128 : 0, zero = (to.is_signed ? 0 : 128) + (maybe() ? 0 : integer(-20, 20));
            to.weights[i].resize(to.directions() * inner * to.columns());
            for (int& each : to.weights[i]) each = any(0, 9) == 0 ? low + 255 * integer(0, 1) : integer(low, low + 255);
            to.scales[i] = numbers(count, 0);
            for (float& each : to.scales[i])
                each = static_cast<float>(any(50, 150)) * 5e-5f / std::sqrt(static_cast<float>(inner));
            to.zeros[i].assign(count, zero);
        }
    }
};

// A number may be rounded to the integer next to it, which moves the sums of what follows: few do.
void expect_alike(const any_tensor& made, const std::vector<float>& expected, std::size_t& different) {
    ASSERT_EQ(made.elements(), expected.size());
    const auto numbers = made.values<float>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(numbers[i], expected[i], 1e-2f) << "element " << i;
        different += std::fabs(numbers[i] - expected[i]) > 5e-6f;
    }
}

// These inputs are constants: of weights a pass makes one image.
model with_constants(const single_node& what, const std::vector<std::size_t>& which) {
    model made = model_of(what);
    made.opsets["com.microsoft"] = 1;
    for (const std::size_t i : which) {
        if (!what.inputs[i]) continue;
        const std::string name = "x" + std::to_string(i);
        std::erase_if(made.body.inputs, [&](const value_info& each) { return each.name == name; });
        const auto bytes = what.inputs[i].bytes();
        made.body.constants[name] = {
            what.inputs[i].type(), what.inputs[i].shape(),
            std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
    }
    return made;
}

std::vector<any_tensor> run_with_constants(const single_node& what, const std::vector<std::size_t>& which,
                                           scheduling_policy& on) {
    std::vector<any_tensor> inputs;
    for (std::size_t i = 0; i < what.inputs.size(); ++i)
        if (what.inputs[i] && std::ranges::find(which, i) == which.end()) inputs.push_back(what.inputs[i]);
    const network made = sync(make_network(with_constants(what, which)), on);
    return sync(made.run(std::move(inputs)), on);
}

TEST_P(dynamic_lstm, gives_what_its_formula_gives) {
    std::size_t different = 0, all = 0;
    for (int round = 0; round < 100; ++round) {
        const lstm_case of = any_case();
        SCOPED_TRACE("round " + std::to_string(round) + ": " + of.direction + ", " + std::to_string(of.steps) +
                     " steps, " + std::to_string(of.batch) + " sequences, " + std::to_string(of.inputs) + " inputs, " +
                     std::to_string(of.hidden) + " units");
        const lstm_outputs expected = expected_of(of);
        const single_node node = node_of(of);
        const std::vector<std::size_t> weights = {1, 2, 3, 7, 8, 9, 10, 11};
        for (const auto& constants : {weights, std::vector<std::size_t>()}) {
            const auto made = run_with_constants(node, constants, on_);
            expect_alike(made.at(0), expected.y, different);
            expect_alike(made.at(1), expected.h, different);
            expect_alike(made.at(2), expected.c, different);
            if (HasFatalFailure()) return;
        }
        all += 2 * (expected.y.size() + expected.h.size() + expected.c.size());
    }
    EXPECT_LT(different, all / 20);
}

// As it is on a CPU, bit by bit, with every number of workers.
TEST_P(dynamic_lstm, has_the_same_bits_with_other_workers) {
    runtime alone{runtime_options{.cpu_devices = 1, .cpu_workers = 1, .cuda = false}};
    single_stream on(alone.find("cpu:0"));
    lstm_case of = any_case();
    // Enough work of one direction for several workers.
    while (of.directions() != 1 || of.batch * of.hidden * of.hidden < std::size_t{1} << 18) of = any_case();
    const single_node node = node_of(of);
    const std::vector<std::size_t> weights = {1, 2, 3, 7, 8, 9, 10, 11};
    const auto one = run_with_constants(node, weights, on), other = run_with_constants(node, weights, on_);
    for (std::size_t i = 0; i < one.size(); ++i) {
        ASSERT_TRUE(std::ranges::equal(one[i].bytes(), other[i].bytes())) << "output " << i;
    }
}

// An input that is no number makes every output NaN: all have one scale.
TEST_P(dynamic_lstm, has_no_number_where_an_input_is_none) {
    lstm_case of = any_case();
    while (of.batch * of.inputs < 4 || !of.lengths_of.empty()) of = any_case();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const float none : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
        of.x[3] = none;
        const single_node node = node_of(of);
        for (const auto& constants : {std::vector<std::size_t>{1, 2, 3, 7, 8, 9, 10, 11}, std::vector<std::size_t>()}) {
            for (const any_tensor& each : run_with_constants(node, constants, on_))
                for (const float number : each.values<float>()) ASSERT_TRUE(std::isnan(number)) << none;
        }
    }
}

TEST(dynamic_lstm_refusals, name_what_does_not_fit) {
    const any_tensor x = ones({2, 1, 3}), scale(std::vector<float>{0.1f}, {1}), zero(std::vector<std::int8_t>{0}, {1}),
                     w(std::vector<std::int8_t>(24), {1, 3, 8}), r(std::vector<std::int8_t>(16), {1, 2, 8});
    const auto refusal = [&](std::vector<any_tensor> inputs) {
        runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
        single_stream on(machine.find("cpu:0"));
        try {
            static_cast<void>(run_with_constants(
                {.op = "DynamicQuantizeLSTM", .inputs = std::move(inputs), .domain = "com.microsoft", .outputs = 3}, {},
                on));
            return std::string();
        } catch (const error& failure) {
            return std::string(failure.what());
        }
    };
    EXPECT_EQ(refusal({x, w, r, {}, {}, {}, {}, {}, scale, zero, scale, zero}), "");
    EXPECT_THAT(refusal({x, r, r, {}, {}, {}, {}, {}, scale, zero, scale, zero}), ::testing::HasSubstr("have to be"));
    EXPECT_THAT(refusal({x, w, r, {}, {}, {}, {}, {}, list<float>({1, 2, 3}), zero, scale, zero}),
                ::testing::HasSubstr("its scale and zero point"));
    EXPECT_THAT(refusal({x, w, r, {}, {}, {}, {}, {}, scale, list<std::uint8_t>({0}), scale, zero}),
                ::testing::HasSubstr("another type than its weights"));
}

INSTANTIATE_TEST_SUITE_P(on_a_cpu, dynamic_lstm, ::testing::Values(1, 3));

}  // namespace
}  // namespace sluice::nn::dynamic_lstm_tests
