// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM in f32, f16 and bf16 on the default device, a GPU where there is one, against the same nodes in f64
// on a CPU.
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/support/compared_rows.hpp"
#include "nn/support/recurrent_cases.hpp"
#include "sluice/graph/executable_graph.hpp"

namespace sluice::nn::recurrent_device_tests {
namespace {

using namespace test_support;
using testing::difference;
using testing::numbers_of;

template <typename T>
class recurrent_on_a_device : public ::testing::Test {
protected:
    // A share of the largest number. States are rounded at each step.
    static constexpr double allowed = std::is_same_v<T, float> ? 2e-5 : std::is_same_v<T, half> ? 1.5e-2 : 1e-1;

    std::vector<any_tensor> outputs_here(const single_node& what) { return run_node(what, on); }
    void expect_as_in_f64(const recurrent_case& of, const recurrent_data<T>& data) {
        SCOPED_TRACE(::testing::Message() << of);
        const auto expected = outputs_of(recurrent_node_of(of, data.widened()));
        const auto got = outputs_here(recurrent_node_of(of, data));
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_EQ(got[i].shape(), expected[i].shape());
            EXPECT_EQ(difference(numbers_of(got[i]), numbers_of(expected[i]), allowed), "") << "output " << i;
        }
    }
    void expect_as_in_f64(const recurrent_case& of) { expect_as_in_f64(of, recurrent_numbers<T>(of)); }

    runtime machine;
    single_stream on{machine.default_device()};
};
using elements = ::testing::Types<float, half, bfloat16>;
TYPED_TEST_SUITE(recurrent_on_a_device, elements);

// The row of a batch as a batch of its own.
template <typename T>
recurrent_data<T> row_alone(const recurrent_case& of, const recurrent_data<T>& all, std::size_t row) {
    const auto cut = [&](const std::vector<T>& from, std::size_t before, std::size_t after) {
        std::vector<T> made;
        for (std::size_t i = 0; from.size() > 0 && i < before; ++i)
            for (std::size_t k = 0; k < after; ++k) made.push_back(from[(i * of.batch + row) * after + k]);
        return made;
    };
    recurrent_data<T> made = all;
    const bool is_batch_first = of.layout == 1;
    made.x = is_batch_first ? cut(all.x, 1, of.steps * of.inputs) : cut(all.x, of.steps, of.inputs);
    for (auto [to, from] : {std::pair(&made.h, &all.h), std::pair(&made.c, &all.c)})
        *to = is_batch_first ? cut(*from, 1, of.directions() * of.hidden) : cut(*from, of.directions(), of.hidden);
    if (of.has_lengths) made.lengths = {all.lengths[row]};
    return made;
}

std::size_t axis_of_batch(const recurrent_case& of, std::size_t output) {
    return of.layout == 1 ? 0 : output == 0 ? 2 : 1;
}

}  // namespace

TYPED_TEST(recurrent_on_a_device, gives_what_f64_gives) {
    for (unsigned seed = 1; seed <= 150; ++seed) this->expect_as_in_f64(random_recurrent_case(seed, 40, 5));
    for (unsigned seed = 1000; seed <= 1030; ++seed) this->expect_as_in_f64(random_recurrent_case(seed, 200, 20));
}

TYPED_TEST(recurrent_on_a_device, takes_layers_of_all_sizes) {
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        for (const std::size_t hidden : {1, 31, 32, 33, 64, 127, 128, 256, 301, 512, 1000, 1023}) {
            const std::size_t batch = hidden > 500 ? 3 : 9;
            const recurrent_case of{.op = op,
                                    .steps = 3,
                                    .batch = batch,
                                    .hidden = hidden,
                                    .direction = hidden % 2 == 0 ? "forward" : "bidirectional",
                                    .has_h = hidden % 3 == 0};
            this->expect_as_in_f64(of);
            recurrent_case linear = of;
            linear.is_linear = op == "GRU";
            if (linear.is_linear) this->expect_as_in_f64(linear);
        }
    }
}

TYPED_TEST(recurrent_on_a_device, takes_large_batches_and_many_steps) {
    for (const std::size_t batch : {16, 17, 33, 64, 150})
        this->expect_as_in_f64({.op = "LSTM", .steps = 4, .batch = batch, .hidden = 96, .has_lengths = true});
    this->expect_as_in_f64({.op = "LSTM", .steps = 120, .batch = 2, .hidden = 128});
    this->expect_as_in_f64({.op = "GRU", .steps = 75, .batch = 33, .hidden = 128, .direction = "bidirectional"});
    this->expect_as_in_f64({.op = "GRU", .steps = 75, .batch = 3, .hidden = 128, .is_linear = true});
}

