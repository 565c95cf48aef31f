// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/row_independence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nn/operators/table.hpp"
#include "nn/passes/follow_rows.hpp"
#include "nn/rows/rule.hpp"
#include "nn/small_models.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/own_operator.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::row_independence_tests {
namespace {

using test_support::named;
using test_support::of;
using test_support::tensor_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ints = std::vector<std::int64_t>;
using attributes = std::map<std::string, attribute, std::less<>>;

node op(std::string what, std::vector<std::string> inputs, std::vector<std::string> outputs, attributes with = {}) {
    node made = test_support::make_node(std::move(what), std::move(inputs), std::move(outputs));
    made.attributes = std::move(with);
    if (const auto dot = made.op.rfind('.'); dot != std::string::npos) {
        made.domain = made.op.substr(0, dot);
        made.op = made.op.substr(dot + 1);
    }
    return made;
}

value_info input(std::string name, std::vector<dimension> shape, io::dtype type = io::dtype::f32) {
    return {std::move(name), type, std::move(shape)};
}
dimension n() { return named("n"); }
dimension s() { return named("s"); }

constant floats(std::vector<std::size_t> shape) {
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = 0.25f + 0.125f * static_cast<float>(i % 7);
    return tensor_of(values, std::move(shape));
}
constant integers(ints values) {
    const std::size_t count = values.size();
    return tensor_of(values, {count});
}
constant integer(std::int64_t value) { return tensor_of(ints{value}, {}); }

struct parts {
    std::vector<value_info> inputs;
    std::vector<node> nodes;
    std::map<std::string, constant, std::less<>> constants = {};
    std::vector<std::string> outputs = {"y"};
    std::int64_t opset = 18;
};

model network_of(parts from) {
    model made;
    made.path = "test.onnx";
    made.opsets = {{"", from.opset}, {"ai.onnx.ml", 3}};
    made.body.inputs = std::move(from.inputs);
    made.body.nodes = std::move(from.nodes);
    made.body.constants = std::move(from.constants);
    for (std::string& each : from.outputs) made.body.outputs.push_back({std::move(each), io::dtype::f32, {}});
    return made;
}

row_independence found(parts from) { return find_row_independence(network_of(std::move(from))); }

void expect_proven(parts from) {
    const row_independence its = found(std::move(from));
    EXPECT_TRUE(its.is_along_first_axes()) << its.text();
}
void expect_mixed(parts from, const std::string& op, const std::string& why) {
    const row_independence its = found(std::move(from));
    EXPECT_FALSE(its.is_proven) << its.text();
    EXPECT_EQ(its.op, op) << its.text();
    EXPECT_THAT(its.why, HasSubstr(why)) << its.text();
}

std::vector<value_info> matrix() { return {input("x", {n(), of(4)})}; }
std::vector<value_info> image() { return {input("x", {n(), of(3), of(8), of(8)})}; }

// --- elements -------------------------------------------------------------------------------------------------

TEST(row_independence, elementwise_operators_keep_rows_apart) {
    expect_proven({matrix(), {op("Add", {"x", "b"}, {"a"}), op("Relu", {"a"}, {"y"})}, {{"b", floats({4})}}});
    expect_proven({matrix(), {op("Add", {"x", "b"}, {"y"})}, {{"b", floats({1, 4})}}});
    expect_proven(
        {matrix(), {op("Where", {"c", "x", "x"}, {"y"})}, {{"c", tensor_of(std::vector<std::uint8_t>{1}, {1})}}});
}

TEST(row_independence, a_tensor_with_several_elements_along_the_rows_is_refused) {
    expect_mixed({matrix(), {op("Add", {"x", "b"}, {"y"})}, {{"b", floats({3, 4})}}}, "Add", "several elements along");
    // [n, 4] with [4, n]: each row with each other row.
    expect_mixed({{input("x", {n(), of(4)})},
                  {op("ReduceSum", {"x", "last"}, {"sum"}), op("Transpose", {"sum"}, {"turned"}),
                   op("Sub", {"sum", "turned"}, {"y"})},
                  {{"last", integers({1})}}},
                 "Sub", "each other row");
}

// --- reductions -------------------------------------------------------------------------------------------------

TEST(row_independence, reductions_and_norms_are_followed_by_their_axes) {
    for (const char* const each : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization"}) {
        expect_proven({matrix(), {op(each, {"x"}, {"y"}, {{"axis", std::int64_t{1}}})}});
        expect_mixed({matrix(), {op(each, {"x"}, {"y"}, {{"axis", std::int64_t{0}}})}}, each,
                     "along the axis of the rows");
    }
    expect_proven({matrix(), {op("ReduceMean", {"x", "a"}, {"y"})}, {{"a", integers({-1})}}});
    expect_mixed({matrix(), {op("ReduceMax", {"x", "a"}, {"m"}), op("Sub", {"x", "m"}, {"y"})}, {{"a", integers({0})}}},
                 "ReduceMax", "one number from all rows");
    expect_mixed({matrix(), {op("ReduceMax", {"x"}, {"m"}), op("Sub", {"x", "m"}, {"y"})}}, "ReduceMax",
                 "one number from all rows");
    expect_proven({matrix(), {op("ArgMax", {"x"}, {"y"}, {{"axis", std::int64_t{1}}})}});
    expect_mixed({matrix(), {op("ArgMax", {"x"}, {"y"}, {{"axis", std::int64_t{0}}})}}, "ArgMax",
                 "along the axis of the rows");
    expect_proven({matrix(), {op("TopK", {"x", "k"}, {"y", "i"})}, {{"k", integers({2})}}, {"y", "i"}});
    expect_mixed({matrix(),
                  {op("TopK", {"x", "k"}, {"y", "i"}, {{"axis", std::int64_t{0}}})},
                  {{"k", integers({2})}},
                  {"y", "i"}},
                 "TopK", "along the axis of the rows");
    expect_proven({matrix(), {op("CumSum", {"x", "a"}, {"y"})}, {{"a", integer(1)}}});
    expect_mixed({matrix(), {op("CumSum", {"x", "a"}, {"y"})}, {{"a", integer(0)}}}, "CumSum",
                 "along the axis of the rows");
}

// Softmax of the operator sets before 13 takes all dimensions from its axis on as one.
TEST(row_independence, a_softmax_of_old_operator_sets_takes_all_dimensions_after_its_axis) {
    const std::vector<value_info> inputs{input("x", {of(2), n(), of(4)})};
    const std::vector<node> last{op("Softmax", {"x"}, {"y"}, {{"axis", std::int64_t{2}}})};
    const std::vector<node> middle{op("Softmax", {"x"}, {"y"}, {{"axis", std::int64_t{0}}})};
    EXPECT_TRUE(found({inputs, last, {}, {"y"}, 11}).is_proven);
    EXPECT_FALSE(found({inputs, middle, {}, {"y"}, 11}).is_proven);
    EXPECT_TRUE(found({inputs, middle, {}, {"y"}, 13}).is_proven);
}

TEST(row_independence, normalizations_of_a_row_pass_and_those_of_the_batch_do_not) {
    const std::map<std::string, constant, std::less<>> numbers{{"one", floats({3})}};
    const std::vector<std::string> given{"x", "one", "one", "one", "one"};
    expect_proven({image(), {op("BatchNormalization", given, {"y"})}, numbers});
    expect_mixed(
        {image(), {op("BatchNormalization", given, {"y", "m", "v"}, {{"training_mode", std::int64_t{1}}})}, numbers},
        "BatchNormalization", "mean of all rows");
    expect_proven({image(), {op("InstanceNormalization", {"x", "one", "one"}, {"y"})}, numbers});
    expect_mixed({image(), {op("MeanVarianceNormalization", {"x"}, {"y"})}}, "MeanVarianceNormalization",
                 "along the axis of the rows");
    expect_proven({image(), {op("MeanVarianceNormalization", {"x"}, {"y"}, {{"axes", ints{2, 3}}})}});
    expect_proven({matrix(), {op("LayerNormalization", {"x", "w"}, {"y"})}, {{"w", floats({4})}}});
    expect_mixed(
        {matrix(), {op("LayerNormalization", {"x", "w"}, {"y"}, {{"axis", std::int64_t{0}}})}, {{"w", floats({4})}}},
        "LayerNormalization", "along the axis of the rows");
}

// --- products -----------------------------------------------------------------------------------------------------

TEST(row_independence, products_keep_rows_apart_unless_they_add_up_over_them) {
    expect_proven({matrix(), {op("MatMul", {"x", "w"}, {"y"})}, {{"w", floats({4, 5})}}});
    expect_proven({matrix(),
                   {op("Gemm", {"x", "w", "b"}, {"y"}, {{"transB", std::int64_t{1}}})},
                   {{"w", floats({5, 4})}, {"b", floats({5})}}});
    expect_mixed({matrix(), {op("Gemm", {"x", "w", "b"}, {"y"})}, {{"w", floats({4, 5})}, {"b", floats({2, 5})}}},
                 "Gemm", "several elements along");
    expect_mixed({matrix(), {op("Transpose", {"x"}, {"t"}), op("MatMul", {"x", "t"}, {"y"})}}, "MatMul",
                 "each other row");
    expect_mixed({matrix(), {op("Transpose", {"x"}, {"t"}), op("MatMul", {"t", "x"}, {"y"})}}, "MatMul",
                 "adds up over the rows");
    expect_mixed({matrix(), {op("Transpose", {"x"}, {"t"}), op("MatMul", {"t", "w"}, {"y"})}, {{"w", floats({1, 4})}}},
                 "MatMul", "adds up over the rows");
    // Heads of attention: [n, 2, s, 8] with [n, 2, 8, s].
    expect_proven({{input("x", {n(), of(2), s(), of(8)})},
                   {op("Transpose", {"x"}, {"t"}, {{"perm", ints{0, 1, 3, 2}}}), op("MatMul", {"x", "t"}, {"a"}),
                    op("Softmax", {"a"}, {"b"}), op("MatMul", {"b", "x"}, {"y"})}});
    expect_proven(
        {{input("x", {n(), of(2), s(), of(8)})}, {op("Einsum", {"x", "x"}, {"y"}, {{"equation", "bhid,bhjd->bhij"}})}});
    expect_mixed({matrix(), {op("Einsum", {"x", "x"}, {"y"}, {{"equation", "bi,bi->i"}})}}, "Einsum",
                 "adds up over the rows");
    expect_mixed({matrix(), {op("Einsum", {"x", "x"}, {"y"}, {{"equation", "bi,ci->bc"}})}}, "Einsum",
                 "each other row");
    expect_proven({{input("x", {n(), s(), of(4)})},
                   {op("Einsum", {"x", "w"}, {"y"}, {{"equation", "...i,io->...o"}})},
                   {{"w", floats({4, 3})}}});
}

// --- shapes -------------------------------------------------------------------------------------------------------

TEST(row_independence, reshapes_are_followed_by_the_place_of_each_row) {
    const auto reshaped = [](ints shape) {
        return parts{{input("x", {n(), of(4), of(64)})},
                     {op("Reshape", {"x", "to"}, {"y"})},
                     {{"to", integers(std::move(shape))}}};
    };
    expect_proven(reshaped({0, -1}));
    expect_proven(reshaped({-1, 256}));
    expect_proven(reshaped({0, 64, 4}));
    expect_mixed(reshaped({-1, 64}), "Reshape", "several elements along the axis of the rows");
    expect_mixed(reshaped({256, -1}), "Reshape", "not a part of its own");
    expect_mixed(reshaped({-1, 512}), "Reshape", "not a part of its own");
    expect_mixed(reshaped({1, -1}), "Reshape", "several elements");
    expect_proven({image(), {op("Flatten", {"x"}, {"y"})}});
    expect_mixed({image(), {op("Flatten", {"x"}, {"y"}, {{"axis", std::int64_t{0}}})}}, "Flatten", "several elements");
    expect_mixed({image(), {op("Flatten", {"x"}, {"y"}, {{"axis", std::int64_t{2}}})}}, "Flatten", "several elements");
}

TEST(row_independence, blocks_of_rows_are_followed_and_undone) {
    const auto blocks = [](std::vector<node> between) {
        std::vector<node> nodes{op("Reshape", {"x", "flat"}, {"a"})};
        nodes.insert(nodes.end(), between.begin(), between.end());
        nodes.push_back(op("Reshape", {"b", "back"}, {"y"}));
        return parts{{input("x", {n(), of(4), of(64)})},
                     std::move(nodes),
                     {{"flat", integers({-1, 64})},
                      {"back", integers({-1, 4, 64})},
                      {"w", floats({64, 64})},
                      {"first", integers({0})}}};
    };
    expect_proven(blocks({op("MatMul", {"a", "w"}, {"b"})}));
    expect_mixed(blocks({op("ReduceMax", {"a", "first"}, {"m"}), op("Sub", {"a", "m"}, {"b"})}), "ReduceMax",
                 "all rows");
    // The first block of 4 rows after the second one: the rows of others.
    expect_mixed({{input("x", {n(), of(4), of(64)})},
                  {op("Reshape", {"x", "flat"}, {"a"}), op("Reshape", {"a", "wrong"}, {"y"})},
                  {{"flat", integers({-1, 64})}, {"wrong", integers({4, -1, 64})}}},
                 "Reshape", "not a part of its own");
}

// As PyTorch's attention has it: tokens first, then tokens and rows together, before a product.
parts tokens_first(std::vector<node> in_the_middle, std::string last = "m") {
    const attributes turned{{"perm", ints{1, 0, 2}}};
    std::vector<node> nodes{op("Transpose", {"x"}, {"a"}, turned),  // [3, n, 8]
                            op("Reshape", {"a", "heads"}, {"b"}),   // [3, 2 n, 4]
                            op("Transpose", {"b"}, {"c"}, turned),  // [2 n, 3, 4]
                            op("Softmax", {"c"}, {"d"}, {{"axis", std::int64_t{-1}}}),
                            op("Transpose", {"d"}, {"e"}, turned),
                            op("Reshape", {"e", "together"}, {"f"})};  // [3 n, 8]
    nodes.insert(nodes.end(), in_the_middle.begin(), in_the_middle.end());
    nodes.push_back(op("Reshape", {std::move(last), "apart"}, {"g"}));  // [3, n, 8]
    nodes.push_back(op("Transpose", {"g"}, {"y"}, turned));
    return {{input("x", {n(), of(3), of(8)})},
            std::move(nodes),
            {{"heads", integers({3, -1, 4})},
             {"together", integers({-1, 8})},
             {"apart", integers({3, -1, 8})},
             {"turned_apart", integers({-1, 3, 8})},
             {"w", floats({8, 8})},
             {"bias", floats({8})}}};
}

TEST(row_independence, rows_in_several_runs_are_followed_and_undone) {
    expect_proven(tokens_first({op("Gemm", {"f", "w", "bias"}, {"m"})}));
    expect_proven(
        tokens_first({op("MatMul", {"f", "w"}, {"p"}), op("Add", {"bias", "p"}, {"q"}), op("Relu", {"q"}, {"m"})}));
    expect_mixed(tokens_first({op("Softmax", {"f"}, {"m"}, {{"axis", std::int64_t{0}}})}), "Softmax", "several runs");
    // The rows come first there, and their tokens do not.
    parts other = tokens_first({op("Identity", {"f"}, {"m"})});
    other.nodes.back() = op("Identity", {"g"}, {"y"});
    other.nodes[other.nodes.size() - 2] = op("Reshape", {"m", "turned_apart"}, {"g"});
    expect_mixed(other, "Reshape", "not a part of its own");
    // Rows of another order.
    parts both = tokens_first({op("Reshape", {"x", "together"}, {"other"}), op("Add", {"f", "other"}, {"m"})});
    expect_mixed(both, "Add", "different orders");
}

TEST(row_independence, shapes_that_are_computed_from_shapes_are_followed) {
    // As PyTorch writes x.view(x.size(0), -1) and heads of attention.
    const std::vector<node> of_size{op("Shape", {"x"}, {"shape"}),
                                    op("Gather", {"shape", "zero"}, {"rows"}, {{"axis", std::int64_t{0}}}),
                                    op("Unsqueeze", {"rows", "first"}, {"rows1"})};
    const std::map<std::string, constant, std::less<>> numbers{{"zero", integer(0)},      {"first", integers({0})},
                                                               {"left", integers({-1})},  {"heads", integers({12})},
                                                               {"width", integers({64})}, {"two", integer(2)}};
    std::vector<node> flat = of_size;
    flat.push_back(op("Concat", {"rows1", "left"}, {"to"}, {{"axis", std::int64_t{0}}}));
    flat.push_back(op("Reshape", {"x", "to"}, {"y"}));
    expect_proven({image(), flat, numbers});

    const std::vector<value_info> words{input("x", {n(), s(), of(768)})};
    std::vector<node> heads = of_size;
    heads.push_back(op("Gather", {"shape", "one"}, {"steps"}));
    heads.push_back(op("Unsqueeze", {"steps", "first"}, {"steps1"}));
    heads.push_back(op("Concat", {"rows1", "steps1", "heads", "width"}, {"to"}, {{"axis", std::int64_t{0}}}));
    heads.push_back(op("Reshape", {"x", "to"}, {"h"}));
    heads.push_back(op("Transpose", {"h"}, {"y"}, {{"perm", ints{0, 2, 1, 3}}}));
    auto with_one = numbers;
    with_one.emplace("one", integer(1));
    expect_proven({words, heads, with_one});

    // Twice as many rows: each row becomes two, and that is not undone.
    std::vector<node> doubled = of_size;
    doubled.push_back(op("Mul", {"rows1", "two"}, {"twice"}));
    doubled.push_back(op("Concat", {"twice", "left"}, {"to"}, {{"axis", std::int64_t{0}}}));
    doubled.push_back(op("Reshape", {"x", "to"}, {"y"}));
    expect_mixed({image(), doubled, numbers}, "Reshape", "several elements");

    // The number of rows as a number: a mean over the batch, say.
    std::vector<node> divided = of_size;
    divided.push_back(op("Cast", {"rows"}, {"count"}, {{"to", std::int64_t{1}}}));
    divided.push_back(op("Div", {"x", "count"}, {"y"}));
    expect_mixed({image(), divided, numbers}, "Div", "the number of rows");
}

TEST(row_independence, tensors_that_are_made_for_the_rows_have_them) {
    const std::vector<node> shape{op("Shape", {"x"}, {"shape"}, {{"end", std::int64_t{1}}})};
    std::vector<node> zeros = shape;
    zeros.push_back(op("Concat", {"shape", "four"}, {"to"}, {{"axis", std::int64_t{0}}}));
    zeros.push_back(op("ConstantOfShape", {"to"}, {"z"}));
    zeros.push_back(op("Concat", {"x", "z"}, {"y"}, {{"axis", std::int64_t{1}}}));
    expect_proven({matrix(), zeros, {{"four", integers({4})}}});
    std::vector<node> token = shape;
    token.push_back(op("Concat", {"shape", "four"}, {"to"}, {{"axis", std::int64_t{0}}}));
    token.push_back(op("Expand", {"t", "to"}, {"e"}));
    token.push_back(op("Mul", {"x", "e"}, {"y"}));
    expect_proven({matrix(), token, {{"four", integers({4})}, {"t", floats({1, 4})}}});
    expect_mixed({matrix(), {op("Concat", {"x", "t"}, {"y"}, {{"axis", std::int64_t{1}}})}, {{"t", floats({1, 4})}}},
                 "Concat", "no rows");
    expect_mixed({matrix(), {op("Concat", {"x", "x"}, {"y"}, {{"axis", std::int64_t{0}}})}}, "Concat",
                 "along the axis of the rows");
}

// An index that says "not given" is compared with lengths, as the shapes of Expand are written.
TEST(row_independence, lengths_are_compared_with_minus_one) {
    expect_proven({{input("x", {n(), of(1)})},
                   {op("Shape", {"x"}, {"shape"}, {{"end", std::int64_t{1}}}),
                    op("Concat", {"shape", "four"}, {"to"}, {{"axis", std::int64_t{0}}}),
                    op("Equal", {"to", "left"}, {"is_open"}), op("Where", {"is_open", "ones", "to"}, {"chosen"}),
                    op("Expand", {"x", "chosen"}, {"y"})},
                   {{"four", integers({4})}, {"left", integers({-1, -1})}, {"ones", integers({1, 1})}}});
}

// As shapes are broadcast by exporters: the larger length of each dimension.
TEST(row_independence, the_number_of_rows_is_at_least_one) {
    const auto expanded = [](std::int64_t least) {
        return parts{matrix(),
                     {op("Shape", {"x"}, {"shape"}), op("Max", {"shape", "least"}, {"to"}),
                      op("Expand", {"b", "to"}, {"e"}), op("Mul", {"x", "e"}, {"y"})},
                     {{"least", integers({least, 4})}, {"b", floats({1, 4})}}};
    };
    expect_proven(expanded(1));
    expect_mixed(expanded(2), "Max", "number of rows");
}

TEST(row_independence, squeeze_without_axes_depends_on_the_number_of_rows) {
    const std::vector<value_info> inputs{input("x", {n(), of(1), of(4)})};
    expect_proven({inputs, {op("Squeeze", {"x", "a"}, {"y"})}, {{"a", integers({1})}}});
    expect_mixed({inputs, {op("Squeeze", {"x"}, {"y"})}}, "Squeeze", "when there is one row");
    expect_mixed({inputs, {op("Squeeze", {"x", "a"}, {"y"})}, {{"a", integers({0})}}}, "Squeeze",
                 "leaves out the axis of the rows");
    expect_proven({inputs, {op("Unsqueeze", {"x", "a"}, {"y"})}, {{"a", integers({1, -1})}}});
}

TEST(row_independence, slices_splits_paddings_and_repeats_are_followed_by_their_axes) {
    const auto sliced = [](ints begin, ints end, ints axes) {
        return parts{
            matrix(),
            {op("Slice", {"x", "b", "e", "a"}, {"y"})},
            {{"b", integers(std::move(begin))}, {"e", integers(std::move(end))}, {"a", integers(std::move(axes))}}};
    };
    expect_proven(sliced({1}, {3}, {1}));
    expect_proven(sliced({0, 1}, {std::numeric_limits<std::int64_t>::max(), 3}, {0, 1}));
    expect_mixed(sliced({0}, {1}, {0}), "Slice", "along the axis of the rows");
    expect_mixed(sliced({0}, {-1}, {0}), "Slice", "along the axis of the rows");
    expect_proven({matrix(),
                   {op("Split", {"x"}, {"y", "z"}, {{"axis", std::int64_t{1}}, {"num_outputs", std::int64_t{2}}})},
                   {},
                   {"y", "z"}});
    expect_mixed({matrix(), {op("Split", {"x"}, {"y", "z"}, {{"num_outputs", std::int64_t{2}}})}, {}, {"y", "z"}},
                 "Split", "along the axis of the rows");
    expect_proven({matrix(), {op("Pad", {"x", "p"}, {"y"})}, {{"p", integers({0, 1, 0, 1})}}});
    expect_mixed({matrix(), {op("Pad", {"x", "p"}, {"y"})}, {{"p", integers({1, 0, 0, 0})}}}, "Pad",
                 "along the axis of the rows");
    expect_proven({matrix(), {op("Tile", {"x", "t"}, {"y"})}, {{"t", integers({1, 3})}}});
    expect_mixed({matrix(), {op("Tile", {"x", "t"}, {"y"})}, {{"t", integers({2, 1})}}}, "Tile", "repeats all rows");
    expect_mixed({{input("x", {n(), of(4)})}, {op("Trilu", {"x"}, {"y"})}}, "Trilu", "by its number");
    expect_proven({{input("x", {n(), of(4), of(4)})}, {op("Trilu", {"x"}, {"y"})}});
}

TEST(row_independence, splits_into_lengths_that_are_computed_from_shapes_are_followed) {
    const auto halves = [](dimension width, std::vector<std::string> outputs) {
        const attributes of_width{{"start", std::int64_t{1}}}, first{{"axis", std::int64_t{0}}};
        return parts{{input("x", {n(), std::move(width)})},
                     {op("Shape", {"x"}, {"width"}, of_width), op("Div", {"width", "two"}, {"half"}),
                      op("Sub", {"width", "half"}, {"rest"}), op("Concat", {"half", "rest"}, {"lengths"}, first),
                      op("Split", {"x", "lengths"}, outputs, {{"axis", std::int64_t{1}}})},
                     {{"two", integers({2})}},
                     outputs};
    };
    expect_proven(halves(of(8), {"y", "z"}));
    expect_proven(halves(s(), {"y", "z"}));  // whatever the length is
    // As many elements as there are rows, and the four after them.
    const auto after_rows = [](std::vector<std::string> outputs) {
        const attributes of_rows{{"end", std::int64_t{1}}}, first{{"axis", std::int64_t{0}}};
        return parts{{input("x", {n(), of(12)})},
                     {op("Shape", {"x"}, {"n"}, of_rows), op("Concat", {"n", "four"}, {"lengths"}, first),
                      op("Split", {"x", "lengths"}, std::move(outputs), {{"axis", std::int64_t{1}}})},
                     {{"four", integers({4})}}};
    };
    expect_mixed(after_rows({"y", "z"}), "Split", "as many elements as there are rows");
    expect_mixed(after_rows({"", "y"}), "Split", "as many elements as there are rows");
}

// --- indices ------------------------------------------------------------------------------------------------------

TEST(row_independence, indices_select_for_their_row) {
    const value_info words = input("x", {n(), s()}, io::dtype::i64);
    expect_proven({{words}, {op("Gather", {"table", "x"}, {"y"})}, {{"table", floats({10, 4})}}});
    expect_proven(
        {matrix(), {op("Gather", {"x", "i"}, {"y"}, {{"axis", std::int64_t{1}}})}, {{"i", integers({2, 0})}}});
    expect_mixed({matrix(), {op("Gather", {"x", "i"}, {"y"})}, {{"i", integers({0})}}}, "Gather",
                 "along the axis of the rows");
    const std::vector<value_info> both{input("x", {n(), of(4)}), input("i", {n(), of(1)}, io::dtype::i64)};
    expect_proven({both, {op("GatherElements", {"x", "i"}, {"y"}, {{"axis", std::int64_t{1}}})}});
    expect_mixed({both, {op("GatherElements", {"x", "i"}, {"y"})}}, "GatherElements", "along the axis of the rows");
    expect_mixed({both, {op("Gather", {"x", "i"}, {"y"}, {{"axis", std::int64_t{1}}})}}, "Gather",
                 "what each other row asks for");
    expect_proven({both, {op("GatherND", {"x", "i"}, {"y"}, {{"batch_dims", std::int64_t{1}}})}});
    expect_mixed({both, {op("GatherND", {"x", "i"}, {"y"})}}, "GatherND", "along the axis of the rows");
    expect_proven({both,
                   {op("OneHot", {"i", "d", "v"}, {"y"})},
                   {{"d", integer(4)}, {"v", tensor_of(std::vector<float>{0, 1}, {2})}}});
}

// x[range(rows), last]: as the last token of each sequence is taken.
parts last_token(bool with_row_numbers) {
    return {{input("x", {n(), s(), of(8)}), input("last", {n()}, io::dtype::i64)},
            {op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "zero"}, {"rows"}),
             op("Range", {"zero", "rows", "one"}, {"numbers"}), op("Unsqueeze", {"numbers", "end"}, {"a"}),
             op("Unsqueeze", {"last", "end"}, {"b"}),
             op("Concat", with_row_numbers ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"b", "a"},
                {"i"}, {{"axis", std::int64_t{-1}}}),
             op("GatherND", {"x", "i"}, {"y"})},
            {{"zero", integer(0)}, {"one", integer(1)}, {"end", integers({-1})}}};
}

