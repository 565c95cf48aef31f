// SPDX-License-Identifier: Apache-2.0
// `sluice run` and `sluice inspect` with ONNX files.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"

namespace sluice::app::testing::onnx_tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string digits_onnx = std::filesystem::path(digits().model).replace_extension(".onnx");
const std::string corpus = SLUICE_SOURCE_DIR "/tests/fuzz/corpus/onnx/";

std::string with_outputs(const std::string& model, const temporary_directory& directory) {
    const std::string output = directory / "outputs.npy";
    const outcome came = run_tool({"run", model, digits().input, "--device", "cpu", "--output", output});
    EXPECT_EQ(came.exit_code, 0) << came;
    return output;
}

}  // namespace

TEST(tool_onnx, gives_what_the_same_network_in_safetensors_gives) {
    const temporary_directory directory;
    const std::vector<float> from_onnx = read_array(with_outputs(digits_onnx, directory));
    EXPECT_EQ(from_onnx, read_array(with_outputs(digits().model, directory)));
    const outcome came = run_tool({"run", digits_onnx, digits().input, "--reference", digits().reference, "--labels",
                                   digits().labels, "--device", "cpu", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_LE(json::parse(came.out)["largest_difference"].get<double>(), 1e-4);
}

TEST(tool_onnx, is_described) {
    const outcome came = run_tool({"inspect", digits_onnx});
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("5 nodes, 17226 parameters, ai.onnx 17, made by make_digits_onnx"),
                                HasSubstr("input input: f32 [batch, 64]"), HasSubstr("output logits: f32 [batch, 10]"),
                                HasSubstr("/0/Gemm"), HasSubstr("rows of a batch are independent: proven"),
                                HasSubstr("`sluice run` runs it")));
}

TEST(tool_onnx, is_described_as_json) {
    const outcome came = run_tool({"inspect", digits_onnx, "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out);
    EXPECT_EQ(report["inputs"], json::parse(R"([{"name": "input", "type": "f32", "shape": ["batch", 64]}])"));
    EXPECT_EQ(report["nodes"].size(), 5u);
    EXPECT_EQ(report["nodes"][1]["operator"], "Relu");
    EXPECT_EQ(report["opsets"]["ai.onnx"], 17);
    EXPECT_EQ(report["parameters"], 17226);
    EXPECT_EQ(report["runs"], true);
    EXPECT_EQ(report["rows"], json::parse(R"({"independent": true, "input_axes": [0], "output_axes": [0]})"));
}

TEST(tool_onnx, that_cannot_run_is_described_with_the_reason) {
    // The network of the digits with an operator that does not exist.
    const temporary_directory directory;
    const std::string model = directory / "unknown.onnx";
    std::ifstream from(digits_onnx, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(from), {}};
    for (std::size_t at = 0; (at = bytes.find("Relu", at)) != std::string::npos;) bytes.replace(at, 4, "Rely");
    std::ofstream(model, std::ios::binary) << bytes;

    const outcome came = run_tool({"inspect", model});
    EXPECT_EQ(came.exit_code, 0) << came;
    const std::string missing =
        "needs operators that Sluice does not have: node '/1/Rely' (Rely) of ai.onnx 17 and 1 more";
    EXPECT_THAT(came.out, AllOf(HasSubstr("Gemm"), HasSubstr("`sluice run` refuses it: "), HasSubstr(missing)));
    const outcome refused = run_tool({"run", model, digits().input, "--device", "cpu"});
    EXPECT_EQ(refused.exit_code, 2) << refused;
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr(missing));
}

// Its If needs the condition, an input, in host memory: the tool's inputs are there.
TEST(tool_onnx, runs_branches) {
    const outcome came = run_tool({"inspect", corpus + "branches.onnx"});
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("If"), HasSubstr("`sluice run` runs it")));
}

TEST(tool_onnx, is_refused_when_it_is_damaged_and_leaves_no_file) {
    const temporary_directory directory;
    const std::string damaged = directory / "damaged.onnx", output = directory / "outputs.npy";
    std::filesystem::copy_file(digits_onnx, damaged);
    std::filesystem::resize_file(damaged, 1000);
    const outcome came = run_tool({"run", damaged, digits().input, "--output", output});
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_THAT(came.err,
                AllOf(HasSubstr("damaged.onnx"), HasSubstr("is not an ONNX model, or is damaged or cut off")));
    EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(tool_onnx, says_its_activations_itself) {
    for (const char* const command : {"run", "inspect"}) {
        std::vector<std::string> arguments{command, digits_onnx};
        if (std::string(command) == "run") arguments.push_back(digits().input);
        arguments.insert(arguments.end(), {"--activation", "relu"});
        const outcome came = run_tool(arguments);
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_THAT(came.err, HasSubstr("an ONNX file has its activations as nodes: leave out --activation"));
    }
}

}  // namespace sluice::app::testing::onnx_tests
