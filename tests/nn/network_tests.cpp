// SPDX-License-Identifier: Apache-2.0
// Networks of any operators: what they take, what they refuse, and where they run. That each operator computes what it
// should is tested by onnx_cases.
#include "sluice/nn/network.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::nn::network_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y = relu(x * scale + shift), of any number of rows; z = x's shape.
model scaled() {
    model made;
    made.path = "scaled.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("rows"), of(2)})};
    made.body.outputs = {f32("y", {named("rows"), of(2)})};
    made.body.constants = {{"scale", tensor_of<float>({2, 3}, {2})}, {"half", tensor_of<float>({0.5f}, {})}};
    made.body.nodes = {make_node("Add", {"half", "half"}, {"shift"}), make_node("Mul", {"x", "scale"}, {"scaled"}),
                       make_node("Add", {"scaled", "shift"}, {"shifted"}), make_node("Relu", {"shifted"}, {"y"})};
    return made;
}

class networks : public ::testing::Test {
protected:
    std::string refusal(model from, std::vector<any_tensor> inputs, errc code) {
        try {
            const network made = sync(make_network(std::move(from)), pool);
            static_cast<void>(sync(made.run(std::move(inputs)), pool));
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), code);
            return failure.what();
        }
        return "no error";
    }

    runtime machine{runtime_options{.cpu_devices = 2, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
    const any_tensor rows{std::vector<float>{1, 2, -3, 4}, {2, 2}};
};

}  // namespace

TEST_F(networks, give_their_outputs_for_any_length_of_a_named_dimension) {
    const network made = sync(make_network(scaled()), pool);
    EXPECT_THAT(sync(made.run({rows}), pool).at(0).values<float>(), ElementsAre(3, 7, 0, 13));
    const auto one = sync(made.run({any_tensor(std::vector<float>{1, 1}, {1, 2})}), pool);
    EXPECT_THAT(one.at(0).values<float>(), ElementsAre(3, 4));
    EXPECT_THAT(one.at(0).shape(), ElementsAre(1, 2));
    EXPECT_EQ(sync(made.run({any_tensor(std::vector<float>{}, {0, 2})}), pool).at(0).elements(), 0u);
}

TEST_F(networks, compute_what_depends_on_constants_only_when_they_are_made) {
    const network made = sync(make_network(scaled()), pool);
    const auto commands = made.forward({rows}).estimate().commands;
    EXPECT_EQ(commands, 3u);  // of four nodes
}

// The numbers are four times as large as the bytes, and the table is made of a few numbers.
TEST_F(networks, compute_large_values_from_small_constants_only_when_they_are_made) {
    constexpr std::size_t length = 1'500'000;
    model from = scaled();
    from.body.constants.emplace("bytes", tensor_of<std::int8_t>(std::vector<std::int8_t>(length * 2, 3), {length, 2}));
    from.body.constants.emplace("low", tensor_of<std::int8_t>(std::vector<std::int8_t>(length * 2, -2), {length, 2}));
    from.body.constants.emplace("long", tensor_of<std::int64_t>({static_cast<std::int64_t>(length), 2}, {2}));
    from.body.nodes = {make_node("Cast", {"bytes"}, {"numbers"}),
                       make_node("Mul", {"numbers", "half"}, {"weights"}),
                       make_node("DequantizeLinear", {"low", "half"}, {"others"}),
                       make_node("ConstantOfShape", {"long"}, {"none"}),
                       make_node("Sum", {"x", "weights", "others", "none"}, {"all"}),
                       make_node("ReduceMax", {"all"}, {"y"})};
    from.body.nodes[0].attributes.emplace("to", std::int64_t{1});
    from.body.nodes.back().attributes.emplace("axes", std::vector<std::int64_t>{0});
    const network made = sync(make_network(std::move(from)), pool);
    EXPECT_EQ(made.steps().size(), 2U);
    const any_tensor row(std::vector<float>{1, 2}, {1, 2});
    EXPECT_THAT(sync(made.run({row}), pool).at(0).values<float>(), ElementsAre(1.5f, 2.5f));
}