TEST(row_independence, the_last_token_of_each_row_is_taken_by_its_number) {
    expect_proven(last_token(true));
    expect_mixed(last_token(false), "GatherND", "along the axis of the rows");
    // The number of a row as a number is not the same in any company.
    expect_mixed(
        {matrix(),
         {op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "zero"}, {"rows"}),
          op("Range", {"zero", "rows", "one"}, {"numbers"}), op("Cast", {"numbers"}, {"f"}, {{"to", std::int64_t{1}}}),
          op("Unsqueeze", {"f", "end"}, {"a"}), op("Add", {"x", "a"}, {"y"})},
         {{"zero", integer(0)}, {"one", integer(1)}, {"end", integers({-1})}}},
        "Cast", "rounds the numbers of the rows");
}

TEST(row_independence, the_number_of_a_row_is_lost_in_a_type_that_does_not_have_each) {
    const auto gathered = [](std::int64_t through) {
        const attributes to_index{{"to", std::int64_t{7}}};
        return parts{
            matrix(),
            {op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "zero"}, {"rows"}),
             op("Range", {"zero", "rows", "one"}, {"numbers"}), op("Cast", {"numbers"}, {"narrow"}, {{"to", through}}),
             op("Cast", {"narrow"}, {"index"}, to_index), op("Unsqueeze", {"index", "end"}, {"of_row"}),
             op("Gather", {"shape", "first"}, {"n"}),
             op("Concat", {"n", "ones"}, {"column"}, {{"axis", std::int64_t{0}}}),
             op("ConstantOfShape", {"column"}, {"zeros"}), op("Cast", {"zeros"}, {"of_column"}, to_index),
             op("Concat", {"of_row", "of_column"}, {"tuples"}, {{"axis", std::int64_t{1}}}),
             op("GatherND", {"x", "tuples"}, {"y"})},
            {{"zero", integer(0)},
             {"one", integer(1)},
             {"end", integers({-1})},
             {"first", integers({0})},
             {"ones", integers({1})}}};
    };
    expect_proven(gathered(7));
    expect_proven(gathered(6));
    for (const std::int64_t narrow : {9, 3, 2, 10, 1}) expect_mixed(gathered(narrow), "Cast", "rounds the numbers");
}

