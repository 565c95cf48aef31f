// SPDX-License-Identifier: Apache-2.0
// The code in docs/eight_bits.md. Runs on the default device: a GPU where there is one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "sluice/sluice.hpp"

namespace sluice::docs::eight_bits_tests {
namespace {

const std::filesystem::path models = SLUICE_SOURCE_DIR "/models";
const std::filesystem::path data = SLUICE_SOURCE_DIR "/data";

}  // namespace

TEST(eight_bits, a_network_is_calibrated_packed_and_run) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    const io::npy_file inputs(data / "digits_inputs.npy");
    std::vector<float> rows(450 * 64);
    inputs.view().read_rows(0, rows);
    const std::span<const float> sample(rows.data(), 100 * 64);
    const std::vector<mlp_layer> layers = nn::to_layers(nn::load_safetensors(models / "digits.safetensors"));

    using element = std::int8_t;  // or f8_e4m3
    const mlp_scales scales = calibrate_mlp<element>(layers, sample);
    const auto network = sync(pack_quantized_mlp<element>(layers, scales), pool);
    auto forward = upload(rows, {450, 64})
                       .and_then(quantize<element>(scales.input))
                       .and_then(fused_mlp(network))
                       .and_then(dequantize<float>(scales.outputs.back()))
                       .and_then(download);
    const std::vector<float> logits = sync(std::move(forward), pool);  // [450, 10], row-major

    const io::npy_file reference(data / "digits_logits.npy");
    std::vector<float> expected(logits.size());
    reference.view().read_rows(0, expected);
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 20 * scales.outputs.back());
}

}  // namespace sluice::docs::eight_bits_tests
