// SPDX-License-Identifier: Apache-2.0
// `sluice run --precision`: what it reports, and what it refuses.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"

namespace sluice::app::testing::precision_run_tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";
const std::string perceptron = SLUICE_SOURCE_DIR "/models/digits.onnx";

outcome run_in(const std::string& model, const std::string& precision, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"run", model, digits().input, "--device", "cpu", "--precision", precision};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
}

void expect_refused(const outcome& came, const std::string& why) {
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(came.err, HasSubstr(why));
}

}  // namespace

TEST(tool_precision, reports_the_difference_from_f32_on_a_sample) {
    for (const std::string& model : {cnn, perceptron}) {
        for (const auto& [name, bound] : {std::pair{"bf16", 0.01}, {"f16", 0.001}, {"int8", 0.02}}) {
            SCOPED_TRACE(model + " in " + name);
            const outcome came = run_in(model, name, {"--labels", digits().labels, "--min-accuracy", "0.98", "--json"});
            ASSERT_EQ(came.exit_code, 0) << came;
            const json report = json::parse(came.out)["precision"];
            EXPECT_EQ(report["asked"], name);
            EXPECT_EQ(report["precision"], name);
            EXPECT_NE(report["how"], "");
            EXPECT_EQ(report["rounded"], 3);
            EXPECT_EQ(report["kept"], json::array());
            EXPECT_EQ(report["rows"], 450);
            EXPECT_EQ(report["sample_rows"], 256);
            EXPECT_EQ(report["compared_rows"], 256);
            EXPECT_GE(report["agreeing_rows"].get<int>(), 254);
            EXPECT_GT(report["relative_difference"].get<double>(), 0);
            EXPECT_LE(report["relative_difference"].get<double>(), bound);
            EXPECT_GT(report["largest_difference"].get<double>(), 0);
        }
    }
}

TEST(tool_precision, says_it_in_words) {
    const outcome came = run_in(perceptron, "bf16");
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out,
                AllOf(HasSubstr("\nprecision           bf16 ("), HasSubstr(", 3 of 3 products and convolutions\n"),
                      HasSubstr("differs from f32 by "), HasSubstr(" % of the largest output"),
                      HasSubstr("rows with the same largest output, on 256 of 450 rows\n")));
}

TEST(tool_precision, is_f32_without_the_option) {
    const outcome plain = run_tool({"run", cnn, digits().input, "--device", "cpu", "--json"});
    ASSERT_EQ(plain.exit_code, 0) << plain;
    EXPECT_FALSE(json::parse(plain.out).contains("precision"));
    const outcome same = run_in(cnn, "f32");
    ASSERT_EQ(same.exit_code, 0) << same;
    EXPECT_THAT(same.out, AllOf(HasSubstr("precision           f32 (the model's types)\n"), Not(HasSubstr("differs"))));
}

TEST(tool_precision, writes_the_outputs_of_that_precision) {
    const temporary_directory directory;
    const auto output_in = [&](const std::string& precision) {
        const std::string file = directory / (precision + ".npy");
        const outcome came = run_in(cnn, precision, {"--output", file});
        EXPECT_EQ(came.exit_code, 0) << came;
        return read_array(file);
    };
    const std::vector<float> exact = output_in("f32"), rounded = output_in("bf16");
    ASSERT_EQ(exact.size(), 4500u);
    ASSERT_EQ(rounded.size(), 4500u);
    EXPECT_NE(exact, rounded);
    EXPECT_THAT(rounded, ::testing::Pointwise(::testing::FloatNear(0.3f), exact));
}

TEST(tool_precision, auto_takes_one_that_is_accurate_and_reports_all) {
    const outcome came = run_in(perceptron, "auto", {"--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out)["precision"];
    EXPECT_EQ(report["asked"], "auto");
    ASSERT_EQ(report["measured"].size(), 4u);
    bool is_among_them = false;
    for (const json& each : report["measured"]) {
        EXPECT_GT(each["seconds"].get<double>(), 0);
        const bool is_accurate =
            each["relative_difference"].get<double>() <= 0.01 && each["agreeing_rows"] == each["compared_rows"];
        EXPECT_EQ(each["accurate"].get<bool>(), is_accurate);
        is_among_them |= each["precision"] == report["precision"] && is_accurate;
    }
    EXPECT_TRUE(is_among_them);
    EXPECT_THAT(run_in(cnn, "auto").out, HasSubstr("auto takes the fastest that differs by at most 1 %"));
}

TEST(tool_precision, refuses_what_it_cannot_do) {
    expect_refused(run_in(cnn, "fp8"), "auto,f32,bf16,f16,int8");
    expect_refused(run_in(perceptron, "bf16", {"--batch", "16"}), "--batch is for runs row by row");
    for (const std::string precision : {"f32", "bf16"}) {
        const outcome plain = run_in(digits().model, precision, {"--activation", "relu"});
        EXPECT_EQ(plain.exit_code, 0) << plain;
        EXPECT_THAT(plain.out, HasSubstr("precision           " + precision));
    }
}

TEST(tool_precision, is_described_for_each_device) {
    const outcome came = run_tool({"devices", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json told = json::parse(came.out);
    for (const json& each : told["devices"])
        for (const char* name : {"bf16", "f16", "int8"}) EXPECT_NE(each["precisions"][name], "");
    EXPECT_THAT(run_tool({"devices"}).out, HasSubstr("int8"));
}

}  // namespace sluice::app::testing::precision_run_tests