TEST_F(networks, compute_large_values_from_constants_around_a_graph_only_once) {
    constexpr std::size_t length = 600'000;
    model from = scaled();
    from.body.constants.emplace("bytes", tensor_of<std::int8_t>(std::vector<std::int8_t>(length * 2, 3), {length, 2}));
    auto scales = std::make_shared<graph>(), keeps = std::make_shared<graph>();
    scales->outputs = keeps->outputs = {{"made", io::dtype::f32, {}}};
    scales->nodes = {make_node("Cast", {"bytes"}, {"numbers"}), make_node("Add", {"x", "numbers"}, {"all"}),
                     make_node("ReduceMax", {"all"}, {"made"})};
    scales->nodes[0].attributes.emplace("to", std::int64_t{1});
    scales->nodes[2].attributes.emplace("axes", std::vector<std::int64_t>{0});
    keeps->nodes = {make_node("Identity", {"x"}, {"made"})};
    from.body.constants.emplace("yes", constant{io::dtype::boolean, {}, std::make_shared<const std::string>(1, '\1')});
    from.body.nodes = {make_node("If", {"yes"}, {"y"})};
    from.body.nodes[0].attributes.emplace("then_branch", std::shared_ptr<const graph>(scales));
    from.body.nodes[0].attributes.emplace("else_branch", std::shared_ptr<const graph>(keeps));
    const network made = sync(make_network(std::move(from)), pool);
    EXPECT_EQ(made.steps().at(0).parts.at(1).steps.size(), 2U);
    EXPECT_THAT(sync(made.run({any_tensor(std::vector<float>{1, 2}, {1, 2})}), pool).at(0).values<float>(),
                ElementsAre(4, 5));
}

// More than the constants are worth: a run may take this memory, the network does not keep it.
TEST_F(networks, leave_huge_values_of_small_constants_to_the_runs) {
    model from = scaled();
    from.body.constants.emplace("long", tensor_of<std::int64_t>({std::int64_t{1} << 30, 2}, {2}));
    from.body.nodes = {make_node("ConstantOfShape", {"long"}, {"none"}), make_node("Add", {"x", "none"}, {"y"})};
    const network made = sync(make_network(std::move(from)), pool);
    EXPECT_EQ(made.steps().size(), 2U);
}

TEST_F(networks, have_all_inputs_of_an_operator_that_takes_any_number) {
    for (const char* const each : {"Sum", "Mean", "Max", "Min", "Concat"}) {
        model from = scaled();
        from.body.nodes.back() = make_node(each, {"shifted", "", "x"}, {"y"});
        from.body.nodes.back().attributes.emplace("axis", std::int64_t{1});
        if (from.body.nodes.back().op != "Concat") from.body.nodes.back().attributes.clear();
        EXPECT_THAT(refusal(std::move(from), {rows}, errc::bad_file), HasSubstr("leaves out its input 1")) << each;
    }
}

TEST_F(networks, infer_types_and_shapes) {
    const network made = sync(make_network(scaled()), pool);
    const auto shapes = made.infer({rows});
    EXPECT_EQ(to_string(shapes.at(0)), "f32 [2, 2]");
    EXPECT_FALSE(shapes.at(0).is_on_host());
    EXPECT_FALSE(shapes.at(0).is_on_device());
}

TEST_F(networks, take_and_give_tensors_of_the_device) {
    const network made = sync(make_network(scaled()), pool);
    auto twice = upload(std::vector<float>{1, 2}, {1, 2}).and_then([&](tensor<float> x) {
        return made.forward({any_tensor(std::move(x))});
    });
    const std::vector<any_tensor> values = sync(std::move(twice), pool);
    EXPECT_TRUE(values.at(0).is_on_device());
    EXPECT_EQ(sync(download(values.at(0).on_device<float>()), pool), (std::vector<float>{3, 7}));
}

TEST_F(networks, are_compiled_into_graphs) {
    const network made = sync(make_network(scaled()), pool);
    const auto fast = compile(
        pool,
        [&](tensor<float> x) {
            return made.forward({any_tensor(std::move(x))}).and_then([](std::vector<any_tensor> values) {
                return download(values.at(0).on_device<float>());
            });
        },
        device_input<float>({2, 2}));
    for (int i = 0; i < 3; ++i) {
        const auto x = static_cast<float>(i);
        EXPECT_EQ(sync(upload(std::vector<float>{x, 2, -3, 4}, {2, 2}).and_then(fast), pool),
                  (std::vector<float>{2 * x + 1, 7, 0, 13}));
    }
}

