// SPDX-License-Identifier: Apache-2.0
// Passes: networks compute with fewer commands what they compute without the passes.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/pass_report.hpp"
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

namespace {

// The largest of x, -x and x * x, put together along `axis`.
model of_stacks(std::int64_t opset, const std::string& reduction, std::int64_t axis, io::dtype type) {
    const std::vector<dimension> given{named("rows"), of(3), of(4)};
    model made;
    made.path = "stacks.onnx";
    made.opsets = {{"", opset}};
    made.body.inputs = {{"x", type, given}};
    made.body.outputs = {{"y", type, given}};
    made.body.constants = {{"axes", tensor_of<std::int64_t>({axis}, {1})}};
    node join = make_node("Concat", {"a", "b", "c"}, {"joined"}), reduce = make_node(reduction, {"joined"}, {"y"});
    join.attributes["axis"] = axis;
    reduce.attributes["keepdims"] = std::int64_t{0};
    if (opset < 18) reduce.attributes["axes"] = std::vector<std::int64_t>{axis};
    if (opset >= 18) reduce.inputs.push_back("axes");
    const bool is_bool = type == io::dtype::boolean;
    made.body.nodes = {make_node(is_bool ? "Not" : "Neg", {"x"}, {"negative"}),
                       make_node(is_bool ? "And" : "Mul", {"x", "x"}, {"square"}),
                       make_node("Unsqueeze", {"x", "axes"}, {"a"}),
                       make_node("Unsqueeze", {"negative", "axes"}, {"b"}),
                       make_node("Unsqueeze", {"square", "axes"}, {"c"}),
                       join,
                       reduce};
    return made;
}

}  // namespace

TEST_F(passes, reductions_of_stacks_put_nothing_together) {
    for (const std::int64_t axis : {0, 3, -1, -2}) {
        for (const std::int64_t opset : {13, 18, 20}) {
            for (const char* const reduction : {"ReduceMax", "ReduceMin"}) {
                const model made = of_stacks(opset, reduction, axis, io::dtype::f32);
                // A sum is put together first: one command more.
                const auto commands = [&](const model& from) {
                    return commands_of<float>(sync(make_network(from), pool), pool, shape{2, 3, 4});
                };
                EXPECT_LT(commands(made), commands(of_stacks(opset, "ReduceL1", axis, io::dtype::f32)));
                std::vector<float> x = wave(24, 0);
                x[5] = std::numeric_limits<float>::quiet_NaN();
                x[6] = std::numeric_limits<float>::infinity();
                const std::vector<float> y = first_output(made, {any_tensor(x, {2, 3, 4})});
                ASSERT_EQ(y.size(), x.size());
                for (std::size_t i = 0; i < x.size(); ++i) {
                    const std::initializer_list<float> all{x[i], -x[i], x[i] * x[i]};
                    if (std::isnan(x[i])) {
                        EXPECT_TRUE(std::isnan(y[i]));
                    } else {
                        EXPECT_EQ(y[i], reduction[7] == 'a' ? std::max(all) : std::min(all));
                    }
                }
            }
        }
    }
}

TEST_F(passes, reductions_of_other_things_put_together_stay) {
    const std::vector<float> x = wave(24, 0);
    const auto made = [&](auto&& change) {
        model from = of_stacks(18, "ReduceMax", 3, io::dtype::f32);
        change(from);
        return from;
    };
    // Along another axis, or with a part of more elements: not what Max gives.
    model other = made([](model& from) { from.body.constants["second"] = tensor_of<std::int64_t>({1}, {1}); });
    other.body.nodes.back().inputs[1] = "second";
    other.body.outputs[0].shape = std::vector<dimension>{named("rows"), of(4), of(3)};
    const std::vector<float> along = first_output(other, {any_tensor(x, {2, 3, 4})});
    ASSERT_EQ(along.size(), 24U);
    for (std::size_t row = 0; row < 2; ++row)
        for (std::size_t k = 0; k < 4; ++k) {
            const float a = x[row * 12 + k], b = x[row * 12 + 4 + k], c = x[row * 12 + 8 + k];
            EXPECT_EQ(along[(row * 4 + k) * 3], std::max({a, b, c}));
            EXPECT_EQ(along[(row * 4 + k) * 3 + 1], std::max({-a, -b, -c}));
        }
    // Shapes that Concat refuses are refused, where Max would take them.
    model narrow = made([](model& from) {
        from.body.constants["one"] = tensor_of<float>({1}, {1, 1, 1});
        from.body.nodes[1] = make_node("Identity", {"one"}, {"square"});
    });
    EXPECT_THROW(first_output(narrow, {any_tensor(x, {2, 3, 4})}), error);
}

