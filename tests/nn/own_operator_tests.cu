// SPDX-License-Identifier: Apache-2.0
// Operators of the user's own: what they compute in each place, and what is said of those that are wrong.
#include "sluice/nn/own_operator.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/kernels/fill.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/operator_call.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"
#include "sluice/sim/explore.hpp"
#include "support/gate.hpp"

namespace sluice::nn::own_operator_tests {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// --- operators ------------------------------------------------------------------------------------------------

// Arguments with holes between them, and a kernel object with one: what may differ from one recording to the next.
struct with_holes {
    char first;
    double factor;
};
template <typename T>
struct scaled_and_shifted {
    float shift;
    bool is_negative;

    SLUICE_KERNEL void operator()(index_1d at, bool is_shifted, with_holes scale, view<const T> x, float more,
                                  disjoint_view<T> y) const {
        const float number =
            static_cast<float>(x[at.value()]) * static_cast<float>(scale.factor) + more + (is_shifted ? shift : 0);
        if (T* const element = y.at(at)) *element = static_cast<T>(is_negative ? -number : number);
    }
};
// y = -(2 * x + more + 0.5), for f32, f64 and f16
void run_scaled(operator_call& node) {
    const any_tensor& x = node.input(0);
    const new_tensor y = node.make_output(0, x.type(), x.shape());
    node.with_type<float, double, half>(x, [&]<typename T>() {
        node.launch(scaled_and_shifted<T>{0.5f, true}, each_of(y), true, with_holes{'a', 2}, x,
                    node.attribute("more", 0.f), y);
    });
}

// Each row of a matrix minus its largest element, a row for each index.
struct rows_minus_largest {
    SLUICE_KERNEL void operator()(tile_index at, matrix_view<const float> x, disjoint_tiles<float> y) const {
        const auto row = y.at(at);
        const std::size_t from = row.first_row();
        float largest = x(from, 0);
        for (std::size_t c = 1; c < x.columns(); ++c) largest = x(from, c) > largest ? x(from, c) : largest;
        for (std::size_t c = 0; c < row.columns(); ++c) row(0, c) = x(from, c) - largest;
    }
};
void run_rows(operator_call& node) {
    const any_tensor& x = node.input(0);
    const new_tensor y = node.make_output(0, io::dtype::f32, x.shape());
    const tensor_tiles rows = in_tiles(y, 1, x.shape().back());
    node.launch(rows_minus_largest{}, each_of(rows), x, rows);
}

// Two launches with a tensor in between, and two outputs: x + row * 10 + column, and twice as much.
struct plus_place {
    SLUICE_KERNEL void operator()(index_2d at, matrix_view<const float> x, disjoint_matrix<float> y) const {
        if (float* const element = y.at(at))
            *element = x(at.row(), at.column()) + static_cast<float>(10 * at.row() + at.column());
    }
};
struct doubled {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = 2 * x[at.value()];
    }
};
void run_places(operator_call& node) {
    const any_tensor& x = node.input(0);
    const new_tensor between = node.make(io::dtype::f32, x.shape());
    node.launch(plus_place{}, each_of(between), x, between);
    node.set_output(0, between);
    if (!node.wants_output(1)) return;
    const new_tensor y = node.make_output(1, io::dtype::f32, x.shape());
    node.launch(doubled{}, each_of(y), between, y);
}

// A product by the library.
void run_product(operator_call& node) {
    const any_tensor &x = node.input(0), &w = node.input(1);
    node.submit(0, {x.shape()[0], w.shape()[0]},
                [&] { return linear(x.on_device<float>(), w.on_device<float>(), {}); });
}

// Ones in the shape that the second input says.
struct ones_like {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = 1;
    }
};
void run_ones(operator_call& node) {
    std::vector<std::size_t> shape;
    for (const std::int64_t each : node.host_integers(0)) shape.push_back(static_cast<std::size_t>(each));
    const new_tensor y = node.make_output(0, io::dtype::f32, shape);
    node.launch(ones_like{}, each_of(y), y);
}

struct constant_number {
    SLUICE_KERNEL void operator()(index_1d at, float number, disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = number;
    }
};