TEST(row_independence, what_the_number_of_rows_does_is_known_only_where_it_is_read) {
    expect_mixed({image(),
                  {op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "first"}, {"n"}),
                   op("Cast", {"n"}, {"f"}, {{"to", std::int64_t{1}}}),
                   op("Concat", {"f", "f"}, {"scales"}, {{"axis", std::int64_t{0}}}),
                   op("Resize", {"x", "", "scales"}, {"r"}, {{"mode", "nearest"}, {"axes", ints{2, 3}}}),
                   op("ReduceSum", {"r", "axes"}, {"y"}, {{"keepdims", std::int64_t{0}}})},
                  {{"first", integers({0})}, {"axes", integers({1, 2, 3})}}},
                 "Resize", "number of rows");
}

TEST(row_independence, zero_points_and_slopes_of_each_row_are_refused) {
    expect_mixed({{input("x", {n(), of(2)}, io::dtype::u8)},
                  {op("MatMulInteger", {"x", "w", "z"}, {"y"})},
                  {{"w", tensor_of(std::vector<std::uint8_t>{1, 2, 3, 4}, {2, 2})},
                   {"z", tensor_of(std::vector<std::uint8_t>{1, 2, 3, 4}, {4, 1})}}},
                 "MatMulInteger", "zero point");
    expect_mixed({{input("x", {n(), of(1), of(5)})},
                  {op("Transpose", {"x"}, {"t"}, {{"perm", ints{1, 0, 2}}}), op("PRelu", {"t", "slope"}, {"p"}),
                   op("Transpose", {"p"}, {"y"}, {{"perm", ints{1, 0, 2}}})},
                  {{"slope", floats({5})}},
                  {"y"},
                  6},
                 "PRelu", "slopes");
}

