// SPDX-License-Identifier: Apache-2.0
// No command replaces one of its inputs, whatever name or link leads there: exit code 2, a reason, and nothing written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "io/support/hostile_files.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/serve/http_front.hpp"

namespace sluice::app::testing::overwritten_inputs_tests {
namespace {

namespace fs = std::filesystem;
using io::testing::read_file;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string cnn = SLUICE_SOURCE_DIR "/models/digits_cnn.onnx";

class overwritten_inputs : public ::testing::Test {
protected:
    std::string copy_of(const std::string& file, const std::string& name) {
        fs::create_directories(fs::path(directory / name).parent_path());
        fs::copy_file(file, directory / name);
        return directory / name;
    }

    // The words, with each way to name the input in place of OUTPUT.
    void expect_refusals(std::vector<std::string> words, const std::string& input) {
        const std::string symbolic = directory / "symbolic.npy", hard = directory / "hard.npy",
                          around = (fs::path(input).parent_path() / "." / fs::path(input).filename()).string();
        fs::create_symlink(input, symbolic);
        fs::create_hard_link(input, hard);
        for (const std::string& output : {input, around, symbolic, hard}) {
            std::vector<std::string> all;
            for (const std::string& word : words) all.push_back(word == "OUTPUT" ? output : word);
            expect_refused(all, output);
        }
        fs::remove(symbolic);
        fs::remove(hard);
    }
    void expect_refused(const std::vector<std::string>& words, const std::string& output) {
        const auto before = snapshot(directory);
        const outcome came = run_tool(words);
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_EQ(came.out, "");
        EXPECT_THAT(came.err, AllOf(HasSubstr("would replace an input of the command"), HasSubstr(output)));
        EXPECT_EQ(snapshot(directory), before) << came;
    }

    temporary_directory directory;
};

TEST_F(overwritten_inputs, of_runs_are_refused) {
    const std::string model = copy_of(digits().model, "digits.safetensors"), input = copy_of(digits().input, "x.npy"),
                      labels = copy_of(digits().labels, "labels.npy");
    const std::vector<std::string> run{"run", model, input, "--labels", labels, "--reference", digits().reference};
    for (const char* const option : {"--output", "--trace", "--timeline"}) {
        for (const std::string& each : {model, input, labels}) {
            std::vector<std::string> words = run;
            words.insert(words.end(), {option, "OUTPUT"});
            expect_refusals(words, each);
        }
    }
    const std::string reference = copy_of(digits().reference, "reference.npy");
    expect_refusals({"run", model, input, "--reference", reference, "--output", "OUTPUT"}, reference);
}

TEST_F(overwritten_inputs, of_an_onnx_network_are_refused) {
    const std::string model = copy_of(cnn, "cnn.onnx"), input = copy_of(digits().input, "x.npy");
    for (const std::string& each : {model, input}) {
        expect_refusals({"run", model, "--input", "input=" + input, "--output", "OUTPUT"}, each);
        expect_refusals({"run", model, input, "--timeline", "OUTPUT"}, each);
        expect_refusals({"profile", model, input, "--trace", "OUTPUT"}, each);
        expect_refusals({"profile", model, input, "--timeline", "OUTPUT"}, each);
    }
    expect_refused({"run", model, "--input", "input=" + input, "--output", "logits=" + model}, model);
    expect_refusals({"bench", model, "--plot", "OUTPUT"}, model);
    expect_refusals({"inspect", model, "--picture", "OUTPUT"}, model);
}

// A message of protobuf, field by field.
struct message {
    std::string bytes;

    message& number(unsigned field, unsigned value) {
        bytes += static_cast<char>(field << 3);
        bytes += static_cast<char>(value);
        return *this;
    }
    message& text(unsigned field, const std::string& value) {
        bytes += static_cast<char>(field << 3 | 2);
        bytes += static_cast<char>(value.size());  // all are short
        bytes += value;
        return *this;
    }
};

// y = x + w, of one number; w is in the file weights.bin.
std::string network_with_external_data() {
    const auto value = [](const std::string& name) {
        const std::string shape = message{}.text(1, message{}.number(1, 1).bytes).bytes;
        const std::string tensor = message{}.number(1, 1).text(2, shape).bytes;
        return message{}.text(1, name).text(2, message{}.text(1, tensor).bytes).bytes;
    };
    const std::string place = message{}.text(1, "location").text(2, "weights.bin").bytes;
    const std::string weights = message{}.number(1, 1).number(2, 1).text(8, "w").text(13, place).number(14, 1).bytes;
    const std::string add = message{}.text(1, "x").text(1, "w").text(2, "y").text(4, "Add").bytes;
    const std::string graph =
        message{}.text(1, add).text(2, "g").text(5, weights).text(11, value("x")).text(12, value("y")).bytes;
    return message{}.number(1, 8).text(7, graph).text(8, message{}.number(2, 17).bytes).bytes;
}

TEST_F(overwritten_inputs, in_other_files_of_a_network_are_refused) {
    const std::string model = directory.write("sum.onnx", network_with_external_data());
    const std::string weights = directory.write("weights.bin", std::string(4, '\0'));
    ASSERT_EQ(nn::load_onnx_data_files(model).size(), 1u);
    expect_refusals({"inspect", model, "--picture", "OUTPUT"}, weights);
    expect_refusals({"bench", model, "--plot", "OUTPUT"}, weights);
}

TEST_F(overwritten_inputs, of_servers_are_refused) {
    if (!serve::http_supported()) GTEST_SKIP() << "built without HTTP";
    const std::string model = copy_of(digits().model, "repository/digits/1/model.safetensors");
    const std::string tokens = directory.write("tokens", "a-token-that-is-long-enough-for-a-server\n");
    expect_refusals({"serve", model, "--port", "0", "--otlp", "OUTPUT"}, model);
    expect_refusals({"serve", "m=" + model, "--port", "0", "--otlp", "OUTPUT"}, model);
    expect_refusals({"serve", "--repository", directory / "repository", "--port", "0", "--otlp", "OUTPUT"}, model);
    expect_refusals({"serve", digits().model, "--port", "0", "--tokens", tokens, "--otlp", "OUTPUT"}, tokens);
    // The file's later parts are written under names with numbers.
    const std::string part = copy_of(digits().model, "spans.1");
    expect_refused({"serve", "m=" + part, "--port", "0", "--otlp", directory / "spans"}, part);
}

TEST_F(overwritten_inputs, do_not_include_earlier_outputs) {
    const std::string model = copy_of(digits().model, "digits.safetensors"), output = directory / "y.npy";
    for (int i = 0; i < 2; ++i) {
        const outcome came = run_tool({"run", model, digits().input, "--device", "cpu", "--output", output});
        EXPECT_EQ(came.exit_code, 0) << came;
    }
    EXPECT_EQ(read_file(model), read_file(digits().model));
}

}  // namespace
}  // namespace sluice::app::testing::overwritten_inputs_tests