own_operators all_operators() {
    return own_operators(
        {{.domain = "com.example", .name = "Scaled", .attributes = {"more"}, .run = &run_scaled},
         {.domain = "com.example", .name = "Rows", .run = &run_rows},
         {.domain = "com.example", .name = "Places", .most_outputs = 2, .run = &run_places},
         {.domain = "com.example", .name = "Product", .least_inputs = 2, .most_inputs = 2, .run = &run_product},
         {.domain = "com.example", .name = "Ones", .host_inputs = {0}, .run = &run_ones}});
}

node own_node(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    node made = make_node(std::move(op), std::move(inputs), std::move(outputs));
    made.domain = "com.example";
    made.name = "mine";
    return made;
}

// y = op(x), of rows of two numbers.
model one_node(std::string op) {
    model made;
    made.path = "own.onnx";
    made.opsets = {{"", 17}, {"com.example", 3}};
    made.body.inputs = {f32("x", {named("rows"), of(2)})};
    made.body.outputs = {f32("y", {named("rows"), named("columns")})};
    made.body.nodes = {own_node(std::move(op), {"x"}, {"y"})};
    return made;
}

class own_operator_in_networks : public ::testing::Test {
protected:
    std::vector<any_tensor> run(model from, std::vector<any_tensor> inputs,
                                const own_operators& own = all_operators()) {
        const network made = sync(make_network(std::move(from), {.own = own}), pool);
        return sync(made.run(std::move(inputs)), pool);
    }
    // Of a network with one node, whose operator this function is.
    std::string refusal(std::function<void(operator_call&)> function, errc code, own_operator what = {}) {
        what.domain = "com.example";
        what.name = "Wrong";
        what.run = std::move(function);
        return refusal(one_node("Wrong"), code, own_operators({what}));
    }
    std::string refusal(model from, errc code, const own_operators& own = all_operators()) {
        try {
            run(std::move(from), {rows}, own);
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), code) << failure.what();
            return failure.what();
        }
        return "no error";
    }

    runtime machine{runtime_options{.cpu_devices = 2, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
    const any_tensor rows{std::vector<float>{1, 2, -3, 4}, {2, 2}};
};

}  // namespace

// --- what they compute ----------------------------------------------------------------------------------------

TEST_F(own_operator_in_networks, run_on_a_device) {
    model from = one_node("Scaled");
    EXPECT_THAT(run(from, {rows})[0].values<float>(), ElementsAre(-2.5f, -4.5f, 5.5f, -8.5f));
    from.body.nodes[0].attributes["more"] = 1.f;
    EXPECT_THAT(run(from, {rows})[0].values<float>(), ElementsAre(-3.5f, -5.5f, 4.5f, -9.5f));
    EXPECT_EQ(run(from, {any_tensor(std::vector<float>{}, {0, 2})})[0].elements(), 0u);
}

TEST_F(own_operator_in_networks, run_for_each_type_that_they_take) {
    model from = one_node("Scaled");
    from.body.inputs[0].type = from.body.outputs[0].type = io::dtype::f64;
    EXPECT_THAT(run(from, {any_tensor(std::vector<double>{1, 2}, {1, 2})})[0].values<double>(),
                ElementsAre(-2.5, -4.5));
    from.body.inputs[0].type = from.body.outputs[0].type = io::dtype::f16;
    const auto halves = run(from, {any_tensor(std::vector<half>{half(1), half(2)}, {1, 2})});
    EXPECT_EQ(static_cast<float>(halves[0].values<half>()[1]), -4.5f);
    from.body.inputs[0].type = io::dtype::i32;
    try {
        run(from, {any_tensor(std::vector<std::int32_t>{1, 2}, {1, 2})});
        ADD_FAILURE();
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::unsupported);
        EXPECT_THAT(failure.what(),
                    HasSubstr("own.onnx: node 'mine' (Scaled): does not take i32; its operator takes f32, f64, f16"));
    }
}

TEST_F(own_operator_in_networks, give_rows_matrices_and_several_outputs) {
    EXPECT_THAT(run(one_node("Rows"), {rows})[0].values<float>(), ElementsAre(-1, 0, -7, 0));
    model from = one_node("Places");
    EXPECT_THAT(run(from, {rows})[0].values<float>(), ElementsAre(1, 3, 7, 15));
    from.body.nodes[0].outputs.push_back("z");
    from.body.outputs.push_back(f32("z", {named("rows"), of(2)}));
    EXPECT_THAT(run(from, {rows})[1].values<float>(), ElementsAre(2, 6, 14, 30));
    // The last dimension has a matrix's columns, however many there are before it.
    from.body.inputs[0] = f32("x", {of(1), of(2), of(1), of(1), of(2)});
    from.body.outputs[0] = f32("y", {of(1), of(2), of(1), of(1), of(2)});
    from.body.outputs.pop_back();
    EXPECT_THAT(run(from, {rows.with_shape({1, 2, 1, 1, 2})})[0].values<float>(), ElementsAre(1, 3, 7, 15));
}