// --- images ---------------------------------------------------------------------------------------------------------

TEST(row_independence, networks_for_images_pass) {
    expect_proven({image(),
                   {op("Conv", {"x", "w", "b"}, {"a"}, {{"pads", ints{1, 1, 1, 1}}}), op("Relu", {"a"}, {"r"}),
                    op("MaxPool", {"r"}, {"p"}, {{"kernel_shape", ints{2, 2}}, {"strides", ints{2, 2}}}),
                    op("GlobalAveragePool", {"p"}, {"g"}), op("Flatten", {"g"}, {"f"}), op("Gemm", {"f", "v"}, {"y"})},
                   {{"w", floats({6, 3, 3, 3})}, {"b", floats({6})}, {"v", floats({6, 2})}}});
    // A number instead of 0 or Flatten, as converters from TensorFlow write it.
    expect_proven({image(),
                   {op("Conv", {"x", "w"}, {"a"}, {{"pads", ints{1, 1, 1, 1}}}), op("Reshape", {"a", "to"}, {"f"}),
                    op("MatMul", {"f", "v"}, {"y"})},
                   {{"w", floats({6, 3, 3, 3})}, {"to", integers({-1, 384})}, {"v", floats({384, 2})}}});
    expect_mixed({image(), {op("MaxPool", {"x"}, {"y", "i"}, {{"kernel_shape", ints{2, 2}}})}, {}, {"y", "i"}},
                 "MaxPool", "count the images before");
    expect_mixed({image(), {op("Conv", {"x", "x"}, {"y"})}}, "Conv", "depend on the rows");
}

