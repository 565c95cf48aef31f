// SPDX-License-Identifier: Apache-2.0
// `sluice run` of networks: row by row or with whole arrays, by name.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "io/support/file_size_limit.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/network_files.hpp"

namespace sluice::app::testing::network_run_tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";
const std::string cnn_logits = SLUICE_SOURCE_DIR "/data/digits_cnn_logits.npy";

void expect_refused(std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), {"run", "--device", "cpu"});
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(came.err, HasSubstr(why));
}

}  // namespace

TEST(tool_network, recognises_the_digits_with_convolutions) {
    const temporary_directory directory;
    const std::string output = directory / "logits.npy";
    const outcome came =
        run_tool({"run", cnn, digits().input, "--device", "cpu", "--reference", cnn_logits, "--tolerance", "1e-4",
                  "--labels", digits().labels, "--min-accuracy", "0.98", "--output", output, "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out);
    EXPECT_EQ(report["outputs"][0]["name"], "logits");
    EXPECT_EQ(report["outputs"][0]["tensor"], "f32 [450, 10]");
    EXPECT_EQ(report["outputs"][0]["file"], output);
    EXPECT_EQ(report["passed"], true);
    EXPECT_GE(report["accuracy"].get<double>(), 0.98);
    EXPECT_EQ(read_array(output).size(), 4500u);
}

TEST(tool_network, runs_and_describes_trees_from_their_own_files) {
    const std::string trees = SLUICE_SOURCE_DIR "/tests/nn/data/trees/lightgbm_binary_categories";
    const outcome came = run_tool({"run", trees + ".txt", trees + ".inputs.npy", "--device", "cpu", "--reference",
                                   trees + ".answers.npy", "--tolerance", "0", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(json::parse(came.out)["outputs"][0]["tensor"], "f64 [40, 1]");
    const outcome seen = run_tool({"inspect", trees + ".txt"});
    ASSERT_EQ(seen.exit_code, 0) << seen;
    EXPECT_THAT(seen.out,
                AllOf(HasSubstr("made by LightGBM v4"), HasSubstr("input input: f64 [batch, 4]"),
                      HasSubstr("Column_0, Column_1, Column_2, Column_3"), HasSubstr("`sluice run` runs it")));
    expect_refused({trees + ".txt", trees + ".inputs.npy", "--activation", "relu"}, "trees have no activations");
}

TEST(tool_network, takes_inputs_and_outputs_by_name) {
    const temporary_directory directory;
    const std::string output = directory / "a=b.npy";
    const outcome came = run_tool({"run", cnn, "--input", "input=" + digits().input, "--output", "logits=" + output,
                                   "--device", "cpu", "--timeline", directory / "timeline.svg"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("logits: f32 [450, 10], in " + output), HasSubstr("timeline.svg")));
    EXPECT_EQ(read_array(output).size(), 4500u);
    EXPECT_TRUE(std::filesystem::exists(directory / "timeline.svg"));
}

TEST(tool_network, misses_a_requirement_and_writes_nothing) {
    const temporary_directory directory;
    const std::string output = directory / "logits.npy";
    const outcome came = run_tool({"run", cnn, digits().input, "--device", "cpu", "--reference", digits().reference,
                                   "--tolerance", "1e-4", "--output", output});
    EXPECT_EQ(came.exit_code, 3) << came;
    EXPECT_THAT(came.err, AllOf(HasSubstr("the largest difference from " + digits().reference + " is "),
                                HasSubstr(", --tolerance allows 1e-04; no output is written")));
    EXPECT_THAT(came.out, AllOf(HasSubstr("at most 0.0001: missed"), Not(HasSubstr(output))));
    EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(tool_network, keeps_its_outputs_when_the_disk_is_too_full_for_the_timeline) {
    const temporary_directory directory;
    const std::string output = directory / "logits.npy", timeline = directory / "timeline.svg";
    const std::string input = write_array(directory, "one.npy", {1, 64}, std::vector<float>(64, 1.0f));
    outcome came;
    {
        const io::testing::file_size_limit limit(1'000);  // the outputs have 168 bytes, the timeline some 15,000
        came = run_tool({"run", cnn, input, "--device", "cpu", "--timeline", timeline, "--output", output});
    }
    EXPECT_EQ(came.exit_code, 1) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("time"), HasSubstr(output), Not(HasSubstr(timeline))));
    EXPECT_THAT(came.err, AllOf(HasSubstr("the run is complete, its trace is not"), HasSubstr(timeline)));
    EXPECT_EQ(directory.entries(), 2);
    EXPECT_EQ(read_array(output).size(), 10u);
}

TEST(tool_network, refuses_what_the_network_does_not_have) {
    expect_refused({cnn, "--input", "image=" + digits().input}, "the network has no 'image'; it has 'input'");
    expect_refused({cnn, digits().input, "--output", "scores=x.npy"}, "the network has no 'scores'; it has 'logits'");
    expect_refused({cnn, digits().input, "--input", "input=" + digits().input}, "'input' is named twice");
    expect_refused({cnn, "--input", "input=" + digits().input, "--batch", "16"}, "--batch is for runs row by row");
    expect_refused({cnn, digits().labels}, "the input must have two dimensions");
    expect_refused({cnn, "--input", "input=" + digits().labels}, "input 'input'");
    expect_refused({digits().model, "--input", "x=" + digits().input}, "the network has no 'x'; it has 'input'");
    expect_refused({cnn}, "INPUT is required");
}

TEST(network_files, differ_by_what_a_float_would_round_away) {
    const temporary_directory directory;
    const std::int64_t whole = (std::int64_t{1} << 60) + 1;
    const std::string stored = write_array<std::int64_t>(directory, "i64.npy", {2}, {whole, -whole});
    const auto given = [](std::vector<std::int64_t> values) { return nn::any_tensor(values, {2}); };
    EXPECT_EQ(largest_difference(given({whole, -whole}), stored), 0);
    EXPECT_EQ(largest_difference(given({whole - 1, -whole}), stored), 1);
    EXPECT_EQ(largest_difference(given({-whole, -whole}), stored), 0x1p61f);

    const std::string fine = write_array<double>(directory, "f64.npy", {1}, {1.0});
    EXPECT_EQ(largest_difference(nn::any_tensor(std::vector{1.0}, {1}), fine), 0);
    EXPECT_EQ(largest_difference(nn::any_tensor(std::vector{1.0 + 0x1p-52}, {1}), fine), 0x1p-52f);
    const std::string tiny = write_array<double>(directory, "tiny.npy", {1}, {1e-300});
    EXPECT_GT(largest_difference(nn::any_tensor(std::vector{2e-300}, {1}), tiny), 0);
    EXPECT_EQ(largest_difference(nn::any_tensor(std::vector{1.0f}, {1}), fine), 0);  // of another type
}

TEST(network_files, of_another_shape_are_refused_with_both) {
    const temporary_directory directory;
    const std::string stored = write_array<float>(directory, "r.npy", {2, 1}, {1, 2});
    try {
        largest_difference(nn::any_tensor(std::vector<float>{1, 2}, {2}), stored);
        FAIL();
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), AllOf(HasSubstr("is [2, 1]; the output is [2]"), HasSubstr(stored)));
    }
}

TEST(tool_operators, are_those_of_the_documentation) {
    const outcome came = run_tool({"operators"});
    ASSERT_EQ(came.exit_code, 0) << came;
    std::ifstream page(SLUICE_SOURCE_DIR "/docs/operators.md");
    const std::string text{std::istreambuf_iterator<char>(page), {}};
    EXPECT_TRUE(text.ends_with(came.out)) << "write docs/operators.md again: sluice operators";
    const outcome as_json = run_tool({"operators", "--json"});
    EXPECT_GE(json::parse(as_json.out)["operators"].size(), 200u);
}

}  // namespace sluice::app::testing::network_run_tests