TEST_F(passes, reductions_of_stacks_of_bool_stay_right) {
    const model made = of_stacks(20, "ReduceMax", 3, io::dtype::boolean);
    std::byte* bits = nullptr;
    any_tensor x = any_tensor::make_on_host(io::dtype::boolean, {2, 3, 4}, bits);
    for (std::size_t i = 0; i < 24; ++i) bits[i] = std::byte(i % 3 == 0);
    const auto answers = sync(sync(make_network(made), pool).run({x}), pool);
    for (const std::byte each : answers.at(0).bytes()) EXPECT_EQ(each, std::byte{1});  // x or not x
}

namespace {

// clip(x + 3, 0, 6) / 6 as exporters write it; `order`: where x is multiplied, or not at all.
enum class curve_order { sigmoid, product_first, product_last };
model of_hard_curve(std::int64_t opset, curve_order order, bool multiplies, float third, std::size_t dimensions) {
    model made;
    made.path = "curve.onnx";
    made.opsets = {{"", opset}};
    made.body.inputs = {f32("x", {named("rows"), of(4)})};
    made.body.outputs = {f32("y", {named("rows"), of(4)})};
    const std::vector<std::size_t> shape(dimensions, 1);
    const float last = multiplies ? 1.0f / 6 : 6;
    made.body.constants = {{"three", tensor_of<float>({third}, shape)},
                           {"zero", tensor_of<float>({0}, {})},
                           {"six", tensor_of<float>({6}, {})},
                           {"last", tensor_of<float>({last}, shape)},
                           {"shift", tensor_of<float>({1, 2, 3, 4}, {4})}};
    node clip = make_node("Clip", {"added"}, {"clipped"});
    if (opset < 11) clip.attributes = {{"min", 0.0f}, {"max", 6.0f}};
    if (opset >= 11) clip.inputs = {"added", "zero", "six"};
    const std::string divide = multiplies ? "Mul" : "Div";
    made.body.nodes = {make_node("Add", {"x", "shift"}, {"v"}), make_node("Add", {"v", "three"}, {"added"}), clip};
    auto& nodes = made.body.nodes;
    if (order == curve_order::sigmoid) nodes.push_back(make_node(divide, {"clipped", "last"}, {"y"}));
    if (order == curve_order::product_first) {
        nodes.push_back(make_node("Mul", {"v", "clipped"}, {"m"}));
        nodes.push_back(make_node(divide, {"m", "last"}, {"y"}));
    }
    if (order == curve_order::product_last) {
        nodes.push_back(make_node(divide, {"clipped", "last"}, {"s"}));
        nodes.push_back(make_node("Mul", {"s", "v"}, {"y"}));
    }
    return made;
}

std::vector<std::string> operators_of(const network& of) {
    std::vector<std::string> found;
    for (const network_step& each : of.steps()) found.push_back(each.operators.front());
    return found;
}

}  // namespace

TEST_F(passes, hard_curves_that_are_written_as_nodes_become_operators) {
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> x = wave(40, 0);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= 8;
    x[0] = nan, x[1] = infinity, x[2] = -infinity, x[3] = 1e38f;
    for (const std::int64_t opset : {10, 11, 13, 18}) {
        for (const auto order : {curve_order::sigmoid, curve_order::product_first, curve_order::product_last}) {
            for (const bool multiplies : {false, true}) {
                const model made = of_hard_curve(opset, order, multiplies, 3, 1);
                EXPECT_THAT(operators_of(sync(make_network(made), pool)),
                            ::testing::ElementsAre("Add", order == curve_order::sigmoid ? "HardSigmoid" : "HardSwish"));
                const std::vector<float> y = first_output(made, {any_tensor(x, {10, 4})});
                for (std::size_t i = 0; i < x.size(); ++i) {
                    const float v = x[i] + static_cast<float>(i % 4 + 1);
                    const float clipped = std::isnan(v) ? v : std::min(6.0f, std::max(0.0f, v + 3));
                    const double exact = static_cast<double>(clipped) / 6 *
                                         (order == curve_order::sigmoid ? 1.0 : static_cast<double>(v));
                    if (std::isnan(exact)) {
                        EXPECT_TRUE(std::isnan(y[i])) << i;
                    } else if (std::isinf(exact)) {
                        EXPECT_EQ(y[i], static_cast<float>(exact));
                    } else {
                        EXPECT_NEAR(y[i], exact, 1e-6 * std::max(1.0, std::abs(exact)));
                    }
                }
            }
        }
    }
}