TEST(row_independence, resize_passes_where_it_leaves_the_rows_alone) {
    const auto resized = [](std::vector<float> scales) {
        return parts{
            image(), {op("Resize", {"x", "", "s"}, {"y"}, {{"mode", "linear"}})}, {{"s", tensor_of(scales, {4})}}};
    };
    expect_proven(resized({1, 1, 2, 2}));
    expect_mixed(resized({2, 1, 1, 1}), "Resize", "another number of rows");
    expect_proven({image(),
                   {op("Shape", {"x"}, {"two"}, {{"end", std::int64_t{2}}}),
                    op("Concat", {"two", "size"}, {"sizes"}, {{"axis", std::int64_t{0}}}),
                    op("Resize", {"x", "", "", "sizes"}, {"y"}, {{"mode", "nearest"}})},
                   {{"size", integers({16, 16})}}});
}

// --- sequences
// --------------------------------------------------------------------------------------------------------

TEST(row_independence, recurrent_layers_have_the_rows_at_the_axis_of_their_layout) {
    const std::map<std::string, constant, std::less<>> weights{{"w", floats({1, 12, 4})}, {"r", floats({1, 12, 3})}};
    const auto layer = [&](std::vector<value_info> inputs, attributes with) {
        with.emplace("hidden_size", std::int64_t{3});
        const bool has_state = inputs.size() > 1;
        return found({std::move(inputs),
                      {op("LSTM",
                          has_state ? std::vector<std::string>{"x", "w", "r", "", "", "h", "h"}
                                    : std::vector<std::string>{"x", "w", "r"},
                          {"y", "last"}, std::move(with))},
                      weights,
                      {"y", "last"}});
    };
    row_independence its = layer({input("x", {s(), n(), of(4)})}, {});
    EXPECT_TRUE(its.is_proven) << its.text();
    EXPECT_THAT(its.input_axes, ElementsAre(1));
    EXPECT_THAT(its.output_axes, ElementsAre(2, 1));
    EXPECT_FALSE(its.is_along_first_axes());
    EXPECT_THAT(its.text(), HasSubstr("axes 1 of the inputs and 2, 1 of the outputs"));
    // The state's rows are found by the name of their dimension.
    its = layer({input("x", {s(), n(), of(4)}), input("h", {of(1), n(), of(3)})}, {});
    EXPECT_TRUE(its.is_proven) << its.text();
    EXPECT_THAT(its.input_axes, ElementsAre(1, 1));
    // A fixed number of steps, and the first dimension as rows: they are steps of one sequence.
    EXPECT_FALSE(layer({input("x", {n(), of(1), of(4)})}, {}).is_proven);
    // Transposed before and after, as a layer whose rows are first is exported.
    expect_proven({{input("x", {n(), s(), of(4)})},
                   {op("Transpose", {"x"}, {"t"}, {{"perm", ints{1, 0, 2}}}),
                    op("LSTM", {"t", "w", "r"}, {"l"}, {{"hidden_size", std::int64_t{3}}}),
                    op("Squeeze", {"l", "one"}, {"q"}), op("Transpose", {"q"}, {"y"}, {{"perm", ints{1, 0, 2}}})},
                   {{"w", floats({1, 12, 4})}, {"r", floats({1, 12, 3})}, {"one", integers({1})}}});
}

