// SPDX-License-Identifier: Apache-2.0
// load_onnx: what is read, and what is refused.
#include <gmock/gmock.h>

#include <fstream>
#include <limits>

#include "fuzz/replay.hpp"
#include "fuzz/run_onnx.hpp"
#include "io/support/hostile_files.hpp"
#include "io/support/temporary_directory.hpp"
#include "nn/onnx/external_data.hpp"
#include "nn/support/onnx_maker.hpp"
#include "sluice/nn/take_default.hpp"

namespace sluice::nn::onnx_reader_tests {
namespace {

using io::testing::temporary_directory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::onnx_maker;

const std::filesystem::path models = std::filesystem::path(SLUICE_SOURCE_DIR) / "models";

// The file must be refused with a message that has these words.
template <typename... Words>
void expect_refused(const onnx_maker& made, Words... words) {
    try {
        static_cast<void>(made.read());
        ADD_FAILURE() << "was accepted";
    } catch (const file_error& refused) {
        EXPECT_EQ(refused.path(), "made.onnx");
        EXPECT_THAT(refused.what(), ::testing::AllOf(HasSubstr(words)...));
    }
}

// y = relu(x * w + b)
onnx_maker one_layer() {
    onnx_maker made(2);
    made.add_constant("w", {2, 3}, {1, 2, 3, 4, 5, 6});
    made.add_constant("b", {3}, {-1, 0, 1});
    made.add_node("Gemm", {"x", "w", "b"}, "z");
    made.add_node("Relu", {"z"}, "y");
    return made;
}

constant constant_of(onnx::TensorProto tensor) {
    onnx_maker made = one_layer();
    tensor.set_name("c");
    *made.body().add_initializer() = std::move(tensor);
    return made.read().body.constants.at("c");
}

template <typename T>
std::vector<T> values_of(const constant& from) {
    EXPECT_EQ(from.type, io::dtype_of<T>);
    std::vector<T> values(from.elements());
    if (!values.empty()) std::memcpy(values.data(), from.bytes->data(), from.bytes->size());
    return values;
}

onnx::TensorProto typed(std::int32_t type, std::vector<std::int64_t> shape) {
    onnx::TensorProto made;
    made.set_data_type(type);
    for (const std::int64_t each : shape) made.add_dims(each);
    return made;
}

}  // namespace

TEST(onnx_reader, reads_the_network_of_the_repository) {
    const model network = load_onnx(models / "digits.onnx");
    EXPECT_EQ(network.path, models / "digits.onnx");
    EXPECT_EQ(network.producer, "make_digits_onnx");
    EXPECT_EQ(network.opsets.at(""), 17);
    ASSERT_EQ(network.body.inputs.size(), 1u);
    const value_info& input = network.body.inputs[0];
    EXPECT_EQ(input.name, "input");
    EXPECT_EQ(input.type, io::dtype::f32);
    ASSERT_TRUE(input.shape.has_value());
    ASSERT_EQ(input.shape->size(), 2u);
    EXPECT_EQ((*input.shape)[0].length, std::nullopt);
    EXPECT_EQ((*input.shape)[0].name, "batch");
    EXPECT_EQ((*input.shape)[1].length, 64u);
    std::vector<std::string> operators;
    for (const node& each : network.body.nodes) operators.push_back(each.op);
    EXPECT_THAT(operators, ElementsAre("Gemm", "Relu", "Gemm", "Relu", "Gemm"));
    EXPECT_EQ(*network.body.nodes[0].find<std::int64_t>("transB"), 1);
    EXPECT_EQ(network.body.nodes[0].find<std::int64_t>("transA"), nullptr);
    EXPECT_EQ(network.body.constants.at("0.weight").shape, (std::vector<std::size_t>{128, 64}));
}

TEST(onnx_reader, reads_what_the_exporter_noted) {
    const auto path = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/io/data/pictures.onnx";
    EXPECT_THAT(load_onnx_metadata(path),
                ::testing::Contains(std::pair<std::string, std::string>("sluice.image.crop", "12")));
    EXPECT_TRUE(load_onnx_metadata(models / "digits.onnx").empty());
    const temporary_directory directory;
    EXPECT_THROW(load_onnx_metadata(directory.write("no.onnx", "\xff\xff")), file_error);
}

TEST(onnx_reader, reads_numbers_of_each_type_from_the_field_of_that_type) {
    onnx::TensorProto f32 = typed(1, {2});
    f32.add_float_data(1.5f);
    f32.add_float_data(-2);
    EXPECT_THAT(values_of<float>(constant_of(f32)), ElementsAre(1.5f, -2));
    onnx::TensorProto f64 = typed(11, {1});
    f64.add_double_data(0.1);
    EXPECT_THAT(values_of<double>(constant_of(f64)), ElementsAre(0.1));
    onnx::TensorProto i8 = typed(3, {2});
    i8.add_int32_data(-128);
    i8.add_int32_data(127);
    EXPECT_THAT(values_of<std::int8_t>(constant_of(i8)), ElementsAre(-128, 127));
    onnx::TensorProto u16 = typed(4, {1});
    u16.add_int32_data(65535);
    EXPECT_THAT(values_of<std::uint16_t>(constant_of(u16)), ElementsAre(65535));
    onnx::TensorProto u32 = typed(12, {1});
    u32.add_uint64_data(4'000'000'000);
    EXPECT_THAT(values_of<std::uint32_t>(constant_of(u32)), ElementsAre(4'000'000'000));
    onnx::TensorProto i64 = typed(7, {1, 1});
    i64.add_int64_data(std::numeric_limits<std::int64_t>::min());
    EXPECT_THAT(values_of<std::int64_t>(constant_of(i64)), ElementsAre(std::numeric_limits<std::int64_t>::min()));
    onnx::TensorProto u64 = typed(13, {1});
    u64.add_uint64_data(~std::uint64_t{0});
    EXPECT_THAT(values_of<std::uint64_t>(constant_of(u64)), ElementsAre(~std::uint64_t{0}));
    onnx::TensorProto truth = typed(9, {2});
    truth.add_int32_data(1);
    truth.add_int32_data(0);
    const constant truths = constant_of(truth);
    EXPECT_EQ(truths.type, io::dtype::boolean);
    EXPECT_EQ(*truths.bytes, std::string("\x01\x00", 2));
    onnx::TensorProto f16 = typed(10, {1});
    f16.add_int32_data(0x3c00);
    EXPECT_EQ(float(values_of<half>(constant_of(f16))[0]), 1);
    // A scalar, and nothing at all.
    onnx::TensorProto scalar = typed(1, {});
    scalar.add_float_data(3);
    EXPECT_THAT(values_of<float>(constant_of(scalar)), ElementsAre(3));
    EXPECT_TRUE(values_of<float>(constant_of(typed(1, {0, 5}))).empty());
}

TEST(onnx_reader, refuses_tensors_whose_data_does_not_fit) {
    const auto expect_refused_with = [](onnx::TensorProto tensor, const std::string& why) {
        onnx_maker made = one_layer();
        tensor.set_name("c");
        *made.body().add_initializer() = std::move(tensor);
        expect_refused(made, "constant 'c'", why);
    };
    onnx::TensorProto tensor = typed(1, {3});
    tensor.add_float_data(1);
    expect_refused_with(tensor, "has 4 bytes of data; its type and shape need 12");
    tensor.set_raw_data(std::string(12, '\0'));
    expect_refused_with(tensor, "has its data twice");
    expect_refused_with(typed(1, {-1}), "has a negative dimension");
    expect_refused_with(typed(1, {1ll << 40, 1ll << 40}), "has more elements than memory has addresses");
    expect_refused_with(typed(1, {1ll << 40}), "has 0 bytes of data");
    tensor = typed(3, {1});
    tensor.add_int32_data(128);
    expect_refused_with(tensor, "has the number 128, which its type cannot hold");
    tensor = typed(1, {1});
    tensor.add_int64_data(1);
    expect_refused_with(tensor, "has numbers in a field that is not its type's");
    expect_refused_with(typed(14, {1}), "has elements of type COMPLEX64; supported are FLOAT, UINT8");
    expect_refused_with(typed(8, {1}), "has 0 texts; its shape needs 1");
    expect_refused_with(typed(99, {1}), "has elements of type 99");
    tensor = typed(1, {1});
    tensor.mutable_segment()->set_begin(0);
    expect_refused_with(tensor, "is a segment");
}

TEST(onnx_reader, takes_any_length_where_writers_have_no_name_for_one) {
    onnx_maker made = one_layer();
    for (const char* const name : {"?", "-1", "*", "None"}) made.add_input(name, {4, 4});
    const auto dim = [&](int input, int d) {
        return made.body().mutable_input(input)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(d);
    };
    for (int input = 1; input < 5; ++input)
        for (int d = 0; d < 2; ++d) dim(input, d)->set_dim_param(made.body().input(input).name());
    dim(4, 1)->set_dim_value(-1);
    const model read = made.read();
    for (std::size_t input = 1; input < 5; ++input) {
        for (const dimension& each : *read.body.inputs[input].shape) {
            EXPECT_EQ(each.length, std::nullopt);
            EXPECT_EQ(each.name, "");
        }
    }
    dim(4, 1)->set_dim_value(-2);
    expect_refused(made, "input 'None'", "has a negative dimension");
}

TEST(onnx_reader, fills_sparse_constants_with_zeros) {
    const auto read = [](const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& indices,
                         const std::vector<std::int64_t>& index_shape, const std::vector<float>& values) {
        onnx_maker made = one_layer();
        onnx::SparseTensorProto& sparse = *made.body().add_sparse_initializer();
        for (const std::int64_t each : shape) sparse.add_dims(each);
        *sparse.mutable_values() = typed(1, {std::int64_t(values.size())});
        sparse.mutable_values()->set_name("c");
        for (const float each : values) sparse.mutable_values()->add_float_data(each);
        *sparse.mutable_indices() = typed(7, index_shape);
        for (const std::int64_t each : indices) sparse.mutable_indices()->add_int64_data(each);
        return made;
    };
    const auto dense = [](const onnx_maker& made) { return values_of<float>(made.read().body.constants.at("c")); };
    EXPECT_THAT(dense(read({2, 3}, {1, 5}, {2}, {7, 8})), ElementsAre(0, 7, 0, 0, 0, 8));
    EXPECT_THAT(dense(read({2, 3}, {0, 2, 1, 0}, {2, 2}, {7, 8})), ElementsAre(0, 0, 7, 8, 0, 0));
    EXPECT_THAT(dense(read({2}, {}, {0}, {})), ElementsAre(0, 0));
    expect_refused(read({2, 3}, {1, 6}, {2}, {7, 8}), "constant 'c'", "has the index 6 for a length of 6");
    expect_refused(read({2, 3}, {0, 3, 1, 0}, {2, 2}, {7, 8}), "has the index 3 for a length of 3");
    expect_refused(read({2, 3}, {-1}, {1}, {7}), "has the index -1");
    expect_refused(read({2, 3}, {1, 2, 3}, {3}, {7, 8}), "has indices that do not fit its values");
    // A file of some bytes cannot ask for a gigabyte, nor for 64 MiB many times.
    onnx_maker many = read({1 << 12, 1 << 12}, {0}, {1}, {7});
    static_cast<void>(many.read());
    *many.body().add_sparse_initializer() = many.body().sparse_initializer(0);
    many.body().mutable_sparse_initializer(1)->mutable_values()->set_name("d");
    expect_refused(many, "constant 'd'", "stand for too many elements");
    expect_refused(read({1 << 14, 1 << 14}, {0}, {1}, {7}), "stand for too many elements");
    expect_refused(read({std::int64_t{1} << 62, 1 << 14}, {0}, {1}, {7}), "stand for too many elements");
}

TEST(onnx_reader, lists_inputs_that_have_a_default) {
    onnx_maker made = one_layer();
    made.add_input("w", {2, 3});
    const model read = made.read();
    ASSERT_EQ(read.body.inputs.size(), 1u);
    ASSERT_EQ(read.body.defaults.size(), 1u);
    EXPECT_EQ(read.body.defaults[0].name, "w");
    model given = read;
    take_default(given, "w");
    EXPECT_EQ(given.body.inputs.at(1).name, "w");
    EXPECT_TRUE(given.body.defaults.empty());
    EXPECT_FALSE(given.body.constants.contains("w"));
    check(given);
    EXPECT_THROW(take_default(given, "b"), error);
    made.file.set_ir_version(3);  // there all constants had to be inputs
    EXPECT_TRUE(made.read().body.defaults.empty());
}

TEST(onnx_reader, refuses_versions_that_it_does_not_know) {
    onnx_maker made = one_layer();
    made.file.set_ir_version(99);
    expect_refused(made, "ir_version: is 99; 3 to 14 are known");
    made = one_layer();
    made.file.mutable_opset_import(0)->set_version(5);
    expect_refused(made, "opset_import: asks for operator set 5; 6 to 28 are known");
    made.file.mutable_opset_import(0)->set_version(29);
    expect_refused(made, "operator set 29");
    made = one_layer();
    made.file.clear_opset_import();
    expect_refused(made, "node 'n0' (Gemm)", "of the domain 'ai.onnx', for which opset_import names no version");
    made = one_layer();
    made.body().mutable_node(1)->set_domain("com.example");
    expect_refused(made, "node 'n1' (Relu)", "'com.example'");
    made = one_layer();
    made.file.clear_graph();
    expect_refused(made, "is not an ONNX model");
}

TEST(onnx_reader, takes_an_operator_set_that_is_named_twice_with_one_version) {
    onnx_maker made = one_layer();
    made.file.add_opset_import()->set_version(17);
    EXPECT_EQ(made.read().opsets.at(""), 17);
    made.file.mutable_opset_import(1)->set_domain("ai.onnx");  // another name of the same
    EXPECT_EQ(made.read().opsets.size(), 1u);
    made.file.mutable_opset_import(1)->set_version(18);
    expect_refused(made, "opset_import: names the domain 'ai.onnx' with the versions 17 and 18");
}

TEST(onnx_reader, refuses_fields_of_a_newer_standard) {
    // Field 200 with the varint 1, in the model and in a node.
    onnx_maker made = one_layer();
    *made.file.mutable_unknown_fields() = "\xc0\x0c\x01";
    expect_refused(made, "the model: has a field that is not known");
    made = one_layer();
    *made.body().mutable_node(1)->mutable_unknown_fields() = "\xc0\x0c\x01";
    expect_refused(made, "node 'n1' (Relu): has a field that is not known");
}

TEST(onnx_reader, refuses_graphs_that_cannot_be_computed_in_order) {
    onnx_maker made = one_layer();
    made.body().mutable_node()->SwapElements(0, 1);
    expect_refused(made, "node 'n1' (Relu): takes the value 'z', which nothing before it gives");
    made = one_layer();
    made.body().mutable_node(0)->set_input(0, "y");  // a circle
    expect_refused(made, "node 'n0' (Gemm): takes the value 'y'");
    made = one_layer();
    made.body().mutable_node(1)->set_output(0, "z");
    expect_refused(made, "node 'n1' (Relu): gives the value 'z', which exists already");
    made = one_layer();
    made.body().mutable_output(0)->set_name("q");
    expect_refused(made, "output 'q': is given by no node, input or constant");
    made = one_layer();
    made.add_constant("b", {1}, {0});
    expect_refused(made, "constant 'b': is there twice");
}

TEST(onnx_reader, refuses_attributes_that_it_cannot_keep) {
    onnx_maker made = one_layer();
    onnx_maker::set(*made.body().mutable_node(0), "alpha", 1.f);
    onnx_maker::set(*made.body().mutable_node(0), "alpha", 2.f);
    expect_refused(made, "node 'n0' (Gemm): has the attribute 'alpha' twice");
    made = one_layer();
    onnx_maker::set(*made.body().mutable_node(0), "alpha", 1.f);
    made.body().mutable_node(0)->mutable_attribute(0)->set_type(12);
    expect_refused(made, "attribute 'alpha': is of the kind SPARSE_TENSORS, which is not supported");
    made = one_layer();
    onnx_maker::set(*made.body().mutable_node(0), "alpha", 2.f);
    made.body().mutable_node(0)->mutable_attribute(0)->set_type(2);
    expect_refused(made, "attribute 'alpha': has a value of the kind FLOAT, and another type");
}

// y = leaky(z): max(z, z * slope), where slope is an attribute that is 0.5 unless the call says otherwise.
onnx_maker with_function() {
    onnx_maker made = one_layer();
    made.body().mutable_node(1)->set_op_type("Leaky");
    onnx::FunctionProto& function = *made.file.add_functions();
    function.set_name("Leaky");
    function.add_input("in");
    function.add_output("out");
    onnx::AttributeProto& slope = *function.add_attribute_proto();
    slope.set_name("slope");
    slope.set_type(1);
    slope.set_f(0.5f);
    onnx::NodeProto& scale = *function.add_node();
    scale.set_op_type("Constant");
    scale.add_output("factor");
    onnx::AttributeProto& value = *scale.add_attribute();
    value.set_name("value_float");
    value.set_type(1);
    value.set_ref_attr_name("slope");
    onnx::NodeProto& product = *function.add_node();
    product.set_op_type("Mul");
    product.add_input("in");
    product.add_input("factor");
    product.add_output("scaled");
    onnx::NodeProto& largest = *function.add_node();
    largest.set_op_type("Max");
    largest.add_input("in");
    largest.add_input("scaled");
    largest.add_output("out");
    return made;
}

TEST(onnx_reader, writes_functions_out_where_they_are_called) {
    onnx_maker made = with_function();
    model network = made.read();
    ASSERT_EQ(network.body.nodes.size(), 4u);
    const node &constant = network.body.nodes[1], &product = network.body.nodes[2], &largest = network.body.nodes[3];
    EXPECT_EQ(*constant.find<float>("value_float"), 0.5f);
    EXPECT_THAT(product.inputs, ElementsAre("z", constant.outputs.at(0)));
    EXPECT_THAT(largest.inputs, ElementsAre("z", product.outputs.at(0)));
    EXPECT_THAT(largest.outputs, ElementsAre("y"));
    onnx_maker::set(*made.body().mutable_node(1), "slope", 0.25f);
    network = made.read();
    EXPECT_EQ(*network.body.nodes.at(1).find<float>("value_float"), 0.25f);
}

TEST(onnx_reader, keeps_calls_of_a_function_that_is_an_operator_of_the_users_own) {
    onnx_maker made = with_function();
    made.file.mutable_functions(0)->set_domain("com.example");
    made.body().mutable_node(1)->set_domain("com.example");
    onnx::OperatorSetIdProto& version = *made.file.add_opset_import();
    version.set_domain("com.example");
    version.set_version(1);
    const std::string bytes = made.bytes();
    const auto operators_of = [&](const own_operators& own) {
        std::vector<std::string> names;
        for (const node& each : read_onnx(std::as_bytes(std::span(bytes)), "made.onnx", own).body.nodes)
            names.push_back(each.op);
        return names;
    };
    EXPECT_THAT(operators_of({}), ElementsAre("Gemm", "Constant", "Mul", "Max"));
    const auto run = [](operator_call&) {};
    EXPECT_THAT(operators_of({{.domain = "com.example", .name = "Leaky", .run = run}}), ElementsAre("Gemm", "Leaky"));
    EXPECT_THAT(operators_of({{.domain = "com.other", .name = "Leaky", .run = run}}),
                ElementsAre("Gemm", "Constant", "Mul", "Max"));
}

TEST(onnx_reader, refuses_functions_that_cannot_be_written_out) {
    onnx_maker made = with_function();
    onnx_maker::set(*made.body().mutable_node(1), "angle", 0.25f);
    expect_refused(made, "node 'n1' (Leaky)", "has the attribute 'angle', which its function has not");
    made = with_function();
    made.body().mutable_node(1)->add_input("x");
    expect_refused(made, "has more inputs or outputs than the function that it calls");
    made = with_function();
    made.file.mutable_functions(0)->mutable_node(1)->set_op_type("Leaky");
    made.file.mutable_functions(0)->mutable_node(1)->mutable_input()->RemoveLast();
    expect_refused(made, "calls functions in a circle, or too deep");
    made = with_function();
    *made.file.add_functions() = made.file.functions(0);
    expect_refused(made, "function 'Leaky': is there twice");
    made = with_function();
    made.file.mutable_functions(0)->add_opset_import()->set_version(7);
    expect_refused(made, "function 'Leaky': is written for operator set 7, and the model for");
}

// Each calls the one before it twice: a kilobyte for 2^40 nodes.
TEST(onnx_reader, refuses_functions_that_make_too_many_nodes) {
    onnx_maker made = one_layer();
    for (int i = 0; i < 40; ++i) {
        onnx::FunctionProto& function = *made.file.add_functions();
        function.set_name("f" + std::to_string(i));
        function.add_input("in");
        function.add_output("out");
        for (int k = 0; i > 0 && k < 2; ++k) {
            onnx::NodeProto& call = *function.add_node();
            call.set_op_type("f" + std::to_string(i - 1));
            call.add_input("in");
            call.add_output(k == 0 ? "unused" : "out");
        }
    }
    made.body().mutable_node(1)->set_op_type("f39");
    expect_refused(made, "functions: make more than 100000 nodes of the model");
}

TEST(onnx_reader, reads_graphs_of_nodes_in_the_scope_around_them) {
    onnx_maker made = one_layer();
    onnx::AttributeProto& branch = *made.body().mutable_node(1)->add_attribute();
    branch.set_name("then_branch");
    branch.set_type(5);
    onnx::NodeProto& inner = *branch.mutable_g()->add_node();
    inner.set_op_type("Relu");
    inner.add_input("z");  // of the graph around it
    inner.add_output("inner");
    branch.mutable_g()->add_output()->set_name("inner");
    branch.mutable_g()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(1);
    const model network = made.read();
    const auto* const body = network.body.nodes[1].find<std::shared_ptr<const graph>>("then_branch");
    ASSERT_NE(body, nullptr);
    EXPECT_EQ((*body)->nodes.at(0).op, "Relu");
    inner.set_input(0, "nowhere");
    expect_refused(made, "takes the value 'nowhere'");
}

TEST(onnx_reader, reads_external_data_of_the_models_folder_only) {
    const temporary_directory directory;
    std::filesystem::create_directory(directory / "inside");
    const std::vector<float> values{7, 1, 2, 3};
    for (const char* const name : {"inside/weights", "outside"}) {
        std::ofstream(directory / name, std::ios::binary)
            .write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * sizeof(float)));
    }
    std::filesystem::create_symlink(directory / "outside", directory / "inside/link");
    const std::filesystem::path path = directory / "inside/model.onnx";
    const auto with = [](const std::string& location, const std::string& offset) {
        onnx_maker made = one_layer();
        onnx::TensorProto& tensor = *made.body().mutable_initializer(1);
        tensor.clear_raw_data();
        tensor.set_data_location(1);
        for (const auto& [key, value] :
             {std::pair<std::string, std::string>{"location", location}, {"offset", offset}, {"length", "12"}}) {
            tensor.add_external_data()->set_key(key);
            tensor.mutable_external_data(tensor.external_data_size() - 1)->set_value(value);
        }
        return made;
    };
    EXPECT_THAT(values_of<float>(with("weights", "4").read(path).body.constants.at("b")), ElementsAre(1, 2, 3));

    const auto refusal_of = [&](const std::string& location, const std::string& offset) -> std::string {
        try {
            static_cast<void>(with(location, offset).read(path));
        } catch (const file_error& refused) {
            return refused.what();
        }
        return "was accepted";
    };
    EXPECT_THAT(refusal_of("weights", "8"),
                HasSubstr("constant 'b': 'weights' has 16 bytes; the data is 12 bytes at 8"));
    EXPECT_THAT(refusal_of("weights", "18446744073709551615"), HasSubstr("has 16 bytes"));
    EXPECT_THAT(refusal_of("weights", "-1"), HasSubstr("offset is not a number"));
    EXPECT_THAT(refusal_of("../outside", "0"), HasSubstr("outside the model's folder"));
    EXPECT_THAT(refusal_of((directory / "outside").string(), "0"), HasSubstr("outside the model's folder"));
    EXPECT_THAT(refusal_of("link", "0"),
                ::testing::AllOf(HasSubstr("outside the model's folder"), HasSubstr("--follow-links")));
    // Where links are followed, only links lead out, and no names.
    const auto followed = with("link", "4").read(path, data_links::lead_anywhere);
    EXPECT_THAT(values_of<float>(followed.body.constants.at("b")), ElementsAre(1, 2, 3));
    for (const std::string& outside :
         {std::string("../outside"), (directory / "outside").string(), std::string("a/../../outside")})
        EXPECT_THROW(with(outside, "0").read(path, data_links::lead_anywhere), file_error);
    EXPECT_THAT(refusal_of("absent", "0"), HasSubstr("'absent': No such file"));
    EXPECT_THAT(refusal_of("", "0"), HasSubstr("names no file"));
}

// Two tensors of one file of weights, which is replaced between them, would be halves of two networks.
TEST(onnx_reader, refuses_a_file_of_weights_that_is_replaced_while_the_model_is_read) {
    const temporary_directory directory;
    const std::string numbers(64, '\0');
    const std::filesystem::path model = directory / "model.onnx", weights = directory.write("weights", numbers);
    onnx::TensorProto tensor;
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", "weights"}, {"offset", "16"}}) {
        tensor.add_external_data()->set_key(key);
        tensor.mutable_external_data(tensor.external_data_size() - 1)->set_value(value);
    }
    detail::external_data data(model);
    EXPECT_EQ(data.read("a", tensor, 16).size(), 16u);
    EXPECT_EQ(data.read("b", tensor, 48).size(), 48u);
    directory.write("other", numbers);
    std::filesystem::rename(directory / "other", weights);
    try {
        data.read("c", tensor, 16);
        FAIL() << "was accepted";
    } catch (const file_error& refused) {
        EXPECT_THAT(refused.what(), HasSubstr("'weights' was changed while the model was read"));
    }
}

// Each beginning of a file, and each file with one byte changed, is read or refused with a file_error.
TEST(onnx_reader, survives_files_that_are_cut_off_or_damaged) {
    const std::string whole = one_layer().bytes();
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_NO_THROW(fuzz::read_onnx(std::as_bytes(std::span(whole).first(length)))) << length;
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (const int change : {0x01, 0x08, 0x80, 0xff}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ change);
            EXPECT_NO_THROW(fuzz::read_onnx(std::as_bytes(std::span(damaged)))) << at << " " << change;
        }
    }
}

// What the fuzzer starts from. A file that it finds goes there too.
TEST(onnx_reader, reads_or_refuses_the_fuzzers_files) { sluice::fuzz::replay("fuzz/corpus/onnx", fuzz::run_onnx); }

TEST(onnx_reader, refuses_graphs_that_are_nested_without_end) {
    onnx_maker made = one_layer();
    onnx::NodeProto* at = made.body().mutable_node(1);
    for (int depth = 0; depth < 200; ++depth) {
        onnx::AttributeProto& body = *at->add_attribute();
        body.set_name("body");
        body.set_type(5);
        at = body.mutable_g()->add_node();
        at->set_op_type("Loop");
    }
    expect_refused(made, "is not an ONNX model, or is damaged or cut off");
}

}  // namespace sluice::nn::onnx_reader_tests
