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

struct smoothed {  // its members live from request to request
    float mean = 0;

    SLUICE_KERNEL void operator()(const thread_block& block, const float& reading, float& answer) {
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() == 0) answer = mean += (reading - mean) / 8;
        });
    }
};

TEST(microseconds, a_network_stays) {
    runtime machine;
    single_stream pool(machine.default_device());
    const nn::model model = nn::load_safetensors(models / "digits.safetensors");
    std::vector<mlp_layer> layers = nn::to_layers(model);
    for (float& weight : layers.front().weight) weight = -weight;
    const nn::model retrained = nn::to_model(layers);
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

TEST(microseconds, a_kernel_of_ones_own_stays) {
    runtime machine;
    single_stream pool(machine.default_device());

    const resident_kernel smooth(machine.default_device(), smoothed{});
    const float first = smooth.ask(8);  // answers before it returns

    auto second = smooth.post(8), third = smooth.post(8);  // both are in flight
    const float later = std::move(third).get();

    const float last = sync(smooth(8), pool);  // as an operation

    EXPECT_EQ(first, 1);
    EXPECT_EQ(std::move(second).get(), 1.875F);
    EXPECT_EQ(later, 2.640625F);
    EXPECT_GT(last, later);
}

}  // namespace sluice::docs::microseconds_tests
