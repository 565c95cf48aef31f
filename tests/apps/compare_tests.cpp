// SPDX-License-Identifier: Apache-2.0
// `sluice compare`, and the differences of tensors.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "sluice/tensor_difference.hpp"

namespace sluice::app::testing::compare_tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

nn::any_tensor f32(std::vector<float> values, std::vector<std::size_t> shape) {
    return nn::any_tensor(values, std::move(shape));
}

json compared(std::vector<std::string> arguments, int status = 0) {
    arguments.insert(arguments.begin(), {"compare", "--device", "cpu", "--json"});
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, status) << came;
    return json::parse(came.out);
}

}  // namespace

TEST(tensor_difference, is_the_largest_with_its_place) {
    const tensor_difference found = difference_of(f32({1, 2, 3, 4, 5, 6}, {2, 3}), f32({1, 2, 4, 4, 5, 3}, {2, 3}));
    EXPECT_EQ(found.absolute, 3);
    EXPECT_EQ(found.relative, 0.5);
    EXPECT_THAT(found.place, ElementsAre(1, 2));
    EXPECT_EQ(static_cast<double>(found.a), 6);
    EXPECT_EQ(static_cast<double>(found.b), 3);
    EXPECT_EQ(found.differing, 2u);
    EXPECT_EQ(found.agreeing_rows, 1u);  // of the second row the largest number is elsewhere
}

TEST(tensor_difference, of_equal_tensors_is_none) {
    const tensor_difference found = difference_of(f32({1, infinity, 0}, {3}), f32({1, infinity, -0.0f}, {3}));
    EXPECT_EQ(found.absolute, 0);
    EXPECT_EQ(found.relative, 0);
    EXPECT_EQ(found.differing, 0u);
    EXPECT_TRUE(found.place.empty());
    EXPECT_FALSE(found.agreeing_rows);  // no rows of classes
    EXPECT_EQ(difference_of(f32({}, {0, 3}), f32({}, {0, 3})).differing, 0u);
}

TEST(tensor_difference, counts_nan_as_the_largest) {
    const tensor_difference found = difference_of(f32({1, nan, 9}, {1, 3}), f32({5, nan, 9}, {1, 3}));
    EXPECT_TRUE(std::isnan(found.absolute));
    EXPECT_TRUE(std::isnan(found.relative));
    EXPECT_THAT(found.place, ElementsAre(0, 1));
    EXPECT_EQ(found.agreeing_rows, 0u);
    const tensor_difference far = difference_of(f32({infinity, 1}, {2}), f32({1, 1}, {2}));
    EXPECT_TRUE(std::isinf(far.absolute));
    EXPECT_TRUE(std::isinf(far.relative));
}

TEST(tensor_difference, of_other_types_is_that_of_their_numbers) {
    const nn::any_tensor wide(std::vector<double>{1.0, 1 + 0x1p-40}, {2});
    EXPECT_EQ(difference_of(f32({1, 1}, {2}), wide).absolute, 0x1p-40);
    const std::int64_t large = (std::int64_t{1} << 60) + 1;
    EXPECT_EQ(
        difference_of(nn::any_tensor(std::vector{large}, {1}), nn::any_tensor(std::vector{large - 1}, {1})).absolute,
        1);
}

TEST(tool_compare, of_one_network_in_two_formats_finds_no_difference) {
    const std::string onnx = std::filesystem::path(digits().model).replace_extension(".onnx");
    const json report = compared({onnx, digits().model, "--tolerance", "1e-4"});
    ASSERT_EQ(report["outputs"].size(), 1u);
    const json& output = report["outputs"][0];
    EXPECT_EQ(output["a"], "logits");
    EXPECT_EQ(output["b"], "output");
    EXPECT_EQ(report["pairs"], "place");
    EXPECT_EQ(output["tensor_a"], "f32 [64, 10]");
    EXPECT_LE(output["largest_difference"].get<double>(), 1e-4);
    EXPECT_EQ(output["rows"], 64);
    EXPECT_EQ(output["agreeing_rows"], 64);
    EXPECT_EQ(report["passed"], true);
    EXPECT_THAT(report["inputs"].get<std::string>(), HasSubstr("random numbers"));
}

TEST(tool_compare, fails_with_status_3_beyond_the_tolerance) {
    const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";
    const std::string mlp = std::filesystem::path(digits().model).replace_extension(".onnx");
    const outcome came = run_tool({"compare", cnn, mlp, digits().input, "--device", "cpu", "--tolerance", "0.5"});
    EXPECT_EQ(came.exit_code, 3) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("same class"), HasSubstr(" of 450"), HasSubstr("at most 0.5: missed")));
    EXPECT_THAT(came.err, AllOf(HasSubstr("the largest difference of the output 'logits' is "),
                                HasSubstr("--tolerance allows 0.5")));
    const json report = compared({cnn, mlp, digits().input, "--tolerance", "0.5"}, 3);
    const json& output = report["outputs"][0];
    EXPECT_EQ(report["passed"], false);
    EXPECT_EQ(report["pairs"], "name");
    EXPECT_GT(output["largest_difference"].get<double>(), 0.5);
    EXPECT_EQ(output["place"].size(), 2u);
    EXPECT_LT(output["place"][0].get<int>(), 450);
    // Both are good classifiers, of 450 digits.
    EXPECT_GT(output["agreeing_rows"].get<int>(), 400);
    EXPECT_LT(output["agreeing_rows"].get<int>(), 450);
}

TEST(tool_compare, takes_files_of_outputs) {
    const temporary_directory directory;
    const json with_model = compared({digits().model, digits().reference, digits().input, "--tolerance", "1e-4"});
    EXPECT_EQ(with_model["outputs"][0]["agreeing_rows"], 450);
    const std::string a = write_array<float>(directory, "a.npy", {2, 2}, {1, 2, 3, 4});
    const std::string b = write_array<double>(directory, "b.npy", {2, 2}, {1, 2, 3, 4.5});
    const json report = compared({a, b});
    EXPECT_EQ(report["outputs"][0]["largest_difference"], 0.5);
    EXPECT_EQ(report["outputs"][0]["place"], json::parse("[1, 1]"));
    EXPECT_FALSE(report.contains("device"));
    EXPECT_EQ(compared({a, b, "--tolerance", "0.25"}, 3)["passed"], false);
}

TEST(tool_compare, refuses_what_does_not_fit_together) {
    const temporary_directory directory;
    const auto expect_refused = [](std::vector<std::string> arguments, const std::string& why) {
        arguments.insert(arguments.begin(), {"compare", "--device", "cpu"});
        const outcome came = run_tool(arguments);
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_EQ(came.out, "");
        EXPECT_THAT(came.err, HasSubstr(why));
    };
    const std::string small = write_array<float>(directory, "small.npy", {2, 2}, {1, 2, 3, 4});
    const std::string narrow = write_model(directory, "narrow.safetensors", {3, 10});
    expect_refused({digits().model}, "b is required");
    expect_refused({digits().model, small}, "are f32 [64, 10] and f32 [2, 2]");
    expect_refused({small, small, small}, "two files of outputs are compared as they are");
    expect_refused({digits().model, narrow, "--activation", "relu"}, "dimension 1 is 3, and is given 64");
    expect_refused({digits().model, digits().model, "--tolerance", "nan"}, "--tolerance");
    expect_refused({digits().model, directory / "absent.npy"}, "absent.npy");
}

}  // namespace sluice::app::testing::compare_tests