// The three orders in which exporters write GELU.
TEST_F(passes, gelu_that_is_written_as_nodes_becomes_an_operator) {
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> x = wave(40, 0);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= 5;
    x[0] = nan, x[1] = infinity, x[2] = -infinity, x[3] = -1e38f;
    for (const int order : {0, 1, 2, 3}) {
        for (const bool multiplies : {false, true}) {
            model made = make({named("rows"), of(4)}, 2);
            made.opsets = {{"", 17}};
            const float root = std::sqrt(2.0f);
            made.body.constants = {{"root", tensor_of<float>({multiplies ? 1 / root : root}, {})},
                                   {"one", tensor_of<float>({1}, {})},
                                   {"half", tensor_of<float>({order == 3 ? 0.25f : 0.5f}, {})}};
            made.body.nodes = {make_node("Neg", {"x"}, {"v"}),
                               make_node(multiplies ? "Mul" : "Div", {"v", "root"}, {"scaled"}),
                               make_node("Erf", {"scaled"}, {"erf"}), make_node("Add", {"one", "erf"}, {"sum"})};
            auto& nodes = made.body.nodes;
            if (order == 0) {
                nodes.push_back(make_node("Mul", {"v", "sum"}, {"product"}));
                nodes.push_back(make_node("Mul", {"product", "half"}, {"y"}));
            } else if (order == 1) {
                nodes.push_back(make_node("Mul", {"sum", "half"}, {"part"}));
                nodes.push_back(make_node("Mul", {"v", "part"}, {"y"}));
            } else {
                nodes.push_back(make_node("Mul", {"half", "v"}, {"part"}));
                nodes.push_back(make_node("Mul", {"part", "sum"}, {"y"}));
            }
            const auto operators = operators_of(sync(make_network(made), pool));
            if (order == 3) {
                EXPECT_EQ(operators.size(), 6U);  // a quarter
                continue;
            }
            EXPECT_THAT(operators, ::testing::ElementsAre("Neg", "Gelu"));
            const std::vector<float> y = first_output(made, {any_tensor(x, {10, 4})});
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double v = -double{x[i]}, exact = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
                if (std::isnan(exact)) {
                    EXPECT_TRUE(std::isnan(y[i])) << i;
                } else if (std::isinf(exact) || v > 1e30) {
                    EXPECT_EQ(y[i], static_cast<float>(v));
                } else {
                    EXPECT_NEAR(y[i], exact, 2e-6);
                }
            }
        }
    }
}

TEST_F(passes, a_product_of_two_lists_has_no_dimension) {
    for (const std::size_t rank : {1, 2}) {
        model made;
        made.path = "dot.onnx";
        made.opsets = {{"", 17}};
        made.body.inputs = {f32("x", {of(4)})};
        made.body.outputs = {f32("y", {of(1)})};
        made.body.constants = {{"w", tensor_of<float>({1, 2, 3, 4}, rank == 1 ? std::vector<std::size_t>{4}
                                                                              : std::vector<std::size_t>{4, 1})},
                               {"root", tensor_of<float>({std::sqrt(2.0f)}, {1})},
                               {"one", tensor_of<float>({1}, {1})},
                               {"half", tensor_of<float>({0.5f}, {1})}};
        made.body.nodes = {make_node("MatMul", {"x", "w"}, {"v"}),      make_node("Div", {"v", "root"}, {"scaled"}),
                           make_node("Erf", {"scaled"}, {"erf"}),       make_node("Add", {"erf", "one"}, {"sum"}),
                           make_node("Mul", {"v", "sum"}, {"product"}), make_node("Mul", {"product", "half"}, {"y"})};
        const auto answers =
            sync(sync(make_network(made), pool).run({any_tensor(std::vector<float>{1, 1, 1, 1}, {4})}), pool);
        EXPECT_EQ(answers.at(0).shape(), std::vector<std::size_t>{1});
        EXPECT_NEAR(answers.at(0).values<float>()[0], 10, 1e-5);
    }
}

TEST_F(passes, nodes_without_outputs_are_refused) {
    for (const bool is_empty : {false, true}) {
        model made = of_hard_curve(13, curve_order::sigmoid, false, 3, 0);
        made.body.nodes.push_back(make_node("Abs", {"clipped"}, {}));
        if (is_empty) made.body.nodes.back().outputs.emplace_back();
        try {
            sync(make_network(made), pool);
            ADD_FAILURE() << "no error";
        } catch (const error& failure) {
            EXPECT_THAT(failure.what(), HasSubstr("has no outputs"));
        }
    }
}

