// SPDX-License-Identifier: Apache-2.0
// Precisions: what is rounded, how far outputs are from those of f32, and what stays as it is.
#include "sluice/nn/precision.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/precision_choice.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "sluice/sim/explore.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::nn::precision_tests {
namespace {

using namespace test_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr precision rounded_ones[] = {precision::bf16, precision::f16, precision::int8};

// Of the largest output, for the small networks here.
double bound_of(precision what) { return what == precision::bf16 ? 0.02 : what == precision::f16 ? 0.002 : 0.04; }

// From -scale to scale.
std::vector<float> noise(std::size_t count, unsigned seed, float scale = 1) {
    std::minstd_rand generator(seed + 1);
    std::uniform_real_distribution<float> any(-scale, scale);
    std::vector<float> made(count);
    for (float& each : made) each = any(generator);
    return made;
}
constant numbers(std::vector<std::size_t> shape, unsigned seed, float scale = 1) {
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    return tensor_of(noise(count, seed, scale), std::move(shape));
}

model make(std::vector<dimension> input, std::size_t output_dimensions) {
    model made;
    made.path = "made.onnx";
    made.opsets = {{"", 20}};
    made.body.inputs = {f32("x", std::move(input))};
    made.body.outputs = {f32("y", std::vector<dimension>(output_dimensions, named("")))};
    return made;
}

// Three layers: 40 to 70 to 33 to 10.
model perceptron() {
    model made = make({named("rows"), of(40)}, 2);
    made.body.constants = {{"w1", numbers({70, 40}, 0, 0.3f)},
                           {"b1", numbers({70}, 1)},
                           {"w2", numbers({70, 33}, 2, 0.3f)},
                           {"b2", numbers({33}, 3)},
                           {"w3", numbers({33, 10}, 4, 0.3f)}};
    made.body.nodes = {make_node("Gemm", {"x", "w1", "b1"}, {"g1"}),
                       make_node("Relu", {"g1"}, {"r1"}),
                       make_node("MatMul", {"r1", "w2"}, {"m2"}),
                       make_node("Add", {"m2", "b2"}, {"a2"}),
                       make_node("Tanh", {"a2"}, {"t2"}),
                       make_node("MatMul", {"t2", "w3"}, {"y"})};
    made.body.nodes[0].attributes["transB"] = std::int64_t{1};
    return made;
}

model convolutions() {
    model made = make({named("images"), of(4), of(9), of(8)}, 4);
    made.body.constants = {
        {"f1", numbers({16, 2, 3, 3}, 0, 0.3f)}, {"c1", numbers({16}, 1)}, {"f2", numbers({8, 16, 2, 3}, 2, 0.2f)}};
    made.body.nodes = {make_node("Conv", {"x", "f1", "c1"}, {"v1"}), make_node("Relu", {"v1"}, {"r1"}),
                       make_node("Conv", {"r1", "f2"}, {"y"})};
    made.body.nodes[0].attributes = {{"group", std::int64_t{2}}, {"pads", std::vector<std::int64_t>{1, 0, 0, 2}}};
    made.body.nodes[1].attributes = {};
    made.body.nodes[2].attributes = {{"strides", std::vector<std::int64_t>{2, 1}}};
    return made;
}

class precisions : public ::testing::Test {
protected:
    network in(const model& from, precision what) { return sync(make_network(from, {.precision = what}), pool); }
    std::vector<any_tensor> outputs(const network& of, const any_tensor& x) { return sync(of.run({x}), pool); }
    std::vector<float> first_output(const network& of, const any_tensor& x) {
        const auto all = outputs(of, x);
        return {all.at(0).values<float>().begin(), all.at(0).values<float>().end()};
    }
    void expect_near_f32(const model& from, const any_tensor& x, std::size_t products) {
        const std::vector<any_tensor> exact = outputs(in(from, precision::f32), x);
        for (const precision each : rounded_ones) {
            SCOPED_TRACE(to_string(each));
            const network made = in(from, each);
            EXPECT_EQ(made.rounding().precision, each);
            EXPECT_EQ(made.rounding().rounded, products);
            EXPECT_THAT(made.rounding().kept, IsEmpty());
            const output_difference difference = difference_of(exact, outputs(made, x));
            EXPECT_LE(difference.relative, bound_of(each));
            EXPECT_GT(difference.relative, bound_of(each) / 1000);  // it is rounded
        }
    }