TEST_F(networks, carry_out_chains_of_elementwise_operators_in_one_kernel) {
    const network chain = sync(make_network(scaled()), pool);
    EXPECT_EQ(commands_of<float>(chain, pool, {2, 2}), 2u);  // the kernel, the download

    // Two operators read `scaled`, or a caller does: it is written to memory.
    model branches = scaled();
    branches.body.nodes[3] = make_node("Max", {"scaled", "shifted"}, {"y"});
    const network read_twice = sync(make_network(branches), pool);
    EXPECT_EQ(commands_of<float>(read_twice, pool, {2, 2}), 3u);
    EXPECT_THAT(sync(read_twice.run({rows}), pool).at(0).values<float>(), ElementsAre(3, 7, -5, 13));
    model with_two_outputs = scaled();
    with_two_outputs.body.outputs.push_back(f32("scaled", {named("rows"), of(2)}));
    const network gives_it = sync(make_network(with_two_outputs), pool);
    EXPECT_EQ(commands_of<float>(gives_it, pool, {2, 2}), 3u);
    EXPECT_THAT(sync(gives_it.run({rows}), pool).at(1).values<float>(), ElementsAre(2, 6, -6, 12));
}

// f16 between two operators is rounded, so that each element has the same bits as alone.
// In one kernel, which rounds where memory would: 1.0001 is 1 in both types.
template <typename T>
void expect_a_rounding_between_operators(scheduling_policy& pool) {
    model sums;
    sums.path = "sums.onnx";
    sums.opsets = {{"", 17}};
    sums.body.inputs = {{"x", io::dtype_of<T>, {{of(1)}}}};
    sums.body.outputs = {{"y", io::dtype_of<T>, {{of(1)}}}};
    sums.body.constants = {{"one", tensor_of<T>({T(1.0f)}, {1})}};
    sums.body.nodes = {make_node("Add", {"x", "one"}, {"larger"}), make_node("Sub", {"larger", "one"}, {"y"})};
    const network made = sync(make_network(std::move(sums)), pool);
    EXPECT_EQ(commands_of<T>(made, pool, {1}), 2u);
    const any_tensor small(std::vector<T>{T(0.0001f)}, {1});
    EXPECT_EQ(static_cast<float>(sync(made.run({small}), pool).at(0).template values<T>()[0]), 0.0f);
}

TEST_F(networks, leave_roundings_between_joined_operators_as_they_are) {
    expect_a_rounding_between_operators<half>(pool);
    expect_a_rounding_between_operators<bfloat16>(pool);
}

// One kernel for both would compute each exponential three times.
TEST_F(networks, write_a_value_before_it_is_broadcast) {
    model broadcasts;
    broadcasts.path = "broadcasts.onnx";
    broadcasts.opsets = {{"", 17}};
    broadcasts.body.inputs = {f32("x", {of(2)})};
    broadcasts.body.outputs = {f32("y", {of(3), of(2)})};
    broadcasts.body.constants = {{"columns", tensor_of<float>({1, 2, 3}, {3, 1})}};
    broadcasts.body.nodes = {make_node("Exp", {"x"}, {"e"}), make_node("Add", {"e", "columns"}, {"y"})};
    const network made = sync(make_network(std::move(broadcasts)), pool);
    EXPECT_EQ(commands_of<float>(made, pool, {2}), 3u);
    const any_tensor zeros(std::vector<float>{0, 0}, {2});
    EXPECT_THAT(sync(made.run({zeros}), pool).at(0).values<float>(), ElementsAre(2, 2, 3, 3, 4, 4));
}

