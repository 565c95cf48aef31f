// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent layers, as a CPU runs them: what they give, in every division among blocks and rows, is what
// the nodes give in f64; and all divisions give the same bits.
#include "kernels/recurrent/recurrent_layer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "nn/support/compared_rows.hpp"
#include "nn/support/recurrent_cases.hpp"

namespace sluice::nn::recurrent_kernels_tests {
namespace {

using namespace test_support;
using namespace kernels;
using testing::difference;
using testing::numbers_of;

constexpr std::size_t most_shared = 227 << 10;

device_properties of_a_gpu(std::size_t shared_bytes = most_shared) {
    device_properties made;
    made.compute_units = 132;
    made.compute_capability = 90;
    made.max_blocks_per_cluster = 8;
    made.max_shared_bytes_per_block = shared_bytes;
    return made;
}

template <typename T>
constexpr recurrent_element element_of() {
    if constexpr (std::is_same_v<T, half>) return recurrent_element::f16;
    if constexpr (std::is_same_v<T, bfloat16>) return recurrent_element::bf16;
    return recurrent_element::f32;
}

recurrent_curve curve_of(const std::string& name) {
    static const std::map<std::string, recurrent_curve, std::less<>> all = {
        {"Sigmoid", recurrent_curve::sigmoid},
        {"Tanh", recurrent_curve::tanh},
        {"Relu", recurrent_curve::relu},
        {"Affine", recurrent_curve::affine},
        {"LeakyRelu", recurrent_curve::leaky_relu},
        {"ScaledTanh", recurrent_curve::scaled_tanh},
        {"HardSigmoid", recurrent_curve::hard_sigmoid},
        {"Elu", recurrent_curve::elu},
        {"Softsign", recurrent_curve::softsign},
        {"Softplus", recurrent_curve::softplus}};
    return all.at(name);
}

// A layer, its inputs and outputs in memory.
template <typename T>
class layer {
public:
    layer(const recurrent_case& of, const recurrent_data<T>& data) : of_(of), data_(data) {
        const std::size_t d = of.directions(), row = d * of.hidden;
        multiply_inputs();
        y_.assign(of.steps * of.batch * row, T(99.0f));
        h_.assign(of.batch * row, T(99.0f));
        c_.assign(of.batch * row, T(99.0f));
        const bool is_first = of.layout == 1;
        call_ = {.kind = of.op == "RNN"    ? recurrent_kind::rnn
                         : of.op == "LSTM" ? recurrent_kind::lstm
                         : of.is_linear    ? recurrent_kind::gru_reset_last
                                           : recurrent_kind::gru_reset_first,
                 .type = element_of<T>(),
                 .products = products_.data(),
                 .r = data_.r.data(),
                 .bias = of.has_bias ? data_.b.data() : nullptr,
                 .peepholes = of.has_peepholes ? data_.p.data() : nullptr,
                 .sequence_lengths = of.has_lengths ? data_.lengths.data() : nullptr,
                 .first_h = of.has_h ? data_.h.data() : nullptr,
                 .first_c = of.has_c ? data_.c.data() : nullptr,
                 .y = y_.data(),
                 .last_h = h_.data(),
                 .last_c = of.op == "LSTM" ? c_.data() : nullptr,
                 .batch = of.batch,
                 .hidden = of.hidden,
                 .directions = d,
                 .steps = of.steps,
                 .row_of_step = is_first ? 1 : of.batch,
                 .row_of_batch = is_first ? of.steps : 1,
                 .y_of_step = is_first ? row : row * of.batch,
                 .y_of_direction = is_first ? of.hidden : of.hidden * of.batch,
                 .y_of_batch = is_first ? row * of.steps : of.hidden,
                 .state_of_direction = is_first ? of.hidden : of.batch * of.hidden,
                 .state_of_batch = is_first ? row : of.hidden,
                 .reversed = of.direction == "bidirectional" ? 2U
                             : of.direction == "reverse"     ? 1U
                                                             : 0U,
                 .is_coupled = of.is_coupled ? 1U : 0U,
                 .f = {},
                 .g = {},
                 .out = {}};
        set_activations();
    }
    layer(const layer&) = delete;

