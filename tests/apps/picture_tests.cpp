// SPDX-License-Identifier: Apache-2.0
// `sluice inspect --picture` and `--passes`.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "sluice/network_picture.hpp"
#include "support/xml_reader.hpp"

namespace sluice::app::testing::picture_tests {
namespace {

using nlohmann::json;
using sluice::testing::xml_element;
using sluice::testing::xml_reader;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";
const std::string digits_onnx = SLUICE_SOURCE_DIR "/models/digits.onnx";
const std::string branches = SLUICE_SOURCE_DIR "/tests/fuzz/corpus/onnx/branches.onnx";

xml_element read_picture(const std::string& path) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return xml_reader::read(text);
}
xml_element picture_of(std::vector<std::string> arguments) {
    const temporary_directory directory;
    arguments.insert(arguments.begin(), "inspect");
    arguments.insert(arguments.end(), {"--picture", directory / "network.svg"});
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 0) << came;
    return read_picture(directory / "network.svg");
}
std::vector<std::string> titles_of(const xml_element& picture) {
    std::vector<std::string> titles;
    for (const xml_element* each : picture.of_class("user")) titles.push_back(each->text);
    return titles;
}

json named(const json& passes, const std::string& name) {
    for (const json& each : passes)
        if (each["name"] == name) return each;
    return {};
}

}  // namespace

TEST(tool_picture, shows_inputs_nodes_and_outputs) {
    const xml_element picture = picture_of({digits_onnx});
    EXPECT_THAT(titles_of(picture), ::testing::ElementsAre("input", "Gemm", "Relu", "Gemm", "Relu", "Gemm", "logits"));
    EXPECT_EQ(picture.of_class("head").size(), 6u);
    std::string words;
    for (const xml_element* each : picture.of_class("what")) words += each->text + "\n";
    EXPECT_THAT(words, AllOf(HasSubstr("f32 [batch, 64]"), HasSubstr("/0/Gemm"), HasSubstr("f32 [128, 64]")));
}

TEST(tool_picture, shows_the_network_after_the_passes_too) {
    const xml_element picture = picture_of({digits_onnx, "--passes", "--device", "cpu"});
    EXPECT_THAT(titles_of(picture), Contains("Gemm + Relu + Gemm + Relu + Gemm"));
    EXPECT_EQ(picture.of_class("chart").size(), 2u);
    const outcome came = run_tool({"inspect", digits_onnx, "--passes", "--device", "cpu"});
    EXPECT_THAT(came.out, AllOf(HasSubstr("after the passes: 1 step\n"), HasSubstr("/0/Gemm to /4/Gemm")));
    const outcome as_json = run_tool({"inspect", digits_onnx, "--passes", "--device", "cpu", "--json"});
    EXPECT_THAT(came.out, HasSubstr("/0/Gemm: Gemm, /1/Relu: Relu, /2/Gemm: Gemm and 2 more become"));
    const json all = json::parse(as_json.out);
    const json dense = named(all["passes"], "dense layers");
    EXPECT_EQ(dense["changed"], true);
    EXPECT_EQ(dense["steps"], 1);
    EXPECT_EQ(dense["gone"].size(), 5u);
    EXPECT_EQ(dense["new"].size(), 1u);
    EXPECT_EQ(named(all["passes"], "residual norms")["applies"], false);
    EXPECT_EQ(named(all["passes"], "trees")["changed"], false);
    const json steps = all["steps"];
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0]["operators"].size(), 5u);
    EXPECT_EQ(steps[0]["inputs"], json::parse(R"(["input"])"));
    EXPECT_EQ(steps[0]["outputs"], json::parse(R"(["logits"])"));
}

