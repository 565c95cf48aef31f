// SPDX-License-Identifier: Apache-2.0
// The trained models of the repository that other frameworks exported, against the outputs of those frameworks.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"

namespace sluice::app::testing::model_files_tests {
namespace {

using nlohmann::json;

std::string model(const std::string& name) { return SLUICE_SOURCE_DIR "/models/" + name; }
std::string data(const std::string& name) { return SLUICE_SOURCE_DIR "/data/" + name; }

json report_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "run");
    arguments.insert(arguments.end(), {"--device", "cpu", "--json"});
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 0) << came;
    return came.exit_code == 0 ? json::parse(came.out) : json();
}

std::size_t count_equal(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    std::size_t equal = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) equal += a[i] == b[i] ? 1 : 0;
    return equal;
}

}  // namespace

TEST(tool_models, a_recurrent_network_of_pytorch_reads_the_digits_row_by_row) {
    const json report =
        report_of({model("digits_lstm.onnx"), digits().input, "--labels", digits().labels, "--min-accuracy", "0.97",
                   "--reference", data("digits_lstm_logits.npy"), "--tolerance", "1e-4"});
    EXPECT_EQ(report["outputs"][0]["tensor"], "f32 [450, 10]");
}

TEST(tool_models, boosted_trees_of_scikit_learn_classify_tumours) {
    const temporary_directory directory;
    const std::string network = model("tumours.onnx"), input = "X=" + data("tumours_inputs.npy");
    const std::string classes = directory / "classes.npy";
    report_of({network, "--input", input, "--reference", "probabilities=" + data("tumours_probabilities.npy"),
               "--tolerance", "1e-6"});
    report_of({network, "--input", input, "--reference", "label=" + data("tumours_classes.npy"), "--tolerance", "0",
               "--output", "label=" + classes});
    const std::vector<float> found = read_array(classes), truth = read_array(data("tumours_labels.npy"));
    ASSERT_EQ(found.size(), 143u);
    EXPECT_EQ(count_equal(found, truth), 138u);
}

// The outputs are multiples of 0.18. A sum that lies between two of them becomes one or the other: it depends on the
// order of the additions. ONNX Runtime with its fusions differs from itself without them in two of the 4,500 outputs.
TEST(tool_models, a_network_of_8_bit_integers_recognises_the_digits) {
    const temporary_directory directory;
    const std::string output = directory / "logits.npy";
    report_of({model("digits_cnn_int8.onnx"), digits().input, "--labels", digits().labels, "--min-accuracy", "0.98",
               "--reference", data("digits_cnn_int8_logits.npy"), "--tolerance", "0.18", "--output", output});
    const std::vector<float> logits = read_array(output);
    EXPECT_GE(count_equal(logits, read_array(data("digits_cnn_int8_logits.npy"))), 4495u);
    const std::vector<float> unquantised = read_array(data("digits_cnn_logits.npy"));
    ASSERT_EQ(logits.size(), unquantised.size());
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], unquantised[i], 0.4) << i;
}

}  // namespace sluice::app::testing::model_files_tests
