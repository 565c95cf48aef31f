// SPDX-License-Identifier: Apache-2.0
// The tables that TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml become.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/operators/machine_learning.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

enum class tree_test : std::uint8_t { less_equal, less, greater_equal, greater, equal, not_equal, member };
// rounded: begins with the base values, and is rounded to f32 after each addition.
enum class tree_sum : std::uint8_t { average, sum, least, most, rounded };

SLUICE_KERNEL constexpr bool is_added_up(tree_sum how) {
    return how == tree_sum::sum || how == tree_sum::average || how == tree_sum::rounded;
}
// The sum of two f32 numbers in f64, rounded to f32, is their sum in f32: f64 has more than twice the digits.
SLUICE_KERNEL inline double sum_of_trees(double sum, double weight, tree_sum how) {
    return how == tree_sum::rounded ? static_cast<double>(static_cast<float>(sum + weight)) : sum + weight;
}

// Where a test leads to: a node, or ~leaf.
using tree_place = std::int32_t;

struct tree_node {
    double split = 0;
    std::int32_t feature = 0;
    tree_place yes = 0, no = 0;
    std::int32_t members_begin = 0, members_end = 0;
    tree_test test = tree_test::less_equal;
    bool missing_is_yes = false;
    std::uint16_t unused = 0;  // no padding: a graph compares the bytes that it uploads
};
struct tree_weight {
    double weight;
    std::int64_t target;
};

struct tree_tables {
    std::vector<tree_node> nodes;
    std::vector<tree_place> roots;
    std::vector<std::int32_t> weights_begin;  // of each leaf; and the end of all
    std::vector<tree_weight> weights;
    std::vector<double> members;
    std::vector<double> base;  // empty, or a number for each target
    std::size_t targets = 0;
    tree_sum sum = tree_sum::sum;
    other_score other = other_score::absent;  // of a classifier
};

inline std::size_t leaves_of(const tree_tables& in) { return in.weights_begin.size() - 1; }

// The tables of a node's attributes, whichever of the three operators it is. Refuses wrong ones; which features the
// rows have is not known here.
tree_tables tables_of_trees(const node_call& in);
// Where the tables are that a kernel reads.
struct tree_view {
    const tree_node* nodes;
    const tree_place* roots;
    const std::int32_t* weights_begin;
    const tree_weight* weights;
    const double* members;
    const double* base;  // null: none
    std::size_t trees, targets;
    tree_sum sum;
};

// Writes the f64 [rows, targets] scores by a kernel for any trees. `from`: what has the tables.
void score_by_walks(node_call& in, const feature_matrix& of, const tree_view& all_of, const any_tensor& from,
                    const any_tensor& scores);

}  // namespace sluice::nn::operators
