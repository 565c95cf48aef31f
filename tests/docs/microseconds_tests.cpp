// SPDX-License-Identifier: Apache-2.0
// The code in docs/microseconds.md. Runs on the default device: a GPU where there is one.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sluice/sluice.hpp"

namespace sluice::docs::microseconds_tests {
namespace {

// As the page says; before the process first uses CUDA.
[[gnu::constructor]] void load_kernels_at_the_start() { setenv("CUDA_MODULE_LOADING", "EAGER", 1); }

const std::filesystem::path models = SLUICE_SOURCE_DIR "/models";

}  // namespace

TEST(microseconds, a_network_stays) {
    runtime machine;
    single_stream pool(machine.default_device());
    const nn::mlp_model model = nn::load_mlp(models / "digits.safetensors");
    nn::mlp_model retrained = model;
    for (float& weight : retrained.layers.front().weight) weight = -weight;
    const std::vector<half> pixels(2 * 64, half(0.5F));
    std::vector<half> logits(2 * 10);

    const nn::resident_network<half> digits(machine.default_device(), model);
    digits.run(pixels, logits);  // [rows, 64] in, [rows, 10] out; answers before it returns

    const std::vector<half> answer = sync(digits(pixels), pool);
    EXPECT_EQ(answer, logits);

    const nn::resident_network<half> shared_by_threads(machine.default_device(), model, {.lanes = 4});
    shared_by_threads.update(retrained);  // the kernel continues; layers of the same sizes
    shared_by_threads.run(pixels, logits);
    EXPECT_NE(answer, logits);
}

}  // namespace sluice::docs::microseconds_tests