TEST_F(networks, are_not_recorded_again_when_their_graphs_are_launched) {
    const network made = sync(make_network(scaled()), pool);
    int recordings = 0;
    const auto fast = compile(
        pool,
        [&](tensor<float> x) {
            ++recordings;
            return made.run({any_tensor(std::move(x))});
        },
        device_input<float>({2, 2}));
    const auto answer = [&](float first) {
        return sync(upload(std::vector<float>{first, 2, -3, 4}, {2, 2}).and_then(fast), pool);
    };
    EXPECT_THAT(answer(1).at(0).values<float>(), ElementsAre(3, 7, 0, 13));
    const int before = recordings;
    EXPECT_THAT(answer(2).at(0).values<float>(), ElementsAre(5, 7, 0, 13));
    EXPECT_THAT(answer(3).at(0).values<float>(), ElementsAre(7, 7, 0, 13));
    EXPECT_EQ(recordings, before);
}

TEST_F(networks, refuse_indices_that_are_out_of_range_wherever_they_are) {
    model gathers;
    gathers.path = "gathers.onnx";
    gathers.opsets = {{"", 17}};
    gathers.body.inputs = {f32("x", {named("n")}), {"places", io::dtype::i64, {{named("m")}}}};
    gathers.body.outputs = {f32("y", {named("m")})};
    gathers.body.nodes = {make_node("Gather", {"x", "places"}, {"y"})};
    const network made = sync(make_network(std::move(gathers)), pool);
    const any_tensor x(std::vector<float>{1, 2, 3}, {3});
    const auto gathered = [&](std::int64_t place) {
        return made.run({x, any_tensor(std::vector<std::int64_t>{0, place}, {2})});
    };
    EXPECT_THAT(sync(gathered(-3), pool).at(0).values<float>(), ElementsAre(1, 1));
    const auto refused = [](auto&& run, errc code) {
        try {
            run();
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), code);
            return std::string(failure.what());
        }
        return std::string("no error");
    };
    EXPECT_THAT(refused([&] { sync(gathered(3), pool); }, errc::out_of_range),
                AllOf(HasSubstr("has the index 3 (number 1), as its input 1 ('places') says; -3 to 2 are possible")));
    // On the device, where the host does not see them; alone, and in a graph.
    const auto on_device = [&](tensor<std::int64_t> places) { return made.run({x, any_tensor(std::move(places))}); };
    const auto fast = compile(pool, on_device, device_input<std::int64_t>({2}));
    const auto upload_places = [](std::int64_t place) { return upload(std::vector<std::int64_t>{2, place}); };
    const std::string out_of_range =
        "gathers.onnx: node 0 (Gather): has the index -4 (number 1), as its input 1 ('places') says; -3 to 2 are "
        "possible";
    for (int i = 0; i < 2; ++i) {
        EXPECT_THAT(sync(upload_places(-1).and_then(on_device), pool).at(0).values<float>(), ElementsAre(3, 3));
        EXPECT_THAT(sync(upload_places(-2).and_then(fast), pool).at(0).values<float>(), ElementsAre(3, 2));
        EXPECT_THAT(refused([&] { sync(upload_places(-4).and_then(on_device), pool); }, errc::out_of_range),
                    HasSubstr(out_of_range));
        EXPECT_THAT(refused([&] { sync(upload_places(-4).and_then(fast), pool); }, errc::out_of_range),
                    HasSubstr(out_of_range));
    }
}

TEST_F(networks, pool_regions_of_interest) {
    model pooled;
    pooled.path = "pooled.onnx";
    pooled.opsets = {{"", 17}};
    pooled.body.inputs = {f32("x", {of(1), of(1), of(4), of(4)}), f32("regions", {of(1), of(5)})};
    pooled.body.outputs = {f32("y", {of(1), of(1), of(2), of(2)})};
    pooled.body.nodes = {make_node("MaxRoiPool", {"x", "regions"}, {"y"})};
    pooled.body.nodes[0].attributes["pooled_shape"] = std::vector<std::int64_t>{2, 2};
    const network made = sync(make_network(std::move(pooled)), pool);
    const any_tensor x(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {1, 1, 4, 4}),
        regions(std::vector<float>{0, 0, 0, 3, 3}, {1, 5});
    EXPECT_THAT(sync(made.run({x, regions}), pool).at(0).values<float>(), ElementsAre(5, 7, 13, 15));
}