    runtime machine{runtime_options{.cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

}  // namespace

TEST_F(precisions, have_names) {
    for (const precision each : {precision::f32, precision::bf16, precision::f16, precision::int8}) {
        EXPECT_EQ(precision_from_string(to_string(each)), each);
        EXPECT_NE(support_of(each, machine.find("cpu:0")).how, "");
    }
    EXPECT_FALSE(precision_from_string("auto"));
    EXPECT_FALSE(precision_from_string("BF16"));
}

TEST_F(precisions, are_the_models_own_where_nothing_is_said) {
    const any_tensor x(noise(7 * 40, 1), {7, 40});
    const network made = sync(make_network(perceptron()), pool);
    EXPECT_EQ(made.rounding().precision, precision::f32);
    EXPECT_EQ(made.rounding().rounded, 0u);
    EXPECT_EQ(first_output(made, x), first_output(in(perceptron(), precision::f32), x));
}

TEST_F(precisions, round_products_to_a_stated_bound) {
    for (const std::size_t rows : {1, 3, 60})
        expect_near_f32(perceptron(), any_tensor(noise(rows * 40, 1), {rows, 40}), 3);
}

TEST_F(precisions, round_convolutions_to_a_stated_bound) {
    expect_near_f32(convolutions(), any_tensor(noise(3 * 4 * 9 * 8, 1), {3, 4, 9, 8}), 2);
    model of_lines = make({named("n"), of(5), of(30)}, 3);
    of_lines.body.constants = {{"f", numbers({12, 5, 4}, 0)}, {"c", numbers({12}, 1)}};
    of_lines.body.nodes = {make_node("Conv", {"x", "f", "c"}, {"y"})};
    expect_near_f32(of_lines, any_tensor(noise(2 * 5 * 30, 1), {2, 5, 30}), 1);
}

TEST_F(precisions, round_rows_of_several_dimensions) {
    model made = make({of(2), of(3), of(20)}, 3);
    made.body.constants = {{"w", numbers({20, 9}, 0)}};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"y"})};
    expect_near_f32(made, any_tensor(noise(120, 1), {2, 3, 20}), 1);
    EXPECT_THAT(outputs(in(made, precision::bf16), any_tensor(noise(120, 1), {2, 3, 20})).at(0).shape(),
                ElementsAre(2, 3, 9));
}

// Of three dimensions: the operator itself, on 16-bit numbers.
TEST_F(precisions, round_convolutions_of_three_dimensions_to_16_bits) {
    model made = make({of(1), of(2), of(4), of(5), of(6)}, 5);
    made.body.constants = {{"f", numbers({3, 2, 2, 2, 2}, 0)}, {"c", numbers({3}, 1)}};
    made.body.nodes = {make_node("Conv", {"x", "f", "c"}, {"y"})};
    const any_tensor x(noise(2 * 4 * 5 * 6, 1), {1, 2, 4, 5, 6});
    const auto exact = outputs(in(made, precision::f32), x);
    for (const precision each : {precision::bf16, precision::f16}) {
        const network narrow = in(made, each);
        EXPECT_EQ(narrow.rounding().rounded, 1u);
        EXPECT_EQ(outputs(narrow, x).at(0).type(), io::dtype::f32);
        const double relative = difference_of(exact, outputs(narrow, x)).relative;
        EXPECT_LE(relative, bound_of(each));
        EXPECT_GT(relative, 0);
    }
    EXPECT_THAT(in(made, precision::int8).rounding().kept, ElementsAre("Conv: its images have three dimensions"));
}

