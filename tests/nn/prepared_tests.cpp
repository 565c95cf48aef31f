// SPDX-License-Identifier: Apache-2.0
// network::prepare: inputs and outputs in place.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/prepared_call.hpp"
#include "nn/prepared_network.hpp"
#include "nn/small_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/simulator.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::nn::prepared_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using numbers = std::vector<float>;

model model_of(std::string name, std::vector<value_info> inputs, std::vector<value_info> outputs,
               std::vector<node> nodes) {
    model made;
    made.path = std::move(name);
    made.opsets = {{"", 17}};
    made.body.inputs = std::move(inputs);
    made.body.outputs = std::move(outputs);
    made.body.nodes = std::move(nodes);
    return made;
}

// y = softmax(relu(x * w) * w), z = 2 x
model layers() {
    model made = model_of("layers.onnx", {f32("x", {named("rows"), of(2)})},
                          {f32("y", {named("rows"), of(2)}), f32("z", {named("rows"), of(2)})},
                          {make_node("MatMul", {"x", "w"}, {"a"}), make_node("Relu", {"a"}, {"b"}),
                           make_node("MatMul", {"b", "w"}, {"c"}), make_node("Softmax", {"c"}, {"y"}),
                           make_node("Mul", {"x", "two"}, {"z"})});
    made.body.constants = {{"w", tensor_of<float>({1, -2, 0.5f, 3}, {2, 2})}, {"two", tensor_of<float>({2}, {})}};
    return made;
}

// y = x[places]
model gathers() {
    return model_of("gathers.onnx", {f32("x", {of(3)}), {"places", io::dtype::i64, {{of(2)}}}}, {f32("y", {of(2)})},
                    {make_node("Gather", {"x", "places"}, {"y"})});
}

class prepared_networks : public ::testing::Test {
protected:
    network make(model from) { return sync(make_network(std::move(from)), pool); }

