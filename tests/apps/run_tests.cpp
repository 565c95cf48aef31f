// SPDX-License-Identifier: Apache-2.0
// `sluice run` where all is well.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "io/support/file_size_limit.hpp"
#include "io/support/hostile_files.hpp"

namespace sluice::app::testing::run_tests {
namespace {

using io::testing::file_size_limit;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class tool_run : public ::testing::Test {
protected:
    // The arguments follow `run --json`. Returns the report.
    static json run(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"run", "--json"});
        const outcome came = run_tool(arguments);
        EXPECT_EQ(came.exit_code, 0) << came;
        EXPECT_EQ(came.err, "");
        EXPECT_EQ(std::count(came.out.begin(), came.out.end(), '\n'), 1) << came;
        return came.exit_code == 0 ? json::parse(came.out) : json();
    }
    // Runs on the CPU and returns the outputs.
    std::vector<float> outputs_of(const std::string& model, const std::string& input,
                                  const std::vector<std::string>& options = {}) {
        const std::string output = directory / "outputs.npy";
        std::filesystem::remove(output);
        std::vector<std::string> arguments{model, input, "--device", "cpu", "--output", output};
        arguments.insert(arguments.end(), options.begin(), options.end());
        run(arguments);
        return read_array(output);
    }
    static float largest_difference(const std::vector<float>& left, const std::vector<float>& right) {
        EXPECT_EQ(left.size(), right.size());
        float largest = 0;
        for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
            largest = std::max(largest, std::abs(left[i] - right[i]));
        }
        return largest;
    }

    temporary_directory directory;
};

}  // namespace

TEST_F(tool_run, recognises_the_digits) {
    const json report =
        run({digits().model, digits().input, "--labels", digits().labels, "--reference", digits().reference});
    EXPECT_GE(report["accuracy"].get<double>(), 0.97);
    EXPECT_LE(report["accuracy"].get<double>(), 1);
    EXPECT_LE(report["largest_difference"].get<double>(), 1e-4);
    EXPECT_EQ(report["rows"], digits_files::rows);
    EXPECT_EQ(report["outputs"], json::parse(R"([{"name": "output", "tensor": "f32 [450, 10]"}])"));
    EXPECT_EQ(report["model"], digits().model);
    EXPECT_EQ(report["input"], digits().input);
    EXPECT_GT(report["seconds"].get<double>(), 0);
    const bool is_too_short = report["seconds"].get<double>() < 0.1;
    EXPECT_EQ(report["rows_per_second"].is_null(), is_too_short) << report;
    ASSERT_EQ(report["devices"].size(), 1u);
    EXPECT_NE(report["devices"][0]["name"].get<std::string>(), "");
}

TEST_F(tool_run, as_text_says_the_same) {
    const outcome came = run_tool({"run", digits().model, digits().input, "--labels", digits().labels, "--reference",
                                   digits().reference, "--device", "cpu"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("cpu:0 ("), HasSubstr("accuracy            0.9867 (444 of 450)"),
                                HasSubstr("largest difference  "), HasSubstr("450 in batches of 1024 on "),
                                HasSubstr("throughput")));
    EXPECT_EQ(came.err, "");
}

TEST_F(tool_run, reports_only_what_was_requested) {
    const json report = run({digits().model, digits().input, "--device", "cpu"});
    for (const char* absent : {"accuracy", "largest_difference", "output"}) EXPECT_FALSE(report.contains(absent));
}

TEST_F(tool_run, writes_the_outputs_of_the_reference) {
    const std::string output = directory / "logits.npy";
    const json report = run({digits().model, digits().input, "--output", output});
    EXPECT_EQ(report["outputs"][0]["file"], output);
    EXPECT_EQ(directory.entries(), 1);  // and no temporary file
    const io::npy_file written(output);
    EXPECT_EQ(written.view().element_type(), io::dtype::f32);
    EXPECT_EQ(written.view().shape(), (std::vector<std::size_t>{450, 10}));
    EXPECT_LE(largest_difference(read_array(output), read_array(digits().reference)), 1e-4f);
}

TEST_F(tool_run, replaces_an_earlier_output) {
    const auto output = directory.write("logits.npy", "an earlier output");
    run({digits().model, digits().input, "--device", "cpu", "--output", output});
    EXPECT_EQ(directory.entries(), 1);
    EXPECT_LE(largest_difference(read_array(output), read_array(digits().reference)), 1e-4f);
}

TEST_F(tool_run, records_a_trace_and_a_timeline) {
    const std::string trace = directory / "trace.json", timeline = directory / "timeline.svg";
    const json report = run({digits().model, digits().input, "--device", "cpu", "--batch", "100", "--labels",
                             digits().labels, "--trace", trace, "--timeline", timeline});
    EXPECT_EQ(report["trace"], trace);
    EXPECT_EQ(report["timeline"], timeline);
    EXPECT_FALSE(report.contains("commands_not_traced"));
    EXPECT_GE(report["accuracy"].get<double>(), 0.97);
    EXPECT_EQ(directory.entries(), 2);

    const json made = json::parse(io::testing::read_file(trace));
    std::map<std::string, int> names, operations;
    for (const json& each : made["traceEvents"]) {
        if (each["ph"] != "X") continue;
        ++names[each["name"]];
        if (each["args"].contains("operation")) ++operations[each["args"]["operation"]];
    }
    EXPECT_EQ(names["upload"], 5);  // a batch each, and nothing of the warm-up
    EXPECT_EQ(names["download"], 5);
    EXPECT_EQ(names["fused_mlp"], 5);
    EXPECT_EQ(operations["0 to 4"], 5);  // its layers
    const std::string picture = io::testing::read_file(timeline);
    EXPECT_THAT(picture, AllOf(StartsWith("<svg"), HasSubstr("0 to 4"), HasSubstr("digits.safetensors")));
}

