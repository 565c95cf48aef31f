// SPDX-License-Identifier: Apache-2.0
// `sluice run` with --tolerance, --min-accuracy and --measure; progress.
#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "sluice/progress_bar.hpp"
#include "sluice/requirements.hpp"

namespace sluice::app::testing::requirement_tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

run_result result_with(std::optional<std::size_t> correct, std::optional<float> difference) {
    run_result result;
    result.rows = 3;
    result.correct = correct;
    result.largest_difference = difference;
    return result;
}

class tool_requirements : public ::testing::Test {
protected:
    outcome run(std::vector<std::string> more) {
        more.insert(more.begin(), {"run", digits().model, digits().input, "--device", "cpu", "--labels",
                                   digits().labels, "--reference", digits().reference});
        return run_tool(more);
    }

    temporary_directory directory;
};

}  // namespace

TEST(requirements, that_are_not_given_are_met) {
    EXPECT_EQ(missed_requirements({}, result_with(0, std::numeric_limits<float>::quiet_NaN())), "");
    EXPECT_EQ(missed_requirements({}, result_with({}, {})), "");
}

TEST(requirements, include_their_bound) {
    run_options options;
    options.reference = "r";
    options.tolerance = 0.1;
    EXPECT_TRUE(meets_tolerance(options, result_with({}, 0.1f)));  // though 0.1f is more than 0.1
    EXPECT_FALSE(meets_tolerance(options, result_with({}, std::nextafter(0.1f, 1.0f))));
    options.tolerance = 0;
    EXPECT_TRUE(meets_tolerance(options, result_with({}, 0.0f)));
    options.tolerance = std::numeric_limits<double>::max();
    EXPECT_TRUE(meets_tolerance(options, result_with({}, 1e38f)));
    EXPECT_FALSE(meets_tolerance(options, result_with({}, std::numeric_limits<float>::infinity())));
    options.min_accuracy = 2.0 / 3;
    EXPECT_TRUE(meets_accuracy(options, result_with(2, {})));
    EXPECT_FALSE(meets_accuracy(options, result_with(1, {})));
}

TEST(requirements, are_missed_by_nan) {
    run_options options;
    options.reference = "r.npy";
    options.tolerance = std::numeric_limits<double>::max();
    const run_result result = result_with({}, std::numeric_limits<float>::quiet_NaN());
    EXPECT_FALSE(meets_tolerance(options, result));
    EXPECT_THAT(missed_requirements(options, result), HasSubstr("the largest difference from r.npy is nan"));
}

TEST_F(tool_requirements, that_are_met_change_nothing) {
    const outcome came = run({"--tolerance", "1e-4", "--min-accuracy", "0.97", "--json"});
    EXPECT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out);
    EXPECT_EQ(report["passed"], true);
    EXPECT_EQ(report["tolerance"], 1e-4);
    EXPECT_EQ(report["min_accuracy"], 0.97);
}

TEST_F(tool_requirements, that_are_missed_fail_with_a_report_and_without_an_output) {
    const std::string output = directory.write("out.npy", "an earlier output");
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{"--tolerance", "1e-9"}, {"--min-accuracy", "0.99"}}) {
        std::vector<std::string> arguments = options;
        arguments.insert(arguments.end(), {"--output", output, "--trace", directory / "trace", "--json"});
        const outcome came = run(arguments);
        EXPECT_EQ(came.exit_code, 3) << came;
        const json report = json::parse(came.out);
        EXPECT_EQ(report["passed"], false);
        EXPECT_FALSE(report.contains("output"));
        EXPECT_FALSE(report.contains("trace"));
        const json error = json::parse(came.err)["error"];
        EXPECT_EQ(error["kind"], "missed");
        EXPECT_EQ(error["status"], 3);
        EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(options[0]));
        EXPECT_EQ(directory.entries(), 1);
        EXPECT_EQ(io::testing::read_file(output), "an earlier output");
    }
    const outcome as_text = run({"--tolerance", "1e-9", "--min-accuracy", "0.97"});
    EXPECT_EQ(as_text.exit_code, 3) << as_text;
    EXPECT_THAT(as_text.out, HasSubstr("(444 of 450), at least 0.97: passed\n"));
    EXPECT_THAT(as_text.out, HasSubstr(", at most 1e-09: missed\n"));
    EXPECT_THAT(as_text.err, HasSubstr("--tolerance allows 1e-09"));
}

TEST_F(tool_requirements, treat_nan_as_a_difference_and_equal_infinities_as_none) {
    const std::string model = write_model(directory, "m.safetensors", {1, 1});
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const auto run_with = [&](float input, float expected) {
        const auto rows = write_array(directory, "i.npy", {1, 1}, std::vector{input});
        const auto reference = write_array(directory, "r.npy", {1, 1}, std::vector{expected});
        return run_tool({"run", model, rows, "--device", "cpu", "--reference", reference, "--tolerance", "1e30"});
    };
    const outcome infinite = run_with(infinity, 0);
    EXPECT_EQ(infinite.exit_code, 3) << infinite;
    EXPECT_EQ(run_with(0, nan).exit_code, 3);
    EXPECT_EQ(run_with(nan, nan).exit_code, 3);
    EXPECT_EQ(run_with(infinity, infinity).exit_code == 0 || run_with(infinity, -infinity).exit_code == 0, true);
}

TEST_F(tool_requirements, measure_the_throughput_for_as_long_as_requested) {
    const outcome came = run({"--measure", "0.2", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out);
    const double seconds = report["measured"]["seconds"], passes = report["measured"]["passes"];
    EXPECT_GE(seconds, 0.2);
    EXPECT_GE(passes, 1);
    EXPECT_NEAR(report["rows_per_second"].get<double>(), 450 * passes / seconds, 1e-3 * 450 * passes / seconds);
    EXPECT_GE(report["accuracy"].get<double>(), 0.97);  // of the first pass
}

TEST(progress_text, fits_into_every_width) {
    for (std::size_t columns = 0; columns < 200; ++columns) {
        for (const std::size_t done : {0u, 1u, 500u, 1000u, 2000u}) {
            for (const double rate : {0.0, 1e3, 1e18}) {
                const std::string text = progress_text(done, 1000, rate, columns);
                EXPECT_LE(text.size(), columns == 0 ? 0 : columns - 1) << text;
            }
        }
    }
}

TEST(progress_text, drops_the_rate_first_and_then_the_bar) {
    EXPECT_EQ(progress_text(500, 1000, 1234, 200),
              "[" + std::string(20, '#') + std::string(20, '.') + "]  50 %  1234 rows/s");
    EXPECT_EQ(progress_text(500, 1000, 1234, 20), "[#####......]  50 %");
    EXPECT_EQ(progress_text(1000, 1000, 1234, 8), "100 %");
    EXPECT_EQ(progress_text(0, 0, 0, 8), "100 %");
    EXPECT_EQ(progress_text(500, 1000, 1234, 4), "");
}

}  // namespace sluice::app::testing::requirement_tests