    static std::string refusal(errc code, auto&& call) {
        try {
            call();
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), code);
            return failure.what();
        }
        return "no error";
    }
    void expect_as_run(const network& of, prepared& fast, const numbers& x) {
        std::ranges::copy(x, fast.input<float>("x").begin());
        fast.run();
        const auto expected = sync(of.run({any_tensor(x, {x.size() / 2, 2})}), pool);
        EXPECT_THAT(fast.output<float>("y"), ElementsAreArray(expected.at(0).values<float>()));
        EXPECT_THAT(fast.output<float>("z"), ElementsAreArray(expected.at(1).values<float>()));
    }

    runtime machine{runtime_options{.cpu_devices = 1, .cpu_workers = 2, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
};

TEST_F(prepared_networks, give_the_same_bits_as_run) {
    const network made = make(layers());
    prepared one = made.prepare({{"x", {1, 2}}}), three = made.prepare({{"x", {3, 2}}});
    for (int i = 0; i < 4; ++i) {
        const auto step = static_cast<float>(i);
        expect_as_run(made, one, {step, -1});
        expect_as_run(made, three, {1, 2, step, 4, 5, -step});
    }
}

TEST_F(prepared_networks, have_zeros_at_first_and_stay_where_they_are) {
    const network made = make(layers());
    prepared fast = made.prepare({{"x", {2, 2}}});
    const std::span<float> x = fast.input<float>("x");
    const std::span<const float> y = fast.output<float>("y");
    EXPECT_THAT(x, ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(y, ElementsAre(0, 0, 0, 0));
    for (int i = 1; i < 4; ++i) {
        x[0] = static_cast<float>(i);
        fast.run();
        EXPECT_EQ(fast.input<float>(0).data(), x.data());
        EXPECT_EQ(fast.output<float>(0).data(), y.data());
        EXPECT_EQ(x[0], static_cast<float>(i));
        EXPECT_EQ(fast.output<float>("z")[0], 2 * static_cast<float>(i));
    }
    // Two outputs and one input, and what is in between.
    EXPECT_GE(fast.memory_bytes(), 3 * 4 * sizeof(float));
    EXPECT_GE(made.prepare({{"x", {2000, 2}}}).memory_bytes(), 3 * 4000 * sizeof(float));
}

TEST_F(prepared_networks, say_types_and_shapes) {
    const network made = make(gathers());
    const prepared fast = made.prepare();
    EXPECT_EQ(fast.input(0).form().text(), "f32 [3]");
    EXPECT_EQ(fast.input(1).form().text(), "i64 [2]");
    EXPECT_EQ(fast.output(0).form().text(), "f32 [2]");
}

TEST_F(prepared_networks, of_one_network_are_independent_and_outlive_it) {
    std::optional<network> made = make(layers());
    prepared first = made->prepare({{"x", {1, 2}}}), second = made->prepare({{"x", {1, 2}}});
    made.reset();
    first.input<float>("x")[0] = 1;
    second.input<float>("x")[0] = 2;
    first.run();
    second.run();
    EXPECT_EQ(first.output<float>("z")[0], 2);
    EXPECT_EQ(second.output<float>("z")[0], 4);
    first = std::move(second);
    first.run();
    EXPECT_EQ(first.output<float>("z")[0], 4);
}

TEST_F(prepared_networks, give_outputs_that_are_inputs_constants_and_shapes) {
    model from = model_of("copies.onnx", {f32("x", {named("n")})},
                          {f32("x", {named("n")}), f32("c", {of(1)}), {"s", io::dtype::i64, {{of(1)}}}},
                          {make_node("Shape", {"x"}, {"s"})});
    from.body.constants = {{"c", tensor_of<float>({9}, {1})}};
    prepared fast = make(from).prepare({{"x", {2}}});
    for (int i = 0; i < 4; ++i) {
        fast.input<float>("x")[0] = static_cast<float>(i);
        fast.run();
        EXPECT_THAT(fast.output<float>("x"), ElementsAre(static_cast<float>(i), 0));
        EXPECT_THAT(fast.output<float>("c"), ElementsAre(9));
        EXPECT_THAT(fast.output<std::int64_t>("s"), ElementsAre(2));
    }
}

TEST_F(prepared_networks, report_numbers_that_are_refused_and_run_again) {
    prepared fast = make(gathers()).prepare();
    std::ranges::copy(numbers{1, 2, 3}, fast.input<float>("x").begin());
    const std::span<std::int64_t> places = fast.input<std::int64_t>("places");
    for (int i = 0; i < 4; ++i) {
        places[0] = 3;
        EXPECT_THAT(refusal(errc::out_of_range, [&] { fast.run(); }),
                    AllOf(HasSubstr("index 3"), HasSubstr("-3 to 2 are possible")));
        places[0] = 2;
        fast.run();
        EXPECT_THAT(fast.output<float>("y"), ElementsAre(3, 1));
    }
}

TEST_F(prepared_networks, refuse_wrong_shapes_and_names) {
    const network made = make(layers());
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { made.prepare({{"X", {1, 2}}}); }),
                HasSubstr("layers.onnx: the network has no input 'X'; is 'x' meant?"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { made.prepare({{"x", {1, 2}}, {"x", {1, 2}}}); }),
                HasSubstr("the shape of input 'x' is given twice"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made.prepare(); }),
                HasSubstr("the model does not say the whole shape of input 'x': give one"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { made.prepare({{"x", {1, 3}}}); }),
                HasSubstr("input 'x': dimension 1 is 2, and is given 3"));
    prepared fast = made.prepare({{"x", {1, 2}}});
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { fast.input<float>("logits"); }), HasSubstr("no input 'logits'"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { fast.output<float>("w"); }), HasSubstr("no output 'w'"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { fast.output<float>(2); }),
                HasSubstr("there is no output 2; there are 2"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { fast.input<double>("x"); }),
                HasSubstr("the elements are f32, and are asked for as f64"));
}