TEST_F(passes, what_is_no_hard_curve_stays) {
    const std::vector<std::string> nodes{"Add", "Add", "Clip", "Mul", "Div"};
    const auto operators = [&](const model& of) { return operators_of(sync(make_network(of), pool)); };
    const model known = of_hard_curve(13, curve_order::product_first, false, 3, 1);
    EXPECT_EQ(operators(of_hard_curve(13, curve_order::product_first, false, 2.9f, 1)), nodes);
    model other = known;
    other.body.constants["six"] = tensor_of<float>({5}, {});
    EXPECT_EQ(operators(other), nodes);
    other = known;
    other.body.constants["last"] = tensor_of<float>({5}, {});
    EXPECT_EQ(operators(other), nodes);
    other = known;
    other.body.nodes[3].inputs = {"x", "clipped"};  // not what is clipped
    EXPECT_EQ(operators(other), nodes);
    other = known;
    other.body.outputs.push_back(f32("clipped", {named("rows"), of(4)}));  // the caller reads it
    EXPECT_EQ(operators(other), nodes);
    // A constant of one dimension makes a list of a scalar, which HardSwish does not.
    other = known;
    other.body.nodes[0] = make_node("Neg", {"x"}, {"v"});
    EXPECT_EQ(operators(other).size(), 5U);
    other.body.constants["three"] = tensor_of<float>({3}, {});
    other.body.constants["last"] = tensor_of<float>({6}, {});
    EXPECT_THAT(operators(other), ::testing::ElementsAre("Neg", "HardSwish"));
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

// Positions that follow from shapes, quantized at each run: the product of bytes has no form for the host.
TEST_F(passes, dynamic_products_of_what_follows_from_shapes_run) {
    model made = make({named("n"), of(2)}, 2);
    made.body.constants = {{"third", tensor_of(std::vector<float>{0.3f}, {1})},
                           {"weights", tensor_of(std::vector<std::int8_t>{1, 2, 3, -4, 5, -6}, {2, 3})},
                           {"zero", tensor_of(std::vector<std::int8_t>{0}, {})}};
    made.body.nodes = {make_node("Shape", {"x"}, {"shape"}),
                       make_node("Expand", {"third", "shape"}, {"places"}),
                       make_node("DynamicQuantizeLinear", {"places"}, {"bytes", "scale", "point"}),
                       make_node("MatMulInteger", {"bytes", "weights", "point", "zero"}, {"sums"}),
                       make_node("Cast", {"sums"}, {"numbers"}),
                       make_node("Mul", {"numbers", "scale"}, {"product"}),
                       make_node("Neg", {"product"}, {"y"})};
    made.body.nodes[4].attributes["to"] = std::int64_t{1};
    const std::vector<float> got = first_output(made, {any_tensor(std::vector<float>{1, 2, 3, 4}, {2, 2})});
    EXPECT_THAT(got, Pointwise(FloatNear(0.01f), std::vector<float>{0.9f, -2.1f, 0.9f, 0.9f, -2.1f, 0.9f}));
}

// As DenseNet puts together all that it has. A constant is a part, too.
TEST_F(passes, a_concat_of_what_an_earlier_one_has_reads_that_one) {
    model made = make({named("n"), of(2)}, 2);
    made.body.constants = {{"c", numbers({1, 3}, 1)}};
    const auto concat = [&](std::vector<std::string> from, std::string to, std::int64_t axis) {
        made.body.nodes.push_back(make_node("Concat", std::move(from), {std::move(to)}));
        made.body.nodes.back().attributes["axis"] = axis;
    };
    const auto negated = [&](std::string from, std::string to) {
        made.body.nodes.push_back(make_node("Neg", {std::move(from)}, {std::move(to)}));
    };
    negated("x", "a");
    concat({"x", "a"}, "xa", 1);
    negated("xa", "b");
    concat({"x", "a", "b", "c"}, "xabc", 1);
    negated("xabc", "d");
    concat({"x", "a", "b", "c", "d"}, "y", 1);
    concat({"x", "a"}, "below", 0);
    concat({"a", "x", "b"}, "other", 1);
    for (const char* const also : {"xabc", "below", "other"})
        made.body.outputs.push_back(f32(also, {named(""), named("")}));
    const std::vector<pass_report> all = sync(list_passes(made), pool);
    const auto found = std::ranges::find(all, "nested concatenations", &pass_report::name);
    ASSERT_NE(found, all.end());
    EXPECT_TRUE(found->has_changed);
    const any_tensor x(std::vector<float>{5, 7}, {1, 2});
    const auto got = sync(sync(make_network(made), pool).run({x}), pool);
    const auto c = numbers({1, 3}, 1);
    std::vector<float> part{5, 7, -5, -7, -5, -7, 5, 7}, constants(3);
    std::memcpy(constants.data(), c.bytes->data(), c.bytes->size());
    part.insert(part.end(), constants.begin(), constants.end());
    std::vector<float> whole = part;
    for (const float each : part) whole.push_back(-each);
    const auto values = [&](std::size_t i) {
        return std::vector<float>(got[i].values<float>().begin(), got[i].values<float>().end());
    };
    EXPECT_EQ(values(0), whole);
    EXPECT_EQ(values(1), part);
    EXPECT_EQ(values(2), (std::vector<float>{5, 7, -5, -7}));
    EXPECT_EQ(values(3), (std::vector<float>{-5, -7, 5, 7, -5, -7, 5, 7}));
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