TEST_F(own_operator_in_networks, are_computed_beforehand_where_inputs_are_constant) {
    model from = one_node("Scaled");
    from.body.constants["two"] = tensor_of<float>({1, 2}, {1, 2});
    from.body.nodes = {own_node("Scaled", {"two"}, {"folded"}), make_node("Add", {"x", "folded"}, {"y"})};
    const network made = sync(make_network(from, {.own = all_operators()}), pool);
    EXPECT_EQ(made.forward({rows}).estimate().commands, 1u);
    EXPECT_THAT(sync(made.run({rows}), pool)[0].values<float>(), ElementsAre(-1.5f, -2.5f, -5.5f, -0.5f));

    own_operator random{.domain = "com.example", .name = "Scaled", .attributes = {"more"}, .is_random = true};
    random.run = &run_scaled;
    EXPECT_EQ(sync(make_network(from, {.own = own_operators({random})}), pool).forward({rows}).estimate().commands, 2u);
}

TEST_F(own_operator_in_networks, use_operations_of_the_library) {
    model from = one_node("Product");
    from.body.constants["w"] = tensor_of<float>({1, 1, 0, 2, 3, 0}, {3, 2});
    from.body.nodes[0].inputs = {"x", "w"};
    const auto answers = run(from, {rows});
    EXPECT_EQ(to_string(answers[0]), "f32 [2, 3]");
    EXPECT_THAT(answers[0].values<float>(), ElementsAre(3, 4, 3, 1, 8, -9));
    const network made = sync(make_network(from, {.own = all_operators()}), pool);
    EXPECT_EQ(to_string(made.infer({rows})[0]), "f32 [2, 3]");

    // Not on the host: of constants only it is left to the device.
    from.body.constants["v"] = tensor_of<float>({1, 0, 0, 1}, {2, 2});
    from.body.nodes = {own_node("Product", {"v", "v"}, {"same"}), make_node("MatMul", {"x", "same"}, {"y"})};
    from.body.nodes[0].name = "first";
    EXPECT_THAT(run(from, {rows})[0].values<float>(), ElementsAre(1, 2, -3, 4));
    // And refused where shapes depend on its numbers.
    from.body.nodes[1] = own_node("Product", {"x", "x"}, {"product"});
    from.body.nodes.push_back(make_node("Cast", {"product"}, {"lengths"}));
    from.body.nodes[2].attributes["to"] = std::int64_t{7};
    from.body.nodes.push_back(make_node("Reshape", {"x", "lengths"}, {"y"}));
    EXPECT_THAT(refusal(from, errc::unsupported),
                AllOf(HasSubstr("node 'mine' (Product)"), HasSubstr("run on a device only")));
}

TEST_F(own_operator_in_networks, read_numbers_on_the_host) {
    model from = one_node("Ones");
    from.body.inputs = {{"lengths", io::dtype::i64, {{of(2)}}}};
    from.body.nodes[0].inputs = {"lengths"};
    const network made = sync(make_network(from, {.own = all_operators()}), pool);
    EXPECT_TRUE(made.is_host_input(0));
    const any_tensor lengths(std::vector<std::int64_t>{2, 1}, {2});
    const auto answers = sync(made.run({lengths}), pool);
    EXPECT_THAT(answers[0].shape(), ElementsAre(2, 1));
    EXPECT_THAT(answers[0].values<float>(), ElementsAre(1, 1));
}

TEST_F(own_operator_in_networks, infer_types_and_shapes_without_work) {
    for (const char* const op : {"Scaled", "Rows", "Places"}) {
        const network made = sync(make_network(one_node(op), {.own = all_operators()}), pool);
        const auto shapes = made.infer({rows});
        EXPECT_EQ(to_string(shapes.at(0)), "f32 [2, 2]");
        EXPECT_FALSE(shapes[0].is_on_host() || shapes[0].is_on_device());
    }
}

