// SPDX-License-Identifier: Apache-2.0
// Networks that take and give texts: the file's texts become codes, and what could see a difference between texts that
// the file does not have is refused.
#include <gmock/gmock.h>

#include "nn/support/onnx_maker.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::texts_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::onnx_maker;
using texts = std::vector<std::string_view>;

constexpr std::int32_t string_type = 8;

// "x" is text [n, 1], "y" what the test makes it.
class text_maker : public onnx_maker {
public:
    text_maker() : onnx_maker(1) {
        onnx::OperatorSetIdProto& learning = *file.add_opset_import();
        learning.set_domain("ai.onnx.ml");
        learning.set_version(3);
        be_text(*body().mutable_input(0));
    }

    static void be_text(onnx::ValueInfoProto& value) {
        value.mutable_type()->mutable_tensor_type()->set_elem_type(string_type);
    }
    void give_text() { be_text(*body().mutable_output(0)); }

    onnx::NodeProto& add_ml(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
        onnx::NodeProto& made = add_node(op, inputs, output);
        made.set_domain("ai.onnx.ml");
        return made;
    }
    static void set_texts(onnx::NodeProto& node, const std::string& name, const std::vector<std::string>& values) {
        onnx::AttributeProto& made = *node.add_attribute();
        made.set_name(name);
        made.set_type(8);
        for (const std::string& each : values) made.add_strings(each);
    }
    static void set_numbers(onnx::NodeProto& node, const std::string& name, const std::vector<std::int64_t>& values) {
        onnx::AttributeProto& made = *node.add_attribute();
        made.set_name(name);
        made.set_type(7);
        for (const std::int64_t each : values) made.add_ints(each);
    }
    void add_text_constant(const std::string& name, const std::vector<std::string>& values) {
        onnx::TensorProto& made = *body().add_initializer();
        made.set_name(name);
        made.add_dims(std::int64_t(values.size()));
        made.set_data_type(string_type);
        for (const std::string& each : values) made.add_string_data(each);
    }
};

class answering {
public:
    explicit answering(const onnx_maker& made)
        : model_(made.read()), codes_(model_.texts), network_(sync(make_network(model_), pool_)) {}

    any_tensor operator()(const texts& rows) {
        return sync(network_.run({codes_.encode(rows, {rows.size(), 1})}), pool_).at(0);
    }
    texts texts_of(const texts& rows) {
        last_ = (*this)(rows);
        return codes_.decode(last_);
    }
    const model& read() const { return model_; }

private:
    runtime machine_{{.cuda = false}};
    round_robin pool_{machine_.find("cpu"), 1};
    model model_;
    text_codes codes_;
    network network_;
    any_tensor last_;
};

void expect_refused(const onnx_maker& made, const std::string& why) {
    try {
        static_cast<void>(made.read());
        ADD_FAILURE() << "was accepted: " << why;
    } catch (const file_error& refused) {
        EXPECT_THAT(refused.what(), HasSubstr(why));
    }
}

}  // namespace

TEST(text_codes_of_a_model, go_both_ways) {
    const std::vector<std::string> known = {"b", "a", ""};
    text_codes codes(known);
    EXPECT_EQ(codes.code_of("a"), 1);
    EXPECT_EQ(codes.code_of("c"), -1);
    text_codes other = codes;
    codes = text_codes();
    EXPECT_EQ(codes.size(), 0u);
    EXPECT_EQ(other.text_of(0), "b");
    EXPECT_EQ(other.code_of("b"), 0);
    EXPECT_THAT(other.encode(texts{"", "x"}, {2}).values<std::int64_t>(), ElementsAre(2, -1));
    EXPECT_THROW(other.text_of(-1), error);
    EXPECT_THROW(other.text_of(3), error);
    EXPECT_THROW(other.decode(any_tensor(std::vector<float>{1}, {1})), error);
}

TEST(networks_of_texts, encode_categories) {
    text_maker made;
    onnx::NodeProto& node = made.add_ml("OneHotEncoder", {"x"}, "hot");
    text_maker::set_texts(node, "cats_strings", {"red", "green", "blue"});
    made.add_node("Flatten", {"hot"}, "y");
    answering network(made);
    EXPECT_TRUE(network.read().body.inputs[0].is_text);
    EXPECT_FALSE(network.read().body.outputs[0].is_text);
    const any_tensor y = network({"blue", "red", "pink", "green"});
    EXPECT_THAT(y.values<float>(), ElementsAre(0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0));
}

TEST(networks_of_texts, map_texts_to_numbers_and_back) {
    text_maker made;
    onnx::NodeProto& to_number = made.add_ml("LabelEncoder", {"x"}, "n");
    text_maker::set_texts(to_number, "keys_strings", {"one", "two"});
    text_maker::set_numbers(to_number, "values_int64s", {1, 2});
    onnx_maker::set(to_number, "default_int64", std::int64_t{7});
    onnx::NodeProto& to_text = made.add_ml("LabelEncoder", {"n"}, "y");
    text_maker::set_numbers(to_text, "keys_int64s", {2, 1});
    text_maker::set_texts(to_text, "values_strings", {"zwei", "eins"});
    made.give_text();
    answering network(made);
    EXPECT_TRUE(network.read().body.outputs[0].is_text);
    EXPECT_THAT(network.texts_of({"two", "one", "nine"}), ElementsAre("zwei", "eins", "_Unused"));
}