TEST_F(precisions, keep_what_would_lose_more_than_the_rounding_and_say_why) {
    const auto expect_kept = [&](const model& from, precision what, const std::string& why, const any_tensor& x) {
        const network made = in(from, what);
        EXPECT_EQ(made.rounding().rounded, 0u);
        EXPECT_THAT(made.rounding().kept, ElementsAre(HasSubstr(why)));
        EXPECT_EQ(first_output(made, x), first_output(in(from, precision::f32), x));
    };
    const any_tensor x(noise(12, 1), {4, 3});
    model made = make({of(4), of(3)}, 2);
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"y"})};
    made.body.constants = {{"w", tensor_of<float>({70000, 1, 2, 3, 4, 5}, {3, 2})}};
    expect_kept(made, precision::f16, "MatMul: a weight is too large for f16", x);
    made.body.constants = {{"w", tensor_of<float>({std::numeric_limits<float>::infinity(), 1, 2, 3, 4, 5}, {3, 2})}};
    for (const precision each : rounded_ones) expect_kept(made, each, "a weight is not finite", x);
    made.body.nodes[0].inputs = {"x", "x"};
    made.body.inputs[0].shape = {{of(3), of(3)}};
    expect_kept(made, precision::bf16, "its weights are not constant", any_tensor(noise(9, 1), {3, 3}));

    model few = make({of(1), of(2), of(5), of(5)}, 4);
    few.body.constants = {{"f", numbers({2, 1, 3, 3}, 0)}};
    few.body.nodes = {make_node("Conv", {"x", "f"}, {"y"})};
    few.body.nodes[0].attributes["group"] = std::int64_t{2};
    expect_kept(few, precision::int8, "too few filters", any_tensor(noise(50, 1), {1, 2, 5, 5}));

    model scaled = make({of(4), of(3)}, 2);
    scaled.body.constants = {{"w", numbers({3, 2}, 0)}};
    scaled.body.nodes = {make_node("Gemm", {"x", "w"}, {"y"})};
    scaled.body.nodes[0].attributes["alpha"] = 2.0f;
    expect_kept(scaled, precision::bf16, "no product of rows by one matrix", x);
}

TEST_F(precisions, refuse_a_bias_of_another_shape_as_f32_does) {
    model made = make({of(1), of(2), of(5), of(5)}, 4);
    made.body.constants = {{"f", numbers({8, 2, 3, 3}, 0)}, {"c", numbers({1, 8}, 1)}};
    made.body.nodes = {make_node("Conv", {"x", "f", "c"}, {"y"})};
    const any_tensor x(noise(50, 1), {1, 2, 5, 5});
    for (const precision each : {precision::f32, precision::bf16, precision::f16, precision::int8}) {
        try {
            first_output(in(made, each), x);
            ADD_FAILURE() << to_string(each) << " takes a bias [1, 8]";
        } catch (const error& refused) {
            EXPECT_THAT(refused.what(), HasSubstr("has the bias f32 [1, 8] for 8 filters")) << to_string(each);
        }
    }
}

// Each product alone fits its weights, but not the product after it.
TEST_F(precisions, refuse_layers_whose_widths_differ_as_f32_does) {
    model made = make({of(4), of(3)}, 2);
    made.body.constants = {{"w", numbers({3, 12}, 0)}, {"u", numbers({13, 5}, 1)}};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"h"}), make_node("Gemm", {"h", "u"}, {"y"})};
    const any_tensor x(noise(12, 1), {4, 3});
    for (const precision each : {precision::f32, precision::bf16, precision::f16, precision::int8}) {
        try {
            first_output(in(made, each), x);
            ADD_FAILURE() << to_string(each) << " multiplies 12 columns by 13 rows";
        } catch (const error& refused) {
            EXPECT_THAT(refused.what(), HasSubstr("Gemm")) << to_string(each);
        }
    }
}

// The layers before one that is kept are rounded, and those after it.
TEST_F(precisions, round_the_layers_around_one_that_is_kept) {
    model made = perceptron();
    made.body.constants["w2"] = numbers({70, 33}, 2, 1e5f);
    const network half = in(made, precision::f16);
    EXPECT_EQ(half.rounding().rounded, 2u);
    EXPECT_THAT(half.rounding().kept, ElementsAre("MatMul: a weight is too large for f16"));
    const any_tensor x(noise(2 * 40, 1), {2, 40});
    EXPECT_LE(difference_of(outputs(in(made, precision::f32), x), outputs(half, x)).relative, 0.1);
}

TEST_F(precisions, keep_NaN_and_zeros_in_their_rows) {
    std::vector<float> values = noise(4 * 40, 1);
    values[40 + 7] = std::numeric_limits<float>::quiet_NaN();
    std::fill(values.begin() + 80, values.begin() + 120, 0.0f);
    const any_tensor x(values, {4, 40});
    for (const precision each : rounded_ones) {
        const network made = in(perceptron(), each);
        const std::vector<float> y = first_output(made, x);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 10 == 1) << i;
        const std::vector<float> zeros = first_output(made, any_tensor(std::vector<float>(40), {1, 40}));
        EXPECT_TRUE(std::equal(zeros.begin(), zeros.end(), y.begin() + 20));
    }
}