// Closures with holes: a node whose bytes differ from the last recording's would be recorded again at each launch.
TEST_F(own_operator_in_networks, are_not_recorded_again_when_their_graphs_are_launched) {
    if (!sluice::detail::compiler_clears_padding) GTEST_SKIP() << "this compiler does not clear padding";
    model from = one_node("Scaled");
    from.body.nodes = {own_node("Scaled", {"x"}, {"a"}), own_node("Places", {"a"}, {"b"}),
                       own_node("Rows", {"b"}, {"y"})};
    const network made = sync(make_network(from, {.own = all_operators()}), pool);
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
    EXPECT_THAT(answer(1)[0].values<float>(), ElementsAre(0, -1, 0, -13));
    const int before = recordings;
    EXPECT_THAT(answer(-5)[0].values<float>(), ElementsAre(0, -13, 0, -13));
    EXPECT_THAT(answer(1)[0].values<float>(), ElementsAre(0, -1, 0, -13));
    EXPECT_EQ(recordings, before);
}

TEST_F(own_operator_in_networks, are_explored_without_a_finding) {
    sim::explore(
        [&](scheduling_policy& streams) {
            model from = one_node("Scaled");
            from.body.nodes = {own_node("Scaled", {"x"}, {"a"}), own_node("Places", {"a"}, {"y"})};
            const network made = sync(make_network(from, {.own = all_operators()}), streams);
            return sync(made.run({rows}), streams)[0].values<float>()[3];
        },
        {.schedules = 100})
        .require_clean();
}

TEST_F(own_operator_in_networks, run_on_several_threads) {
    const network made = sync(make_network(one_node("Rows"), {.own = all_operators()}), pool);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                const auto x = static_cast<float>(t * 50 + i + 1);
                const auto got = sync(made.run({any_tensor(std::vector<float>{x, 0}, {1, 2})}), pool);
                EXPECT_THAT(got.at(0).values<float>(), ElementsAre(0, -x));
            }
        });
    }
    for (std::thread& each : threads) each.join();
}

TEST_F(own_operator_in_networks, are_chosen_by_version) {
    const auto giving = [](float number) {
        return [number](operator_call& node) {
            EXPECT_EQ(node.version(), 3);
            node.set_output(0, any_tensor(std::vector<float>(2, number), {1, 2}));
        };
    };
    const own_operators both({{.domain = "com.example", .name = "Versions", .until = 2, .run = giving(1)},
                              {.domain = "com.example", .name = "Versions", .since = 3, .run = giving(2)}});
    EXPECT_THAT(run(one_node("Versions"), {rows}, both)[0].values<float>(), ElementsAre(2, 2));
    const own_operators old({{.domain = "com.example", .name = "Versions", .until = 2, .run = giving(1)}});
    EXPECT_THAT(refusal(one_node("Versions"), errc::unsupported, old),
                HasSubstr("node 'mine' (Versions) of com.example 3 (known in other versions)"));
}

TEST_F(own_operator_in_networks, outlive_the_list_that_they_were_in) {
    std::optional<own_operators> list(all_operators());
    const network made = sync(make_network(one_node("Scaled"), {.own = *list}), pool);
    list.reset();
    EXPECT_THAT(sync(made.run({rows}), pool)[0].values<float>(), ElementsAre(-2.5f, -4.5f, 5.5f, -8.5f));
}

// --- what is refused ------------------------------------------------------------------------------------------

TEST_F(own_operator_in_networks, belong_only_to_networks_that_they_are_given_to) {
    EXPECT_THAT(refusal(one_node("Scaled"), errc::unsupported, {}),
                HasSubstr("needs operators that Sluice does not have: node 'mine' (Scaled) of com.example 3"));
    EXPECT_THROW(check_operators(one_node("Scaled")), error);
    EXPECT_NO_THROW(check_operators(one_node("Scaled"), all_operators()));
}

