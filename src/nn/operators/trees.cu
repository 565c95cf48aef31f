// SPDX-License-Identifier: Apache-2.0
// Kernels of trees: for a GPU, and for what tree_program.hpp leaves to them.
#include "nn/operators/trees.hpp"

#include <cmath>

#include "nn/operators/launch_each.hpp"

namespace sluice::nn::operators {
namespace {

template <typename T>
struct tree_walk {
    const T* x;
    const tree_node* nodes;
    const tree_place* roots;
    const double* members;
    std::size_t columns, trees;

    SLUICE_KERNEL bool passes(const tree_node& node, double value) const {
        if (value != value) return node.missing_is_yes;
        switch (node.test) {
            case tree_test::less_equal: return value <= node.split;
            case tree_test::less: return value < node.split;
            case tree_test::greater_equal: return value >= node.split;
            case tree_test::greater: return value > node.split;
            case tree_test::equal: return value == node.split;
            case tree_test::not_equal: return value != node.split;
            case tree_test::member: break;
        }
        for (std::int32_t k = node.members_begin; k < node.members_end; ++k)
            if (members[k] == value) return true;
        return false;
    }
    // There is no circle: the tables are checked.
    SLUICE_KERNEL std::int32_t leaf(std::size_t row, std::size_t tree) const {
        tree_place at = roots[tree];
        while (at >= 0) {
            const tree_node& node = nodes[at];
            at = passes(node, static_cast<double>(x[row * columns + static_cast<std::size_t>(node.feature)])) ? node.yes
                                                                                                              : node.no;
        }
        return ~at;
    }
};

// One index for each row and tree.
template <typename T>
struct tree_leaf_kernel {
    tree_walk<T> walk;
    std::int32_t* to;

    SLUICE_KERNEL void operator()(std::size_t i) const { to[i] = walk.leaf(i / walk.trees, i % walk.trees); }
};

// One index for each row.
template <typename T>
struct tree_score_kernel {
    tree_walk<T> walk;
    const std::int32_t* leaves;  // null: they are looked for here
    const std::int32_t* weights_begin;
    const tree_weight* weights;
    const double* base;  // null: none
    double* to;
    std::size_t targets;
    in_word<tree_sum> sum;

    SLUICE_KERNEL void operator()(std::size_t row) const {
        double* const out = to + row * targets;
        const bool is_sum = sum == tree_sum::sum || sum == tree_sum::average;
        // NaN: no leaf has given anything.
        for (std::size_t k = 0; k < targets; ++k) out[k] = is_sum ? 0 : NAN;
        for (std::size_t tree = 0; tree < walk.trees; ++tree) {
            const std::int32_t leaf = leaves != nullptr ? leaves[row * walk.trees + tree] : walk.leaf(row, tree);
            for (std::int32_t k = weights_begin[leaf]; k < weights_begin[leaf + 1]; ++k) {
                const double weight = weights[k].weight;
                double& own = out[weights[k].target];
                if (is_sum) {
                    own += weight;
                } else if (own != own || (sum == tree_sum::least ? weight < own : weight > own)) {
                    own = weight;
                }
            }
        }
        for (std::size_t k = 0; k < targets; ++k) {
            if (sum == tree_sum::average) out[k] /= static_cast<double>(walk.trees);
            if (!is_sum && out[k] != out[k]) out[k] = 0;
            if (base != nullptr) out[k] += base[k];
        }
    }
};

// With more, the leaves are not kept.
constexpr std::size_t most_kept_leaves = std::size_t{1} << 25;

}  // namespace

void score_by_walks(node_call& in, const feature_matrix& of, const tree_view& all_of, const any_tensor& from,
                    const any_tensor& scores) {
    const std::size_t trees = all_of.trees;
    const bool keeps = trees == 0 || of.rows <= most_kept_leaves / trees;
    const any_tensor leaves = in.make(io::dtype::i32, {keeps ? of.rows : 0, trees});
    with_features(of, [&]<typename T>() {
        const tree_walk<T> walk{in.read<T>(of.x), all_of.nodes, all_of.roots, all_of.members, of.columns, trees};
        each(in, leaves.elements(), tree_leaf_kernel<T>{walk, in.write<std::int32_t>(leaves)}, {&of.x, &from},
             {&leaves});
        each(in, of.rows,
             tree_score_kernel<T>{walk, keeps ? in.read<std::int32_t>(leaves) : nullptr, all_of.weights_begin,
                                  all_of.weights, all_of.base, in.write<double>(scores), all_of.targets, all_of.sum},
             {&of.x, &from, &leaves}, {&scores});
    });
}

}  // namespace sluice::nn::operators