    const recurrent_layer& call() const { return call_; }
    // In clusters; false where the states do not fit.
    bool run_in_clusters(std::size_t rows, std::size_t blocks, std::size_t shared_bytes = most_shared) {
        const auto by = divide_into_clusters(call_, of_a_gpu(shared_bytes), rows, blocks);
        if (!by) return false;
        recurrent_clusters closure{call_, *by, {}};
        const launch_command command = recurrent_in_clusters(closure);
        EXPECT_LE(command.shared_bytes, shared_bytes);
        EXPECT_EQ(command.grid.x % command.cluster.x, 0u);
        EXPECT_EQ(command.block.x % 32, 0u);
        command.host_function(command.closure);
        return true;
    }
    void run_in_steps() {
        recurrent_steps closure = divide_into_steps(call_);
        std::vector<float> states(floats_of_steps(closure), 99);
        closure.states = states.data();
        const launch_command first = recurrent_first_states(closure);
        first.host_function(first.closure);
        for (closure.step = 0; closure.step < of_.steps; ++closure.step) {
            for (std::size_t pass = 0; pass < passes_of(call_.kind); ++pass) {
                const launch_command command = recurrent_step_by_warps(closure, pass);
                command.host_function(command.closure);
            }
        }
    }
    // Y, Y_h and Y_c, one after the other.
    std::vector<std::vector<double>> outputs() const {
        std::vector<std::vector<double>> made;
        for (const std::vector<T>* each : {&y_, &h_, &c_}) {
            made.emplace_back();
            for (const T one : *each) made.back().push_back(recurrent_double(one));
        }
        if (of_.op != "LSTM") made.pop_back();
        return made;
    }

private:
    void multiply_inputs() {
        const std::size_t columns = of_.directions() * of_.gates() * of_.hidden;
        for (std::size_t row = 0; row < of_.steps * of_.batch; ++row) {
            for (std::size_t column = 0; column < columns; ++column) {
                double sum = 0;
                for (std::size_t k = 0; k < of_.inputs; ++k)
                    sum += recurrent_double(data_.x[row * of_.inputs + k]) *
                           recurrent_double(data_.w[column * of_.inputs + k]);
                products_.push_back(T(static_cast<float>(sum)));
            }
        }
    }
    void set_activations() {
        const bool is_rnn = of_.op == "RNN";
        std::vector<std::string> names = of_.activations;
        if (names.empty())
            names = is_rnn ? std::vector<std::string>{"Tanh"} : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
        names.resize(3, "Tanh");
        const float number = of_.activations.empty() ? 0 : 0.5f;
        for (std::size_t d = 0; d < 2; ++d) {
            call_.f[d] = {curve_of(names[0]), number, number, of_.clip};
            call_.g[d] = {curve_of(names[1]), number, number, of_.clip};
            call_.out[d] = {curve_of(names[2]), number, number, 0};
        }
    }

    recurrent_case of_;
    recurrent_data<T> data_;
    std::vector<T> products_, y_, h_, c_;
    recurrent_layer call_{};
};

template <typename T>
class recurrent_kernels : public ::testing::Test {
protected:
    static constexpr double allowed = std::is_same_v<T, float> ? 2e-5 : std::is_same_v<T, half> ? 1.5e-2 : 1e-1;

