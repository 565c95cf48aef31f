// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM of f32 on a CPU, over shapes, attributes and special values at random: what they give is what the
// same node gives in f64, which is computed element by element; and the same bits in every batch, with every number of
// workers, and with weights that are constant or not.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/operator_families.hpp"

namespace sluice::nn::recurrent_families_tests {
namespace {

using namespace test_support;

struct recurrent_shape {
    std::string op;
    std::size_t steps, batch, inputs, hidden;
    bool both_ways = false;

    std::size_t directions() const { return both_ways ? 2 : 1; }
    std::size_t gates() const { return op == "RNN" ? 1 : op == "GRU" ? 3 : 4; }
    // Of the activations of one direction.
    std::size_t activations() const { return op == "RNN" ? 1 : op == "GRU" ? 2 : 3; }
};

class recurrent_families : public operator_families {
protected:
    any_tensor scaled(lengths shape, float scale) {
        std::normal_distribution<float> one(0, scale);
        std::vector<float> made(product(shape));
        for (float& each : made) each = one(numbers_);
        return any_tensor(made, std::move(shape));
    }

    // X, W, R: states neither vanish nor grow.
    single_node node_of(const recurrent_shape& of, bool is_batch_first = false) {
        const std::size_t d = of.directions(), rows = of.gates() * of.hidden;
        const auto for_sums_of = [](std::size_t count) { return 0.8f / std::sqrt(static_cast<float>(count)); };
        single_node made{.op = of.op,
                         .inputs = {normal(is_batch_first ? lengths{of.batch, of.steps, of.inputs}
                                                          : lengths{of.steps, of.batch, of.inputs}),
                                    scaled({d, rows, of.inputs}, for_sums_of(of.inputs)),
                                    scaled({d, rows, of.hidden}, for_sums_of(of.hidden))},
                         .with = {{"hidden_size", whole(static_cast<std::int64_t>(of.hidden))},
                                  {"layout", whole(is_batch_first ? 1 : 0)},
                                  {"direction", text(of.both_ways ? "bidirectional" : "forward")}},
                         .opset = 14,
                         .outputs = of.op == "LSTM" ? 3u : 2u};
        return made;
    }

    // What may be left out.
    void add_others(single_node& to, const recurrent_shape& of, bool is_batch_first) {
        const std::size_t d = of.directions();
        const lengths state = is_batch_first ? lengths{of.batch, d, of.hidden} : lengths{d, of.batch, of.hidden};
        const auto perhaps = [&](const any_tensor& made) { to.inputs.push_back(maybe() ? made : any_tensor()); };
        perhaps(scaled({d, 2 * of.gates() * of.hidden}, 0.5f));
        std::vector<std::int32_t> each(of.batch);
        for (std::int32_t& one : each) one = static_cast<std::int32_t>(any(0, of.steps));
        perhaps(any_tensor(each, {of.batch}));
        perhaps(normal(state));
        if (of.op != "LSTM") return;
        perhaps(normal(state));
        perhaps(scaled({d, 3 * of.hidden}, 0.5f));
    }

