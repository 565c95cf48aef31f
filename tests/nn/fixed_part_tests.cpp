// SPDX-License-Identifier: Apache-2.0
// What comes before shapes that depend on numbers runs on a CPU as in a network without them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/single_nodes.hpp"
#include "sluice/nn/host_view.hpp"

namespace sluice::nn::fixed_part_tests {
namespace {

using namespace test_support;
using ::testing::ElementsAre;

any_tensor noise(std::vector<std::size_t> shape, unsigned seed) {
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    std::mt19937 numbers(seed);
    std::normal_distribution<float> one;
    std::vector<float> made(count);
    for (float& each : made) each = one(numbers);
    return any_tensor(made, std::move(shape));
}
constant fixed(std::vector<std::size_t> shape, unsigned seed) {
    const any_tensor values = noise(shape, seed);
    const auto span = values.values<float>();
    return tensor_of(std::vector<float>(span.begin(), span.end()), std::move(shape));
}
node with(node to, std::string name, attribute value) {
    to.attributes.emplace(std::move(name), std::move(value));
    return to;
}

class fixed_part : public ::testing::Test {
protected:
    static model made_of(std::vector<node> nodes, std::vector<value_info> outputs, std::vector<dimension> input) {
        model made;
        made.path = "made.onnx";
        made.opsets = {{"", 17}};
        made.body.inputs = {f32("x", std::move(input))};
        made.body.outputs = std::move(outputs);
        made.body.nodes = std::move(nodes);
        return made;
    }
    // A detector: filters, and the places where they find something, with what they find there.
    static model detector() {
        model made = made_of({with(make_node("Conv", {"x", "first"}, {"a"}), "pads", wholes({1, 1, 1, 1})),
                              make_node("Relu", {"a"}, {"b"}),
                              with(make_node("Conv", {"b", "second"}, {"c"}), "pads", wholes({1, 1, 1, 1})),
                              make_node("Reshape", {"c", "flat"}, {"d"}), make_node("Greater", {"d", "least"}, {"e"}),
                              make_node("NonZero", {"e"}, {"i"}), make_node("Squeeze", {"i", "axis"}, {"j"}),
                              make_node("Gather", {"d", "j"}, {"y"})},
                             {{"j", io::dtype::i64, {}}, {"y", io::dtype::f32, {}}},
                             {named("images"), of(3), named("height"), named("width")});
        made.body.constants = {{"first", fixed({8, 3, 3, 3}, 1)},
                               {"second", fixed({4, 8, 3, 3}, 2)},
                               {"flat", tensor_of<std::int64_t>({-1}, {1})},
                               {"least", tensor_of<float>({0.5f}, {})},
                               {"axis", tensor_of<std::int64_t>({0}, {1})}};
        return made;
    }
    // Views need the number of dimensions: without it, all that the host needs is computed there.
    static model without_front(model from) {
        for (value_info& each : from.body.inputs) each.shape.reset();
        return from;
    }
    void expect_equal(const std::vector<any_tensor>& made, const std::vector<any_tensor>& expected, float tolerance) {
        ASSERT_EQ(made.size(), expected.size());
        for (std::size_t k = 0; k < made.size(); ++k) {
            SCOPED_TRACE("output " + std::to_string(k));
            ASSERT_EQ(made[k].shape(), expected[k].shape());
            ASSERT_EQ(made[k].type(), expected[k].type());
            if (made[k].type() == io::dtype::f32) {
                EXPECT_THAT(made[k].values<float>(),
                            ::testing::Pointwise(::testing::FloatNear(tolerance), expected[k].values<float>()));
            } else {
                EXPECT_TRUE(std::ranges::equal(made[k].bytes(), expected[k].bytes()));
            }
        }
    }

    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = 3, .cuda = false}};
    round_robin pool_{machine_.find("cpu:0"), 2};
};

}  // namespace

