// SPDX-License-Identifier: Apache-2.0
// Networks written in C++: what they compute, and where mistakes are found.
#include "sluice/nn/model_builder.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/io/safetensors.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/operator_call.hpp"
#include "sluice/nn/to_layers.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::model_builder_tests {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

const std::filesystem::path models = SLUICE_SOURCE_DIR "/models";

class model_builders : public ::testing::Test {
protected:
    std::vector<any_tensor> run(const model_builder& written, std::vector<any_tensor> inputs) {
        const network made = sync(make_network(written.finish()), pool);
        return sync(made.run(std::move(inputs)), pool);
    }

    // The message of what the call throws, which has to name the line of the call.
    template <typename Call>
    static std::string refusal(errc code, const Call& call) {
        try {
            call();
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), code) << failure.what();
            EXPECT_THAT(failure.location().file_name(), HasSubstr("model_builder_tests.cpp")) << failure.what();
            EXPECT_NE(failure.location().line(), 0u);
            return failure.what();
        }
        return "no error";
    }

    runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
    round_robin pool{machine.find("cpu:0"), 2};
    const any_tensor rows{std::vector<float>{1, 2, -3, 4}, {2, 2}};
};

}  // namespace

// --- what they compute ----------------------------------------------------------------------------------------

TEST_F(model_builders, write_a_multi_layer_perceptron) {
    model_builder build("small");
    const auto x = build.input("x", {"rows", 2});
    const auto hidden = build.relu(build.linear(x, build.constant({1.f, 0.f, 0.f, -1.f, 1.f, 1.f}, {3, 2}),
                                                build.constant({0.f, 0.f, 0.5f}, {3})));
    const auto y = build.linear(hidden, build.constant({1.f, 2.f, 3.f}, {1, 3}));
    build.output("y", y);
    EXPECT_EQ(build.describe(hidden), "f32 [rows, 3]");
    EXPECT_EQ(build.describe(y), "f32 [rows, 1]");
    EXPECT_THAT(run(build, {rows})[0].values<float>(), ElementsAre(1 + 0 + 3 * 3.5f, 0 + 0 + 3 * 1.5f));

    const model made = build.finish();
    EXPECT_EQ(made.body.outputs[0].shape->at(0).name, "rows");
    EXPECT_EQ(made.body.nodes[0].name, "Gemm_0");
    EXPECT_EQ(to_layers(made).size(), 2u);
}

TEST_F(model_builders, take_any_operator_with_attributes_of_each_kind) {
    model_builder build("any");
    const auto x = build.input("x", {"rows", 2});
    const auto leaky = build.node("LeakyRelu", {x}, {{"alpha", 0.5}});
    const auto turned = build.node("Transpose", {leaky}, {{"perm", {1, 0}}});
    const auto parts = build.node_with_outputs(2, "Split", {turned}, {{"axis", 0}, {"num_outputs", 2}});
    const auto clipped = build.node("Clip", {parts[1], {}, build.constant(3.f)});
    const auto scaled = build.node("ai.onnx.ml.Scaler", {x}, {{"offset", {1.0, 1.0}}, {"scale", {2.0, 3.0}}});
    const auto gelu = build.node("Gelu", {x}, {{"approximate", "tanh"}});
    EXPECT_EQ(build.describe(turned), "f32 [2, rows]");
    EXPECT_EQ(build.describe(clipped), "f32 [1, rows]");
    build.output("first", parts[0]);
    build.output("clipped", clipped);
    build.output("scaled", scaled);
    build.output("gelu", gelu);
    const auto answers = run(build, {rows});
    EXPECT_THAT(answers[0].values<float>(), ElementsAre(1, -1.5f));
    EXPECT_THAT(answers[1].values<float>(), ElementsAre(2, 3));
    EXPECT_THAT(answers[2].values<float>(), ElementsAre(0, 3, -8, 9));
    EXPECT_THAT(answers[3].values<float>(), ElementsAre(FloatNear(0.841192f, 1e-5f), FloatNear(1.954598f, 1e-5f),
                                                        FloatNear(-0.0036374f, 1e-5f), FloatNear(3.99993f, 1e-4f)));
}

