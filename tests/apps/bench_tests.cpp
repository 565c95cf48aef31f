// SPDX-License-Identifier: Apache-2.0
// `sluice bench`
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "support/xml_reader.hpp"

namespace sluice::app::testing::bench_tests {
namespace {

using nlohmann::json;
using sluice::testing::xml_element;
using sluice::testing::xml_reader;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";

outcome bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "--device", "cpu", "--warm-up", "0"});
    return run_tool(arguments);
}
std::vector<json> lines_of(const std::string& text) {
    std::vector<json> made;
    std::istringstream from(text);
    for (std::string line; std::getline(from, line);) made.push_back(json::parse(line));
    return made;
}
void expect_refused(const std::vector<std::string>& arguments, const std::string& why) {
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(came.err, HasSubstr(why));
}

}  // namespace

TEST(tool_bench, measures_each_batch_both_ways) {
    for (const std::string& model : {digits().model, cnn}) {
        const outcome came = bench({model, "--batch", "1,4", "--seconds", "0.2", "--json"});
        ASSERT_EQ(came.exit_code, 0) << came;
        const std::vector<json> lines = lines_of(came.out);
        ASSERT_EQ(lines.size(), 4u);
        for (std::size_t i = 0; i < 4; ++i) {
            const json& each = lines[i];
            EXPECT_EQ(each["model"], model);
            EXPECT_EQ(each["device"], "cpu:0");
            EXPECT_EQ(each["batch"], i < 2 ? 1 : 4);
            EXPECT_EQ(each["how"], i % 2 == 0 ? "sync" : "graph");
            EXPECT_GE(each["seconds"].get<double>(), 0.1);
            EXPECT_GT(each["in_flight"].get<int>(), 0);
            ASSERT_TRUE(each["p50_us"].is_number()) << each;
            EXPECT_GT(each["p50_us"].get<double>(), 0);
            EXPECT_GE(each["max_us"].get<double>(), each["p50_us"].get<double>());
            // In the sum, calls take no more than the whole time.
            EXPECT_LE(each["p50_us"].get<double>() * 1e-6 * each["calls"].get<double>() / 2,
                      each["seconds"].get<double>() * 1.001);
            const double calls_per_second =
                each["throughput_calls"].get<double>() / each["throughput_seconds"].get<double>();
            EXPECT_NEAR(each["rows_per_second"].get<double>() / each["batch"].get<double>() / calls_per_second, 1,
                        1e-9);
        }
    }
}

TEST(tool_bench, prints_a_table_that_says_how_it_was_measured) {
    const outcome came = bench({digits().model, "--batch", "8", "--seconds", "0.2", "--in-flight", "3"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("p50 us"), HasSubstr("p99 us"), HasSubstr("rows/s"), HasSubstr("cpu:0"),
                                HasSubstr("inputs: random numbers"), HasSubstr("3 calls in flight on cpu:0")));
    EXPECT_THAT(came.out, AllOf(HasSubstr("\nsync: "), HasSubstr("graph: each call launches a compiled graph")));
}

