// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/run_limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::run_limit_tests {
namespace {

using namespace test_support;
using ::testing::HasSubstr;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

model model_of(std::vector<node> nodes, std::map<std::string, constant> constants) {
    model made;
    made.path = "large.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("rows"), of(2)})};
    made.body.outputs = {{"y", io::dtype::f32, {}}};
    for (auto& [name, value] : constants) made.body.constants.emplace(name, value);
    made.body.nodes = std::move(nodes);
    return made;
}

// y = x, repeated `times` along the rows.
model tiled(std::int64_t times) {
    return model_of({make_node("Tile", {"x", "times"}, {"y"})}, {{"times", tensor_of<std::int64_t>({times, 1}, {2})}});
}

any_tensor row() { return any_tensor(std::vector<float>{1, 2}, {1, 2}); }

class run_limits : public ::testing::Test {
protected:
    network made(model from) { return sync(make_network(std::move(from)), pool); }

    runtime machine{{.cuda = false}};
    round_robin pool{machine.default_device(), 1};
};

TEST_F(run_limits, refuse_a_value_before_memory_is_taken_for_it) {
    const network large = made(tiled(std::int64_t{1} << 36));  // 512 GiB for one row
    const run_limit limit(mebibyte);
    try {
        sync(large.run({row()}), pool);
        FAIL() << "it ran";
    } catch (const run_too_large& why) {
        EXPECT_EQ(why.code(), errc::out_of_memory);
        EXPECT_THAT(why.what(), HasSubstr("Tile"));
        EXPECT_THAT(why.what(), HasSubstr(std::to_string(std::size_t{8} << 36)));
        EXPECT_THAT(why.what(), HasSubstr(std::to_string(mebibyte)));
    }
    const any_tensor x = row();
    EXPECT_THROW(large(std::vector<input_view>{input_view(x)}), run_too_large);
}

TEST_F(run_limits, hold_for_direct_calls_of_each_kind) {
    const network any = made(tiled(1024));
    const any_tensor one = row(), many(std::vector<float>(2048), {1024, 2});
    const std::vector<input_view> small{input_view(one)}, large{input_view(many)};
    const run_limit limit(mebibyte);
    for (int i = 0; i < 3; ++i) {  // the second call compiles the network, the third one runs it at once
        EXPECT_EQ(any(small).front().size_bytes(), 8192U);
        EXPECT_THROW(any(large), run_too_large);
    }
}

TEST_F(run_limits, count_values_that_are_there_at_the_same_time) {
    // Each has 400 kB, and three of them are there at once at the end.
    std::vector<node> nodes{make_node("Tile", {"x", "times"}, {"a"}), make_node("Relu", {"a"}, {"b"}),
                            make_node("Concat", {"a", "b"}, {"y"})};
    nodes.back().attributes["axis"] = std::int64_t{0};
    const network both = made(model_of(std::move(nodes), {{"times", tensor_of<std::int64_t>({50'000, 1}, {2})}}));
    {
        const run_limit limit(1'600'000);
        EXPECT_EQ(sync(both.run({row()}), pool).front().size_bytes(), 800'000U);
    }
    const run_limit limit(1'500'000);
    EXPECT_THROW(sync(both.run({row()}), pool), run_too_large);
}

TEST_F(run_limits, do_not_count_what_is_over) {
    // 100 values of 400 kB one after the other.
    std::vector<node> nodes{make_node("Tile", {"x", "times"}, {"v0"})};
    for (int i = 0; i < 99; ++i) {
        nodes.push_back(make_node("Reshape", {"v" + std::to_string(i), "shape"}, {"w" + std::to_string(i)}));
        nodes.push_back(make_node("Softmax", {"w" + std::to_string(i)},
                                  {i == 98 ? std::string("y") : "v" + std::to_string(i + 1)}));
    }
    const network chain = made(model_of(std::move(nodes), {{"times", tensor_of<std::int64_t>({50'000, 1}, {2})},
                                                           {"shape", tensor_of<std::int64_t>({-1, 10}, {2})}}));
    const run_limit limit(1'000'000);
    EXPECT_EQ(sync(chain.run({row()}), pool).front().size_bytes(), 400'000U);
}

TEST_F(run_limits, count_what_the_rounds_of_a_loop_add_up) {
    auto body = std::make_shared<graph>();
    const std::vector<dimension> scalar;
    body->inputs = {{"round", io::dtype::i64, scalar}, {"goes_on", io::dtype::boolean, scalar}};
    body->outputs = {{"goes_on_too", io::dtype::boolean, scalar}, {"part", io::dtype::f32, {}}};
    body->constants.emplace("times", tensor_of<std::int64_t>({1000, 1}, {2}));
    body->nodes = {make_node("Identity", {"goes_on"}, {"goes_on_too"}), make_node("Tile", {"x", "times"}, {"part"})};
    std::vector<node> nodes{make_node("Loop", {"rounds", "yes"}, {"y"})};
    nodes.back().attributes["body"] = std::shared_ptr<const graph>(body);
    const constant yes{io::dtype::boolean, {}, std::make_shared<const std::string>(1, '\1')};
    const network loop =
        made(model_of(std::move(nodes), {{"rounds", tensor_of<std::int64_t>({1'000'000'000}, {})}, {"yes", yes}}));
    const run_limit limit(mebibyte);
    EXPECT_THROW(sync(loop.run({row()}), pool), run_too_large);  // after some 130 rounds
}

TEST_F(run_limits, leave_constants_above_them_to_the_runs) {
    std::vector<node> nodes;
    nodes.push_back(make_node("Add", {"x", "zero"}, {"s0"}));
    for (int i = 0; i < 20; ++i) {  // 20 constants of 200 kB
        const std::string n = std::to_string(i);
        nodes.push_back(make_node("ConstantOfShape", {"shape"}, {"c" + n}));
        nodes.push_back(make_node("Add", {"x", "c" + n}, {"a" + n}));
        nodes.push_back(make_node("ReduceMax", {"a" + n}, {"r" + n}));
        nodes.push_back(
            make_node("Add", {"s" + n, "r" + n}, {i == 19 ? std::string("y") : "s" + std::to_string(i + 1)}));
    }
    const auto shape = tensor_of<std::int64_t>({50'000, 1}, {2});
    const run_limit limit(mebibyte);
    const network kept = made(model_of(std::move(nodes), {{"shape", shape}, {"zero", tensor_of<float>({0}, {})}}));
    std::size_t left = 0;
    for (const network_step& each : kept.steps()) left += each.operators.front() == "ConstantOfShape" ? 1 : 0;
    EXPECT_EQ(left, 15U);  // five of them have less than the limit
    EXPECT_EQ(sync(kept.run({row()}), pool).front().elements(), 2U);
}

TEST_F(run_limits, belong_to_a_scope_of_a_thread) {
    EXPECT_EQ(run_limit::now(), 0U);
    {
        const run_limit outer(5);
        {
            const run_limit inner(3);
            EXPECT_EQ(run_limit::now(), 3U);
        }
        EXPECT_EQ(run_limit::now(), 5U);
    }
    EXPECT_EQ(run_limit::now(), 0U);
}

}  // namespace
}  // namespace sluice::nn::run_limit_tests
