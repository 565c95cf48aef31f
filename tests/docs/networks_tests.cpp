// SPDX-License-Identifier: Apache-2.0
// The code in docs/networks.md. Runs on the default device: a GPU where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "sluice/sluice.hpp"

namespace sluice::docs::networks_tests {
namespace {

const std::filesystem::path models = SLUICE_SOURCE_DIR "/models";
const std::filesystem::path data = SLUICE_SOURCE_DIR "/data";

class networks : public testing::Test {
protected:
    networks() {
        if (!nn::onnx_supported()) return;
        const io::npy_file inputs(data / "digits_inputs.npy");
        pixels.resize(32 * 64);
        inputs.view().read_rows(0, pixels);
        const io::npy_file reference(data / "digits_cnn_logits.npy");
        expected.resize(32 * 10);
        reference.view().read_rows(0, expected);
    }
    void SetUp() override {
        if (!nn::onnx_supported()) GTEST_SKIP() << "Sluice was built without protobuf";
    }
    void expect_logits(std::span<const float> logits) const {
        ASSERT_EQ(logits.size(), expected.size());
        for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-3);
    }

    runtime machine;
    round_robin pool{machine.default_device(), 4};
    std::vector<float> pixels, expected;
};

}  // namespace

TEST_F(networks, a_network_runs) {
    const nn::network digits = sync(nn::make_network(nn::load_onnx(models / "digits_cnn.onnx")), pool);
    const nn::any_tensor rows(pixels, {32, 64});
    const std::vector<nn::any_tensor> outputs = sync(digits.run({rows}), pool);
    const std::span<const float> logits = outputs[0].values<float>();  // [32, 10], row-major

    expect_logits(logits);
}

TEST_F(networks, a_network_is_asked_what_it_takes) {
    const nn::network digits = sync(nn::make_network(nn::load_onnx(models / "digits_cnn.onnx")), pool);
    for (const nn::value_info& each : digits.inputs()) std::cout << each.name << '\n';
    const std::vector<nn::any_tensor> shapes = digits.infer({nn::any_tensor(pixels, {32, 64})});
    std::cout << to_string(shapes[0]) << '\n';  // f32 [32, 10]

    EXPECT_EQ(to_string(shapes[0]), "f32 [32, 10]");
}

TEST_F(networks, a_network_answers_at_once) {
    const nn::network digits = sync(nn::make_network(nn::load_onnx(models / "digits_cnn.onnx")), pool);
    const std::vector<float> row(pixels.begin(), pixels.begin() + 64);
    std::vector<float> logits(10);
    digits({{row, {1, 64}}}, {{logits, {1, 10}}});  // written when this returns

    expected.resize(10);
    expect_logits(logits);
}

TEST_F(networks, a_network_is_prepared) {
    const nn::network digits = sync(nn::make_network(nn::load_onnx(models / "digits_cnn.onnx")), pool);
    nn::prepared fast = digits.prepare({{"input", {8, 64}}});  // all that takes time is done here
    std::ranges::copy(std::span(pixels).first(8 * 64), fast.input<float>("input").begin());
    fast.run();
    const std::span<const float> eight = fast.output<float>("logits");  // until the next run
    std::cout << fast.memory_bytes() << " bytes\n";

    expected.resize(8 * 10);
    expect_logits({eight.begin(), eight.end()});
}

TEST_F(networks, a_network_is_a_part_of_a_pipeline) {
    const nn::network digits = sync(nn::make_network(nn::load_onnx(models / "digits_cnn.onnx")), pool);
    const auto classify = [=](tensor<float> x) {
        return digits.forward({nn::any_tensor(std::move(x))}).and_then([](std::vector<nn::any_tensor> values) {
            return download(values[0].on_device<float>());
        });
    };
    const std::vector<float> logits = sync(upload(pixels, {32, 64}).and_then(classify), pool);

    const auto fast = compile(pool, classify, device_input<float>({32, 64}));  // one graph
    const std::vector<float> again = sync(upload(pixels, {32, 64}).and_then(fast), pool);

    expect_logits(logits);
    expect_logits(again);
}