TEST_F(fixed_part, convolutions_before_the_places_of_numbers_are_one_step_on_the_device) {
    const auto steps = sync(make_network(detector()), pool_).steps();
    ASSERT_FALSE(steps.empty());
    EXPECT_THAT(steps[0].operators, ElementsAre("Conv", "Relu", "Conv"));
    EXPECT_FALSE(steps[0].is_on_host);
    std::size_t on_host = 0;
    for (const network_step& each : steps) on_host += each.is_on_host ? 1 : 0;
    EXPECT_EQ(on_host, 1);  // NonZero
}

TEST_F(fixed_part, gives_what_the_steps_give_one_by_one) {
    const network made = sync(make_network(detector()), pool_),
                  expected = sync(make_network(without_front(detector())), pool_);
    EXPECT_TRUE(made.is_host_input(0));
    unsigned seed = 0;
    for (const std::size_t side : {16u, 16u, 16u, 9u, 16u, 9u, 1u}) {
        SCOPED_TRACE(side);
        const any_tensor x = noise({2, 3, side, side}, ++seed);
        const auto answers = sync(expected.run({x}), pool_);
        expect_equal(sync(made.run({x}), pool_), answers, 1e-4f);
        expect_equal(made({{input_view(x)}}), answers, 1e-4f);
        const auto inferred = made.infer({x});
        EXPECT_EQ(inferred.at(0).shape(), answers.at(0).shape());
    }
}

TEST_F(fixed_part, its_values_may_be_outputs_conditions_and_lengths) {
    graph same, twice;
    same.outputs = {{"s", io::dtype::f32, {}}};
    same.nodes = {make_node("Identity", {"r"}, {"s"})};
    twice.outputs = {{"t", io::dtype::f32, {}}};
    twice.nodes = {make_node("Add", {"r", "r"}, {"t"})};
    model from = made_of(
        {make_node("Relu", {"x"}, {"r"}), with(make_node("ReduceSum", {"r"}, {"all"}), "keepdims", whole(0)),
         make_node("Greater", {"all", "limit"}, {"is_large"}),
         with(with(make_node("If", {"is_large"}, {"y"}), "then_branch", std::make_shared<const graph>(same)),
              "else_branch", std::make_shared<const graph>(twice)),
         with(make_node("Cast", {"all"}, {"k"}), "to", whole(7)), make_node("Reshape", {"k", "one"}, {"count"}),
         make_node("Slice", {"r", "zero", "count"}, {"z"}), make_node("Shape", {"r"}, {"of_r"})},
        {{"r", io::dtype::f32, {}}, {"y", io::dtype::f32, {}}, {"z", io::dtype::f32, {}}, {"of_r", io::dtype::i64, {}}},
        {named("n")});
    from.body.constants = {{"limit", tensor_of<float>({4}, {})},
                           {"one", tensor_of<std::int64_t>({1}, {1})},
                           {"zero", tensor_of<std::int64_t>({0}, {1})}};
    const network made = sync(make_network(from), pool_);
    for (const float factor : {1.0f, 1.0f, 2.0f, 2.0f}) {
        const any_tensor x(std::vector<float>{factor, -1, 2 * factor, 0}, {4});
        const auto answers = sync(made.run({x}), pool_);
        EXPECT_THAT(answers.at(0).values<float>(), ElementsAre(factor, 0, 2 * factor, 0));
        const float by = factor > 1 ? 1.0f : 2.0f;
        EXPECT_THAT(answers.at(1).values<float>(), ElementsAre(by * factor, 0, by * 2 * factor, 0));
        EXPECT_EQ(answers.at(2).elements(), factor > 1 ? 4u : 3u);
        EXPECT_THAT(answers.at(3).values<std::int64_t>(), ElementsAre(4));
    }
}

