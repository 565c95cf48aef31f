// SPDX-License-Identifier: Apache-2.0
// Trees of many kinds at random: f32 rows, which a CPU takes through its vector units, get the bits that the same rows
// get in f64, which are led to a leaf one by one. And each loop of each unit finds the leaf that a plain walk finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/operators/tree_loops.hpp"
#include "nn/prepared_network.hpp"
#include "nn/support/single_nodes.hpp"

namespace sluice::nn::tree_families_tests {
namespace {

using namespace test_support;

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

struct forest {
    std::vector<std::int64_t> trees, ids, features, yes, no, missing;
    std::vector<std::string> modes;
    std::vector<float> splits;
    std::vector<std::int64_t> weight_trees, weight_ids, weight_targets;
    std::vector<float> weights;
};

class tree_families : public ::testing::Test {
protected:
    std::size_t any(std::size_t count) { return numbers_() % count; }
    float number() {
        static const float odd[] = {0, -0.0f, 1, -1, inf, -inf, nan, 1e-40f, -1e-40f, 3.4e38f, -3.4e38f, 0.5f};
        if (any(6) == 0) return odd[any(std::size(odd))];
        return static_cast<float>(static_cast<int>(any(41)) - 20) / 8;
    }
    float split() {
        const float made = number();
        return std::isnan(made) && any(8) != 0 ? 0.25f : made;
    }

