// SPDX-License-Identifier: Apache-2.0
// network::steps says what a network does after the passes.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "nn/graph_run.hpp"
#include "nn/joined_steps.hpp"
#include "nn/kept_calls.hpp"
#include "nn/prepared_network.hpp"
#include "nn/small_models.hpp"
#include "sluice/nn/adopt_tensor.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/pass_report.hpp"
#include "sluice/nn/row_independence.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::network_steps_tests {
namespace {

using namespace test_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constant ones(std::vector<std::size_t> shape) {
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    return tensor_of(std::vector<float>(count, 1.0f), std::move(shape));
}
node named_node(std::string name, std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    node made = make_node(std::move(op), std::move(inputs), std::move(outputs));
    made.name = std::move(name);
    return made;
}

class network_steps : public ::testing::Test {
protected:
    static model make(std::vector<dimension> input) {
        model made;
        made.path = "made.onnx";
        made.opsets = {{"", 20}};
        const std::size_t rank = input.size();
        made.body.inputs = {f32("x", std::move(input))};
        made.body.outputs = {f32("y", std::vector<dimension>(rank, named("")))};
        return made;
    }
    std::vector<network_step> steps_of(const model& from) { return sync(make_network(from), pool).steps(); }

    runtime machine{runtime_options{.cuda = false}};
    round_robin pool{machine.find("cpu:0"), 1};
};

}  // namespace

TEST_F(network_steps, are_the_nodes_where_no_pass_applies) {
    model made = make({named("n"), of(2)});
    made.body.nodes = {named_node("a", "Relu", {"x"}, {"r"}), make_node("Softmax", {"r"}, {"y"})};
    const auto steps = steps_of(made);
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps[0].name, "a");
    EXPECT_THAT(steps[0].operators, ElementsAre("Relu"));
    EXPECT_THAT(steps[0].inputs, ElementsAre("x"));
    EXPECT_THAT(steps[0].outputs, ElementsAre("r"));
    EXPECT_FALSE(steps[0].is_on_host || steps[0].may_join_next);
    EXPECT_EQ(steps[1].name, "Softmax");  // the operator's: the node has none
    EXPECT_THAT(steps[1].outputs, ElementsAre("y"));
}

TEST_F(network_steps, name_all_nodes_of_dense_layers) {
    model made = make({named("n"), of(2)});
    made.body.constants = {{"w", ones({2, 3})}, {"v", ones({3, 2})}, {"b", ones({3})}};
    made.body.nodes = {named_node("fc1", "MatMul", {"x", "w"}, {"1"}), named_node("bias", "Add", {"1", "b"}, {"2"}),
                       named_node("act", "Relu", {"2"}, {"3"}), named_node("fc2", "MatMul", {"3", "v"}, {"y"})};
    const auto steps = steps_of(made);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].name, "fc1 to fc2");
    EXPECT_THAT(steps[0].operators, ElementsAre("MatMul", "Add", "Relu", "MatMul"));
    EXPECT_THAT(steps[0].inputs, ElementsAre("x"));
    EXPECT_THAT(steps[0].outputs, ElementsAre("y"));
}

TEST_F(network_steps, name_a_normalization_that_is_part_of_a_convolution) {
    model made = make({of(1), of(2), of(4), of(4)});
    made.body.constants = {{"f", ones({2, 2, 1, 1})}, {"s", ones({2})}};
    made.body.nodes = {named_node("conv", "Conv", {"x", "f"}, {"c"}),
                       named_node("norm", "BatchNormalization", {"c", "s", "s", "s", "s"}, {"y"})};
    const auto steps = steps_of(made);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_THAT(steps[0].operators, ElementsAre("Conv", "BatchNormalization"));
    EXPECT_THAT(steps[0].inputs, ElementsAre("x"));  // not the filters that the pass has made
    EXPECT_THAT(steps[0].outputs, ElementsAre("y"));
}

TEST_F(network_steps, say_what_may_become_a_part_of_the_next_and_what_is_on_the_host) {
    model made = make({named("n"), of(4)});
    made.body.nodes = {named_node("a", "Mul", {"x", "x"}, {"1"}), named_node("b", "Tanh", {"1"}, {"2"}),
                       named_node("shape", "Shape", {"x"}, {"s"}), named_node("c", "Reshape", {"2", "s"}, {"y"})};
    const auto steps = steps_of(made);
    ASSERT_EQ(steps.size(), 4u);
    EXPECT_TRUE(steps[0].may_join_next);
    EXPECT_FALSE(steps[1].may_join_next);
    EXPECT_FALSE(steps[0].is_on_host);
    EXPECT_TRUE(steps[2].is_on_host);
}