TEST(networks_in_cpp, a_network_is_written) {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    const io::safetensors_file weights(models / "digits.safetensors");
    nn::model_builder build("digits");
    auto x = build.input("pixels", {"rows", 64});
    for (const std::string layer : {"0", "2"})
        x = build.relu(
            build.linear(x, build.constant(weights, layer + ".weight"), build.constant(weights, layer + ".bias")));
    x = build.linear(x, build.constant(weights, "4.weight"), build.constant(weights, "4.bias"));
    build.output("digit", build.node("ArgMax", {x}, {{"axis", 1}, {"keepdims", 0}}));
    const nn::network digits = sync(nn::make_network(build.finish()), pool);

    EXPECT_EQ(build.describe(x), "f32 [rows, 10]");
    const io::npy_file inputs(data / "digits_inputs.npy");
    std::vector<float> images(32 * 64);
    inputs.view().read_rows(0, images);
    const auto answers = sync(digits.run({nn::any_tensor(images, {32, 64})}), pool);
    const std::span<const std::int64_t> found = answers[0].values<std::int64_t>();
    ASSERT_EQ(found.size(), 32u);
    std::vector<float> expected_logits(32 * 10);
    io::npy_file(data / "digits_logits.npy").view().read_rows(0, expected_logits);
    for (std::size_t row = 0; row < 32; ++row) {
        const auto* const first = expected_logits.data() + row * 10;
        EXPECT_EQ(found[row], std::max_element(first, first + 10) - first);
    }
}

// Labels of two texts, as the reader of ONNX files makes them.
nn::model labels_of_texts() {
    nn::model made;
    made.opsets = {{"ai.onnx.ml", 3}};
    made.texts = {"female", "male", "likely", "unlikely"};
    const std::vector<nn::dimension> rows = {{.length = {}, .name = "n"}, {.length = 1, .name = {}}};
    made.body.inputs = {{.name = "sex", .type = io::dtype::i64, .shape = rows, .is_text = true}};
    made.body.outputs = {{.name = "label", .type = io::dtype::i64, .shape = rows, .is_text = true}};
    nn::node& node = made.body.nodes.emplace_back();
    node.op = "LabelEncoder";
    node.domain = "ai.onnx.ml";
    node.inputs = {"sex"};
    node.outputs = {"label"};
    node.attributes["keys_int64s"] = std::vector<std::int64_t>{0, 1};
    node.attributes["values_int64s"] = std::vector<std::int64_t>{2, 3};
    return made;
}

TEST_F(networks, texts_are_codes) {
    const nn::model from = labels_of_texts();
    testing::internal::CaptureStdout();

    // It takes "sex", text [n, 1], and gives a label, text.
    const nn::text_codes codes(from.texts);
    const nn::network ready = sync(nn::make_network(from), pool);
    const std::vector<std::string_view> sex = {"female", "male"};
    const std::vector<nn::any_tensor> outputs = sync(ready.run({codes.encode(sex, {2, 1})}), pool);
    for (const std::string_view label : codes.decode(outputs[0])) std::cout << label << '\n';

    EXPECT_EQ(testing::internal::GetCapturedStdout(), "likely\nunlikely\n");
}

TEST_F(networks, in_other_precisions) {
    const nn::any_tensor rows(pixels, {32, 64});
    const nn::model model = nn::load_onnx(models / "digits_cnn.onnx");
    const nn::network fast = sync(nn::make_network(model, {.precision = nn::precision::bf16}), pool);
    for (const std::string& each : fast.rounding().kept) std::cout << "in f32: " << each << '\n';

    const nn::precision_choice choice = nn::choose_precision(model, {rows}, pool);
    for (const nn::precision_measurement& each : choice.measured) {
        std::cout << to_string(each.rounding.precision) << ": " << each.seconds * 1e3 << " ms, "
                  << each.difference.relative * 100 << " % from f32\n";
    }
    const nn::network chosen = sync(nn::make_network(model, {.precision = choice.chosen}), pool);
    EXPECT_TRUE(fast.rounding().kept.empty());
    EXPECT_EQ(choice.measured.size(), 4u);
    const std::vector<nn::any_tensor> outputs = sync(chosen.run({rows}), pool);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(outputs[0].values<float>()[i], expected[i], 0.5);
}

}  // namespace sluice::docs::networks_tests
