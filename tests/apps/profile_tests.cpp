// SPDX-License-Identifier: Apache-2.0
// `sluice profile`, and how commands become rows.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "io/support/file_size_limit.hpp"
#include "sluice/profiling/profile_rows.hpp"
#include "sluice/profiling/step_names.hpp"

namespace sluice::app::testing::profile_tests {
namespace {

using namespace sluice::profiling;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";

nn::network_step step(std::string name, std::string op, std::string input, std::string output, bool may_join = false) {
    nn::network_step made;
    made.name = std::move(name);
    made.operators = {std::move(op)};
    made.inputs = {std::move(input)};
    made.outputs = {std::move(output)};
    made.may_join_next = may_join;
    return made;
}
trace_event event(std::string operation, std::string name, double start, double end) {
    return {.name = std::move(name), .operation = std::move(operation), .start_us = start, .end_us = end};
}

}  // namespace

TEST(profile_rows, sum_up_the_commands_of_each_step) {
    profile_sums sums;
    sums.add({.events = {event("a", "gemm", 0, 10), event("a", "bias", 10, 12), event("", "upload", 12, 15),
                         event("b", "scale", 20, 21)}});
    sums.add({.events = {event("a", "gemm", 0, 30), event("b", "scale", 30, 33)}});
    network_profile result;
    sums.fill(result, {step("a", "Gemm", "x", "y"), step("b", "Mul", "y", "z")});
    ASSERT_EQ(result.rows.size(), 3u);
    EXPECT_EQ(result.rows[0].operators, "Gemm");
    EXPECT_EQ(result.rows[0].node, "a");
    EXPECT_DOUBLE_EQ(result.rows[0].microseconds, 21);
    EXPECT_THAT(result.rows[0].commands, AllOf(HasSubstr("gemm"), HasSubstr("bias")));
    EXPECT_EQ(result.rows[1].operators, "Mul");
    EXPECT_DOUBLE_EQ(result.rows[1].microseconds, 2);
    EXPECT_EQ(result.rows[2].operators, "(kernel)");  // of no step, by its kind
    EXPECT_DOUBLE_EQ(result.microseconds, 24.5);
    EXPECT_DOUBLE_EQ(result.rows[0].share, 21 / 24.5);
    EXPECT_DOUBLE_EQ(result.span_microseconds, (21 + 33) / 2.0);
}

TEST(profile_rows, of_steps_in_one_kernel_are_one) {
    profile_sums sums;
    sums.add({.events = {event("c", "expression", 0, 1), event("e", "expression", 2, 3)}});
    network_profile result;
    nn::network_step host = step("shape", "Shape", "x", "s");
    host.is_on_host = true;
    sums.fill(result, {step("a", "Mul", "x", "1", true), step("b", "Add", "1", "2", true), step("c", "Relu", "2", "3"),
                       host, step("d", "Flatten", "3", "4"), step("e", "Tanh", "4", "5", true)});
    ASSERT_EQ(result.rows.size(), 2u);
    EXPECT_EQ(result.rows[0].operators, "Mul + Add + Relu");
    EXPECT_EQ(result.rows[0].node, "a, b, c");
    EXPECT_EQ(result.rows[1].node, "e");
    EXPECT_EQ(result.on_host, 1u);
    EXPECT_EQ(result.without_commands, 1u);
}

TEST(step_names, are_distinct_afterwards) {
    nn::model network;
    for (const auto& [name, op] : {std::pair("", "Relu"), {"twice", "Add"}, {"", "Relu"}, {"twice", "Mul"}}) {
        nn::node each;
        each.name = name;
        each.op = op;
        network.body.nodes.push_back(each);
    }
    const auto inner = std::make_shared<nn::graph>(network.body);
    network.body.nodes[0].attributes["body"] = std::shared_ptr<const nn::graph>(inner);
    const nn::model made = with_distinct_names(network);
    std::set<std::string> names;
    for (const nn::node& each : made.body.nodes) names.insert(each.name);
    for (const nn::node& each : (*made.body.nodes[0].find<std::shared_ptr<const nn::graph>>("body"))->nodes)
        names.insert(each.name);
    EXPECT_EQ(names.size(), 8u);
    EXPECT_EQ(made.body.nodes[0].name, "#0 Relu");
    EXPECT_TRUE(names.contains("twice"));
    EXPECT_EQ(inner->nodes[0].name, "");  // the given network is as it was
}

TEST(tool_profile, tells_the_time_of_each_node) {
    const temporary_directory directory;
    const std::string timeline = directory / "timeline.svg", trace = directory / "trace.json";
    const outcome came = run_tool({"profile", cnn, digits().input, "--device", "cpu", "--runs", "5", "--timeline",
                                   timeline, "--trace", trace, "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    const json report = json::parse(came.out);
    EXPECT_EQ(report["batch"], 450);
    EXPECT_EQ(report["inputs"], digits().input);
    double sum = 0, share = 0, before = 1e300;
    std::string operators;
    for (const json& each : report["rows"]) {
        const double us = each["us"].get<double>();
        EXPECT_LE(us, before);
        before = us;
        sum += us;
        share += each["share"].get<double>();
        operators += each["operators"].get<std::string>() + "\n";
    }
    EXPECT_NEAR(sum, report["us"].get<double>(), 1e-6 * sum);
    EXPECT_NEAR(share, 1, 1e-9);
    EXPECT_THAT(operators, AllOf(HasSubstr("Conv"), HasSubstr("(upload)"), HasSubstr("(download)")));
    EXPECT_TRUE(std::filesystem::exists(timeline));
    std::ifstream file(trace);
    EXPECT_FALSE(json::parse(file)["traceEvents"].empty());
}

TEST(tool_profile, prints_a_table_that_says_how_it_was_measured) {
    for (const std::string& model : {cnn, digits().model}) {
        const outcome came = run_tool({"profile", model, "--device", "cpu", "--runs", "2", "--batch", "16"});
        ASSERT_EQ(came.exit_code, 0) << came;
        EXPECT_THAT(came.out, AllOf(HasSubstr("batch 16"), HasSubstr("share"), HasSubstr("operator"), HasSubstr(" %"),
                                    HasSubstr("the mean of 2 runs"), HasSubstr("inputs: random numbers")));
    }
}

TEST(tool_profile, computes_in_the_precision_that_is_asked_for) {
    std::string commands;
    for (const std::string what : {"f32", "int8"}) {
        const outcome came = run_tool(
            {"profile", cnn, "--device", "cpu", "--runs", "2", "--batch", "16", "--precision", what, "--json"});
        ASSERT_EQ(came.exit_code, 0) << came;
        const json report = json::parse(came.out);
        EXPECT_EQ(report["precision"], what);
        std::string all;
        for (const json& each : report["rows"]) all += each["commands"].get<std::string>() + "\n";
        EXPECT_NE(all, commands);
        commands = all;
    }
}

TEST(tool_profile, fails_when_the_disk_is_too_full_for_the_timeline_and_still_reports) {
    const temporary_directory directory;
    const std::string timeline = directory / "timeline.svg";
    outcome came;
    {
        const io::testing::file_size_limit limit(4'000);
        came = run_tool({"profile", cnn, "--device", "cpu", "--runs", "1", "--timeline", timeline});
    }
    EXPECT_EQ(came.exit_code, 1) << came;
    EXPECT_THAT(came.out, HasSubstr("Conv"));
    EXPECT_THAT(came.err, AllOf(HasSubstr("the profile is complete, its trace is not"), HasSubstr(timeline)));
    EXPECT_EQ(directory.entries(), 0);
}

TEST(tool_profile, refuses_what_it_cannot_measure) {
    const auto expect_refused = [](const std::vector<std::string>& arguments, const std::string& why) {
        const outcome came = run_tool(arguments);
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_EQ(came.out, "");
        EXPECT_THAT(came.err, HasSubstr(why));
    };
    expect_refused({"profile"}, "model is required");
    expect_refused({"profile", cnn, digits().labels, "--device", "cpu"}, "input 'input'");
    expect_refused({"profile", cnn, "--runs", "0"}, "--runs");
    expect_refused({"profile", cnn, "--trace", "same", "--timeline", "same"}, "same is to be written twice");
    expect_refused({"profile", cnn, digits().input, "--input", "input=" + digits().input, "--device", "cpu"},
                   "'input' is named twice");
}

}  // namespace sluice::app::testing::profile_tests
