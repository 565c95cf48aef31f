// SPDX-License-Identifier: Apache-2.0
// Passes: networks compute with fewer commands what they compute without the passes.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::passes_tests {
namespace {

using namespace test_support;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::vector<float> wave(std::size_t count, float phase) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(phase + 0.7f * static_cast<float>(i));
    return made;
}
constant numbers(std::vector<std::size_t> shape, float phase, float offset = 0) {
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    std::vector<float> made = wave(count, phase);
    for (float& each : made) each += offset;
    return tensor_of(made, std::move(shape));
}

class passes : public ::testing::Test {
protected:
    static model make(std::vector<dimension> input, std::size_t output_dimensions) {
        model made;
        made.path = "made.onnx";
        made.opsets = {{"", 20}};
        made.body.inputs = {f32("x", std::move(input))};
        made.body.outputs = {f32("y", std::vector<dimension>(output_dimensions, named("")))};
        return made;
    }
    static void add_normalization(model& to, std::size_t channels, std::string from, std::string made) {
        to.body.constants.insert({{"scale", numbers({channels}, 1)},
                                  {"shift", numbers({channels}, 2)},
                                  {"mean", numbers({channels}, 3)},
                                  {"variance", numbers({channels}, 4, 1.5f)}});
        to.body.nodes.push_back(make_node("BatchNormalization", {std::move(from), "scale", "shift", "mean", "variance"},
                                          {std::move(made)}));
    }

    std::vector<float> first_output(const model& from, std::vector<any_tensor> inputs) {
        const auto answers = sync(sync(make_network(from), pool).run(std::move(inputs)), pool);
        return {answers.at(0).values<float>().begin(), answers.at(0).values<float>().end()};
    }
    // Where constants are inputs, no pass applies.
    std::vector<float> without_passes(model from, const any_tensor& x) {
        std::vector<any_tensor> inputs{x};
        for (const auto& [name, value] : from.body.constants) {
            std::vector<dimension> shape;
            for (const std::size_t each : value.shape) shape.push_back(of(each));
            from.body.inputs.push_back(f32(name, std::move(shape)));
            inputs.emplace_back(value);
        }
        from.body.constants.clear();
        return first_output(from, std::move(inputs));
    }
    void expect_commands(const model& from, const shape& input, std::size_t commands) {
        EXPECT_EQ(commands_of<float>(sync(make_network(from), pool), pool, input), commands);
        std::vector<std::size_t> lengths;
        for (std::size_t d = 0; d < input.rank(); ++d) lengths.push_back(input[d]);
        const any_tensor x(wave(input.size(), 0), lengths);
        EXPECT_THAT(first_output(from, {x}), Pointwise(FloatNear(1e-5f), without_passes(from, x)));
    }