TEST(tool_bench, gives_no_figure_of_a_measurement_that_is_too_short) {
    const outcome came = bench({digits().model, "--batch", "1", "--seconds", "0.001", "--in-flight", "1", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    for (const json& each : lines_of(came.out)) {
        EXPECT_GE(each["calls"].get<int>(), 1);
        for (const char* figure : {"p50_us", "p90_us", "p99_us", "max_us", "rows_per_second"})
            EXPECT_TRUE(each[figure].is_null()) << figure;
    }
    const outcome text = bench({digits().model, "--batch", "1", "--seconds", "0.001", "--in-flight", "1"});
    EXPECT_THAT(text.out, AllOf(HasSubstr("-: too few calls"), HasSubstr("--seconds 0.01 measures longer")));
}

TEST(tool_bench, draws_latency_and_throughput) {
    const temporary_directory directory;
    const std::string plot = directory / "<plot> & \"more\".svg";
    const outcome came = bench({digits().model, "--batch", "1,8,64", "--seconds", "0.15", "--plot", plot});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, HasSubstr("plot: " + plot));
    std::ifstream file(plot);
    const std::string drawn{std::istreambuf_iterator<char>(file), {}};
    const xml_element picture = xml_reader::read(drawn);
    std::size_t dots = 0;
    for (const xml_element* each : picture.of_class("series"))
        if (!each->children.empty() && each->children.front().name == "title") dots += each->of_class("dot").size();
    EXPECT_EQ(dots, 2u * 2u * 3u);  // charts, ways, batches
    std::string words;
    for (const xml_element* each : picture.all([](const xml_element& one) { return one.name == "text"; }))
        words += each->text + "\n";
    EXPECT_THAT(words,
                AllOf(HasSubstr("batch (rows)"), HasSubstr("rows/s"), HasSubstr("µs a call"), HasSubstr("\n64\n")));
}

TEST(tool_bench, takes_inputs_from_files) {
    const outcome came =
        bench({cnn, "--input", "input=" + digits().input, "--batch", "2", "--seconds", "0.01", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(lines_of(came.out).front()["inputs"], digits().input);
}

TEST(tool_bench, measures_a_network_without_a_batch_as_it_is) {
    const outcome came = bench({cnn, "--size", "batch=3", "--seconds", "0.15", "--batch", "1,8,64"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("calls/s"), HasSubstr("no dimension for a batch"), Not(HasSubstr("rows/s"))));
    // One row for each way, whatever batches are requested. A line more may say that there were too few calls.
    std::size_t rows = 0;
    for (std::size_t at = came.out.find("\ncpu:0 "); at != std::string::npos; at = came.out.find("\ncpu:0 ", at + 1))
        ++rows;
    EXPECT_EQ(rows, 2u) << came;
    const outcome as_json = bench({cnn, "--size", "batch=3", "--seconds", "0.15", "--json"});
    for (const json& each : lines_of(as_json.out)) {
        EXPECT_TRUE(each["batch"].is_null());
        EXPECT_TRUE(each.contains("calls_per_second"));
    }
}

TEST(tool_bench, that_is_interrupted_leaves_no_file) {
    const temporary_directory directory;
    tool_process run(
        {"bench", digits().model, "--device", "cpu", "--seconds", "600", "--plot", directory / "plot.svg"});
    while (directory.entries() == 0 && !run.has_ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run.send(SIGTERM);
    const outcome came = run.wait();
    EXPECT_EQ(came.exit_code, 130) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_EQ(came.err, "sluice: interrupted\n");
    EXPECT_EQ(directory.entries(), 0);
}

TEST(tool_bench, refuses_what_it_cannot_measure_and_leaves_no_file) {
    const temporary_directory directory;
    const std::string plot = directory / "plot.svg";
    expect_refused({"bench"}, "model is required");
    expect_refused({"bench", digits().input}, digits().input);
    expect_refused({"bench", cnn, "--device", "cpu:9"}, "cpu:9");
    expect_refused({"bench", cnn, "--device", "cpu", "--size", "width=3"}, "no dimension 'width'");
    expect_refused({"bench", cnn, "--device", "cpu", "--input", "image=x.npy"}, "the network has no 'image'");
    expect_refused({"bench", cnn, "--device", "cpu", "--size", "batch=3", "--plot", plot}, "--plot draws");
    expect_refused({"bench", cnn, "--activation", "relu"}, "an ONNX file has its activations as nodes");
    expect_refused({"bench", cnn, "--plot", directory / "absent/plot.svg"}, "plot.svg");
    for (const char* wrong : {"0", "-1", "1,x", "1,,2", ""})
        expect_refused({"bench", cnn, "--batch", wrong}, "--batch");
    for (const char* wrong : {"0", "nan", "1e9"}) expect_refused({"bench", cnn, "--seconds", wrong}, "--seconds");
    EXPECT_EQ(directory.entries(), 0);
}

}  // namespace sluice::app::testing::bench_tests