TEST_F(network_steps, leave_out_what_is_computed_beforehand) {
    model made = make({of(2)});
    made.body.constants = {{"a", ones({2})}, {"b", ones({2})}};
    made.body.nodes = {make_node("Add", {"a", "b"}, {"c"}), make_node("Mul", {"x", "c"}, {"y"})};
    const auto steps = steps_of(made);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_THAT(steps[0].inputs, ElementsAre("x", "c"));
}

TEST_F(network_steps, hold_those_of_inner_graphs) {
    model made = make({of(2)});
    made.body.inputs.push_back({"condition", io::dtype::boolean, {{of(1)}}});
    const auto branch = [](const char* op) {
        auto body = std::make_shared<graph>();
        body->outputs = {f32("r", {of(2)})};
        body->nodes = {make_node(op, {"x"}, {"r"})};
        return std::shared_ptr<const graph>(std::move(body));
    };
    node choice = named_node("choice", "If", {"condition"}, {"y"});
    choice.attributes["then_branch"] = branch("Relu");
    choice.attributes["else_branch"] = branch("Tanh");
    made.body.nodes = {choice};
    const auto steps = steps_of(made);
    ASSERT_EQ(steps.size(), 1u);
    ASSERT_EQ(steps[0].parts.size(), 2u);
    std::vector<std::string> operators;
    for (const network_part& part : steps[0].parts) {
        ASSERT_EQ(part.steps.size(), 1u);
        EXPECT_THAT(part.inputs, IsEmpty());
        EXPECT_THAT(part.outputs, ElementsAre("r"));
        EXPECT_THAT(part.steps[0].inputs, ElementsAre("x"));
        operators.push_back(part.steps[0].operators.at(0));
    }
    EXPECT_THAT(operators, ::testing::UnorderedElementsAre("Relu", "Tanh"));
}

namespace {

// Gives one row more than the steps do.
class longer_steps : public detail::joined_steps {
public:
    using joined_steps::joined_steps;
    std::optional<std::vector<any_tensor>> submit(const std::filesystem::path&, execution_context& context,
                                                  std::span<const any_tensor> inputs) const override {
        std::vector<std::size_t> shape(inputs[0].shape().begin(), inputs[0].shape().end());
        ++shape[0];
        storage_ref memory = context.stream().allocate(inputs[0].size_bytes() / (shape[0] - 1) * shape[0], {"longer"});
        return std::vector{any_tensor(inputs[0].type(), shape, std::move(memory))};
    }
};

}  // namespace

TEST_F(network_steps, give_what_inference_says) {
    model made = make({named("n"), of(2)});
    made.body.nodes = {named_node("a", "Softmax", {"x"}, {"y"})};
    const network ready = sync(make_network(made), pool);
    detail::prepared_graph whole = ready.inside().body();
    whole.steps[0].stretch = std::make_shared<const longer_steps>(ready.inside().body());
    auto run = with_context([&](execution_context& context) {
        const auto numbers = ones({3, 2}).bytes;
        const any_tensor x = adopt_tensor(context.device(), io::dtype::f32, {3, 2}, numbers->data(), numbers);
        return detail::graph_run(made, &context, nullptr)(whole, {x}, nullptr, operators::place::device);
    });
    try {
        sync(std::move(run), pool);
        FAIL() << "nothing was thrown";
    } catch (const error& refusal) {
        EXPECT_THAT(refusal.what(), HasSubstr("a gives f32 [4, 2], and inference says f32 [3, 2]"));
    }
}