TEST_F(networks, are_simulated_without_a_finding) {
    sim::simulator simulated;
    single_stream on(simulated.device());
    const network made = sync(make_network(scaled()), on);
    EXPECT_THAT(sync(made.run({rows}), on).at(0).values<float>(), ElementsAre(3, 7, 0, 13));
    EXPECT_TRUE(simulated.findings().empty());
}

TEST_F(networks, run_on_several_threads) {
    const network made = sync(make_network(scaled()), pool);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                const auto x = static_cast<float>(t * 50 + i);
                const auto got = sync(made.run({any_tensor(std::vector<float>{x, 0}, {1, 2})}), pool);
                EXPECT_THAT(got.at(0).values<float>(), ElementsAre(2 * x + 1, 1));
            }
        });
    }
    for (std::thread& each : threads) each.join();
}

TEST_F(networks, refuse_inputs_that_do_not_fit_by_name) {
    EXPECT_THAT(refusal(scaled(), {}, errc::shape_mismatch), HasSubstr("takes 1 inputs, and is given 0"));
    EXPECT_THAT(refusal(scaled(), {any_tensor(std::vector<float>(6), {2, 3})}, errc::shape_mismatch),
                HasSubstr("scaled.onnx: input 'x': dimension 1 is 2, and is given 3"));
    EXPECT_THAT(refusal(scaled(), {any_tensor(std::vector<float>(2), {2})}, errc::shape_mismatch),
                HasSubstr("input 'x' has 2 dimensions, and is given [2]"));
    EXPECT_THAT(refusal(scaled(), {any_tensor(std::vector<double>(2), {1, 2})}, errc::shape_mismatch),
                HasSubstr("input 'x' is f32, and is given f64"));
    EXPECT_THAT(refusal(scaled(), {any_tensor()}, errc::shape_mismatch), HasSubstr("input 'x' is left out"));
    model two = scaled();
    two.body.inputs.push_back(f32("other", {named("rows")}));
    EXPECT_THAT(refusal(two, {rows, any_tensor(std::vector<float>(3), {3})}, errc::shape_mismatch),
                HasSubstr("input 'other': dimension 0, 'rows', is 2, and is given 3"));
}

TEST_F(networks, list_all_operators_that_are_missing) {
    model from = scaled();
    from.body.nodes.push_back(make_node("Frobnicate", {"y"}, {"a"}));
    from.body.nodes.push_back(make_node("Relu", {"a"}, {"b"}));
    from.body.nodes.push_back(make_node("Quux", {"b"}, {"c"}));
    EXPECT_THAT(refusal(from, {rows}, errc::unsupported),
                AllOf(HasSubstr("scaled.onnx"), HasSubstr("node 4 (Frobnicate) of ai.onnx 17"),
                      HasSubstr("node 6 (Quux) of ai.onnx 17")));
    from.body.nodes.push_back(make_node("Quux", {"c"}, {"d"}));
    EXPECT_THAT(refusal(from, {rows}, errc::unsupported), HasSubstr("node 6 (Quux) of ai.onnx 17 and 1 more"));
    EXPECT_THROW(check_operators(from), error);
    EXPECT_NO_THROW(check_operators(scaled()));
}

TEST_F(networks, refuse_nodes_that_their_operators_do_not_fit) {
    model from = scaled();
    from.body.nodes[3].attributes["slope"] = 0.5f;
    EXPECT_THAT(refusal(from, {rows}, errc::bad_file),
                HasSubstr("node 3 (Relu): has the attribute 'slope', which its operator does not have"));
    from = scaled();
    from.body.nodes[3].inputs.push_back("x");
    EXPECT_THAT(refusal(from, {rows}, errc::bad_file), HasSubstr("node 3 (Relu): has 2 inputs; the operator takes 1"));
    from = scaled();
    from.body.nodes[3].outputs.push_back("other");
    EXPECT_THAT(refusal(from, {rows}, errc::bad_file), HasSubstr("node 3 (Relu): has 2 outputs, which is too many"));
    from = scaled();
    from.body.constants["scale"] = tensor_of<float>({1, 2, 3}, {3});
    EXPECT_THAT(refusal(from, {rows}, errc::shape_mismatch),
                HasSubstr("node 1 (Mul): combines the shapes [2, 2] and [3], which do not fit"));
    from.body.constants["scale"] = tensor_of<double>({1, 2}, {2});
    EXPECT_THAT(refusal(from, {rows}, errc::bad_file),
                HasSubstr("combines f32 [2, 2] and f64 [2], which have different types"));
}