    void add_attributes(single_node& to, const recurrent_shape& of, bool are_usual) {
        if (!of.both_ways && maybe()) to.with["direction"] = text("reverse");
        if (any(0, 3) == 0) to.with["clip"] = 0.7f;
        if (of.op == "GRU" && maybe()) to.with["linear_before_reset"] = whole(1);
        if (of.op == "LSTM" && any(0, 2) == 0) to.with["input_forget"] = whole(1);
        if (are_usual) return;
        static const char* const curves[] = {
            "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
            "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
        std::vector<std::string> names;
        std::vector<float> alphas, betas;
        for (std::size_t i = 0; i < of.directions() * of.activations(); ++i) {
            names.emplace_back(curves[any(0, std::size(curves) - 1)]);
            alphas.push_back(0.3f);
            betas.push_back(0.2f);
        }
        to.with["activations"] = texts(names);
        to.with["activation_alpha"] = reals(alphas);
        to.with["activation_beta"] = reals(betas);
    }

    static constexpr std::array<const char*, 3> all_operators = {"RNN", "GRU", "LSTM"};
};

// The weights are constants of the network.
std::vector<any_tensor> run_with_constant_weights(const single_node& what, scheduling_policy& on) {
    model made = model_of(what);
    std::vector<any_tensor> inputs;
    for (std::size_t i = 0; i < what.inputs.size(); ++i) {
        const any_tensor& input = what.inputs[i];
        if (!input) continue;
        const std::string name = "x" + std::to_string(i);
        if (i != 1 && i != 2 && i != 3 && i != 7) {
            inputs.push_back(input);
            continue;
        }
        std::erase_if(made.body.inputs, [&](const value_info& each) { return each.name == name; });
        const auto bytes = input.bytes();
        made.body.constants[name] = {
            input.type(), input.shape(),
            std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
    }
    const network as_network = sync(make_network(std::move(made)), on);
    return sync(as_network.run(std::move(inputs)), on);
}

void expect_same_bits(const std::vector<any_tensor>& one, const std::vector<any_tensor>& other) {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t k = 0; k < one.size(); ++k) {
        ASSERT_EQ(one[k].shape(), other[k].shape());
        ASSERT_EQ(std::memcmp(one[k].bytes().data(), other[k].bytes().data(), one[k].size_bytes()), 0)
            << "output " << k;
    }
}

TEST_P(recurrent_families, give_what_they_give_in_f64) {
    constexpr std::size_t odd[] = {1, 2, 3, 7, 16, 17, 33, 100};
    for (int round = 0; round < 240; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        // Gates without bounds multiply what they give in each step.
        const bool are_usual = maybe();
        const recurrent_shape of{.op = all_operators[any(0, 2)],
                                 .steps = any(1, are_usual ? 9 : 3),
                                 .batch = maybe() ? any(1, 5) : any(1, 30),
                                 .inputs = maybe() ? any(1, 4) : any(5, 40),
                                 .hidden = odd[any(0, std::size(odd) - 1)],
                                 .both_ways = maybe()};
        const bool is_batch_first = maybe();
        single_node what = node_of(of, is_batch_first);
        add_others(what, of, is_batch_first);
        add_attributes(what, of, are_usual);
        expect_as_in_f64(what, 2e-5, true);
        if (HasFatalFailure()) return;
        expect_same_bits(run_node(what, on_), run_with_constant_weights(what, on_));
        if (HasFatalFailure()) return;
    }
}

// Those whose units workers share in each step, and those whose sequences they share.
TEST_P(recurrent_families, give_what_they_give_in_f64_where_workers_share_them) {
    const recurrent_shape all[] = {{"LSTM", 60, 1, 20, 128},       {"LSTM", 5, 3, 70, 130, true},
                                   {"GRU", 51, 1, 9, 170},         {"GRU", 4, 9, 33, 200, true},
                                   {"RNN", 20, 2, 40, 310},        {"LSTM", 12, 9, 30, 128},
                                   {"LSTM", 4, 64, 30, 100, true}, {"GRU", 9, 70, 17, 65},
                                   {"LSTM", 2, 2, 3, 730},         {"GRU", 3, 50, 3, 430}};
    for (const recurrent_shape& of : all) {
        for (const std::int64_t reset_last : {0, 1}) {
            if (of.op != "GRU" && reset_last != 0) continue;
            SCOPED_TRACE(of.op + " of " + std::to_string(of.hidden) + ", reset last: " + std::to_string(reset_last));
            single_node what = node_of(of);
            add_others(what, of, false);
            if (of.op == "GRU") what.with["linear_before_reset"] = whole(reset_last);
            expect_as_in_f64(what, 2e-5, true);
            if (HasFatalFailure()) return;
            expect_same_bits(run_node(what, on_), run_with_constant_weights(what, on_));
            if (HasFatalFailure()) return;
        }
    }
}

TEST_P(recurrent_families, take_infinite_and_large_numbers_and_those_that_are_none) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float odd[] = {infinity, -infinity, std::nanf(""), 1e30f, -1e30f, 1e-42f};
    for (int round = 0; round < 120; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const recurrent_shape of{.op = all_operators[any(0, 2)],
                                 .steps = any(1, 5),
                                 .batch = any(1, 4),
                                 .inputs = any(1, 9),
                                 .hidden = any(1, 40),
                                 .both_ways = maybe()};
        single_node what = node_of(of);
        add_others(what, of, false);
        if (maybe()) what.with["clip"] = 2.0f;
        // Of the inputs or the weights of the inputs or of the state.
        any_tensor& changed = what.inputs[any(0, 2)];
        const auto values = changed.values<float>();
        std::vector<float> some(values.begin(), values.end());
        some[any(0, some.size() - 1)] = odd[any(0, std::size(odd) - 1)];
        changed = any_tensor(some, changed.shape());
        expect_as_in_f64(what, 2e-5, true);
        if (HasFatalFailure()) return;
    }
}

TEST_P(recurrent_families, give_a_sequence_the_same_bits_in_every_batch_and_with_every_number_of_workers) {
    runtime other(runtime_options{.cpu_devices = 1, .cpu_workers = 4 - GetParam(), .cuda = false});
    single_stream elsewhere(other.find("cpu:0"));
    const recurrent_shape all[] = {{"LSTM", 12, 13, 20, 128},
                                   {"LSTM", 12, 5, 20, 37, true},
                                   {"GRU", 7, 26, 9, 170},
                                   {"RNN", 20, 9, 40, 100, true}};
    for (const recurrent_shape& of : all) {
        SCOPED_TRACE(of.op);
        single_node what = node_of(of);
        const auto joined = run_node(what, on_);
        expect_same_bits(joined, run_node(what, elsewhere));
        if (HasFatalFailure()) return;
        const auto x = what.inputs[0].values<float>();
        for (std::size_t b = 0; b < of.batch; ++b) {
            std::vector<float> alone;
            for (std::size_t t = 0; t < of.steps; ++t) {
                const auto* const from = x.data() + (t * of.batch + b) * of.inputs;
                alone.insert(alone.end(), from, from + of.inputs);
            }
            single_node one = what;
            one.inputs[0] = any_tensor(alone, {of.steps, 1, of.inputs});
            const auto made = run_node(one, on_);
            const std::size_t d = of.directions();
            for (std::size_t k = 0; k < of.steps * d; ++k) {
                ASSERT_EQ(std::memcmp(made[0].values<float>().data() + k * of.hidden,
                                      joined[0].values<float>().data() + (k * of.batch + b) * of.hidden,
                                      of.hidden * sizeof(float)),
                          0)
                    << "sequence " << b << ", step and direction " << k;
            }
        }
    }
}

TEST_P(recurrent_families, give_nothing_where_there_is_nothing) {
    for (const char* const op : all_operators) {
        SCOPED_TRACE(op);
        single_node what = node_of({op, 0, 2, 3, 4});
        what.inputs.resize(5);
        what.inputs.push_back(normal({1, 2, 4}));
        const auto made = run_node(what, on_);
        EXPECT_EQ(made[0].shape(), (lengths{0, 1, 2, 4}));
        EXPECT_TRUE(std::ranges::equal(made[1].values<float>(), what.inputs[5].values<float>()));
        EXPECT_EQ(run_with_constant_weights(node_of({op, 3, 0, 3, 4}), on_)[0].shape(), (lengths{3, 1, 0, 4}));
        EXPECT_EQ(run_node(node_of({op, 3, 2, 0, 4}), on_)[0].elements(), 24u);
    }
}

TEST_P(recurrent_families, refuse_a_length_beyond_the_steps) {
    single_node what = node_of({"LSTM", 3, 2, 3, 4});
    what.inputs.emplace_back();
    what.inputs.push_back(list<std::int32_t>({3, 4}));
    EXPECT_THROW(static_cast<void>(run_with_constant_weights(what, on_)), error);
}

INSTANTIATE_TEST_SUITE_P(workers, recurrent_families, ::testing::Values(1, 3));

}  // namespace
}  // namespace sluice::nn::recurrent_families_tests