    runtime machine{runtime_options{.cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

}  // namespace

// How many commands a convolution is depends on the libraries that there are.
TEST_F(passes, a_normalization_becomes_part_of_the_convolution_before_it) {
    const shape input{2, 3, 5, 5};
    model alone = make({of(2), of(3), of(5), of(5)}, 4);
    alone.body.constants = {{"filters", numbers({4, 3, 3, 3}, 0)}, {"bias", numbers({4}, 5)}};
    alone.body.nodes = {make_node("Conv", {"x", "filters", "bias"}, {"y"})};
    const std::size_t commands = commands_of<float>(sync(make_network(alone), pool), pool, input);
    model with_bias = alone;
    with_bias.body.nodes = {make_node("Conv", {"x", "filters", "bias"}, {"c"})};
    add_normalization(with_bias, 4, "c", "y");
    expect_commands(with_bias, input, commands);
    model without = with_bias;
    without.body.nodes[0] = make_node("Conv", {"x", "filters"}, {"c"});
    without.body.constants.erase("bias");
    expect_commands(without, input, commands);
}

TEST_F(passes, a_convolution_that_others_read_stays_as_it_is) {
    const shape input{1, 2, 4, 4};
    model alone = make({of(1), of(2), of(4), of(4)}, 4);
    alone.body.constants = {{"filters", numbers({2, 2, 1, 1}, 0)}};
    alone.body.nodes = {make_node("Conv", {"x", "filters"}, {"y"})};
    const std::size_t commands = commands_of<float>(sync(make_network(alone), pool), pool, input);
    model made = alone;
    made.body.nodes = {make_node("Conv", {"x", "filters"}, {"c"})};
    add_normalization(made, 2, "c", "n");
    made.body.nodes.push_back(make_node("Sub", {"n", "c"}, {"y"}));
    expect_commands(made, input, commands + 1);
}

TEST_F(passes, a_normalization_and_what_follows_are_one_kernel) {
    for (const bool is_list : {false, true}) {
        model made = is_list ? make({of(4)}, 1) : make({of(2), of(3), of(4)}, 3);
        add_normalization(made, is_list ? 1 : 3, "x", "n");
        made.body.nodes.push_back(make_node("Relu", {"n"}, {"y"}));
        expect_commands(made, is_list ? shape{4} : shape{2, 3, 4}, 2);
    }
}

TEST_F(passes, a_normalization_of_doubles_is_computed_in_doubles) {
    model made = make({}, 2);
    made.body.inputs = {{"x", io::dtype::f64, {{of(1), of(1)}}}};
    made.body.outputs = {{"y", io::dtype::f64, {{of(1), of(1)}}}};
    add_normalization(made, 1, "x", "y");
    const double x = 1.0 / 3;
    const auto answers = sync(sync(make_network(made), pool).run({any_tensor(std::vector<double>{x}, {1, 1})}), pool);
    const auto number = [&](const char* name) {
        return double{any_tensor(made.body.constants.at(name)).values<float>()[0]};
    };
    const double expected = (x - number("mean")) / std::sqrt(number("variance") + double{1e-5f}) * number("scale");
    EXPECT_NEAR(answers.at(0).values<double>()[0], expected + number("shift"), 1e-15);
}

TEST_F(passes, a_normalization_by_zero_gives_what_the_operator_gives) {
    model made = make({of(1), of(1), of(1), of(2)}, 4);
    made.body.constants = {{"filters", tensor_of<float>({1}, {1, 1, 1, 1})}};
    made.body.nodes = {make_node("Conv", {"x", "filters"}, {"c"})};
    add_normalization(made, 1, "c", "y");
    made.body.nodes[1].attributes["epsilon"] = 0.0f;
    made.body.constants["variance"] = tensor_of<float>({0}, {1});
    made.body.constants["mean"] = tensor_of<float>({1}, {1});
    const auto given = first_output(made, {any_tensor(std::vector<float>{1, 2}, {1, 1, 1, 2})});
    EXPECT_TRUE(std::isnan(given[0]));
    EXPECT_EQ(given[1], std::numeric_limits<float>::infinity());
}

TEST_F(passes, dense_layers_become_one_command) {
    model made = make({named("n"), of(5)}, 2);
    made.body.constants = {{"w1", numbers({7, 5}, 0)},
                           {"b1", numbers({7}, 1)},
                           {"w2", numbers({7, 3}, 2)},
                           {"b2", numbers({3}, 3)},
                           {"w3", numbers({3, 20}, 4)}};
    made.body.nodes = {make_node("Gemm", {"x", "w1", "b1"}, {"g1"}),
                       make_node("Relu", {"g1"}, {"r1"}),
                       make_node("MatMul", {"r1", "w2"}, {"m2"}),
                       make_node("Add", {"b2", "m2"}, {"a2"}),
                       make_node("Sigmoid", {"a2"}, {"s2"}),
                       make_node("MatMul", {"s2", "w3"}, {"m3"}),
                       make_node("Tanh", {"m3"}, {"y"})};
    made.body.nodes[0].attributes["transB"] = std::int64_t{1};
    expect_commands(made, {9, 5}, 2);
}

TEST_F(passes, a_normalization_becomes_part_of_the_dense_layer_before_it) {
    for (const bool is_transposed : {false, true}) {
        model made = make({named("n"), of(5)}, 2);
        made.body.constants = {{"w1", is_transposed ? numbers({7, 5}, 0) : numbers({5, 7}, 0)},
                               {"w2", numbers({7, 3}, 2)}};
        made.body.nodes = {make_node("Gemm", {"x", "w1"}, {"g1"})};
        made.body.nodes[0].attributes["transB"] = std::int64_t{is_transposed};
        add_normalization(made, 7, "g1", "n1");
        made.body.nodes.push_back(make_node("Gelu", {"n1"}, {"r1"}));
        made.body.nodes.push_back(make_node("Gemm", {"r1", "w2"}, {"y"}));
        expect_commands(made, {4, 5}, 2);
    }
}

TEST_F(passes, a_normalization_after_a_scaled_product_is_computed_as_it_is) {
    for (const auto& [name, factor] : {std::pair("beta", 0.5f), {"beta", 0.f}, {"alpha", 0.5f}, {"alpha", -2.f}}) {
        model made = make({named("n"), of(5)}, 2);
        made.body.constants = {{"w", numbers({5, 7}, 0)}, {"b", numbers({7}, 1)}};
        made.body.nodes = {make_node("Gemm", {"x", "w", "b"}, {"g"})};
        made.body.nodes[0].attributes[name] = factor;
        add_normalization(made, 7, "g", "y");
        const any_tensor x(wave(4 * 5, 0), {4, 5});
        EXPECT_THAT(first_output(made, {x}), Pointwise(FloatNear(1e-5f), without_passes(made, x)))
            << name << " = " << factor;
    }
}

TEST_F(passes, rows_of_several_dimensions_are_rows) {
    model made = make({of(2), of(3), of(5)}, 3);
    made.body.constants = {{"w1", numbers({5, 4}, 0)}, {"b1", numbers({4}, 1)}, {"w2", numbers({4, 6}, 2)}};
    made.body.nodes = {make_node("MatMul", {"x", "w1"}, {"m1"}), make_node("Add", {"m1", "b1"}, {"a1"}),
                       make_node("MatMul", {"a1", "w2"}, {"y"})};
    expect_commands(made, {2, 3, 5}, 2);
}

// What is not a layer stays what it is: scaled products, a matrix that is added, a value that others read, other
// functions, and weights that are not constant.
TEST_F(passes, other_products_are_not_taken_for_dense_layers) {
    model scaled = make({of(3), of(3)}, 2);
    scaled.body.constants = {{"w", numbers({3, 3}, 0)}, {"added", numbers({3, 3}, 1)}, {"column", numbers({3, 1}, 2)}};
    scaled.body.nodes = {make_node("Gemm", {"x", "w"}, {"g"}), make_node("Relu", {"g"}, {"y"})};
    scaled.body.nodes[0].attributes["alpha"] = 2.0f;
    expect_commands(scaled, {3, 3}, 4);  // product, factor, ReLU, download
    model adds_matrix = scaled;
    adds_matrix.body.nodes = {make_node("Gemm", {"x", "w", "added"}, {"y"})};
    expect_commands(adds_matrix, {3, 3}, 3);
    adds_matrix.body.nodes = {make_node("Gemm", {"x", "w", "column"}, {"y"})};
    expect_commands(adds_matrix, {3, 3}, 3);
    model is_read_twice = scaled;
    is_read_twice.body.nodes = {make_node("MatMul", {"x", "w"}, {"m"}), make_node("Relu", {"m"}, {"r"}),
                                make_node("Sub", {"r", "m"}, {"y"})};
    expect_commands(is_read_twice, {3, 3}, 3);
    model approximates = scaled;
    approximates.body.nodes = {make_node("MatMul", {"x", "w"}, {"m"}), make_node("Gelu", {"m"}, {"y"})};
    approximates.body.nodes[1].attributes["approximate"] = std::string("tanh");
    expect_commands(approximates, {3, 3}, 3);
    model squares = scaled;
    squares.body.nodes = {make_node("MatMul", {"x", "x"}, {"m"}), make_node("Relu", {"m"}, {"y"})};
    expect_commands(squares, {3, 3}, 3);
}

TEST_F(passes, wide_layers_are_not_fused) {
    model made = make({named("n"), of(2049)}, 2);
    made.body.constants = {{"w1", numbers({2049, 8}, 0)}, {"w2", numbers({8, 2}, 0)}};
    made.body.nodes = {make_node("MatMul", {"x", "w1"}, {"m"}), make_node("MatMul", {"m", "w2"}, {"y"})};
    EXPECT_EQ(commands_of<float>(sync(make_network(made), pool), pool, {2, 2049}), 3u);
    made.body.inputs[0].shape = {{named("n"), of(2048)}};
    made.body.constants["w1"] = numbers({2048, 8}, 0);
    EXPECT_EQ(commands_of<float>(sync(make_network(made), pool), pool, {2, 2048}), 2u);
}

// Each layer has a little more than 16 MiB, with its biases: three are one command, the fourth is another one.
TEST_F(passes, layers_of_many_weights_are_several_commands) {
    model made = make({named("n"), of(2048)}, 2);
    made.body.outputs[0].shape = {{named("n"), of(2048)}};
    made.body.constants = {{"w", numbers({2048, 2048}, 0)}};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"a"}), make_node("MatMul", {"a", "w"}, {"b"}),
                       make_node("MatMul", {"b", "w"}, {"c"}), make_node("MatMul", {"c", "w"}, {"y"})};
    EXPECT_EQ(commands_of<float>(sync(make_network(made), pool), pool, {1, 2048}), 3u);
}

TEST_F(passes, fused_layers_refuse_what_the_operators_refuse) {
    model made = make({named("n"), named("k")}, 2);
    made.body.constants = {{"w", numbers({3, 4}, 0)}};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"y"})};
    const network layers = sync(make_network(made), pool);
    try {
        sync(layers.run({any_tensor(std::vector<float>{1, 2}, {1, 2})}), pool);
        FAIL() << "rows of another length were taken";
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::shape_mismatch);
        EXPECT_THAT(failure.what(), HasSubstr("multiplies f32 [1, 2] by 3 rows of weights"));
    }
    EXPECT_EQ(sync(layers.run({any_tensor(std::vector<float>{}, {0, 3})}), pool).at(0).shape(),
              (std::vector<std::size_t>{0, 4}));
}

}  // namespace sluice::nn::passes_tests