TEST_F(model_builders, write_convolutions_with_what_follows_them) {
    model_builder build("conv");
    const auto image = build.input("image", {"batch", 1, 4, 4});
    const model_builder::window how{.strides = {2, 2}, .padding = {1, 1}};
    const auto map = build.conv(image, build.constant(std::vector<float>(9, 1.f), {1, 1, 3, 3}), {}, how);
    EXPECT_EQ(build.describe(map), "f32 [batch, 1, 2, 2]");
    const auto flat = build.flatten(build.add(map, build.constant(1.f)));
    EXPECT_EQ(build.describe(flat), "f32 [batch, 4]");
    build.output("y", build.multiply(build.reshape(flat, {0, 2, -1}), build.constant(2.f)));
    const any_tensor ones(std::vector<float>(16, 1.f), {1, 1, 4, 4});
    const auto answers = run(build, {ones});
    EXPECT_THAT(answers[0].shape(), ElementsAre(1, 2, 2));
    EXPECT_THAT(answers[0].values<float>(), ElementsAre(10, 14, 14, 20));
}

TEST_F(model_builders, apply_linear_layers_to_the_last_of_many_dimensions) {
    model_builder build("sequence");
    const auto x = build.input("x", {"batch", "steps", 2});
    const auto y =
        build.linear(x, build.constant({1.f, 1.f, 2.f, 0.f, 0.f, 1.f}, {3, 2}), build.constant({0.f, 1.f, 0.f}, {3}));
    EXPECT_EQ(build.describe(y), "f32 [batch, steps, 3]");
    build.output("y", build.softmax(y));
    build.output("raw", y);
    EXPECT_THAT(run(build, {rows.with_shape({1, 2, 2})})[1].values<float>(), ElementsAre(3, 3, 2, 1, -5, 4));
}

TEST_F(model_builders, follow_named_dimensions_through_operators_of_shapes) {
    model_builder build("shapes");
    const auto x = build.input("x", {"n", "m", 4});
    const auto length = build.node("Gather", {build.node("Shape", {x}), build.constant({std::int64_t{1}}, {1})});
    EXPECT_EQ(build.describe(length), "i64 [1]");
    const auto shape = build.node("Concat", {build.constant({std::int64_t{-1}}, {1}), length}, {{"axis", 0}});
    const auto y = build.node("Reshape", {x, shape});
    EXPECT_EQ(build.describe(y), "f32 [?, m]");  // 4 times n
    build.output("y", y);
    EXPECT_EQ(build.describe(build.node("Concat", {x, x}, {{"axis", 2}})), "f32 [n, m, 8]");
    const auto answers = run(build, {any_tensor(std::vector<float>(24), {2, 3, 4})});
    EXPECT_THAT(answers[0].shape(), ElementsAre(8, 3));
}

TEST_F(model_builders, leave_to_the_run_what_is_known_then) {
    model_builder build("late");
    const auto x = build.input("x", {"n"});
    const auto lengths = build.input("lengths", {2}, io::dtype::i64);
    const auto y = build.relu(build.node("Reshape", {x, lengths}));
    EXPECT_EQ(build.describe(y), "?");
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.output("y", y); }), HasSubstr("output(name, value, type)"));
    build.output("y", y, io::dtype::f32);
    const auto answers =
        run(build, {any_tensor(std::vector<float>{1, -1}, {2}), any_tensor(std::vector<std::int64_t>{2, 1}, {2})});
    EXPECT_THAT(answers[0].shape(), ElementsAre(2, 1));
    EXPECT_THAT(answers[0].values<float>(), ElementsAre(1, 0));
}