TEST_F(precisions, refuse_shapes_as_f32_does) {
    for (const precision each : rounded_ones) {
        model made = perceptron();
        made.body.inputs[0].shape = {{named("rows"), named("width")}};
        try {
            static_cast<void>(outputs(in(made, each), any_tensor(std::vector<float>(39), {1, 39})));
            FAIL() << "rows of another length were taken";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::shape_mismatch);
            EXPECT_THAT(failure.what(), HasSubstr("multiplies f32 [1, 39] by 40 rows of weights"));
        }
        EXPECT_THAT(outputs(in(made, each), any_tensor(std::vector<float>(), {0, 40})).at(0).shape(),
                    ElementsAre(0, 10));
    }
}

TEST_F(precisions, give_the_same_bits_compiled_and_simulated) {
    const std::vector<float> values = noise(60 * 40, 1);
    const any_tensor x(values, {60, 40});
    sim::simulator simulated;
    single_stream there(simulated.device());
    for (const precision each : rounded_ones) {
        const network made = in(perceptron(), each);
        const std::vector<float> expected = first_output(made, x);
        const auto fast = compile(pool, [&] { return made.run({x}); });
        for (int i = 0; i < 3; ++i) {
            const auto again = sync(fast(), pool);
            EXPECT_TRUE(std::ranges::equal(again.at(0).values<float>(), expected));
        }
        const network on_simulator = sync(make_network(perceptron(), {.precision = each}), there);
        const auto simulated_values = sync(on_simulator.run({x}), there);
        EXPECT_TRUE(std::ranges::equal(simulated_values.at(0).values<float>(), expected));
    }
    EXPECT_TRUE(simulated.findings().empty());
}

// The simulator has one worker. Few rows divide the columns of layers, many the rows; convolutions divide images.
TEST_F(precisions, give_the_same_bits_however_the_work_is_divided) {
    sim::simulator simulated;
    single_stream there(simulated.device());
    model wide = make({named("rows"), of(300)}, 2);
    wide.body.constants = {{"w1", numbers({300, 900}, 0, 0.1f)}, {"w2", numbers({900, 100}, 1, 0.1f)}};
    wide.body.nodes = {make_node("MatMul", {"x", "w1"}, {"m"}), make_node("Relu", {"m"}, {"r"}),
                       make_node("MatMul", {"r", "w2"}, {"y"})};
    model images = make({named("images"), of(16), of(30), of(30)}, 4);
    images.body.constants = {{"f", numbers({32, 16, 3, 3}, 2, 0.1f)}};
    images.body.nodes = {make_node("Conv", {"x", "f"}, {"y"})};
    const std::pair<const model*, any_tensor> all[] = {{&wide, any_tensor(noise(40 * 300, 3), {40, 300})},
                                                       {&wide, any_tensor(noise(200 * 300, 4), {200, 300})},
                                                       {&images, any_tensor(noise(3 * 14400, 5), {3, 16, 30, 30})}};
    for (const precision each : rounded_ones) {
        for (const auto& [from, x] : all) {
            const network alone = sync(make_network(*from, {.precision = each}), there);
            const auto expected = sync(alone.run({x}), there);
            EXPECT_TRUE(std::ranges::equal(outputs(in(*from, each), x).at(0).bytes(), expected.at(0).bytes()))
                << to_string(each);
        }
    }
}

TEST_F(precisions, round_products_in_inner_graphs) {
    const auto branch = [](const char* name, unsigned seed) {
        auto made = std::make_shared<graph>();
        made->constants = {{"w", numbers({6, 9}, seed)}};
        made->nodes = {make_node("MatMul", {"x", "w"}, {name})};
        made->outputs = {f32(name, {named(""), named("")})};
        return std::shared_ptr<const graph>(std::move(made));
    };
    model made = make({of(4), of(6)}, 2);
    made.body.inputs.push_back({"which", io::dtype::boolean, {std::vector<dimension>{}}});
    node choice = make_node("If", {"which"}, {"y"});
    choice.attributes["then_branch"] = branch("a", 0);
    choice.attributes["else_branch"] = branch("b", 1);
    made.body.nodes = {std::move(choice)};
    const any_tensor x(noise(24, 2), {4, 6});
    for (const bool which : {false, true}) {
        std::byte* to = nullptr;
        const any_tensor condition = any_tensor::make_on_host(io::dtype::boolean, {}, to);
        *to = std::byte{which};
        const auto exact = sync(in(made, precision::f32).run({x, condition}), pool);
        for (const precision each : rounded_ones) {
            const network rounded = in(made, each);
            EXPECT_EQ(rounded.rounding().rounded, 2u);
            const double relative = difference_of(exact, sync(rounded.run({x, condition}), pool)).relative;
            EXPECT_LE(relative, bound_of(each));
            EXPECT_GT(relative, 0);
        }
    }
}