TEST_F(networks, refuse_models_that_are_no_graphs) {
    model from = scaled();
    from.body.nodes[1].inputs[1] = "nothing";
    EXPECT_THAT(refusal(from, {rows}, errc::bad_file),
                HasSubstr("takes the value 'nothing', which nothing before it gives"));
    from = scaled();
    from.opsets.clear();
    EXPECT_THAT(refusal(from, {rows}, errc::bad_file), HasSubstr("is of a domain of which the model does not say"));
}

TEST_F(networks, give_inputs_and_constants_back_that_are_outputs) {
    model from = scaled();
    from.body.outputs.push_back(f32("x", {named("rows"), of(2)}));
    from.body.outputs.push_back(f32("scale", {of(2)}));
    const network made = sync(make_network(from), pool);
    const auto values = sync(made.run({rows}), pool);
    EXPECT_THAT(values.at(1).values<float>(), ElementsAre(1, 2, -3, 4));
    EXPECT_THAT(values.at(2).values<float>(), ElementsAre(2, 3));
}

// Eight inputs at a time are added in one kernel.
TEST_F(networks, wrap_whole_numbers_around) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
    struct operation {
        std::string name;
        std::int64_t x, y, wanted;
    };
    const operation all[] = {{"Add", most, 1, least},  {"Sub", least, 1, most},
                             {"Mul", most, 2, -2},     {"Neg", least, 0, least},
                             {"Abs", least, 0, least}, {"Div", least, -1, least},
                             {"Mod", least, -1, 0},    {"Pow", 3, 41, -420491770248316829}};
    for (const auto& [name, x, y, wanted] : all) {
        model made;
        made.path = "made.onnx";
        made.opsets = {{"", 17}};
        made.body.inputs = {{"x", io::dtype::i64, {{of(1)}}}, {"y", io::dtype::i64, {{of(1)}}}};
        made.body.outputs = {{"z", io::dtype::i64, {{of(1)}}}};
        const bool is_unary = name == "Neg" || name == "Abs";
        made.body.nodes = {
            make_node(name, is_unary ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "y"}, {"z"})};
        const auto of_one = [](std::int64_t number) { return any_tensor(std::vector<std::int64_t>{number}, {1}); };
        const auto answers = sync(sync(make_network(made), pool).run({of_one(x), of_one(y)}), pool);
        EXPECT_EQ(answers.at(0).values<std::int64_t>()[0], wanted) << name;
    }
}

TEST_F(networks, add_any_number_of_tensors) {
    model from;
    from.path = "sum.onnx";
    from.opsets = {{"", 13}};
    node sum = make_node("Sum", {}, {"y"});
    std::vector<any_tensor> inputs;
    for (int i = 0; i < 20; ++i) {
        from.body.inputs.push_back(f32("x" + std::to_string(i), {of(3)}));
        sum.inputs.push_back("x" + std::to_string(i));
        inputs.emplace_back(std::vector<float>(3, static_cast<float>(i)), std::vector<std::size_t>{3});
    }
    from.body.outputs = {f32("y", {of(3)})};
    from.body.nodes = {sum};
    const network made = sync(make_network(from), pool);
    EXPECT_THAT(sync(made.run(inputs), pool).at(0).values<float>(), ElementsAre(190, 190, 190));
}

TEST(any_tensors, refuse_contents_that_do_not_fill_the_shape) {
    EXPECT_THROW(any_tensor(std::vector<float>(3), {2, 2}), error);
    const any_tensor x(std::vector<float>{1, 2, 3, 4}, {2, 2});
    EXPECT_THROW(static_cast<void>(x.with_shape({3})), error);
    EXPECT_THROW(static_cast<void>(x.values<double>()), error);
    EXPECT_THROW(static_cast<void>(x.with_type(io::dtype::f64)), error);
    EXPECT_THAT(x.with_shape({4}).shape(), ElementsAre(4));
    EXPECT_FALSE(any_tensor());
}

}  // namespace sluice::nn::network_tests