namespace {

const pass_report& report_of(const std::vector<pass_report>& all, std::string_view name) {
    const auto found = std::ranges::find(all, name, &pass_report::name);
    if (found == all.end()) throw std::runtime_error("no pass " + std::string(name));
    return *found;
}

// What the steps have packed is not there twice; rows are still followed.
TEST_F(network_steps, large_constants_of_floats_are_kept_by_the_steps_alone) {
    if (!onnx_supported()) GTEST_SKIP() << "built without ONNX";
    for (const std::string file :
         {"digits.onnx", "digits_cnn.onnx", "digits_lstm.onnx", "digits_cnn_int8.onnx", "tumours.onnx"}) {
        SCOPED_TRACE(file);
        const model from = load_onnx(SLUICE_SOURCE_DIR "/models/" + file);
        const network made = sync(make_network(from), pool);
        const auto& kept = made.inside().from().body.constants;
        ASSERT_EQ(kept.size(), from.body.constants.size());
        for (const auto& [name, value] : kept) {
            const bool is_large = value.type == io::dtype::f32 && from.body.constants.at(name).bytes->size() > 4096;
            EXPECT_EQ(value.bytes == nullptr, is_large) << name;
        }
        EXPECT_EQ(made.inside().rows().text(), find_row_independence(from).text());
    }
}

// The next call makes them again, with the same numbers.
TEST_F(network_steps, calls_that_a_network_keeps_can_be_forgotten) {
    const network made = sync(make_network(load_safetensors(SLUICE_SOURCE_DIR "/models/digits.safetensors")), pool);
    const std::vector<float> x(std::size_t{64} * 8, 0.5F);
    const std::vector<std::size_t> shape{8, 64};
    const std::vector<input_view> inputs{input_view(io::dtype::f32, std::as_bytes(std::span(x)).data(), shape)};
    const auto run = [&] {
        const std::vector<any_tensor> made_outputs = made(inputs);
        const auto y = made_outputs.at(0).values<float>();
        return std::vector<float>(y.begin(), y.end());
    };
    const std::vector<float> first = run();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(run(), first);
    EXPECT_GT(made.inside().calls().bytes(), 0U);
    made.inside().forget_calls();
    EXPECT_EQ(made.inside().calls().bytes(), 0U);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(run(), first);
    std::atomic<bool> ends{false};
    std::thread forgets([&] {
        while (!ends) made.inside().forget_calls();
    });
    for (int i = 0; i < 2000; ++i) EXPECT_EQ(run(), first);
    ends = true;
    forgets.join();
}

}  // namespace

TEST_F(network_steps, are_listed_after_each_pass) {
    model made = make({named("n"), of(3), of(8), of(8)});
    made.body.constants = {{"w", ones({4, 3, 3, 3})}, {"s", ones({4})}, {"b", ones({4})}, {"m", ones({4})}};
    node convolution = named_node("conv", "Conv", {"x", "w"}, {"c"});
    convolution.attributes.emplace("kernel_shape", std::vector<std::int64_t>{3, 3});
    made.body.nodes = {convolution, named_node("norm", "BatchNormalization", {"c", "s", "b", "m", "s"}, {"y"})};
    const std::vector<pass_report> all = sync(list_passes(made), pool);
    EXPECT_EQ(all.front().name, "model");
    EXPECT_EQ(all.front().steps.size(), 2u);
    const pass_report& folded = report_of(all, "batch normalization");
    EXPECT_TRUE(folded.applies && folded.has_changed);
    ASSERT_EQ(folded.steps.size(), 1u);
    EXPECT_THAT(folded.steps[0].operators, ElementsAre("Conv", "BatchNormalization"));
    EXPECT_FALSE(report_of(all, "constants").has_changed);
    EXPECT_FALSE(report_of(all, "residual norms").applies);
    EXPECT_EQ(report_of(all, "attention").steps.size(), 1u);
    EXPECT_EQ(all.back().steps.size(), sync(make_network(made), pool).steps().size());
}

TEST_F(network_steps, of_a_front_are_listed_before_the_rest) {
    model made = make({named("n"), of(2)});
    made.body.outputs = {{.name = "y", .type = io::dtype::i64, .shape = {}}};
    made.body.nodes = {named_node("a", "Relu", {"x"}, {"r"}), named_node("b", "Sqrt", {"r"}, {"q"}),
                       make_node("NonZero", {"q"}, {"y"})};
    const std::vector<pass_report> all = sync(list_passes(made), pool);
    const auto at = [&](std::string_view name) { return &report_of(all, name) - all.data(); };
    EXPECT_LT(at("model"), at("front"));
    EXPECT_LT(at("front"), at("rest"));
    EXPECT_EQ(report_of(all, "front").steps.size(), 2u);
    EXPECT_EQ(report_of(all, "rest").steps.size(), 1u);
    EXPECT_EQ(all.back().name, "expressions");
}

TEST_F(network_steps, say_that_a_precision_changed_how_they_are_computed) {
    model made = make({named("n"), of(4)});
    made.body.constants = {{"w", ones({4, 4})}};
    made.body.nodes = {named_node("product", "MatMul", {"x", "w"}, {"y"})};
    EXPECT_FALSE(report_of(sync(list_passes(made), pool), "rounding").applies);
    const std::vector<pass_report> rounded = sync(list_passes(made, {.precision = precision::int8}), pool);
    EXPECT_TRUE(report_of(rounded, "rounding").has_changed);
}

}  // namespace sluice::nn::network_steps_tests