TEST_F(own_operator_in_networks, refuse_nodes_that_do_not_fit) {
    model from = one_node("Scaled");
    from.body.nodes[0].attributes["less"] = 1.f;
    EXPECT_THAT(refusal(from, errc::bad_file),
                HasSubstr("has the attribute 'less', which its operator does not have; it has more"));
    from = one_node("Scaled");
    from.body.nodes[0].attributes["more"] = std::int64_t{1};
    EXPECT_THAT(refusal(from, errc::bad_file),
                HasSubstr("own.onnx: node 'mine' (Scaled): has the attribute 'more' with another type"));
    from = one_node("Scaled");
    from.body.nodes[0].attributes["more"] = std::make_shared<const graph>();
    EXPECT_THAT(refusal(from, errc::bad_file), HasSubstr("has a graph as its attribute 'more'"));
    from = one_node("Scaled");
    from.body.nodes[0].inputs.push_back("x");
    EXPECT_THAT(refusal(from, errc::bad_file), HasSubstr("has 2 inputs; the operator takes 1"));
    from = one_node("Scaled");
    from.body.nodes[0].outputs.push_back("z");
    EXPECT_THAT(refusal(from, errc::bad_file), HasSubstr("has 2 outputs, which is too many"));
}

TEST_F(own_operator_in_networks, say_what_a_function_does_wrong) {
    const std::string label = "own.onnx: node 'mine' (Wrong): its operator ";
    EXPECT_THAT(refusal([](operator_call&) {}, errc::bad_file), HasSubstr(label + "does not make the output 0"));
    EXPECT_THAT(refusal(
                    [](operator_call& node) {
                        node.make_output(0, io::dtype::f32, {1});
                        node.make_output(0, io::dtype::f32, {1});
                    },
                    errc::invalid_argument),
                HasSubstr(label + "makes the output 0 twice"));
    EXPECT_THAT(refusal([](operator_call& node) { node.make_output(1, io::dtype::f32, {1}); }, errc::invalid_argument),
                HasSubstr(label + "makes the output 1; own_operator::most_outputs is 1"));
    EXPECT_THAT(refusal([](operator_call& node) { node.set_output(0, any_tensor()); }, errc::invalid_argument),
                HasSubstr(label + "sets the output 0 to no tensor"));
    EXPECT_THAT(refusal([](operator_call& node) { node.attribute<float>("beta"); }, errc::invalid_argument,
                        {.attributes = {"alpha", "gamma"}}),
                HasSubstr(label + "asks for the attribute 'beta', which own_operator::attributes does not name; it "
                                  "names alpha, gamma"));
    EXPECT_THAT(refusal([](operator_call& node) { node.host_integers(0); }, errc::invalid_argument),
                HasSubstr(label + "reads the numbers of input 0, which own_operator::host_inputs does not name"));
    EXPECT_THAT(refusal([](operator_call& node) { node.input(1); }, errc::bad_file, {.most_inputs = 2}),
                HasSubstr("node 'mine' (Wrong): leaves out its input 1, which its operator reads"));
    EXPECT_THAT(refusal([](operator_call& node) { node.input(77); }, errc::bad_file), HasSubstr("input 77"));
    EXPECT_THAT(
        refusal([](operator_call& node) { node.attribute<float>("beta"); }, errc::bad_file, {.attributes = {"beta"}}),
        HasSubstr("node 'mine' (Wrong): does not have the attribute 'beta', which its operator needs"));
    EXPECT_THAT(
        refusal([](operator_call& node) { node.refuse("is refused", errc::shape_mismatch); }, errc::shape_mismatch),
        HasSubstr("node 'mine' (Wrong): is refused"));
}

TEST_F(own_operator_in_networks, say_which_shape_is_wrong) {
    const auto giving = [](io::dtype type, std::vector<std::size_t> shape) {
        return [=](operator_call& node) { node.make_output(0, type, shape); };
    };
    // The model says [rows, columns], of f32.
    EXPECT_THAT(
        refusal(giving(io::dtype::f32, {2}), errc::shape_mismatch),
        HasSubstr("gives the network's output 'y' as f32 [2], of which the model says that it has 2 dimensions"));
    EXPECT_THAT(refusal(giving(io::dtype::f64, {2, 2}), errc::shape_mismatch), HasSubstr("says that it is f32"));
    EXPECT_THAT(refusal(giving(io::dtype::f32, {std::size_t{1} << 40, std::size_t{1} << 40}), errc::shape_mismatch),
                HasSubstr("which has no memory"));
    const auto product = [](std::vector<std::size_t> shape) {
        return [=](operator_call& node) {
            const any_tensor& x = node.input(0);
            node.submit(0, shape, [&] { return linear(x.on_device<float>(), x.on_device<float>(), {}); });
        };
    };
    EXPECT_THAT(refusal(product({2, 3}), errc::shape_mismatch),
                HasSubstr("says that the output 0 has the shape [2, 3], and the operation gives f32 [2, 2]"));
}