TEST_F(prepared_networks, are_refused_where_numbers_decide) {
    const network reshapes =
        make(model_of("reshapes.onnx", {f32("x", {of(6)}), {"shape", io::dtype::i64, {{of(2)}}}},
                      {f32("y", {named("a"), named("b")})}, {make_node("Reshape", {"x", "shape"}, {"y"})}));
    EXPECT_THAT(refusal(errc::unsupported, [&] { reshapes.prepare(); }),
                HasSubstr("reshapes.onnx: the network cannot be prepared: the numbers of its input 'shape' decide"));
    const network random =
        make(model_of("random.onnx", {f32("x", {of(4)})}, {f32("y", {of(4)})},
                      {make_node("RandomUniformLike", {"x"}, {"r"}), make_node("Add", {"x", "r"}, {"y"})}));
    EXPECT_THAT(refusal(errc::unsupported, [&] { random.prepare(); }), HasSubstr("it draws random numbers"));
    EXPECT_THAT(refusal(errc::unsupported, [&] { make(layers()).prepare({{"x", {0, 2}}}); }),
                HasSubstr("its input 'x' has no elements"));
}

// y = x * rate where rate is 16000, else 1 - x; and the whole x is reshaped to `shape`.
model decides() {
    graph yes, no;
    yes.nodes = {make_node("Mul", {"x", "factor"}, {"y_yes"})};
    yes.outputs = {f32("y_yes", {of(6)})};
    no.nodes = {make_node("Sub", {"one", "x"}, {"y_no"})};
    no.outputs = {f32("y_no", {of(6)})};
    node choice = make_node("If", {"is_fast"}, {"chosen"});
    choice.attributes["then_branch"] = std::make_shared<const graph>(yes);
    choice.attributes["else_branch"] = std::make_shared<const graph>(no);
    node to_float = make_node("Cast", {"rate"}, {"factor"});
    to_float.attributes["to"] = std::int64_t{1};
    model made = model_of(
        "decides.onnx",
        {f32("x", {of(6)}), {"rate", io::dtype::i64, std::vector<dimension>{}}, {"shape", io::dtype::i64, {{of(2)}}}},
        {f32("y", {named("a"), named("b")})},
        {to_float, make_node("Equal", {"rate", "fast"}, {"is_fast"}), choice,
         make_node("Reshape", {"chosen", "shape"}, {"y"})});
    made.body.constants = {{"fast", tensor_of<std::int64_t>({16000}, {})}, {"one", tensor_of<float>({1}, {})}};
    return made;
}

TEST_F(prepared_networks, have_the_fixed_numbers_that_decide) {
    const network made = make(decides());
    const std::vector<std::int64_t> fast{16000}, slow{8000}, wide{2, 3}, long_one{3, 2};
    for (const auto* const rate : {&fast, &slow}) {
        for (const auto* const shape : {&wide, &long_one}) {
            prepared one = made.prepare({}, {{"rate", {*rate, {}}}, {"shape", {*shape, {2}}}});
            EXPECT_FALSE(one.is_fixed(0));
            EXPECT_TRUE(one.is_fixed(1) && one.is_fixed(2));
            const numbers x{1, 2, 3, 4, 5, 6};
            std::ranges::copy(x, one.input<float>("x").begin());
            for (int i = 0; i < 3; ++i) {
                one.run();
                const auto expected =
                    sync(made.run({any_tensor(x, {6}), any_tensor(*rate, {}), any_tensor(*shape, {2})}), pool);
                EXPECT_THAT(one.output<float>("y"), ElementsAreArray(expected.at(0).values<float>()));
                EXPECT_THAT(one.output(0).form().shape(), ElementsAreArray(expected.at(0).shape()));
            }
            EXPECT_THAT(refusal(errc::invalid_argument, [&] { one.input<std::int64_t>("rate"); }),
                        HasSubstr("input 'rate' is fixed"));
        }
    }
}

// Else each run records the network again: a command that has an address of memory that it does not name.
TEST_F(prepared_networks, with_many_parts_to_join_run_at_once) {
    for (std::size_t parts = 2; parts < 20; ++parts) {
        node join = make_node("Concat", {}, {"y"});
        join.attributes["axis"] = std::int64_t{1};
        std::vector<node> nodes;
        for (std::size_t i = 0; i < parts; ++i) {
            join.inputs.push_back("part" + std::to_string(i));
            nodes.push_back(make_node(i % 2 == 0 ? "Relu" : "Neg", {"x"}, {join.inputs.back()}));
        }
        nodes.push_back(join);
        const network made = make(model_of("joins.onnx", {f32("x", {named("rows"), of(3)})},
                                           {f32("y", {named("rows"), named("columns")})}, nodes));
        std::string why_not;
        const auto call = detail::try_to_prepare(
            made.inside(), detail::prepared_inputs({detail::view_form(io::dtype::f32, std::vector<std::size_t>{2, 3})}),
            why_not);
        ASSERT_TRUE(call) << why_not;
        EXPECT_TRUE(call->runs_at_once()) << parts;
    }
}