// Of the second input the host needs the shape only.
TEST_F(fixed_part, needs_of_an_input_perhaps_the_shape_only) {
    model from = made_of({make_node("Shape", {"b"}, {"of_b"}), make_node("Slice", {"of_b", "zero", "one"}, {"rows"}),
                          make_node("Reshape", {"x", "rows"}, {"flat"}), make_node("Greater", {"flat", "least"}, {"e"}),
                          make_node("NonZero", {"e"}, {"i"}), make_node("Squeeze", {"i", "zero"}, {"j"}),
                          make_node("Gather", {"b", "j"}, {"y"})},
                         {{"y", io::dtype::f32, {}}}, {named("n")});
    from.body.inputs.push_back(f32("b", {named("m"), of(2)}));
    from.body.constants = {{"zero", tensor_of<std::int64_t>({0}, {1})},
                           {"one", tensor_of<std::int64_t>({1}, {1})},
                           {"least", tensor_of<float>({0.5f}, {})}};
    const network made = sync(make_network(from), pool_);
    const any_tensor x(std::vector<float>{1, 0, 1}, {3}), b(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
    for (int call = 0; call < 3; ++call) {
        EXPECT_THAT(made({{input_view(x), input_view(b)}}).at(0).values<float>(), ElementsAre(1, 2, 5, 6));
        EXPECT_THAT(sync(made.run({x, b}), pool_).at(0).values<float>(), ElementsAre(1, 2, 5, 6));
    }
}

// Networks of any elementwise operators, movements and numbers of elements.
TEST_F(fixed_part, random_networks_give_the_same_bits_with_and_without_it) {
    std::mt19937 numbers(11);
    const auto any = [&](std::size_t count) { return numbers() % count; };
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE(round);
        // Values that are [a, b], with lengths that may depend on numbers, and lists of places.
        std::vector<node> nodes;
        std::vector<std::string> matrices{"x"};
        std::size_t next = 0;
        const auto fresh = [&] { return "v" + std::to_string(next++); };
        const auto old = [&] { return matrices[any(matrices.size())]; };
        for (std::size_t k = 0, steps = 3 + any(10); k < steps; ++k) {
            const std::string made = fresh(), a = old();
            switch (any(6)) {
                case 0: nodes.push_back(make_node("Relu", {a}, {made})); break;
                case 1: nodes.push_back(make_node("Mul", {a, "half"}, {made})); break;
                case 2: nodes.push_back(with(make_node("Transpose", {a}, {made}), "perm", wholes({1, 0}))); break;
                case 3: nodes.push_back(make_node("Add", {a, a}, {made})); break;
                case 4: {  // the rows that have a number above 0 first
                    const std::string flags = fresh(), first = fresh(), places = fresh();
                    nodes.push_back(
                        with(with(make_node("ReduceMax", {a}, {first}), "axes", wholes({1})), "keepdims", whole(0)));
                    nodes.push_back(make_node("Greater", {first, "nothing"}, {flags}));
                    nodes.push_back(make_node("NonZero", {flags}, {places}));
                    const std::string list = fresh();
                    nodes.push_back(make_node("Squeeze", {places, "zero"}, {list}));
                    nodes.push_back(make_node("Gather", {a, list}, {made}));
                    break;
                }
                default: {  // of its own shape
                    const std::string shape = fresh();
                    nodes.push_back(make_node("Shape", {a}, {shape}));
                    nodes.push_back(make_node("Expand", {"half", shape}, {made}));
                }
            }
            matrices.push_back(made);
        }
        std::vector<value_info> outputs;
        for (std::size_t k = 1; k < matrices.size(); ++k)
            if (any(3) == 0 || k + 1 == matrices.size()) outputs.push_back({matrices[k], io::dtype::f32, {}});
        model from = made_of(std::move(nodes), std::move(outputs), {named("a"), named("b")});
        from.body.constants = {{"half", tensor_of<float>({0.5f}, {})},
                               {"nothing", tensor_of<float>({0.7f}, {})},
                               {"zero", tensor_of<std::int64_t>({0}, {1})}};
        const network made = sync(make_network(from), pool_), expected = sync(make_network(without_front(from)), pool_);
        for (int call = 0; call < 3; ++call) {
            const any_tensor x = noise({3 + any(2), 4}, static_cast<unsigned>(numbers()));
            const auto answers = sync(expected.run({x}), pool_);
            expect_equal(sync(made.run({x}), pool_), answers, 0);
            expect_equal(made({{input_view(x)}}), answers, 0);
        }
    }
}

}  // namespace sluice::nn::fixed_part_tests
