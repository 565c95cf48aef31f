// SPDX-License-Identifier: Apache-2.0
// to_layers: ONNX networks that are multi-layer perceptrons, and the reasons why others are not.
#include "sluice/nn/to_layers.hpp"

#include <gmock/gmock.h>

#include "nn/support/onnx_maker.hpp"
#include "nn/support/reference_network.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/nn/plan.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::to_layers_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::onnx_maker;

const std::filesystem::path root = SLUICE_SOURCE_DIR;

template <typename... Words>
void expect_refused(const onnx_maker& made, Words... words) {
    try {
        static_cast<void>(to_layers(made.read()));
        ADD_FAILURE() << "was accepted";
    } catch (const file_error& refused) {
        EXPECT_THAT(refused.what(), ::testing::AllOf(HasSubstr("made.onnx"), HasSubstr(words)...));
    }
}

// x [n, 2]; w is [in 2, out 3].
onnx_maker with_weights() {
    onnx_maker made(2);
    made.add_constant("w", {2, 3}, {1, 2, 3, 4, 5, 6});
    made.add_constant("b", {3}, {-1, 0, 1});
    return made;
}

}  // namespace

TEST(to_layers, gives_the_network_of_the_repository) {
    const std::vector<mlp_layer> from_onnx = to_layers(load_onnx(root / "models/digits.onnx"));
    const std::vector<mlp_layer> expected = to_layers(load_safetensors(root / "models/digits.safetensors"));
    ASSERT_EQ(from_onnx.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const mlp_layer &made = from_onnx[i], &same = expected[i];
        EXPECT_EQ(made.name, same.name);
        EXPECT_EQ(made.in_features, same.in_features);
        EXPECT_EQ(made.out_features, same.out_features);
        EXPECT_EQ(made.weight, same.weight);
        EXPECT_EQ(made.bias, same.bias);
        EXPECT_EQ(made.after, same.after);
    }
}

TEST(to_layers, gives_the_outputs_of_the_trainer) {
    const io::npy_file inputs(root / "data/digits_inputs.npy"), logits(root / "data/digits_logits.npy");
    std::vector<float> rows(450 * 64), expected(450 * 10);
    inputs.view().read_rows(0, rows);
    logits.view().read_rows(0, expected);
    runtime machine{{.cuda = false}};
    round_robin pool(machine.default_device(), 2);
    const plan network = sync(make_plan(to_layers(load_onnx(root / "models/digits.onnx"))), pool);
    const std::vector<float> made = sync(upload(rows, {450, 64})
                                             .and_then([=](tensor<float> x) { return network.forward(std::move(x)); })
                                             .and_then(download),
                                         pool);
    EXPECT_THAT(made, ::testing::Pointwise(::testing::FloatNear(1e-4f), expected));
}