TEST_F(precisions, are_explored_without_a_finding) {
    const std::vector<float> x = noise(3 * 40, 1);
    for (const precision each : rounded_ones) {
        const auto twice = [&] {
            return make_network(perceptron(), {.precision = each}).and_then([&](const network& made) {
                return upload(x, {3, 40}).and_then([made](tensor<float> rows) {
                    return made.forward({any_tensor(std::move(rows))}).and_then([](std::vector<any_tensor> values) {
                        return download(values.at(0).on_device<float>());
                    });
                });
            });
        };
        sim::explore(twice, {.schedules = 50}).require_clean();
    }
}

TEST_F(precisions, differ_by_numbers_rows_and_labels) {
    const auto floats = [](std::vector<float> values) {
        const std::size_t rows = values.size() / 2;
        return std::vector{any_tensor(std::move(values), {rows, 2})};
    };
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const output_difference made = difference_of(floats({1, 2, -4, 0}), floats({1, 1.5f, 0, 1}));
    EXPECT_EQ(made.largest, 4);
    EXPECT_EQ(made.relative, 1);
    EXPECT_EQ(made.rows, 2u);
    EXPECT_EQ(made.agreeing_rows, 2u);
    EXPECT_EQ(difference_of(floats({1, 2}), floats({2, 1})).agreeing_rows, 0u);
    EXPECT_EQ(difference_of(floats({nan, infinity}), floats({nan, infinity})).largest, 0);
    EXPECT_EQ(difference_of(floats({nan, 1}), floats({1, 1})).largest, infinity);
    EXPECT_EQ(difference_of(floats({infinity, 1}), floats({1, 1})).largest, infinity);
    EXPECT_EQ(difference_of(floats({0, 0}), floats({0, 1e-30f})).relative, infinity);
    const std::vector labels{any_tensor(std::vector<std::int64_t>{1, 2, 3}, {3})};
    const std::vector others{any_tensor(std::vector<std::int64_t>{1, 5, 3}, {3})};
    EXPECT_EQ(difference_of(labels, others).rows, 3u);
    EXPECT_EQ(difference_of(labels, others).agreeing_rows, 2u);
    EXPECT_THROW(static_cast<void>(difference_of(labels, floats({1, 2}))), error);
    EXPECT_THROW(static_cast<void>(difference_of(labels, {})), error);
}

TEST_F(precisions, are_chosen_only_if_they_keep_the_outputs) {
    // The difference of two products that are nearly the same.
    model made = make({named("rows"), of(30)}, 2);
    std::vector<float> first = noise(30 * 12, 0), second = first;
    for (std::size_t i = 0; i < second.size(); ++i) second[i] += 1e-4f * static_cast<float>(i % 7);
    made.body.constants = {{"v", tensor_of(first, {30, 12})}, {"w", tensor_of(second, {30, 12})}};
    made.body.nodes = {make_node("MatMul", {"x", "v"}, {"a"}), make_node("MatMul", {"x", "w"}, {"b"}),
                       make_node("Sub", {"a", "b"}, {"y"})};
    const std::vector<any_tensor> sample{any_tensor(noise(20 * 30, 1), {20, 30})};
    const precision_choice choice = choose_precision(made, sample, pool);
    EXPECT_EQ(choice.chosen, precision::f32);
    ASSERT_EQ(choice.measured.size(), 4u);
    EXPECT_TRUE(choice.measured[0].is_accurate);
    EXPECT_EQ(choice.measured[0].difference.largest, 0);
    for (std::size_t i = 1; i < 4; ++i) {
        EXPECT_FALSE(choice.measured[i].is_accurate);
        EXPECT_EQ(choice.measured[i].rounding.rounded, 2u);
        EXPECT_GT(choice.measured[i].seconds, 0);
    }

    const std::vector<any_tensor> rows{any_tensor(noise(64 * 40, 1), {64, 40})};
    const precision_choice other =
        choose_precision(perceptron(), rows, pool, {.relative_difference = 0.5, .keeps_largest = false});
    for (const precision_measurement& each : other.measured) EXPECT_TRUE(each.is_accurate);
    const auto fastest = std::ranges::min_element(other.measured, {}, &precision_measurement::seconds);
    if (other.chosen != precision::f32) {
        EXPECT_EQ(other.chosen, fastest->rounding.precision);
    }
}

}  // namespace sluice::nn::precision_tests