TEST_F(own_operator_in_networks, say_what_a_launch_does_wrong) {
    const auto launching = [](io::dtype type) {
        return [=](operator_call& node) {
            const new_tensor y = node.make_output(0, type, {2, 2});
            node.launch(doubled{}, each_of(y), node.input(0), y);
        };
    };
    EXPECT_THAT(refusal(launching(io::dtype::f64), errc::unsupported),
                AllOf(HasSubstr("own.onnx: node 'mine' (Wrong): its operator failed: doubled: "),
                      HasSubstr("elements of f32, and is given f64"), HasSubstr("own_operator_tests.cu:")));
    const auto over_a_flat_range = [](operator_call& node) {
        const new_tensor y = node.make_output(0, io::dtype::f32, {2, 2});
        node.launch(plus_place{}, each_of(shape{4}), node.input(0), y);
    };
    EXPECT_THAT(refusal(over_a_flat_range, errc::shape_mismatch), HasSubstr("runs over a matrix, not over [4]"));
    const auto of_no_rows = [](operator_call& node) {
        const new_tensor y = node.make_output(0, io::dtype::f32, {2, 2});
        in_tiles(y, 0, 1);
    };
    EXPECT_THAT(refusal(of_no_rows, errc::shape_mismatch), HasSubstr("tiles of 0 rows and 1 columns"));
    const auto with_a_shape_only = [](operator_call& node) {
        const new_tensor y = node.make_output(0, io::dtype::f32, {2, 2});
        node.launch(doubled{}, each_of(y), any_tensor::of_shape(io::dtype::f32, {2, 2}), y);
    };
    EXPECT_THAT(refusal(with_a_shape_only, errc::invalid_argument), HasSubstr("not where the kernel runs"));
}

TEST_F(own_operator_in_networks, give_the_errors_of_a_function_the_node_and_keep_what_was_thrown) {
    EXPECT_THAT(refusal([](operator_call&) { throw error(errc::unsupported, "not today"); }, errc::unsupported),
                HasSubstr("own.onnx: node 'mine' (Wrong): its operator failed: not today"));
    EXPECT_THAT(refusal([](operator_call&) { throw 42; }, errc::bad_file), HasSubstr("no std::exception"));
    EXPECT_THAT(refusal([](operator_call& node) { static_cast<void>(node.input(0).on_device<double>()); },
                        errc::invalid_argument),
                HasSubstr("a tensor of f32 is read as f64"));
    EXPECT_THAT(refusal([](operator_call&) { throw file_error("table.csv", 7, "row 2", "is empty"); }, errc::bad_file),
                AllOf(HasSubstr("own.onnx: node 'mine' (Wrong)"), HasSubstr("table.csv: at byte 7: row 2: is empty")));
    own_operator thrower{.domain = "com.example", .name = "Wrong"};
    thrower.run = [](operator_call&) { throw std::domain_error("negative"); };
    try {
        run(one_node("Wrong"), {rows}, own_operators({thrower}));
        ADD_FAILURE();
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("node 'mine' (Wrong): its operator threw: negative"));
        EXPECT_THROW(std::rethrow_if_nested(failure), std::domain_error);
    }
    // Failures of memory are those of the run, not of the node.
    const auto wants_all = [](operator_call&) { throw out_of_memory(100, 10); };
    EXPECT_THAT(refusal(wants_all, errc::out_of_memory), Not(HasSubstr("own.onnx")));
}

