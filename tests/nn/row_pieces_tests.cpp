// SPDX-License-Identifier: Apache-2.0
// A batch that is computed in pieces, on the default device where that is a GPU, else simulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/prepared_call.hpp"
#include "nn/prepared_network.hpp"
#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::nn::row_pieces_tests {
namespace {

using namespace test_support;

// y = softmax(relu(x * w) * w), z = 2 x
model two_outputs() {
    model made;
    made.path = "rows.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("rows"), of(4)})};
    made.body.outputs = {f32("y", {named("rows"), of(4)}), f32("z", {named("rows"), of(4)})};
    made.body.nodes = {make_node("MatMul", {"x", "w"}, {"a"}), make_node("Relu", {"a"}, {"b"}),
                       make_node("MatMul", {"b", "w"}, {"c"}), make_node("Softmax", {"c"}, {"y"}),
                       make_node("Mul", {"x", "two"}, {"z"})};
    made.body.constants = {{"w", tensor_of<float>({1, -2, 0.5f, 3, 2, 1, -1, 0, 0.25f, 1, 1, -3, 2, 2, 0, 1}, {4, 4})},
                           {"two", tensor_of<float>({2}, {})}};
    return made;
}

// y = x less the mean of all rows
model mixes() {
    model made;
    made.path = "mixes.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("rows"), of(4)})};
    made.body.outputs = {f32("y", {named("rows"), of(4)})};
    made.body.nodes = {make_node("ReduceMean", {"x"}, {"mean"}), make_node("Sub", {"x", "mean"}, {"y"})};
    return made;
}

class pieces_of_rows : public ::testing::Test {
protected:
    pieces_of_rows()
        : on_(machine_.default_device().shares_host_memory() ? simulated_.device() : machine_.default_device()) {}

    network make(model from) { return sync(make_network(std::move(from)), on_); }
    static detail::prepared_inputs rows_of(std::size_t rows) {
        return detail::prepared_inputs({detail::view_form(io::dtype::f32, std::vector<std::size_t>{rows, 4})});
    }
    // Both outputs, one after the other, of some numbers.
    static std::vector<float> outputs_of(detail::prepared_call& call, float seed) {
        const output_view x = call.input(0);
        auto* const to = reinterpret_cast<float*>(x.data());
        for (std::size_t i = 0; i < x.form().size_bytes() / sizeof(float); ++i)
            to[i] = std::sin(seed + static_cast<float>(i));
        call.run();
        std::vector<float> made;
        for (std::size_t i = 0; i < call.outputs().outputs.size(); ++i) {
            const input_view y = call.output(i);
            const auto* const from = reinterpret_cast<const float*>(y.data());
            made.insert(made.end(), from, from + y.form().size_bytes() / sizeof(float));
        }
        return made;
    }
    static void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
    }

    sim::simulator simulated_;
    runtime machine_;
    single_stream on_;
};

}  // namespace

TEST_F(pieces_of_rows, give_what_the_batch_gives) {
    const network made = make(two_outputs());
    for (const std::vector<std::size_t>& pieces :
         {std::vector<std::size_t>{3, 1, 4}, std::vector<std::size_t>{8}, std::vector<std::size_t>{1, 7}}) {
        detail::prepared_call whole(made.inside(), rows_of(8)), divided(made.inside(), rows_of(8), pieces);
        for (int i = 0; i < 4; ++i) {
            const auto seed = static_cast<float>(i);
            expect_near(outputs_of(divided, seed), outputs_of(whole, seed));
        }
    }
    EXPECT_TRUE(simulated_.findings().empty());
}

// Whichever of them is kept: the numbers are the same.
TEST_F(pieces_of_rows, are_chosen_by_what_they_take) {
    constexpr std::size_t rows = 40'001;
    for (const bool is_mixing : {false, true}) {
        const network made = make(is_mixing ? mixes() : two_outputs());
        std::string why_not;
        auto whole = detail::try_to_prepare(made.inside(), rows_of(rows), why_not);
        ASSERT_TRUE(whole) << why_not;
        const auto expected = outputs_of(*whole, 1);
        const auto chosen = detail::in_pieces_if_faster(made.inside(), std::move(whole));
        EXPECT_EQ(chosen->inputs(), rows_of(rows).forms);
        expect_near(outputs_of(*chosen, 1), expected);
    }
}

}  // namespace sluice::nn::row_pieces_tests