TEST_F(tool_run, gives_the_same_bytes_whether_small_batches_share_commands_or_are_traced) {
    for (const std::string batch : {"1", "7", "200"}) {
        const std::string shared = directory / "shared.npy", traced = directory / "traced.npy";
        const std::vector<std::string> words{"run", digits().model, digits().input, "--device",
                                             "cpu", "--batch",      batch};
        for (const auto& more : {std::vector<std::string>{"--output", shared},
                                 {"--output", traced, "--trace", directory / "trace.json"}}) {
            std::vector<std::string> all = words;
            all.insert(all.end(), more.begin(), more.end());
            ASSERT_EQ(run_tool(all).exit_code, 0);
        }
        EXPECT_EQ(io::testing::read_file(shared), io::testing::read_file(traced)) << batch;
    }
}

TEST_F(tool_run, records_a_timeline_alone_next_to_its_outputs) {
    const std::string timeline = directory / "timeline.svg", output = directory / "out.npy";
    const outcome came = run_tool(
        {"run", digits().model, digits().input, "--device", "cpu", "--timeline", timeline, "--output", output});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, HasSubstr("timeline            " + timeline + "\n"));
    EXPECT_EQ(directory.entries(), 2);
    EXPECT_LE(largest_difference(read_array(output), read_array(digits().reference)), 1e-4f);
}

TEST_F(tool_run, keeps_its_outputs_when_the_disk_is_too_full_for_the_trace) {
    const std::string trace = directory / "trace.json", output = directory / "out.npy";
    outcome came;
    {
        const file_size_limit limit(50'000);  // the outputs have 18,128 bytes, the trace has some 300,000
        came = run_tool({"run", digits().model, digits().input, "--device", "cpu", "--batch", "1", "--trace", trace,
                         "--output", output});
    }
    EXPECT_EQ(came.exit_code, 1) << came;
    EXPECT_THAT(came.out, AllOf(HasSubstr("throughput"), HasSubstr(output), Not(HasSubstr(trace))));
    EXPECT_THAT(came.err, AllOf(HasSubstr("the run is complete, its trace is not"), HasSubstr(trace)));
    EXPECT_EQ(directory.entries(), 1);
    EXPECT_LE(largest_difference(read_array(output), read_array(digits().reference)), 1e-4f);
}

TEST_F(tool_run, gives_the_same_for_every_batch_and_number_of_streams) {
    const std::vector<float> reference = read_array(digits().reference);
    for (const char* batch : {"1", "7", "64", "449", "450", "451", "1000000", "1073741824"}) {
        for (const char* streams : {"1", "3"}) {
            const auto outputs = outputs_of(digits().model, digits().input, {"--batch", batch, "--streams", streams});
            EXPECT_LE(largest_difference(outputs, reference), 1e-4f) << batch << " rows, " << streams << " streams";
        }
    }
}

TEST_F(tool_run, accepts_each_form_of_device_names) {
    for (const char* name : {"cpu", "cpu:0", "auto", "all"}) {
        const json report = run({digits().model, digits().input, "--device", name, "--labels", digits().labels});
        EXPECT_GE(report["accuracy"].get<double>(), 0.97) << name;
        ASSERT_FALSE(report["devices"].empty());
        const auto used = report["devices"][0]["device"].get<std::string>();
        if (std::string_view(name).starts_with("cpu")) {
            EXPECT_EQ(used, "cpu:0");
        }
    }
}

TEST_F(tool_run, on_all_devices_uses_those_of_the_best_kind) {
    const json machine = json::parse(run_tool({"devices", "--json"}).out);
    const auto kind_of = [](const json& each) {
        const auto name = each["device"].get<std::string>();
        return name.substr(0, name.find(':'));
    };
    std::vector<std::string> expected;  // GPUs come first
    for (const json& each : machine["devices"]) {
        if (kind_of(each) == kind_of(machine["devices"][0])) expected.push_back(each["device"]);
    }
    std::vector<std::string> used;
    const json report = run({digits().model, digits().input, "--device", "all"});
    for (const json& each : report["devices"]) used.push_back(each["device"]);
    EXPECT_EQ(used, expected);
    EXPECT_EQ(run({digits().model, digits().input})["devices"][0]["device"], expected.front());  // auto
}

TEST_F(tool_run, converts_inputs_of_every_number_type) {
    constexpr std::size_t rows = 9, width = 5;
    const std::string model = write_model(directory, "model", {width, 6, 3});
    const std::vector<float> values = quarters(rows * width);
    const auto expected = outputs_of(model, write_array(directory, "f32", {rows, width}, values));
    ASSERT_EQ(expected.size(), rows * 3);
    EXPECT_NE(expected, std::vector<float>(rows * 3, expected[0]));

    const std::vector<double> wide(values.begin(), values.end());
    EXPECT_EQ(outputs_of(model, write_array(directory, "f64", {rows, width}, wide)), expected);
    std::vector<std::uint16_t> half;
    for (const float each : values) half.push_back(f16_bits(each));
    EXPECT_EQ(outputs_of(model, write_array(directory, "f16", {rows, width}, half, io::dtype::f16)), expected);
}

TEST_F(tool_run, converts_whole_numbers) {
    constexpr std::size_t rows = 9, width = 5;
    const std::string model = write_model(directory, "model", {width, 6, 3});
    std::vector<float> values(rows * width);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 11);
    const auto expected = outputs_of(model, write_array(directory, "f32", {rows, width}, values));
    const auto expect_same = [&]<class T>(T) {
        const std::vector<T> stored(values.begin(), values.end());
        EXPECT_EQ(outputs_of(model, write_array(directory, "whole", {rows, width}, stored)), expected);
    };
    expect_same(std::int8_t{});
    expect_same(std::uint8_t{});
    expect_same(std::int16_t{});
    expect_same(std::uint16_t{});
    expect_same(std::int32_t{});
    expect_same(std::uint32_t{});
    expect_same(std::int64_t{});
    expect_same(std::uint64_t{});
}