// --- quantized, learning
// ----------------------------------------------------------------------------------------------

TEST(row_independence, scales_of_constants_pass_and_a_scale_of_the_batch_does_not) {
    const std::map<std::string, constant, std::less<>> numbers{{"s", tensor_of(std::vector<float>{0.1f}, {})},
                                                               {"z", tensor_of(std::vector<std::uint8_t>{3}, {})}};
    expect_proven({matrix(),
                   {op("QuantizeLinear", {"x", "s", "z"}, {"q"}), op("DequantizeLinear", {"q", "s", "z"}, {"y"})},
                   numbers});
    expect_mixed(
        {matrix(),
         {op("DynamicQuantizeLinear", {"x"}, {"q", "t", "u"}), op("DequantizeLinear", {"q", "t", "u"}, {"y"})}},
        "DynamicQuantizeLinear", "one scale");
}

TEST(row_independence, operators_of_machine_learning_compute_rows) {
    expect_proven({matrix(),
                   {op("ai.onnx.ml.Scaler", {"x"}, {"a"},
                       {{"offset", std::vector<float>(4)}, {"scale", std::vector<float>(4, 2.f)}}),
                    op("ai.onnx.ml.Normalizer", {"a"}, {"b"}, {{"norm", "L2"}}),
                    op("ai.onnx.ml.LinearRegressor", {"b"}, {"y"},
                       {{"coefficients", std::vector<float>(4, 1.f)}, {"targets", std::int64_t{1}}})}});
}

