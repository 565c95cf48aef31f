// SPDX-License-Identifier: Apache-2.0
// The code in docs/inference.md. Runs on the default device: a GPU where there is one.
#include <gtest/gtest.h>

#include <algorithm>

#include "sluice/sluice.hpp"

namespace sluice::docs::inference_tests {
namespace {

const std::filesystem::path models = SLUICE_SOURCE_DIR "/models";
const std::filesystem::path data = SLUICE_SOURCE_DIR "/data";

// The largest difference from the logits that PyTorch computed.
float largest_difference(std::span<const float> logits) {
    const io::npy_file reference(data / "digits_logits.npy");
    std::vector<float> expected(logits.size());
    reference.view().read_rows(0, expected);
    float largest = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) largest = std::max(largest, std::abs(logits[i] - expected[i]));
    return largest;
}

class inference : public testing::Test {
protected:
    runtime machine;
    round_robin pool{machine.default_device(), 4};
};

}  // namespace

TEST_F(inference, a_network_is_loaded_and_runs) {
    const nn::model model = nn::load_safetensors(models / "digits.safetensors");  // in host memory
    const nn::network digits = sync(nn::make_network(model), pool);               // its weights on the device

    const io::npy_file inputs(data / "digits_inputs.npy");
    std::vector<float> rows(32 * 64);
    inputs.view().read_rows(0, rows);  // the first 32 rows, as float

    const auto answers = sync(digits.run({nn::any_tensor(rows, {32, 64})}), pool);
    const std::span<const float> logits = answers[0].values<float>();  // [32, 10], row-major

    EXPECT_LT(largest_difference(logits), 1e-4f);
}

TEST_F(inference, a_network_is_prepared) {
    const nn::network digits = sync(nn::make_network(nn::load_safetensors(models / "digits.safetensors")), pool);
    const io::npy_file inputs(data / "digits_inputs.npy");

    nn::prepared fast = digits.prepare({{"input", {32, 64}}});  // batches of 32 rows
    inputs.view().read_rows(0, fast.input<float>("input"));     // in place
    fast.run();                                                 // again and again
    const std::span<const float> logits = fast.output<float>("output");

    EXPECT_LT(largest_difference(logits), 1e-4f);
}

TEST_F(inference, an_engine_runs_many_rows) {
    const nn::network digits = sync(nn::make_network(nn::load_safetensors(models / "digits.safetensors")), pool);
    const io::npy_file inputs(data / "digits_inputs.npy");

    nn::engine engine({.batch = 128, .in_flight = 8});
    engine.add(digits, pool);  // may be called again, for more devices

    const std::size_t in = 64, out = 10, count = inputs.view().rows();
    std::vector<float> logits(count * out);
    const nn::host_row_source source = [&](std::size_t first, std::size_t rows) {
        std::vector<float> part(rows * in);
        inputs.view().read_rows(first, part);
        return part;
    };
    const nn::row_sink sink = [&](std::size_t first, std::span<const float> outputs) {
        std::ranges::copy(outputs, logits.begin() + std::ptrdiff_t(first * out));
    };
    engine.run(count, source, sink);  // blocks; calls both on this thread

    EXPECT_LT(largest_difference(logits), 1e-4f);

    std::vector<float> all(count * in);
    inputs.view().read_rows(0, all);
    std::ranges::fill(logits, 0.0f);
    engine.run(all, logits);  // the same, with all rows in memory

    EXPECT_LT(largest_difference(logits), 1e-4f);
}

}  // namespace sluice::docs::inference_tests