TEST_F(prepared_networks, refuse_fixed_numbers_that_do_not_fit) {
    const network made = make(decides());
    const std::vector<std::int64_t> rate{16000}, shape{2, 3}, three{1, 2, 3};
    const std::vector<float> x(6), rates{16000};
    const auto refused = [&](errc code, std::initializer_list<input_shape> shapes,
                             std::initializer_list<fixed_input> of) {
        return refusal(code, [&] { made.prepare(shapes, of); });
    };
    EXPECT_THAT(
        refused(errc::unsupported, {}, {{"shape", {shape, {2}}}}),
        HasSubstr("the numbers of its input 'rate' decide about shapes or about what is run, and are not fixed"));
    EXPECT_THAT(refused(errc::invalid_argument, {}, {{"x", {x, {6}}}}), HasSubstr("decide neither about shapes"));
    EXPECT_THAT(refused(errc::invalid_argument, {}, {{"rat", {rate, {}}}}), HasSubstr("is 'rate' meant?"));
    EXPECT_THAT(refused(errc::invalid_argument, {}, {{"rate", {rates, {}}}}), HasSubstr("is fixed to numbers of f32"));
    EXPECT_THAT(refused(errc::invalid_argument, {{"rate", {}}}, {{"rate", {rate, {}}}}), HasSubstr("given twice"));
    EXPECT_THAT(refused(errc::shape_mismatch, {}, {{"rate", {rate, {}}}, {"shape", {three, {3}}}}),
                HasSubstr("dimension 0 is 2, and is given 3"));
    EXPECT_THAT(refused(errc::invalid_argument, {},
                        {{"rate", {io::dtype::i64, nullptr, std::span<const std::size_t>()}}, {"shape", {shape, {2}}}}),
                HasSubstr("has no memory"));
}

TEST_F(prepared_networks, are_refused_once_the_runtime_has_ended) {
    auto other = std::make_unique<runtime>(runtime_options{.cpu_workers = 1, .cuda = false});
    auto on = std::make_unique<single_stream>(other->find("cpu:0"));
    prepared fast = sync(make_network(layers()), *on).prepare({{"x", {1, 2}}});
    fast.run();
    on.reset();
    other.reset();
    EXPECT_THROW(fast.run(), error);
}

TEST_F(prepared_networks, are_traced) {
    trace_recorder recorder;
    runtime watched(runtime_options{.cpu_workers = 1, .cuda = false, .trace = &recorder});
    single_stream on(watched.find("cpu:0"));
    const network seen = sync(make_network(layers()), on);
    prepared fast = seen.prepare({{"x", {1, 2}}});
    const std::span<const float> z = fast.output<float>("z");  // launches on a stream leave it where it is
    for (int i = 0; i < 3; ++i) {
        static_cast<void>(recorder.take());
        fast.input<float>("x")[0] = static_cast<float>(i);
        fast.run();
        EXPECT_FALSE(recorder.take().events.empty());
        EXPECT_EQ(fast.output<float>("z").data(), z.data());
        EXPECT_EQ(z[0], 2 * static_cast<float>(i));
    }
}

TEST_F(prepared_networks, are_simulated_without_a_finding) {
    sim::simulator simulated;
    single_stream on(simulated.device());
    const network made = sync(make_network(layers()), on);
    prepared fast = made.prepare({{"x", {1, 2}}});
    for (int i = 0; i < 4; ++i) {
        fast.input<float>("x")[0] = static_cast<float>(i);
        fast.run();
        EXPECT_EQ(fast.output<float>("z")[0], 2 * static_cast<float>(i));
    }
    EXPECT_TRUE(simulated.findings().empty());
}

}  // namespace
}  // namespace sluice::nn::prepared_tests
