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

namespace {

// Both directions of an LSTM, with lengths and states of the caller; a GRU of which only the last state is read; a
// product.
model with_memory(std::size_t hidden) {
    const std::size_t inputs = 12, both = 2 * hidden, gru = hidden;
    model made;
    made.path = "memory.onnx";
    made.opsets = {{"", 20}};
    made.body.inputs = {f32("x", {named("rows"), named("steps"), of(inputs)}),
                        {.name = "lengths", .type = io::dtype::i32, .shape = {{named("rows")}}},
                        f32("h", {of(2), named("rows"), of(hidden)}),
                        f32("c", {of(2), named("rows"), of(hidden)})};
    made.body.outputs = {f32("y", {named(""), named("")}), f32("last_c", {named(""), named(""), named("")})};
    made.body.constants = {{"w", numbers({2, 4 * hidden, inputs}, 1)},
                           {"r", numbers({2, 4 * hidden, hidden}, 2)},
                           {"b", numbers({2, 8 * hidden}, 3)},
                           {"w2", numbers({1, 3 * gru, both}, 4)},
                           {"r2", numbers({1, 3 * gru, gru}, 5)},
                           {"v", numbers({gru, 16}, 6)},
                           {"axes", tensor_of(std::vector<std::int64_t>{0}, {1})},
                           {"shape", tensor_of(std::vector<std::int64_t>{0, 0, -1}, {3})}};
    made.body.nodes = {make_node("Transpose", {"x"}, {"t"}),
                       make_node("LSTM", {"t", "w", "r", "b", "lengths", "h", "c"}, {"a", "last_h", "last_c"}),
                       make_node("Transpose", {"a"}, {"s"}),
                       make_node("Reshape", {"s", "shape"}, {"both"}),
                       make_node("GRU", {"both", "w2", "r2"}, {"all", "last"}),
                       make_node("Squeeze", {"last", "axes"}, {"one"}),
                       make_node("MatMul", {"one", "v"}, {"y"})};
    made.body.nodes[0].attributes["perm"] = std::vector<std::int64_t>{1, 0, 2};
    made.body.nodes[1].attributes["hidden_size"] = static_cast<std::int64_t>(hidden);
    made.body.nodes[1].attributes["direction"] = std::string("bidirectional");
    made.body.nodes[2].attributes["perm"] = std::vector<std::int64_t>{0, 2, 1, 3};
    made.body.nodes[4].attributes["hidden_size"] = static_cast<std::int64_t>(gru);
    made.body.nodes[4].attributes["linear_before_reset"] = std::int64_t{1};
    return made;
}

}  // namespace

// On a GPU those of many units compute in 16 bits, on a CPU all in f32.
TEST(device_precisions, of_recurrent_layers_stay_near_f32) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    const bool is_on_gpu = machine.default_device().kind() != device_kind::cpu;
    for (const std::size_t hidden : {20, 130}) {
        for (const std::size_t rows : {1, 9}) {
            const std::size_t steps = 15;
            std::vector<std::int32_t> lengths(rows);
            for (std::size_t i = 0; i < rows; ++i) lengths[i] = static_cast<std::int32_t>(steps - i);
            const std::vector<any_tensor> inputs{any_tensor(noise(rows * steps * 12, 9), {rows, steps, 12}),
                                                 any_tensor(lengths, {rows}),
                                                 any_tensor(noise(2 * rows * hidden, 10), {2, rows, hidden}),
                                                 any_tensor(noise(2 * rows * hidden, 11), {2, rows, hidden})};
            const auto exact = sync(sync(make_network(with_memory(hidden)), pool).run(inputs), pool);
            for (const auto& [what, bound] :
                 {std::pair{precision::bf16, 0.06}, {precision::f16, 0.008}, {precision::int8, 0.04}}) {
                SCOPED_TRACE(::testing::Message()
                             << to_string(what) << ", " << hidden << " units, " << rows << " rows");
                const network made = sync(make_network(with_memory(hidden), {.precision = what}), pool);
                const bool all_are = is_on_gpu && what != precision::int8 && hidden > 128;
                EXPECT_EQ(made.rounding().rounded, all_are ? 3U : 1U);
                EXPECT_EQ(made.rounding().kept.size(), all_are ? 0U : 2U);
                const std::vector<any_tensor> outputs = sync(made.run(inputs), pool);
                ASSERT_EQ(outputs.at(1).type(), io::dtype::f32);
                const output_difference difference = difference_of(exact, outputs);
                EXPECT_LE(difference.relative, bound);
                EXPECT_GT(difference.relative, 0);
                const auto fast = compile(pool, [&] { return made.run(inputs); });
                EXPECT_LE(difference_of(exact, sync(fast(), pool)).relative, bound);
            }
        }
    }
}

// Numbers that the type has not are not made infinite by a weight.
TEST(device_precisions, keep_recurrent_layers_whose_weights_do_not_fit) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    model large = with_memory(130);
    std::vector<float> weights = noise(2 * 520 * 130, 2);
    weights[7] = 1e6f;
    large.body.constants.at("r") = tensor_of(weights, {2, 520, 130});
    const network made = sync(make_network(std::move(large), {.precision = precision::f16}), pool);
    ASSERT_FALSE(made.rounding().kept.empty());
    const bool is_on_gpu = machine.default_device().kind() != device_kind::cpu;
    EXPECT_NE(made.rounding().kept[0].find(is_on_gpu ? "a weight is too large for f16" : "computed in f32"),
              std::string::npos)
        << made.rounding().kept[0];
}

}  // namespace sluice::nn::precision_device_tests