// What a unit that is not there has computed of it reaches no other one.
TYPED_TEST(recurrent_on_a_device, takes_infinite_states) {
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        for (const std::size_t hidden : {33, 100, 128}) {
            for (const std::size_t batch : {3, 40}) {
                recurrent_case of{.op = op,
                                  .steps = 4,
                                  .batch = batch,
                                  .hidden = hidden,
                                  .has_h = true,
                                  .is_linear = op == "GRU" && hidden != 33};
                if (op == "RNN" && hidden == 100) of.activations = {"Relu"};
                auto data = recurrent_numbers<TypeParam>(of);
                data.h[hidden + 5] = TypeParam(std::numeric_limits<float>::infinity());
                this->expect_as_in_f64(of, data);
            }
        }
    }
}

TYPED_TEST(recurrent_on_a_device, takes_no_steps_and_no_rows) {
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        this->expect_as_in_f64({.op = op, .steps = 0, .has_h = true, .has_c = op == "LSTM"});
        this->expect_as_in_f64({.op = op, .steps = 0});
        this->expect_as_in_f64({.op = op, .steps = 2, .batch = 0});
    }
}

TYPED_TEST(recurrent_on_a_device, gives_a_row_the_same_bits_in_every_batch) {
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        for (const std::size_t hidden : {7, 128, 260, 700}) {
            for (const std::size_t batch : {2, 5, 40}) {
                recurrent_case of{.op = op,
                                  .steps = 5,
                                  .batch = batch,
                                  .hidden = hidden,
                                  .layout = batch == 5 ? 1 : 0,
                                  .has_lengths = batch == 5,
                                  .has_h = true,
                                  .has_peepholes = op == "LSTM" && batch == 2,
                                  .is_linear = op == "GRU" && batch == 40};
                const auto data = recurrent_numbers<TypeParam>(of);
                const auto all = this->outputs_here(recurrent_node_of(of, data));
                for (const std::size_t row : {std::size_t{0}, batch / 2, batch - 1}) {
                    SCOPED_TRACE(::testing::Message() << of << ", row " << row);
                    recurrent_case alone = of;
                    alone.batch = 1;
                    const auto one = this->outputs_here(recurrent_node_of(alone, row_alone(of, data, row)));
                    for (std::size_t i = 0; i < one.size(); ++i)
                        EXPECT_EQ(testing::row_of(all[i], axis_of_batch(of, i), row, batch), numbers_of(one[i])) << i;
                }
            }
        }
    }
}

TYPED_TEST(recurrent_on_a_device, gives_the_same_in_a_graph) {
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        for (const std::size_t hidden : {40, 700}) {
            const recurrent_case of{.op = op, .steps = 6, .batch = 3, .hidden = hidden, .direction = "bidirectional"};
            SCOPED_TRACE(::testing::Message() << of);
            const auto node = recurrent_node_of(of, recurrent_numbers<TypeParam>(of));
            const auto expected = this->outputs_here(node);
            std::vector<any_tensor> inputs;
            for (const any_tensor& input : node.inputs)
                if (input) inputs.push_back(input);
            const network made = sync(make_network(model_of(node)), this->on);
            const auto fast = compile(this->on, [&] { return made.run(inputs); });
            for (int launch = 0; launch < 3; ++launch) {
                const auto got = sync(fast(), this->on);
                for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(numbers_of(got[i]), numbers_of(expected[i]));
            }
        }
    }
}

TYPED_TEST(recurrent_on_a_device, passes_on_special_values) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        for (const float special : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
            const recurrent_case of{.op = op, .steps = 4, .batch = 3, .hidden = 37};
            auto data = recurrent_numbers<TypeParam>(of);
            data.x[(1 * of.batch + 1) * of.inputs] = TypeParam(special);  // the second row at the second step
            this->expect_as_in_f64(of, data);
            // Without an initial state the first step has no product with the state.
            recurrent_case single = of;
            single.steps = 1;
            auto weights = recurrent_numbers<TypeParam>(single);
            if (op == "GRU") single.is_linear = true;
            weights.r[0] = TypeParam(special);
            this->expect_as_in_f64(single, weights);
        }
    }
}

}  // namespace sluice::nn::recurrent_device_tests