    // In steps; the other divisions have to give the same bits.
    static std::vector<std::vector<double>> expect_as_in_f64(const recurrent_case& of, const recurrent_data<T>& data) {
        layer<T> in_steps(of, data);
        in_steps.run_in_steps();
        auto got = in_steps.outputs();
        recurrent_case with_all = of;
        with_all.outputs = 3;
        const auto expected = outputs_of(recurrent_node_of(with_all, data.widened()));
        EXPECT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_EQ(difference(got[i], numbers_of(expected[i]), allowed), "") << of << ", output " << i;
        return got;
    }
    static void expect_bits(const recurrent_case& of, const recurrent_data<T>& data,
                            const std::vector<std::vector<double>>& expected, std::size_t rows, std::size_t blocks,
                            std::size_t shared_bytes = most_shared) {
        layer<T> in_clusters(of, data);
        if (!in_clusters.run_in_clusters(rows, blocks, shared_bytes)) return;
        const auto got = in_clusters.outputs();
        for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_EQ(difference(got[i], expected[i], 0), "")
                << of << ", output " << i << ", " << rows << " rows, " << blocks << " blocks";
    }
    static void expect_as_in_f64(const recurrent_case& of) {
        const auto data = recurrent_numbers<T>(of);
        const auto expected = expect_as_in_f64(of, data);
        expect_bits(of, data, expected, of.seed % 2 == 0 ? 1 : 8, std::size_t{1} << of.seed / 4 % 4,
                    of.seed % 3 == 0 ? 8 << 10 : most_shared);
    }
};
using elements = ::testing::Types<float, half, bfloat16>;
TYPED_TEST_SUITE(recurrent_kernels, elements);

}  // namespace

TYPED_TEST(recurrent_kernels, give_what_f64_gives) {
    for (unsigned seed = 1; seed <= 120; ++seed) this->expect_as_in_f64(random_recurrent_case(seed, 40, 11));
    for (unsigned seed = 1000; seed <= 1005; ++seed) this->expect_as_in_f64(random_recurrent_case(seed, 150, 5));
}

TYPED_TEST(recurrent_kernels, give_the_same_bits_in_all_divisions) {
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        for (const std::size_t hidden : {1, 5, 37}) {
            const recurrent_case of{.op = op,
                                    .steps = 3,
                                    .batch = 9,
                                    .hidden = hidden,
                                    .direction = "bidirectional",
                                    .has_lengths = true,
                                    .has_h = hidden == 5};
            const auto data = recurrent_numbers<TypeParam>(of);
            const auto expected = this->expect_as_in_f64(of, data);
            for (const std::size_t rows : {1, 8}) {
                for (const std::size_t blocks : {1, 2, 4, 8}) {
                    this->expect_bits(of, data, expected, rows, blocks);
                    // Some weights stay in memory.
                    this->expect_bits(of, data, expected, rows, blocks, 6 << 10);
                }
            }
        }
    }
}

// A row's bits do not depend on what the other rows are.
TYPED_TEST(recurrent_kernels, give_a_row_the_same_bits_in_every_batch) {
    for (const std::string op : {"RNN", "GRU", "LSTM"}) {
        const recurrent_case of{.op = op, .steps = 4, .batch = 5, .hidden = 45, .has_h = true};
        const auto data = recurrent_numbers<TypeParam>(of);
        layer<TypeParam> all(of, data);
        ASSERT_TRUE(all.run_in_clusters(8, 2));
        recurrent_case alone = of;
        alone.batch = 1;
        auto one = data;
        one.x.clear();
        for (std::size_t t = 0; t < of.steps; ++t)
            for (std::size_t k = 0; k < of.inputs; ++k) one.x.push_back(data.x[(t * of.batch + 3) * of.inputs + k]);
        one.h.assign(data.h.begin() + 3 * 45, data.h.begin() + 4 * 45);
        layer<TypeParam> row(alone, one);
        ASSERT_TRUE(row.run_in_clusters(1, 8));
        const auto h = all.outputs()[1];
        EXPECT_EQ(row.outputs()[1], std::vector<double>(h.begin() + 3 * 45, h.begin() + 4 * 45));
    }
}

TEST(recurrent_divisions, keep_the_weights_on_the_chip_or_leave_the_layer_to_steps) {
    const auto by = [](const recurrent_case& of, const device_properties& gpu) {
        const recurrent_data<float> numbers = recurrent_numbers<float>(of);
        return divide_into_clusters(layer<float>(of, numbers).call(), gpu);
    };
    const auto small = by({.steps = 1, .batch = 1, .hidden = 128}, of_a_gpu());
    ASSERT_TRUE(small);
    EXPECT_EQ(small->blocks, 8u);
    EXPECT_EQ(small->rows, 1u);
    EXPECT_EQ(small->kept, small->units);
    const auto batch = by({.steps = 1, .batch = 32, .hidden = 128}, of_a_gpu());
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->rows, 8u);
    EXPECT_FALSE(by({.steps = 1, .batch = 1, .hidden = 1000}, of_a_gpu()));
    device_properties older = of_a_gpu();
    older.compute_capability = 89;
    older.max_blocks_per_cluster = 1;
    EXPECT_FALSE(by({.steps = 1, .batch = 1, .hidden = 128}, older));
}

}  // namespace sluice::nn::recurrent_kernels_tests