    // A tree with this many leaves; its nodes are listed in an order of their own if asked.
    void grow(forest& to, std::int64_t tree, std::size_t leaves, std::size_t columns,
              const std::vector<std::string>& modes, std::size_t targets, std::size_t most_weights, bool is_shuffled) {
        struct one {
            bool is_leaf = true;
            std::size_t yes = 0, no = 0;
        };
        std::vector<one> nodes(1);
        std::vector<std::size_t> open{0};
        while (open.size() < leaves) {
            const std::size_t at = any(open.size()), node = open[at];
            nodes[node] = {false, nodes.size(), nodes.size() + 1};
            open[at] = nodes.size();
            open.push_back(nodes.size() + 1);
            nodes.resize(nodes.size() + 2);
        }
        // The root stays the first that is listed.
        std::vector<std::size_t> order(nodes.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        if (is_shuffled) std::shuffle(order.begin() + 1, order.end(), numbers_);
        const std::int64_t offset = is_shuffled ? 7 : 0;
        for (const std::size_t i : order) {
            to.trees.push_back(tree);
            to.ids.push_back(static_cast<std::int64_t>(i) + offset);
            to.features.push_back(static_cast<std::int64_t>(any(columns)));
            to.yes.push_back(static_cast<std::int64_t>(nodes[i].yes) + offset);
            to.no.push_back(static_cast<std::int64_t>(nodes[i].no) + offset);
            to.modes.push_back(nodes[i].is_leaf ? "LEAF" : modes[any(modes.size())]);
            to.splits.push_back(split());
            to.missing.push_back(static_cast<std::int64_t>(any(2)));
            if (!nodes[i].is_leaf) continue;
            for (std::size_t k = 0, count = most_weights == 1 ? 1 : any(most_weights + 1); k < count; ++k) {
                to.weight_trees.push_back(tree);
                to.weight_ids.push_back(static_cast<std::int64_t>(i) + offset);
                to.weight_targets.push_back(static_cast<std::int64_t>(any(targets)));
                to.weights.push_back(static_cast<float>(any(1000)) / 333 - 1);
            }
        }
    }
    static attributes attributes_of(const forest& from, const std::string& kind, bool has_missing) {
        attributes made{{"nodes_treeids", wholes(from.trees)},        {"nodes_nodeids", wholes(from.ids)},
                        {"nodes_featureids", wholes(from.features)},  {"nodes_truenodeids", wholes(from.yes)},
                        {"nodes_falsenodeids", wholes(from.no)},      {"nodes_modes", texts(from.modes)},
                        {"nodes_values", reals(from.splits)},         {kind + "_treeids", wholes(from.weight_trees)},
                        {kind + "_nodeids", wholes(from.weight_ids)}, {kind + "_ids", wholes(from.weight_targets)},
                        {kind + "_weights", reals(from.weights)}};
        if (has_missing) made.emplace("nodes_missing_value_tracks_true", wholes(from.missing));
        return made;
    }
    template <typename T>
    static any_tensor rows_of(const std::vector<float>& values, std::size_t columns) {
        return any_tensor(std::vector<T>(values.begin(), values.end()), {values.size() / columns, columns});
    }

    std::mt19937 numbers_{17};
    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = 3, .cuda = false}};
    single_stream on_{machine_.find("cpu:0")};
};

const std::vector<std::vector<std::string>> kinds_of_modes = {{"BRANCH_LEQ"},
                                                              {"BRANCH_LT"},
                                                              {"BRANCH_GT"},
                                                              {"BRANCH_GTE", "BRANCH_LT"},
                                                              {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"},
                                                              {"BRANCH_LEQ", "BRANCH_EQ", "BRANCH_NEQ"}};

}  // namespace

TEST_F(tree_families, give_f32_rows_the_bits_that_f64_rows_get) {
    const char* const sums[] = {"SUM", "AVERAGE", "MIN", "MAX"};
    for (int round = 0; round < 150; ++round) {
        SCOPED_TRACE(round);
        const std::size_t columns = 1 + any(9), trees = 1 + any(40), targets = any(2) == 0 ? 1 : 1 + any(3);
        const bool is_classifier = any(3) == 0, is_shuffled = any(4) == 0;
        const std::size_t classes = 1 + targets, most_weights = any(2) == 0 ? 1 : 3;
        forest made;
        for (std::size_t tree = 0; tree < trees; ++tree) {
            const std::size_t leaves = any(10) == 0 ? 65 + any(200) : any(3) == 0 ? 33 + any(32) : 1 + any(32);
            grow(made, static_cast<std::int64_t>(tree * 3), leaves, columns,
                 kinds_of_modes[static_cast<std::size_t>(round) % kinds_of_modes.size()],
                 is_classifier ? classes : targets, most_weights, is_shuffled);
        }
        attributes with = attributes_of(made, is_classifier ? "class" : "target", any(2) == 0);
        if (is_classifier) {
            std::vector<std::int64_t> labels(classes);
            for (std::size_t i = 0; i < classes; ++i) labels[i] = static_cast<std::int64_t>(10 * i);
            with.emplace("classlabels_int64s", wholes(labels));
        } else {
            with.emplace("n_targets", whole(static_cast<std::int64_t>(targets)));
            with.emplace("aggregate_function", text(sums[any(4)]));
        }
        if (any(2) == 0)
            with.emplace("base_values", reals(std::vector<float>(is_classifier ? classes : targets, 0.125f)));
        for (const std::size_t rows : {std::size_t{1}, 1 + any(8), 1 + any(100)}) {
            std::vector<float> values(rows * columns);
            for (float& each : values) each = number();
            const std::string op = is_classifier ? "TreeEnsembleClassifier" : "TreeEnsembleRegressor";
            const std::size_t outputs = is_classifier ? 2 : 1;
            const auto answers =
                           run_node({op, {rows_of<float>(values, columns)}, with, "ai.onnx.ml", 17, outputs}, on_),
                       expected =
                           run_node({op, {rows_of<double>(values, columns)}, with, "ai.onnx.ml", 17, outputs}, on_);
            for (std::size_t k = 0; k < outputs; ++k) {
                ASSERT_EQ(answers[k].shape(), expected[k].shape());
                ASSERT_EQ(0,
                          std::memcmp(answers[k].bytes().data(), expected[k].bytes().data(), answers[k].size_bytes()));
            }
        }
    }
}

TEST_F(tree_families, are_read_once_for_all_batches) {
    forest trees;
    for (std::int64_t tree = 0; tree < 3; ++tree) grow(trees, tree, 20, 4, {"BRANCH_LEQ"}, 1, 1, false);
    attributes with = attributes_of(trees, "target", false);
    with.emplace("n_targets", whole(1));
    const single_node what{"TreeEnsembleRegressor", {any_tensor(std::vector<float>(4), {1, 4})}, with, "ai.onnx.ml"};
    const network ready = sync(make_network(model_of(what)), on_);
    const detail::prepared_graph& body = ready.inside().body();
    ASSERT_EQ(body.steps.size(), 1u);
    ASSERT_EQ(body.steps[0].inputs.size(), 2u);  // the rows, and what was read of the attributes
    EXPECT_TRUE(body.constants.contains(body.steps[0].inputs[1]));
}

// Trees that share nodes: a piece for each would be much larger than the file.
TEST_F(tree_families, that_share_nodes_have_them_once) {
    const auto bytes_of = [&](std::size_t roots) {
        std::vector<std::int64_t> features(63), yes(63), no(63), is_leaf(63), leaf_targets(64), begins(roots, 0);
        for (std::size_t i = 0; i < 63; ++i) {
            const bool ends = 2 * i + 1 >= 63;
            features[i] = static_cast<std::int64_t>(i % 4);
            is_leaf[i] = ends ? 1 : 0;
            yes[i] = static_cast<std::int64_t>(ends ? 2 * (i - 31) : 2 * i + 1);
            no[i] = static_cast<std::int64_t>(ends ? 2 * (i - 31) + 1 : 2 * i + 2);
        }
        std::vector<float> weights(64);
        for (std::size_t i = 0; i < 64; ++i) weights[i] = static_cast<float>(i);
        const auto numbers = [](const auto& values) {
            constant made = tensor_of(values, {values.size()});
            return attribute(std::move(made));
        };
        const attributes with = {{"n_targets", whole(1)},
                                 {"nodes_featureids", wholes(features)},
                                 {"nodes_modes", numbers(std::vector<std::uint8_t>(63, 0))},
                                 {"nodes_splits", numbers(std::vector<float>(63, 0.5f))},
                                 {"nodes_truenodeids", wholes(yes)},
                                 {"nodes_falsenodeids", wholes(no)},
                                 {"nodes_trueleafs", wholes(is_leaf)},
                                 {"nodes_falseleafs", wholes(is_leaf)},
                                 {"leaf_targetids", wholes(leaf_targets)},
                                 {"leaf_weights", numbers(weights)},
                                 {"tree_roots", wholes(begins)}};
        single_node what{"TreeEnsemble", {any_tensor(std::vector<float>{0, 1, 0, 1}, {1, 4})}, with, "ai.onnx.ml"};
        model from = model_of(what);
        from.opsets["ai.onnx.ml"] = 5;
        const network ready = sync(make_network(from), on_);
        const float one = sync(ready.run(what.inputs), on_).at(0).values<float>()[0];
        const detail::prepared_graph& body = ready.inside().body();
        return std::pair(one, body.constants.at(body.steps[0].inputs[1]).size_bytes());
    };
    const auto [of_one, bytes_of_one] = bytes_of(1);
    const auto [of_many, bytes_of_many] = bytes_of(1000);
    EXPECT_EQ(of_many, 1000 * of_one);
    EXPECT_GT(of_one, 0);
    EXPECT_LT(bytes_of_many, bytes_of_one + 1000 * 64);
}

TEST_F(tree_families, loops_of_each_unit_find_the_leaf_of_a_plain_walk) {
    using operators::tree_lanes;
    for (const operators::tree_loops* const loops : operators::known_tree_loops()) {
        for (int round = 0; round < 200; ++round) {
            // A tree of 2 to 64 leaves, in the order in which they stand.
            const std::size_t leaves = 2 + any(63), columns = 1 + any(5);
            const bool is_strict = any(2) == 0;
            struct part {
                std::size_t first, last;
            };
            std::vector<operators::tree_step> steps;
            std::vector<operators::tree_sieve> sieves;
            std::vector<std::size_t> leaf_of_step;
            const auto grow_part = [&](const auto& self, part of) -> std::int32_t {
                const auto own = static_cast<std::int32_t>(steps.size());
                steps.push_back({0, 0, {own, own}});
                leaf_of_step.push_back(of.first);
                if (of.last - of.first == 1) return own;
                const std::size_t middle = of.first + 1 + any(of.last - of.first - 1);
                const float threshold = std::isnan(number()) ? 0.5f : static_cast<float>(any(17)) / 8 - 1;
                const auto feature = static_cast<std::uint32_t>(any(columns));
                std::uint64_t dropped = 0;
                for (std::size_t k = of.first; k < middle; ++k) dropped |= std::uint64_t{1} << k;
                sieves.push_back({threshold,
                                  feature,
                                  {static_cast<std::uint32_t>(~dropped), static_cast<std::uint32_t>(~dropped >> 32)}});
                const std::int32_t passed = self(self, {of.first, middle}), failed = self(self, {middle, of.last});
                steps[static_cast<std::size_t>(own)] = {threshold, feature, {passed, failed}};
                return own;
            };
            grow_part(grow_part, {0, leaves});
            std::vector<float> rows(columns * tree_lanes);
            for (float& each : rows) each = number();
            std::int32_t sifted[tree_lanes], walked[tree_lanes];
            loops->sift(sieves.data(), sieves.size(), leaves > 32 ? 2 : 1, is_strict, rows.data(), sifted);
            loops->walk_rows(steps.data(), 0, is_strict, rows.data(), walked);
            for (std::size_t r = 0; r < tree_lanes; ++r) {
                std::vector<float> row(columns);
                for (std::size_t c = 0; c < columns; ++c) row[c] = rows[c * tree_lanes + r];
                std::int32_t at = 0;
                while (steps[static_cast<std::size_t>(at)].next[0] != at) {
                    const operators::tree_step& here = steps[static_cast<std::size_t>(at)];
                    const float x = row[here.feature];
                    at = here.next[(is_strict ? x < here.threshold : x <= here.threshold) ? 0 : 1];
                }
                const std::int32_t roots[] = {0, 0, 0};
                std::int32_t alone[3];
                loops->walk_trees(steps.data(), roots, 3, is_strict, row.data(), alone);
                EXPECT_EQ(alone[2], at);
                EXPECT_EQ(walked[r], at);
                EXPECT_EQ(static_cast<std::size_t>(sifted[r]), leaf_of_step[static_cast<std::size_t>(at)]);
            }
        }
    }
}

}  // namespace sluice::nn::tree_families_tests
