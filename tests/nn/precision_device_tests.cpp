// SPDX-License-Identifier: Apache-2.0
// Precisions on the default device, a GPU where there is one.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/precision_choice.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::precision_device_tests {
namespace {

using namespace test_support;

std::vector<float> noise(std::size_t count, unsigned seed) {
    std::minstd_rand generator(seed);
    std::uniform_real_distribution<float> any(-0.5f, 0.5f);
    std::vector<float> made(count);
    for (float& each : made) each = any(generator);
    return made;
}
constant numbers(std::vector<std::size_t> shape, unsigned seed) {
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    return tensor_of(noise(count, seed), std::move(shape));
}

// A convolution, a product with a bias for each column, and one without.
model mixed() {
    model made;
    made.path = "mixed.onnx";
    made.opsets = {{"", 20}};
    made.body.inputs = {f32("x", {named("rows"), of(3), of(8), of(8)})};
    made.body.outputs = {f32("y", {named(""), named("")})};
    made.body.constants = {{"f", numbers({8, 3, 3, 3}, 1)},
                           {"c", numbers({8}, 2)},
                           {"w", numbers({24, 288}, 3)},
                           {"b", numbers({24}, 4)},
                           {"v", numbers({24, 16}, 5)}};
    made.body.nodes = {make_node("Conv", {"x", "f", "c"}, {"a"}), make_node("Relu", {"a"}, {"r"}),
                       make_node("Flatten", {"r"}, {"l"}),        make_node("Gemm", {"l", "w", "b"}, {"g"}),
                       make_node("Relu", {"g"}, {"s"}),           make_node("MatMul", {"s", "v"}, {"y"})};
    made.body.nodes[3].attributes["transB"] = std::int64_t{1};
    return made;
}

}  // namespace

TEST(device_precisions, stay_near_f32) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    const any_tensor x(noise(5 * 3 * 8 * 8, 9), {5, 3, 8, 8});
    const auto exact = sync(sync(make_network(mixed()), pool).run({x}), pool);
    for (const auto& [what, bound] :
         {std::pair{precision::bf16, 0.03}, {precision::f16, 0.004}, {precision::int8, 0.04}}) {
        SCOPED_TRACE(to_string(what));
        const network made = sync(make_network(mixed(), {.precision = what}), pool);
        EXPECT_EQ(made.rounding().rounded, 3u);
        EXPECT_TRUE(made.rounding().kept.empty());
        EXPECT_EQ(to_string(made.infer({x}).at(0)), "f32 [5, 16]");
        const std::vector<any_tensor> outputs = sync(made.run({x}), pool);
        ASSERT_EQ(to_string(outputs.at(0)), "f32 [5, 16]");
        const output_difference difference = difference_of(exact, outputs);
        EXPECT_LE(difference.relative, bound);
        EXPECT_GT(difference.relative, bound / 1000);
        const auto fast = compile(pool, [&] { return made.run({x}); });
        EXPECT_LE(difference_of(exact, sync(fast(), pool)).relative, bound);
    }
}

}  // namespace sluice::nn::precision_device_tests