TEST_F(model_builders, give_inputs_constants_and_one_value_twice_as_outputs) {
    model_builder build("copies");
    const auto x = build.input("x", {"rows", 2});
    const auto y = build.relu(x);
    build.output("same", x);
    build.output("y", y);
    build.output("again", y);
    build.output("two", build.constant(2.f));
    const auto answers = run(build, {rows});
    EXPECT_THAT(answers[0].values<float>(), ElementsAre(1, 2, -3, 4));
    EXPECT_THAT(answers[1].values<float>(), ElementsAre(1, 2, 0, 4));
    EXPECT_THAT(answers[2].values<float>(), ElementsAre(1, 2, 0, 4));
    EXPECT_THAT(answers[3].values<float>(), ElementsAre(2));
}

TEST_F(model_builders, take_constants_from_files_and_tensors) {
    const io::safetensors_file file(models / "digits.safetensors");
    ASSERT_FALSE(file.tensors().empty());
    const io::tensor_entry& first = file.tensors().front();
    model_builder build("file");
    const auto weight = build.constant(first);
    build.output("copy", weight);
    build.output("mine", build.constant(rows));
    const model made = build.finish();
    EXPECT_TRUE(made.body.constants.contains(first.name));
    const auto answers = run(build, {});
    EXPECT_EQ(answers[0].shape(), first.shape);
    EXPECT_TRUE(std::ranges::equal(answers[0].bytes(), first.bytes));
    EXPECT_EQ(made.body.constants.at("#1").bytes, rows.host_owner());  // not copied
    build.constant(file, "0.weight");
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.constant(file, "0.wheight"); }),
                HasSubstr("digits.safetensors has no tensor '0.wheight'; the nearest is '0.weight'"));
}

TEST_F(model_builders, know_operators_of_the_users_own) {
    const auto run_half = [](operator_call& node) {
        node.set_output(0, node.input(0).with_shape({node.input(0).elements()}));
    };
    const own_operators own({{.domain = "com.example", .name = "Flat", .since = 2, .run = run_half}});
    model_builder build("own", {.own = own});
    const auto x = build.input("x", {"rows", 2});
    const auto y = build.node("com.example.Flat", {x});
    EXPECT_EQ(build.describe(y), "f32 [?]");
    build.output("y", y);
    const model made = build.finish();
    EXPECT_EQ(made.opsets.at("com.example"), 2);
    const network ready = sync(make_network(made, {.own = own}), pool);
    EXPECT_THAT(sync(ready.run({rows}), pool)[0].shape(), ElementsAre(4));
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.node("com.example.Flap", {x}); }),
                HasSubstr("there is no operator 'com.example.Flap'; the nearest is 'com.example.Flat'"));
}

// --- mistakes -------------------------------------------------------------------------------------------------

TEST_F(model_builders, find_shapes_that_do_not_fit_at_the_line) {
    model_builder build("wrong");
    const auto x = build.input("x", {"rows", 64});
    const auto weight = build.constant(std::vector<float>(32 * 65), {32, 65});
    const auto line = source_location::current().line() + 2;
    try {
        build.linear(x, weight);
        ADD_FAILURE();
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::shape_mismatch);
        EXPECT_EQ(failure.location().line(), line);
        EXPECT_THAT(failure.what(),
                    AllOf(HasSubstr("wrong: node 'Gemm_0' (Gemm): multiplies f32 [480, 64] by f32 [32, 65]"),
                          HasSubstr("lengths tried: rows = 480"), HasSubstr("model_builder_tests.cpp:")));
    }
    // Another name may have another length; and a number is not any length.
    const auto other = build.input("other", {"columns", 64});
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { build.add(x, other); }), HasSubstr("which do not fit"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { build.reshape(x, {4, 16}); }), HasSubstr("which does not fit"));
    EXPECT_EQ(build.describe(build.add(x, x)), "f32 [rows, 64]");
    // What has failed has left nothing.
    build.output("y", x);
    EXPECT_EQ(build.finish().body.nodes.size(), 2u);  // the sum, and the copy
    EXPECT_EQ(build.finish().body.constants.size(), 1u);
}