TEST_F(tool_run, takes_rows_that_do_not_start_at_a_multiple_of_four) {
    constexpr std::size_t rows = 9, width = 5;
    const std::string model = write_model(directory, "model", {width, 3});
    const auto expected = outputs_of(model, write_array(directory, "aligned", {rows, width}, quarters(rows * width)));
    const std::string aligned = io::testing::read_file(directory / "aligned");
    const std::string data = aligned.substr(aligned.size() - rows * width * sizeof(float));
    for (std::size_t padding = 0; padding < 4; ++padding) {
        const std::string dict = io::testing::npy_dict("'<f4'", "False", "(9, 5)") + std::string(padding, ' ');
        const auto input = directory.write("shifted", io::testing::npy_bytes(dict, data));
        EXPECT_EQ(outputs_of(model, input), expected) << "data at byte " << 10 + dict.size();
    }
}

TEST_F(tool_run, takes_weights_of_half_precision) {
    const std::string input = write_array(directory, "input", {4, 5}, quarters(20));
    const auto expected = outputs_of(write_model(directory, "f32", {5, 8, 3}), input);
    EXPECT_EQ(outputs_of(write_model(directory, "f16", {5, 8, 3}, "F16"), input), expected);
    EXPECT_EQ(outputs_of(write_model(directory, "bf16", {5, 8, 3}, "BF16"), input), expected);
}

TEST_F(tool_run, counts_whole_float_labels) {
    std::vector<double> labels;
    for (const float each : read_array(digits().labels)) labels.push_back(each);
    const auto as_f64 = write_array(directory, "labels.npy", {labels.size()}, labels);
    const json report = run({digits().model, digits().input, "--device", "cpu", "--labels", as_f64});
    EXPECT_EQ(report["accuracy"], run({digits().model, digits().input, "--labels", digits().labels})["accuracy"]);
}

TEST_F(tool_run, counts_no_row_with_nan_as_right) {
    const std::string model = write_model(directory, "model", {2, 3});
    const auto input = write_array(directory, "input", {2, 2}, std::vector<float>{std::nanf(""), 1, 1, 1});
    for (const std::int64_t label : {0, 1, 2}) {
        const auto labels = write_array(directory, "labels", {2}, std::vector<std::int64_t>{label, label});
        EXPECT_LE(run({model, input, "--device", "cpu", "--labels", labels})["accuracy"].get<double>(), 0.5);
    }
}

TEST_F(tool_run, reports_a_difference_that_is_no_number_as_null) {
    std::vector<float> wrong = read_array(digits().reference);
    wrong[17] = std::nanf("");
    const auto reference = write_array(directory, "reference", {450, 10}, wrong);
    for (const char* batch : {"1024", "64"}) {  // later batches do not hide it
        const json report =
            run({digits().model, digits().input, "--device", "cpu", "--batch", batch, "--reference", reference});
        ASSERT_TRUE(report.contains("largest_difference"));
        EXPECT_TRUE(report["largest_difference"].is_null()) << batch;
    }
}

TEST_F(tool_run, finds_the_one_output_that_differs) {
    for (const std::size_t place : {0, 2222, 4499}) {
        std::vector<float> wrong = read_array(digits().reference);
        wrong[place] += 3;
        const auto reference = write_array(directory, "reference", {450, 10}, wrong);
        const json report =
            run({digits().model, digits().input, "--device", "cpu", "--batch", "64", "--reference", reference});
        EXPECT_NEAR(report["largest_difference"].get<double>(), 3, 1e-3) << place;
    }
}

}  // namespace sluice::app::testing::run_tests