TEST(to_layers, reads_a_gemm_in_each_form) {
    onnx_maker made = with_weights();
    made.add_node("Gemm", {"x", "w", "b"}, "y");
    std::vector<mlp_layer> mlp = to_layers(made.read());
    ASSERT_EQ(mlp.size(), 1u);
    EXPECT_EQ(mlp[0].name, "n0");
    EXPECT_EQ(mlp[0].in_features, 2u);
    EXPECT_EQ(mlp[0].out_features, 3u);
    EXPECT_THAT(mlp[0].weight, ElementsAre(1, 4, 2, 5, 3, 6));
    EXPECT_THAT(mlp[0].bias, ElementsAre(-1, 0, 1));
    EXPECT_EQ(mlp[0].after, activation::none);

    onnx::NodeProto& gemm = *made.body().mutable_node(0);
    onnx_maker::set(gemm, "alpha", 2.f);
    onnx_maker::set(gemm, "beta", 0.5f);
    mlp = to_layers(made.read());
    EXPECT_THAT(mlp[0].weight, ElementsAre(2, 8, 4, 10, 6, 12));
    EXPECT_THAT(mlp[0].bias, ElementsAre(-0.5f, 0, 0.5f));

    onnx_maker turned(3);
    turned.add_constant("fc.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
    onnx_maker::set(turned.add_node("Gemm", {"x", "fc.weight"}, "y"), "transB", std::int64_t{1});
    mlp = to_layers(turned.read());
    EXPECT_EQ(mlp[0].name, "fc");
    EXPECT_EQ(mlp[0].in_features, 3u);
    EXPECT_THAT(mlp[0].weight, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_TRUE(mlp[0].bias.empty());
}

TEST(to_layers, reads_a_product_and_a_sum_and_what_changes_nothing) {
    for (const bool is_first : {false, true}) {
        onnx_maker made = with_weights();
        made.add_node("Identity", {"x"}, "i");
        made.add_node("MatMul", {"i", "w"}, "p");
        made.add_node("Add", is_first ? std::vector<std::string>{"b", "p"} : std::vector<std::string>{"p", "b"}, "s");
        made.add_node("Tanh", {"s"}, "t");
        made.add_node("Dropout", {"t"}, "y");
        const std::vector<mlp_layer> mlp = to_layers(made.read());
        ASSERT_EQ(mlp.size(), 1u);
        EXPECT_THAT(mlp[0].weight, ElementsAre(1, 4, 2, 5, 3, 6));
        EXPECT_THAT(mlp[0].bias, ElementsAre(-1, 0, 1));
        EXPECT_EQ(mlp[0].after, activation::tanh);
    }
}

TEST(to_layers, reads_constants_that_are_nodes_and_flattens_images) {
    onnx_maker made(1);
    made.body().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
    onnx::NodeProto& given = made.add_node("Constant", {}, "w");
    onnx::AttributeProto& value = *given.add_attribute();
    value.set_name("value");
    value.set_type(4);
    value.mutable_t()->set_data_type(1);
    value.mutable_t()->add_dims(2);
    value.mutable_t()->add_dims(1);
    value.mutable_t()->add_float_data(3);
    value.mutable_t()->add_float_data(4);
    made.add_node("Flatten", {"x"}, "f");
    made.add_node("MatMul", {"f", "w"}, "y");
    EXPECT_THAT(to_layers(made.read())[0].weight, ElementsAre(3, 4));

    // Without it the product would be over the last dimension only.
    made.body().mutable_node(2)->set_input(0, "x");
    made.body().mutable_node()->DeleteSubrange(1, 1);
    expect_refused(made, "input 'x': has more than two dimensions, and nothing flattens it");
}

TEST(to_layers, knows_each_activation_with_its_attributes) {
    const auto after = [](const std::string& op, auto... attribute) {
        onnx_maker made = with_weights();
        made.add_node("MatMul", {"x", "w"}, "p");
        onnx::NodeProto& last = made.add_node(op, {"p"}, "y");
        (onnx_maker::set(last, attribute.first, attribute.second), ...);
        return made;
    };
    using number = std::pair<std::string, std::int64_t>;
    using text = std::pair<std::string, std::string>;
    EXPECT_EQ(to_layers(after("Relu").read())[0].after, activation::relu);
    EXPECT_EQ(to_layers(after("Sigmoid").read())[0].after, activation::sigmoid);
    EXPECT_EQ(to_layers(after("Gelu").read())[0].after, activation::gelu);
    EXPECT_EQ(to_layers(after("Gelu", text("approximate", "none")).read())[0].after, activation::gelu);
    EXPECT_EQ(to_layers(after("Softmax", number("axis", -1)).read())[0].after, activation::softmax);
    expect_refused(after("Gelu", text("approximate", "tanh")), "node 'n1' (Gelu): is approximated ('tanh')");
    expect_refused(after("Gelu", number("approximate", 1)), "'approximate'", "has another type");
    expect_refused(after("Softmax", number("axis", 0)), "node 'n1' (Softmax): is over axis 0");
}

TEST(to_layers, names_all_operators_that_are_not_supported_at_once) {
    onnx_maker made = with_weights();
    made.add_node("LayerNormalization", {"x"}, "p");
    made.add_node("MatMul", {"p", "w"}, "q");
    made.add_node("Erf", {"q"}, "y").set_domain("ai.onnx.ml");
    made.file.add_opset_import()->set_domain("ai.onnx.ml");
    expect_refused(
        made, "node 'n0' (LayerNormalization), node 'n2' (Erf) of ai.onnx.ml",
        "Supported are Add, Constant, Dropout, Flatten, Gelu, Gemm, Identity, MatMul, Relu, Sigmoid, Softmax, Tanh");
}

TEST(to_layers, refuses_what_is_no_chain_of_layers) {
    onnx_maker made = with_weights();
    made.add_node("Relu", {"x"}, "y");
    expect_refused(made, "node 'n0' (Relu): comes before the first layer");

    made = with_weights();
    made.add_node("Identity", {"x"}, "y");
    expect_refused(made, "has no layers");

    made = with_weights();
    made.add_node("MatMul", {"x", "w"}, "p");
    made.add_node("MatMul", {"x", "w"}, "y");
    expect_refused(made, "node 'n1' (MatMul): takes the value 'x'; supported is a chain");

    made = with_weights();
    made.add_node("MatMul", {"x", "w"}, "p");
    made.add_node("Relu", {"p"}, "q");
    made.add_node("Add", {"q", "b"}, "y");
    expect_refused(made, "node 'n2' (Add): adds to something that is not a product without a bias");

    made = with_weights();
    made.add_node("MatMul", {"x", "w"}, "p");
    made.add_node("Relu", {"p"}, "q");
    made.add_node("Tanh", {"q"}, "y");
    expect_refused(made, "node 'n2' (Tanh): follows the activation relu");

    made = with_weights();
    made.add_node("MatMul", {"x", "w"}, "p");
    made.add_node("MatMul", {"p", "w"}, "y");
    expect_refused(made, "node 'n1' (MatMul): takes 2 features; the layer before it gives 3");

    made = with_weights();
    made.add_node("MatMul", {"x", "w"}, "y");
    made.add_node("Relu", {"y"}, "z");
    expect_refused(made, "output 'y': is not what the last node gives");

    made = with_weights();
    made.add_input("other", {-1, 2});
    made.add_node("MatMul", {"x", "w"}, "y");
    expect_refused(made, "has 2 inputs and 1 outputs");

    made = with_weights();
    made.add_input("v", {2, 3});
    made.body().mutable_input(0)->set_name("v");
    made.body().mutable_input(1)->set_name("w2");
    made.body().mutable_input()->DeleteSubrange(1, 1);
    made.add_node("MatMul", {"v", "v"}, "y");
    expect_refused(made, "takes the value 'v' as weight, which is no constant");
}

TEST(to_layers, refuses_what_it_would_have_to_ignore) {
    onnx_maker made = with_weights();
    onnx_maker::set(made.add_node("Gemm", {"x", "w"}, "y"), "trasB", std::int64_t{1});
    expect_refused(made,
                   "node 'n0' (Gemm): has the attribute 'trasB', which is not supported; supported are alpha beta");

    made = with_weights();
    made.add_node("MatMul", {"x", "w", "b"}, "y");
    expect_refused(made, "node 'n0' (MatMul): has 3 inputs and 1 outputs; supported are at most 2 and 1");

    made = with_weights();
    made.add_node("MatMul", {"x", "w"}, "y").add_output("z");
    expect_refused(made, "node 'n0' (MatMul): has 2 inputs and 2 outputs");

    made = with_weights();
    made.add_node("MatMul", {"x", "w"}, "y");
    made.body()
        .mutable_output(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(1)
        ->set_dim_value(7);
    expect_refused(made, "output 'y': has 7 features a row; the last layer gives 3");
    made.body().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(11);
    expect_refused(made, "output 'y': is of type f64, not f32");
}

TEST(to_layers, refuses_shapes_that_do_not_fit) {
    onnx_maker made(5);
    made.add_constant("w", {2, 3}, {1, 2, 3, 4, 5, 6});
    made.add_node("MatMul", {"x", "w"}, "y");
    expect_refused(made, "input 'x': has 5 features a row; the first layer takes 2");

    made = with_weights();
    made.add_constant("scalar", {1}, {1});
    made.add_node("Gemm", {"x", "w", "scalar"}, "y");
    expect_refused(made, "node 'n0' (Gemm): has a bias that is no row of 3 numbers");

    made = with_weights();
    made.add_node("MatMul", {"x", "b"}, "y");
    expect_refused(made, "node 'n0' (MatMul): has a weight that is no matrix");

    made = with_weights();
    onnx_maker::set(made.add_node("Gemm", {"x", "w"}, "y"), "transA", std::int64_t{1});
    expect_refused(made, "node 'n0' (Gemm): transposes its input");

    made = with_weights();
    made.body().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(11);
    made.add_node("MatMul", {"x", "w"}, "y");
    expect_refused(made, "input 'x': is of type f64, not f32");
}

}  // namespace sluice::nn::to_layers_tests