TEST(networks_of_texts, read_the_first_version_of_label_encoders_and_category_mappers) {
    text_maker made;
    text_maker::set_texts(made.add_ml("LabelEncoder", {"x"}, "n"), "classes_strings", {"a", "b", "c"});
    onnx::NodeProto& mapper = made.add_ml("CategoryMapper", {"n"}, "y");
    text_maker::set_texts(mapper, "cats_strings", {"x", "y"});
    text_maker::set_numbers(mapper, "cats_int64s", {2, 0});
    onnx_maker::set(mapper, "default_string", std::string("other"));
    made.give_text();
    answering network(made);
    EXPECT_THAT(network.texts_of({"a", "b", "c", "d"}), ElementsAre("y", "other", "x", "other"));
}

TEST(networks_of_texts, give_labels_of_classifiers) {
    onnx_maker made(2);
    made.file.add_opset_import()->set_domain("ai.onnx.ml");
    made.file.mutable_opset_import(1)->set_version(1);
    onnx::NodeProto& node = made.add_node("LinearClassifier", {"x"}, "y");
    node.set_domain("ai.onnx.ml");
    node.add_output("scores");
    text_maker::set_texts(node, "classlabels_strings", {"cat", "dog", "eel"});
    onnx::AttributeProto& weights = *node.add_attribute();
    weights.set_name("coefficients");
    weights.set_type(6);
    for (const float each : {1.0f, 0.0f, 0.0f, 1.0f, -1.0f, -1.0f}) weights.add_floats(each);
    text_maker::be_text(*made.body().mutable_output(0));
    const model read = made.read();
    const text_codes codes(read.texts);
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu"), 1);
    const network ready = sync(make_network(read), pool);
    const any_tensor rows(std::vector<float>{3, 1, 1, 3, -2, -2}, {3, 2});
    const any_tensor labels = sync(ready.run({rows}), pool).at(0);
    EXPECT_THAT(codes.decode(labels), ElementsAre("cat", "dog", "eel"));
}

TEST(networks_of_texts, move_and_compare_texts) {
    text_maker made;
    made.add_text_constant("known", {"yes"});
    made.add_node("Reshape", {"x", "shape"}, "flat");
    onnx::TensorProto& shape = *made.body().add_initializer();
    shape.set_name("shape");
    shape.add_dims(1);
    shape.set_data_type(7);
    shape.add_int64_data(-1);
    made.add_node("Equal", {"flat", "known"}, "same");
    onnx_maker::set(made.add_node("Cast", {"same"}, "y"), "to", std::int64_t{1});
    answering network(made);
    EXPECT_THAT(network({"yes", "no", "Yes", "yes"}).values<float>(), ElementsAre(1, 0, 0, 1));
}

TEST(networks_of_texts, drop_texts_that_nothing_takes) {
    onnx_maker made(1);
    onnx::TensorProto& note = *made.body().add_initializer();
    note.set_name("note");
    note.set_data_type(string_type);
    note.add_dims(1);
    note.add_string_data("made by hand");
    made.add_node("Relu", {"x"}, "y");
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu"), 1);
    const network ready = sync(make_network(made.read()), pool);
    EXPECT_THAT(sync(ready.run({any_tensor(std::vector<float>{-1, 2}, {2, 1})}), pool).at(0).values<float>(),
                ElementsAre(0, 2));
}

TEST(networks_of_texts, refuse_what_could_tell_unknown_texts_apart) {
    text_maker compared;
    text_maker::be_text(*compared.body().add_input() = compared.body().input(0));
    compared.body().mutable_input(1)->set_name("x2");
    compared.add_node("Equal", {"x", "x2"}, "y");
    expect_refused(compared, "compares texts of inputs with each other");

    text_maker given;
    given.add_node("Identity", {"x"}, "y");
    given.give_text();
    expect_refused(given, "output 'y'");
    expect_refused(given, "may be a text of an input as it came");

    text_maker added;
    added.add_node("Add", {"x", "x"}, "y");
    expect_refused(added, "node 'n0' (Add)");
    expect_refused(added, "takes texts, which it does not support");

    text_maker parsed;
    onnx_maker::set(parsed.add_node("Cast", {"x"}, "y"), "to", std::int64_t{1});
    expect_refused(parsed, "makes numbers of texts");

    text_maker indexed;
    indexed.add_constant("table", {2}, {1, 2});
    indexed.add_node("Gather", {"table", "x"}, "y");
    expect_refused(indexed, "has texts and numbers in the wrong places");

    text_maker numbers;
    text_maker::set_numbers(numbers.add_ml("OneHotEncoder", {"x"}, "y"), "cats_int64s", {1, 2});
    expect_refused(numbers, "knows numbers, and takes texts");

    text_maker declared;
    text_maker::set_texts(declared.add_ml("OneHotEncoder", {"x"}, "y"), "cats_strings", {"a", "b"});
    declared.give_text();
    expect_refused(declared, "is declared as text, and is none");
}

}  // namespace sluice::nn::texts_tests