TEST(own_operator_list, refuses_operators_that_cannot_be) {
    const auto refusal = [](own_operator what, own_operators to = {}) {
        try {
            to.add(std::move(what));
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::invalid_argument);
            return std::string(failure.what());
        }
        return std::string("no error");
    };
    const own_operator fine{.domain = "com.example", .name = "Rows", .run = &run_rows};
    EXPECT_EQ(refusal(fine), "no error");
    for (const char* const domain : {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training.mine"}) {
        own_operator of_onnx = fine;
        of_onnx.domain = domain;
        EXPECT_THAT(refusal(of_onnx), HasSubstr("is of a domain of ONNX, whose operators cannot be replaced"));
    }
    own_operator wrong = fine;
    wrong.name.clear();
    EXPECT_THAT(refusal(wrong), HasSubstr("has no name"));
    wrong = fine;
    wrong.run = {};
    EXPECT_THAT(refusal(wrong), HasSubstr("'com.example.Rows' of your own has no function"));
    wrong = fine;
    wrong.least_inputs = 2;
    EXPECT_THAT(refusal(wrong), HasSubstr("has 2 inputs at least and 1 at most"));
    wrong = fine;
    wrong.host_inputs = {1};
    EXPECT_THAT(refusal(wrong), HasSubstr("names the input 1 in host_inputs; it has 1"));
    wrong.host_inputs = {};
    wrong.most_inputs = own_operator::any_number;
    wrong.shape_inputs = {31};
    EXPECT_THAT(refusal(wrong), HasSubstr("names the input 31 in shape_inputs; it has 31"));
    wrong = fine;
    wrong.since = 4;
    wrong.until = 3;
    EXPECT_THAT(refusal(wrong), HasSubstr("is of versions 4 to 3"));
    EXPECT_THAT(refusal(fine, own_operators({fine})), HasSubstr("is there twice, for version 1"));
    own_operator first = fine, second = fine;
    first.until = 5;
    second.since = 5;
    EXPECT_THAT(refusal(second, own_operators({first})), HasSubstr("is there twice, for version 5"));
    second.since = 6;
    EXPECT_EQ(refusal(second, own_operators({first})), "no error");
}

// The number is in the kernel's arguments, and is another one in each recording.
TEST_F(own_operator_in_networks, that_differ_each_time_do_so_in_answers_at_once) {
    int calls = 0;
    const own_operators own({{.domain = "com.example", .name = "Counted", .run = [&](operator_call& node) {
                                  const new_tensor y = node.make_output(0, io::dtype::f32, node.input(0).shape());
                                  node.launch(constant_number{}, each_of(y), static_cast<float>(++calls), y);
                              }}});
    const network made = sync(make_network(one_node("Counted"), {.own = own}), pool);
    const std::vector<float> x{1, 2};
    float latest = 0;
    for (int i = 0; i < 6; ++i) {
        std::vector<float> y(2);
        made({{x, {1, 2}}}, {{y, {1, 2}}});
        EXPECT_GT(y[0], latest);
        latest = y[0];
    }
}

TEST_F(own_operator_in_networks, that_call_the_host_do_so_in_each_answer_at_once) {
    std::atomic<int> calls{0};
    const own_operators own({{.domain = "com.example", .name = "Called", .run = [&](operator_call& node) {
                                  node.submit(0, node.input(0).shape(), [&] {
                                      return with_context([&](execution_context& context) {
                                          context.stream().host_call({"count"}, {[&] { ++calls; }});
                                          return zeros<float>({1, 2});
                                      });
                                  });
                              }}});
    const network made = sync(make_network(one_node("Called"), {.own = own}), pool);
    const std::vector<float> x{1, 2};
    std::vector<float> y(2);
    for (int i = 1; i <= 6; ++i) {
        made({{x, {1, 2}}}, {{y, {1, 2}}});
        EXPECT_EQ(calls, i);
    }
}

TEST_F(own_operator_in_networks, that_read_memory_of_others_wait_for_its_writers_in_answers_at_once) {
    tensor<float> shared = sync(full<float>({1, 2}, 1), pool);
    const own_operators own({{.domain = "com.example", .name = "Copied", .run = [&](operator_call& node) {
                                  node.submit(0, {1, 2}, [&] {
                                      return with_context([&](execution_context& context) {
                                          tensor<float> y(context.stream(), {1, 2});
                                          sluice::detail::copy_bytes(context.stream(), {"copy"}, *y.memory(),
                                                                     *shared.memory(), 2 * sizeof(float),
                                                                     copy_direction::device_to_device);
                                          return y;
                                      });
                                  });
                              }}});
    const network made = sync(make_network(one_node("Copied"), {.own = own}), pool);
    const std::vector<float> x{1, 2};
    std::vector<float> y(2);
    const auto answer = [&] { made({{x, {1, 2}}}, {{y, {1, 2}}}); };
    for (int i = 0; i < 4; ++i) answer();
    const stream_lease writer(machine.find("cpu:0"));
    sluice::test_support::gate held(*writer);
    fill(*writer, shared, 7.0f);
    std::jthread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // an answer that does not wait is there by then
        held.open();
    });
    answer();
    EXPECT_EQ(y, (std::vector<float>{7, 7}));
}

}  // namespace sluice::nn::own_operator_tests
