// SPDX-License-Identifier: Apache-2.0
// The commands as functions: reports and exit codes.
#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sluice/base/file_error.hpp"
#include "sluice/exit_status.hpp"
#include "sluice/run_command.hpp"

namespace sluice::app::testing::report_tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

run_result two_rows_on_two_devices() {
    run_result result;
    result.rows = 2;
    result.output = "logits";
    result.outputs = 3;
    result.seconds = 0.5;
    result.devices = {{"cpu:0", "this"}, {"cpu:1", "that"}};
    return result;
}

run_options some_files() {
    run_options options;
    options.model = "m";
    options.input = "i";
    return options;
}

}  // namespace

TEST(exit_status, distinguishes_wrong_input_from_failures) {
    EXPECT_EQ(status_of(file_error("f", 1, "field", "why")), bad_input);
    EXPECT_EQ(status_of(error(errc::invalid_argument, "")), bad_input);
    EXPECT_EQ(status_of(error(errc::shape_mismatch, "")), bad_input);
    EXPECT_EQ(status_of(error(errc::device_not_found, "")), bad_input);
    EXPECT_EQ(status_of(out_of_memory(2, 1)), bad_input);
    EXPECT_EQ(status_of(error(errc::device_failed, "")), failed);
    EXPECT_EQ(status_of(device_error(errc::unsupported, "")), failed);
    EXPECT_EQ(status_of(std::runtime_error("")), failed);
    EXPECT_EQ(status_of(std::bad_alloc()), failed);
    EXPECT_EQ(status_of(requirement_missed("")), missed);
    EXPECT_EQ(status_of(interruption()), interrupted);
}

TEST(run_report, as_json_is_one_line_with_every_figure) {
    run_options options = some_files();
    options.output = "o";
    run_result result = two_rows_on_two_devices();
    result.correct = 1;
    result.largest_difference = 0.25f;
    const std::string text = to_json(options, result);
    EXPECT_THAT(text, Not(HasSubstr("\n")));
    EXPECT_EQ(json::parse(text), json::parse(R"({"model": "m", "input": "i", "rows": 2,
        "outputs": [{"name": "logits", "tensor": "f32 [2, 3]", "file": "o"}], "batch": 1024, "streams": 0, "seconds": 0.5, "rows_per_second": 4.0, "accuracy": 0.5,
        "largest_difference": 0.25,
        "devices": [{"device": "cpu:0", "name": "this"}, {"device": "cpu:1", "name": "that"}]})"));
}

TEST(run_report, has_null_for_a_difference_that_is_no_number) {
    run_result result = two_rows_on_two_devices();
    result.largest_difference = std::numeric_limits<float>::quiet_NaN();
    const json report = json::parse(to_json(some_files(), result));
    ASSERT_TRUE(report.contains("largest_difference"));
    EXPECT_TRUE(report["largest_difference"].is_null());
}

TEST(run_report, has_no_throughput_of_a_run_that_is_too_short) {
    run_result result = two_rows_on_two_devices();
    for (const double seconds : {0.0, 0.25e-3, 0.099}) {
        result.seconds = seconds;
        EXPECT_TRUE(json::parse(to_json(some_files(), result))["rows_per_second"].is_null());
        EXPECT_THAT(to_text(some_files(), result),
                    HasSubstr("throughput          the run is too short to measure it: --measure SECONDS"));
    }
    result.seconds = 0.1;
    EXPECT_EQ(json::parse(to_json(some_files(), result))["rows_per_second"], 20);
}

TEST(run_report, has_the_throughput_of_a_measurement) {
    run_result result = two_rows_on_two_devices();
    result.seconds = 0.25e-3;
    result.measured = {.passes = 300, .seconds = 2};
    const json report = json::parse(to_json(some_files(), result));
    EXPECT_EQ(report["rows_per_second"], 300);
    EXPECT_EQ(report["measured"], json::parse(R"({"passes": 300, "seconds": 2.0})"));
    EXPECT_THAT(
        to_text(some_files(), result),
        HasSubstr("time                0.25 ms, with reading, comparing and writing rows\n"
                  "throughput          300 rows/s (300 more passes in 2.00 s, without comparing and writing)\n"));
}

TEST(run_report, as_text_names_devices_and_files) {
    run_options options = some_files();
    options.reference = "r.npy";
    options.output = "o.npy";
    run_result result = two_rows_on_two_devices();
    result.streams = 1;
    result.correct = 2;
    result.largest_difference = 0.125f;
    EXPECT_EQ(to_text(options, result),
              "device              cpu:0 (this), cpu:1 (that)\n"
              "rows                2 in batches of 1024 on 1 stream\n"
              "accuracy            1.0000 (2 of 2)\n"
              "largest difference  0.125 from r.npy\n"
              "time                500.00 ms, with reading, comparing and writing rows\n"
              "throughput          4 rows/s\n"
              "output              o.npy\n");
}

TEST(run_report, says_why_the_run_has_no_gpu) {
    run_result result = two_rows_on_two_devices();
    result.devices = {{"cpu:0", "this", "no NVIDIA driver was found"}};
    EXPECT_THAT(to_text(some_files(), result),
                HasSubstr("device              cpu:0 (this); no GPU: no NVIDIA driver was found\nrows"));
    EXPECT_EQ(json::parse(to_json(some_files(), result))["devices"],
              json::parse(R"([{"device": "cpu:0", "name": "this", "why_no_gpu": "no NVIDIA driver was found"}])"));
}

TEST(run_report, as_json_has_an_entry_for_each_rank) {
    run_result result = two_rows_on_two_devices();
    result.ranks = {{"here", 2, 0.25, 4, {{"cpu:0", "this"}}}, {"there", 0, 0, 8, {{"cpu:1", "that"}}}};
    const json report = json::parse(to_json(some_files(), result));
    EXPECT_EQ(report["devices"].size(), 2u);
    EXPECT_EQ(report["ranks"], json::parse(R"([
        {"host": "here", "rows": 2, "seconds": 0.25, "streams": 4, "devices": [{"device": "cpu:0", "name": "this"}]},
        {"host": "there", "rows": 0, "seconds": 0.0, "streams": 8,
         "devices": [{"device": "cpu:1", "name": "that"}]}])"));
    EXPECT_FALSE(json::parse(to_json(some_files(), two_rows_on_two_devices())).contains("ranks"));
}

TEST(run_report, as_text_has_a_line_for_each_rank) {
    run_result result = two_rows_on_two_devices();
    result.ranks = {{"here", 2, 0.25, 4, {{"cuda:0", "a"}, {"cuda:1", "b"}}}, {"there", 0, 0, 8, {{"cpu:0", "c"}}}};
    EXPECT_THAT(to_text(some_files(), result), HasSubstr("ranks               2\n"
                                                         "device              rank 0 on here: cuda:0 (a), cuda:1 (b)\n"
                                                         "                    rank 1 on there: cpu:0 (c)\n"
                                                         "rows                2 in"));
}

}  // namespace sluice::app::testing::report_tests