TEST_F(model_builders, find_wrong_types_and_axes_at_the_line) {
    model_builder build("wrong");
    const auto x = build.input("x", {"rows", 64});
    const auto numbers = build.input("numbers", {"rows", 64}, io::dtype::i64);
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.add(x, numbers); }),
                HasSubstr("which have different types"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node("Concat", {x, x}, {{"axis", 2}}); }),
                HasSubstr("has the axis 2 of a tensor with 2 dimensions"));
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.sigmoid(numbers); }), HasSubstr("i64"));
}

TEST_F(model_builders, find_operators_and_attributes_that_do_not_exist) {
    model_builder build("wrong");
    const auto x = build.input("x", {"rows", 64});
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.node("LeakyRely", {x}); }),
                HasSubstr("there is no operator 'LeakyRely'; the nearest is 'LeakyRelu'"));
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.node("softmax", {x}); }), HasSubstr("the nearest is 'Softmax'"));
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.node("ai.onnx.ml.Scalar", {x}); }),
                HasSubstr("the nearest is 'ai.onnx.ml.Scaler'"));
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.node("Upsample", {x}); }),
                AllOf(HasSubstr("'Upsample' is in versions"), HasSubstr("written for version 28")));
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.node("", {x}); }), HasSubstr("no operator ''"));
    EXPECT_THAT(refusal(errc::unsupported, [&] { build.node(std::string(100'000, '.'), {x}); }),
                HasSubstr("no operator"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node("LeakyRelu", {x}, {{"slope", 0.5}}); }),
                HasSubstr("has the attribute 'slope', which its operator does not have; it has alpha"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node("LeakyRelu", {x}, {{"alpha", 1}}); }),
                HasSubstr("'alpha'"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node("LeakyRelu", {x}, {{"alpha", .1}, {"alpha", .2}}); }),
                HasSubstr("has the attribute 'alpha' twice"));
}

TEST_F(model_builders, find_wrong_numbers_of_inputs_and_outputs) {
    model_builder build("wrong");
    const auto x = build.input("x", {"rows", 64});
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node("Relu", {x, x}); }),
                HasSubstr("has 2 inputs; the operator takes 1"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node("Add", {x}); }), HasSubstr("has 1 inputs"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.add({}, x); }), HasSubstr("leaves out its input 0"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node_with_outputs(2, "Relu", {x}); }),
                HasSubstr("has 2 outputs"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.node_with_outputs(0, "Relu", {x}); }),
                HasSubstr("has no outputs"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.linear({}, x); }), HasSubstr("linear has no x"));
}

TEST_F(model_builders, find_wrong_inputs_constants_names_and_outputs) {
    model_builder build("wrong"), elsewhere("elsewhere");
    const auto x = build.input("x", {"rows", 64});
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.input("x", {1}); }), HasSubstr("'x', which is taken"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.input("", {1}); }), HasSubstr("an input has no name"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.input("z", {-1}); }), HasSubstr("has the length -1"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { build.input("z", {1ull << 40, 1ull << 40}); }),
                HasSubstr("has no memory"));
    EXPECT_THAT(refusal(errc::shape_mismatch, [&] { build.constant({1.f, 2.f}, {3}); }),
                HasSubstr("a constant f32 [3] is given 2 numbers"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.constant(any_tensor()); }), HasSubstr("is nothing"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { elsewhere.relu(x); }), HasSubstr("of another model_builder"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { elsewhere.output("y", x); }),
                HasSubstr("of another model_builder"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.output("y", {}); }), HasSubstr("'y' is no value"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.output("x", x); }), HasSubstr("'x', which is taken"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.output("y", x, io::dtype::f64); }),
                HasSubstr("the output 'y' is f32, and not f64"));
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.finish(); }), HasSubstr("wrong: has no outputs"));
    EXPECT_THAT(refusal(errc::invalid_argument, [] { model_builder("old", {.opset = 5}); }),
                HasSubstr("is written for operator set 5; 6 to 28 are known"));
    build.output("y", x);
    EXPECT_THAT(refusal(errc::invalid_argument, [&] { build.output("y", x); }), HasSubstr("'y', which is taken"));
}

}  // namespace sluice::nn::model_builder_tests