// --- what mixes ------------------------------------------------------------------------------------------------------

TEST(row_independence, operators_that_mix_are_named) {
    expect_mixed({matrix(), {op("NonZero", {"x"}, {"y"})}}, "NonZero", "all rows");
    expect_mixed({matrix(), {op("Unique", {"x"}, {"y"})}}, "Unique", "all rows");
    expect_mixed(
        {matrix(), {op("Compress", {"x", "c"}, {"y"})}, {{"c", tensor_of(std::vector<std::uint8_t>{1, 0}, {2})}}},
        "Compress", "places depend");
    expect_mixed({matrix(), {op("RandomNormalLike", {"x"}, {"r"}), op("Add", {"x", "r"}, {"y"})}}, "RandomNormalLike",
                 "draws");
    expect_mixed({matrix(), {op("RandomNormal", {}, {"r"}, {{"shape", ints{1, 4}}}), op("Add", {"x", "r"}, {"y"})}},
                 "RandomNormal", "draws");
    expect_mixed({matrix(), {op("Bernoulli", {"x"}, {"y"})}}, "Bernoulli", "draws");
}

graph branch(std::vector<node> nodes, std::string output) {
    graph made;
    made.nodes = std::move(nodes);
    made.outputs.push_back({std::move(output), io::dtype::f32, {}});
    return made;
}

TEST(row_independence, a_condition_that_depends_on_a_row_mixes) {
    const auto divided = [](std::vector<node> condition, std::map<std::string, constant, std::less<>> numbers) {
        condition.push_back(
            op("If", {"is_byte"}, {"y"},
               {{"then_branch", std::make_shared<const graph>(branch({op("Div", {"x", "k"}, {"t"})}, "t"))},
                {"else_branch", std::make_shared<const graph>(branch({op("Identity", {"x"}, {"e"})}, "e"))}}));
        numbers.emplace("k", tensor_of(std::vector<float>{255}, {}));
        return parts{matrix(), std::move(condition), std::move(numbers)};
    };
    expect_mixed(divided({op("ReduceMax", {"x"}, {"most"}, {{"keepdims", std::int64_t{0}}}),
                          op("Greater", {"most", "k"}, {"is_byte"})},
                         {}),
                 "ReduceMax", "all rows");
    // One that only depends on the width.
    expect_proven(divided({op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "one"}, {"width"}),
                           op("Equal", {"width", "four"}, {"is_byte"})},
                          {{"one", integer(1)}, {"four", integer(4)}}));
    // One that depends on how many rows there are.
    expect_mixed(divided({op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "zero"}, {"rows"}),
                          op("Equal", {"rows", "one"}, {"is_byte"})},
                         {{"one", integer(1)}, {"zero", integer(0)}}),
                 "Equal", "number of rows");
}

graph loop_body(std::vector<node> nodes, std::string output) {
    graph made = branch(std::move(nodes), "goes_on");
    made.inputs = {{"round", io::dtype::i64, {}}, {"goes_on", io::dtype::boolean, {}}, {"old", io::dtype::f32, {}}};
    made.outputs.push_back({std::move(output), io::dtype::f32, {}});
    return made;
}

// The Loop takes nothing of the rows, and is in the company of none of them.
TEST(row_independence, random_numbers_from_a_graph_of_a_node_mix) {
    const auto clipped = [](node inner) {
        return parts{matrix(),
                     {op("Loop", {"rounds", "", "low"}, {"bound"},
                         {{"body", std::make_shared<const graph>(loop_body({std::move(inner)}, "new"))}}),
                      op("Clip", {"x", "bound"}, {"y"})},
                     {{"rounds", integer(2)}, {"low", tensor_of(std::vector<float>{0}, {})}}};
    };
    expect_proven(clipped(op("Neg", {"old"}, {"new"})));
    expect_mixed(clipped(op("RandomNormalLike", {"old"}, {"new"})), "Loop", "random numbers");
}

TEST(row_independence, a_row_in_a_graph_may_not_have_a_length_of_its_own) {
    const auto counted = [](bool depends) {
        graph body;
        body.inputs = {{"row", io::dtype::i64, {}}};
        body.outputs = {{"each", io::dtype::i64, {}}};
        body.nodes = {op("OneHot", {"row", depends ? "row" : "two", "values"}, {"each"})};
        return parts{
            {input("x", {n()}, io::dtype::i64)},
            {op("Scan", {"x"}, {"y"},
                {{"body", std::make_shared<const graph>(std::move(body))}, {"num_scan_inputs", std::int64_t{1}}})},
            {{"two", integer(2)}, {"values", integers({0, 1})}}};
    };
    expect_proven(counted(false));
    expect_mixed(counted(true), "Scan", "another length");
}

// A number that a graph has for an input of its own is only there for where none is given.
TEST(row_independence, what_a_graph_is_given_is_not_the_constant_of_that_name) {
    graph body;
    body.inputs = {{"row", io::dtype::i64, {}}};
    body.outputs = {{"each", io::dtype::i64, {}}};
    body.constants.emplace("row", integer(2));
    body.nodes = {op("OneHot", {"two", "row", "values"}, {"each"})};
    EXPECT_FALSE(
        found({{input("x", {n()}, io::dtype::i64)},
               {op("Scan", {"x"}, {"y"},
                   {{"body", std::make_shared<const graph>(std::move(body))}, {"num_scan_inputs", std::int64_t{1}}})},
               {{"two", integer(2)}, {"values", integers({0, 1})}}})
            .is_proven);
}