TEST(tool_picture, shows_the_passes_of_another_precision) {
    const outcome came =
        run_tool({"inspect", digits_onnx, "--passes", "--device", "cpu", "--precision", "int8", "--json"});
    EXPECT_EQ(named(json::parse(came.out)["passes"], "rounding")["changed"], true) << came;
    const outcome refused = run_tool({"inspect", digits_onnx, "--precision", "int8"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--passes"));
}

TEST(tool_picture, draws_branches_inside_their_node) {
    const xml_element picture = picture_of({branches, "--passes", "--device", "cpu"});
    EXPECT_THAT(titles_of(picture), Contains("If"));
    EXPECT_GE(picture.of_class("part").size(), 2u);
    for (const xml_element* each : picture.of_class("part")) EXPECT_GE(each->of_class("box").size(), 2u);
}

TEST(tool_picture, of_a_perceptron_shows_its_layers_and_activations) {
    const xml_element picture = picture_of({digits().model});
    EXPECT_THAT(titles_of(picture), ::testing::ElementsAre("input", "Gemm", "Relu", "Gemm", "Relu", "Gemm", "output"));
}

TEST(tool_picture, escapes_the_names_of_the_file) {
    const temporary_directory directory;
    const std::string model = directory / "<odd>&\".onnx", hostile = "<b>\"&'>";
    std::ifstream from(digits_onnx, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(from), {}};
    const std::string name = "/0/Gemm";
    ASSERT_EQ(name.size(), hostile.size());
    for (std::size_t at = 0; (at = bytes.find(name, at)) != std::string::npos;) bytes.replace(at, name.size(), hostile);
    std::ofstream(model, std::ios::binary) << bytes;
    const xml_element picture = picture_of({model, "--passes", "--device", "cpu"});
    std::string words;
    for (const xml_element* each : picture.all([](const xml_element&) { return true; })) {
        EXPECT_NE(each->name, "b");
        words += each->text + "\n";
    }
    EXPECT_THAT(words, AllOf(HasSubstr(hostile), HasSubstr("<odd>&\".onnx: 5 nodes")));
}

TEST(tool_picture, is_not_there_when_the_network_is_refused) {
    const temporary_directory directory;
    const auto expect_refused = [&](std::vector<std::string> arguments, const std::string& why) {
        arguments.insert(arguments.begin(), "inspect");
        const outcome came = run_tool(arguments);
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_EQ(came.out, "");
        EXPECT_THAT(came.err, HasSubstr(why));
        EXPECT_EQ(directory.entries(), 0);
    };
    const std::string picture = directory / "p.svg";
    expect_refused({digits().input, "--picture", picture}, digits().input);
    expect_refused({digits_onnx, "--device", "cpu", "--picture", picture}, "--passes");
    expect_refused({digits_onnx, "--passes", "--device", "cpu:7", "--picture", picture}, "cpu:7");
    expect_refused({digits_onnx, "--picture", ""}, "the name is empty");
    expect_refused({digits_onnx, "--picture", directory / "absent/p.svg"}, "p.svg");
}

// The outer value that a branch takes leads to the node with the branch.
TEST(network_picture, has_arrows_for_values_that_inner_graphs_take) {
    nn::model network;
    network.body.inputs = {{"c", io::dtype::boolean, {}}, {"x", io::dtype::f32, {}}};
    network.body.outputs = {{"y", io::dtype::f32, {}}};
    nn::node inner;
    inner.op = "Relu";
    inner.inputs = {"x"};
    inner.outputs = {"r"};
    const auto body = std::make_shared<nn::graph>();
    body->nodes = {inner};
    body->outputs = {{"r", io::dtype::f32, {}}};
    nn::node choice;
    choice.op = "If";
    choice.inputs = {"c"};
    choice.outputs = {"y"};
    choice.attributes["then_branch"] = std::shared_ptr<const nn::graph>(body);
    network.body.nodes = {choice};
    const flow_chart chart = app::picture_of(network);
    ASSERT_EQ(chart.boxes.size(), 4u);
    ASSERT_EQ(chart.boxes[2].after.size(), 2u);
    EXPECT_EQ(chart.boxes[2].after[1].from, 1u);
    ASSERT_NE(chart.boxes[2].inside, nullptr);
    EXPECT_EQ(chart.boxes[2].inside->boxes.size(), 2u);
}

}  // namespace sluice::app::testing::picture_tests
