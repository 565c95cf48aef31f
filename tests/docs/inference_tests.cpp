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
    const nn::mlp_model model = nn::load_mlp(models / "digits.safetensors");  // in host memory
    const nn::plan network = sync(nn::make_plan(model), pool);                // its weights on the device

    const io::npy_file inputs(data / "digits_inputs.npy");
    std::vector<float> rows(32 * network.in_features());
    inputs.view().read_rows(0, rows);  // the first 32 rows, as float

    auto forward = upload(rows, {32, network.in_features()})
                       .and_then([=](tensor<float> x) { return network.forward(std::move(x)); })
                       .and_then(download);
    const std::vector<float> logits = sync(std::move(forward), pool);  // [32, out features], row-major

    EXPECT_LT(largest_difference(logits), 1e-4f);
}

TEST_F(inference, a_network_is_compiled) {
    const nn::plan network = sync(nn::make_plan(nn::load_mlp(models / "digits.safetensors")), pool);
    const io::npy_file inputs(data / "digits_inputs.npy");
    std::vector<float> rows(32 * network.in_features());
    inputs.view().read_rows(0, rows);

    const auto fast = nn::compile_forward_from_host(pool, network, 32);  // batches of 32 rows
    const std::vector<float> logits = sync(fast(rows), pool);            // again and again

    EXPECT_LT(largest_difference(logits), 1e-4f);
}

TEST_F(inference, an_engine_runs_many_rows) {
    const nn::plan network = sync(nn::make_plan(nn::load_mlp(models / "digits.safetensors")), pool);
    const io::npy_file inputs(data / "digits_inputs.npy");

    nn::engine engine({.batch = 128, .in_flight = 8});
    engine.add(network, pool);  // may be called again, for more devices

    const std::size_t in = network.in_features(), out = network.out_features(), count = inputs.view().rows();
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