// In f32, 1 / 49 * 49 is less than 1, and 0 as a whole number.
TEST(row_independence, a_rounded_number_of_rows_is_not_the_number_of_rows) {
    const auto filled = [](float by) {
        return parts{
            matrix(),
            {op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "zero"}, {"rows"}),
             op("Cast", {"rows"}, {"real"}, {{"to", std::int64_t{1}}}), op("Div", {"real", "by"}, {"part"}),
             op("Mul", {"part", "by"}, {"again"}), op("Cast", {"again"}, {"whole"}, {{"to", std::int64_t{7}}}),
             op("Concat", {"whole", "four"}, {"to"}, {{"axis", std::int64_t{0}}}),
             op("ConstantOfShape", {"to"}, {"y"})},
            {{"zero", integers({0})}, {"four", integers({4})}, {"by", tensor_of(std::vector<float>{by}, {1})}}};
    };
    expect_proven(filled(2));
    EXPECT_FALSE(found(filled(49)).is_proven);
}

// 8 / 3 in f32 is 2.67 and becomes 3, so the sum runs along the rows; as whole numbers 8 / 3 is 2.
TEST(row_independence, a_quotient_of_real_numbers_is_not_that_of_whole_ones) {
    const auto summed = [](float by) {
        return parts{
            {input("x", {n(), of(8)})},
            {op("Shape", {"x"}, {"shape"}), op("Cast", {"shape"}, {"real"}, {{"to", std::int64_t{1}}}),
             op("Gather", {"real", "one"}, {"width"}), op("Div", {"width", "by"}, {"part"}),
             op("Ceil", {"part"}, {"up"}), op("Cast", {"up"}, {"whole"}, {{"to", std::int64_t{7}}}),
             op("Sub", {"three", "whole"}, {"axis"}), op("CumSum", {"x", "axis"}, {"y"})},
            {{"one", integers({1})}, {"by", tensor_of(std::vector<float>{by}, {1})}, {"three", integers({3})}}};
    };
    expect_proven(summed(4));  // along axis 1
    EXPECT_FALSE(found(summed(3)).is_proven);
}

// 16403 * 1023 is no number of f32.
TEST(row_independence, a_product_that_a_real_number_cannot_hold_is_not_a_multiple_of_the_rows) {
    const auto filled = [](float by) {
        return parts{
            matrix(),
            {op("Shape", {"x"}, {"shape"}), op("Gather", {"shape", "zero"}, {"rows"}),
             op("Cast", {"rows"}, {"real"}, {{"to", std::int64_t{1}}}), op("Mul", {"real", "by"}, {"more"}),
             op("Div", {"more", "by"}, {"again"}), op("Cast", {"again"}, {"whole"}, {{"to", std::int64_t{7}}}),
             op("Concat", {"whole", "four"}, {"to"}, {{"axis", std::int64_t{0}}}),
             op("ConstantOfShape", {"to"}, {"y"})},
            {{"zero", integers({0})}, {"four", integers({4})}, {"by", tensor_of(std::vector<float>{by}, {1})}}};
    };
    expect_proven(filled(3));
    EXPECT_FALSE(found(filled(16403)).is_proven);
}

TEST(row_independence, an_operator_of_the_users_own_is_not_assumed_to_keep_rows_apart) {
    model from = network_of({matrix(), {op("com.example.Mine", {"x"}, {"y"})}});
    from.opsets["com.example"] = 1;
    const own_operators own({{.domain = "com.example", .name = "Mine", .run = [](operator_call&) {}}});
    const row_independence its = find_row_independence(from, own);
    EXPECT_FALSE(its.is_proven);
    EXPECT_EQ(its.op, "Mine");
    EXPECT_THAT(its.why, HasSubstr("no rule"));
}

// --- inputs and outputs --------------------------------------------------------------------------------------------

TEST(row_independence, inputs_and_outputs_must_have_rows) {
    EXPECT_THAT(found({{input("x", {of(2), of(4)})}, {op("Relu", {"x"}, {"y"})}}).text(),
                HasSubstr("no dimension of any length"));
    // The side input has no rows.
    EXPECT_FALSE(found({{input("x", {n(), of(4)}), input("b", {of(4)})}, {op("Add", {"x", "b"}, {"y"})}}).is_proven);
    expect_mixed({matrix(), {op("Relu", {"x"}, {"z"}), op("Neg", {"c"}, {"y"})}, {{"c", floats({4})}}, {"z", "y"}},
                 "Neg", "the same for any rows");
    expect_mixed({matrix(), {op("Shape", {"x"}, {"y"})}}, "Shape", "the number of rows");
    // Two inputs with one length.
    expect_proven({{input("x", {n(), of(4)}), input("z", {n(), of(4)})}, {op("Add", {"x", "z"}, {"y"})}});
    // One name is one length: it may not be the width too.
    EXPECT_FALSE(found({{input("x", {n(), n()})}, {op("Relu", {"x"}, {"y"})}}).is_proven);
    EXPECT_FALSE(
        found({{input("x", {n(), of(4)}), input("z", {of(4), n()})}, {op("MatMul", {"x", "z"}, {"y"})}}).is_proven);
    // Only what reaches an output counts.
    expect_proven({matrix(), {op("NonZero", {"x"}, {"unused"}), op("Relu", {"x"}, {"y"})}});
}

// Every operator has a line: a rule, or the reason why rows mix.
TEST(row_independence, every_operator_of_the_table_has_a_rule_or_a_reason) {
    std::set<std::pair<std::string_view, std::string_view>> known;
    for (const operators::definition* const each : operators::all_operators()) {
        known.emplace(each->domain, each->name);
        const rows::rule_of_operator* const its = rows::all_rules().find(each->domain, each->name);
        ASSERT_TRUE(its != nullptr) << each->domain << ' ' << each->name;
        EXPECT_TRUE((its->how != nullptr) != !its->why.empty()) << each->name;
    }
    for (const rows::rule_of_operator* const each : rows::list_of_rules())
        EXPECT_TRUE(known.contains({each->domain, each->name})) << each->domain << ' ' << each->name;
}

}  // namespace
}  // namespace sluice::nn::row_independence_tests
