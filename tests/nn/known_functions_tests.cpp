// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft become others whose names and constants meet none of the file's.
#include <gmock/gmock.h>

#include "nn/support/onnx_maker.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::known_functions_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::onnx_maker;

onnx_maker with_microsoft(std::int64_t features) {
    onnx_maker made(features);
    onnx::OperatorSetIdProto& its = *made.file.add_opset_import();
    its.set_domain("com.microsoft");
    its.set_version(1);
    return made;
}
onnx::NodeProto& add(onnx_maker& to, const std::string& op, const std::vector<std::string>& inputs,
                     const std::string& output) {
    onnx::NodeProto& made = to.add_node(op, inputs, output);
    made.set_domain("com.microsoft");
    return made;
}
std::vector<any_tensor> answers(const onnx_maker& made, const std::vector<any_tensor>& inputs) {
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu"), 1);
    const network ready = sync(make_network(made.read()), pool);
    return sync(ready.run(inputs), pool);
}
void expect_refused(const onnx_maker& made, const std::string& why) {
    try {
        static_cast<void>(made.read());
        ADD_FAILURE() << "was accepted: " << why;
    } catch (const file_error& refused) {
        EXPECT_EQ(refused.code(), errc::unsupported);
        EXPECT_THAT(refused.what(), HasSubstr(why));
    }
}
void add_bytes(onnx_maker& to, const std::string& name, std::uint8_t value) {
    onnx::TensorProto& made = *to.body().add_initializer();
    made.set_name(name);
    made.set_data_type(2);
    made.set_raw_data(std::string(1, static_cast<char>(value)));
}

}  // namespace

TEST(known_functions, make_no_name_that_the_file_has) {
    for (const bool is_input : {false, true}) {
        for (const bool has_name : {false, true}) {
            onnx_maker made = with_microsoft(2);
            const std::string own = has_name ? "fm/1" : "FusedMatMul#0/1";
            made.add_constant("w", {2, 2}, {1, 0, 0, 1});
            onnx::NodeProto& product = add(made, "FusedMatMul", {"x", "w"}, "t");
            product.set_name(has_name ? "fm" : "");
            onnx_maker::set(product, "alpha", 0.5f);
            made.add_node("Mul", {"t", own}, "y");
            std::vector<any_tensor> inputs{any_tensor(std::vector<float>{2, 4}, {1, 2})};
            if (is_input) {
                made.add_input(own, {1, 1});
                inputs.emplace_back(std::vector<float>{3}, std::vector<std::size_t>{1, 1});
            } else {
                made.add_constant(own, {}, {3});
            }
            EXPECT_THAT(answers(made, inputs).at(0).values<float>(), ElementsAre(3, 6));
        }
    }
}

TEST(known_functions, are_read_as_of_the_newest_operators_where_the_file_names_none) {
    onnx_maker made(4);
    made.file.mutable_opset_import(0)->set_domain("com.microsoft");
    made.file.mutable_opset_import(0)->set_version(1);
    made.body().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(2);
    made.body().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(2);
    made.add_constant("scale", {}, {0.05f});
    made.add_constant("step", {}, {1.0f / 256});
    add_bytes(made, "zero", 5);
    add_bytes(made, "nothing", 0);
    onnx::NodeProto& softmax = add(made, "QLinearSoftmax", {"x", "scale", "zero", "step", "nothing"}, "y");
    onnx_maker::set(softmax, "axis", std::int64_t{0});
    onnx_maker::set(softmax, "opset", std::int64_t{11});
    expect_refused(made, "another version of Softmax");
    softmax.mutable_attribute(1)->set_i(13);
    const any_tensor x(std::vector<std::uint8_t>{7, 7, 7, 7, 7, 7, 7, 7}, {2, 4});
    EXPECT_THAT(answers(made, {x}).at(0).values<std::uint8_t>(), ::testing::Each(128));
}

TEST(known_functions, refuse_padding_that_is_counted_beyond_the_end) {
    onnx_maker made = with_microsoft(3);
    made.add_constant("scale", {}, {1});
    add_bytes(made, "zero", 0);
    onnx::NodeProto& pool = add(made, "QLinearAveragePool", {"x", "scale", "zero", "scale", "zero"}, "y");
    onnx_maker::set(pool, "ceil_mode", std::int64_t{1});
    onnx_maker::set(pool, "count_include_pad", std::int64_t{1});
    expect_refused(made, "count_include_pad");
}

}  // namespace sluice::nn::known_functions_tests
