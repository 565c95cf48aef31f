// SPDX-License-Identifier: Apache-2.0
// The examples give the same, correct result in every order that a device may choose.
#include <gmock/gmock.h>

#include <fstream>

#include "sim/examples.hpp"

namespace sluice::sim::example_tests {
namespace {

class small_examples : public testing::TestWithParam<example> {};
INSTANTIATE_TEST_SUITE_P(, small_examples, testing::ValuesIn(examples),
                         [](const auto& instance) { return instance.param.name; });

template <typename Result>
Result orderly(task<Result> (*pipeline)(scheduling_policy&)) {
    simulator machine;
    auto result = machine.run(pipeline(machine.pool()));
    machine.require_clean();
    return result;
}

// Adds in the same order as the example's kernels, so that all digits agree.
std::vector<float> async_mlp_by_hand(std::size_t edge, std::size_t batch) {
    const auto w0 = [](std::size_t i) { return (float(i % 7) - 3) * 0.01f; };
    const auto w1 = [](std::size_t i) { return (float(i % 5) - 2) * 0.01f; };
    std::vector<float> output(edge);
    for (std::size_t row = 0; row < edge; ++row) {
        for (std::size_t column = 0; column < edge; ++column) {
            float sum = 0;
            for (std::size_t k = 0; k < edge; ++k)
                sum += float((row * edge + k + 37 * batch) % 13) * 0.1f * w0(k * edge + column);
            output[row] += sum * w1(column);
        }
        output[row] = std::max(output[row], 0.f);
    }
    return output;
}

std::vector<std::string> lines_of(const std::string& file) {
    std::ifstream from(SLUICE_SOURCE_DIR "/" + file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(from, line);) lines.push_back(line);
    return lines;
}

}  // namespace

TEST_P(small_examples, are_clean_in_thousands_of_schedules) {
    const exploration made = GetParam().explore({.schedules = 3'000});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_EQ(made.schedules, 3'000u);
    EXPECT_GE(made.commands, 3'000u * 3);  // a launch of a graph is one
}

TEST(small_examples_values, async_mlp_matches_a_plain_host_loop) {
    const auto outputs = orderly(small_async_mlp);
    ASSERT_EQ(outputs.size(), 4u);
    bool any_above_zero = false;
    for (std::size_t batch = 0; batch < outputs.size(); ++batch) {
        const std::vector<float> expected = async_mlp_by_hand(4, batch);
        EXPECT_THAT(outputs[batch], testing::Pointwise(testing::FloatNear(1e-6f), expected)) << "batch " << batch;
        for (const float each : outputs[batch]) any_above_zero = any_above_zero || each > 1e-5f;
    }
    EXPECT_TRUE(any_above_zero);
}

TEST(small_examples_values, async_mlp_extended_loses_one_batch_and_no_other) {
    const auto outcomes = orderly(small_async_mlp_extended);
    ASSERT_EQ(outcomes.size(), 4u);
    for (std::size_t batch = 0; batch < outcomes.size(); ++batch) {
        if (batch == async_mlp_extended::broken_batch) {
            EXPECT_EQ(outcomes[batch].failure, "an exception: batch 2 fails on purpose");
            continue;
        }
        EXPECT_EQ(outcomes[batch].failure, "");
        ASSERT_EQ(outcomes[batch].rows.size(), 4u * 2);
        for (std::size_t row = 0; row < 4; ++row)
            EXPECT_NEAR(outcomes[batch].rows[2 * row] + outcomes[batch].rows[2 * row + 1], 1, 1e-5);
    }
}

TEST(small_examples_values, own_policy_sends_every_eighth_operation_to_the_express_lane) {
    simulator machine;
    EXPECT_EQ(small_own_policy(machine.pool()), std::pair(285.f, 2));
}

TEST(small_examples_values, graphs_print_what_the_programs_print) {
    simulator machine;
    EXPECT_EQ(small_batch_sizes(machine.pool()), lines_of("examples/expected/batch_sizes.txt"));
    EXPECT_EQ(small_early_start(machine.pool()), lines_of("examples/expected/early_start.txt"));
    EXPECT_EQ(compiled_mlp::run_all(64, 12, 4, machine.pool()), lines_of("examples/expected/compiled_mlp.txt"));
    EXPECT_EQ(iterative_solver::solve_all(32, machine.pool()), lines_of("examples/expected/iterative_solver.txt"));
    EXPECT_EQ(watched_solver::follow_all(32, machine.pool()), lines_of("examples/expected/watched_solver.txt"));
    machine.run_all();
    machine.require_clean();
}

TEST(small_examples_values, three_outcomes_prints_what_the_program_prints) {
    simulator machine;
    const auto expected = lines_of("examples/expected/three_outcomes.txt");
    ASSERT_EQ(expected.size(), 7u);
    EXPECT_EQ(small_three_outcomes(machine.pool()), expected);
}

}  // namespace sluice::sim::example_tests
