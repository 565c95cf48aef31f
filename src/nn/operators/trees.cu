// SPDX-License-Identifier: Apache-2.0
// Kernels of trees: for a GPU, and for what tree_program.hpp leaves to them; and what becomes of their scores.
#include "nn/operators/trees.hpp"

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/tree_links.hpp"

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
        const bool is_sum = is_added_up(sum), begins_with_base = sum == tree_sum::rounded && base != nullptr;
        // NaN: no leaf has given anything.
        for (std::size_t k = 0; k < targets; ++k) out[k] = begins_with_base ? base[k] : is_sum ? 0 : NAN;
        for (std::size_t tree = 0; tree < walk.trees; ++tree) {
            const std::int32_t leaf = leaves != nullptr ? leaves[row * walk.trees + tree] : walk.leaf(row, tree);
            for (std::int32_t k = weights_begin[leaf]; k < weights_begin[leaf + 1]; ++k) {
                const double weight = weights[k].weight;
                double& own = out[weights[k].target];
                if (is_sum) {
                    own = sum_of_trees(own, weight, sum);
                } else if (own != own || (sum == tree_sum::least ? weight < own : weight > own)) {
                    own = weight;
                }
            }
        }
        for (std::size_t k = 0; k < targets; ++k) {
            if (sum == tree_sum::average) out[k] /= static_cast<double>(walk.trees);
            if (!is_sum && out[k] != out[k]) out[k] = 0;
            if (base != nullptr && !begins_with_base) out[k] += base[k];
        }
    }
};

// With more, the leaves are not kept.
constexpr std::size_t most_kept_leaves = std::size_t{1} << 25;

// --- links ------------------------------------------------------------------------------------------------------

constexpr std::array<std::pair<std::string_view, tree_link>, 9> link_names{
    {{"IDENTITY", tree_link::identity},
     {"SIGMOID", tree_link::sigmoid},
     {"SOFTMAX", tree_link::softmax},
     {"EXPONENT", tree_link::exponent},
     {"LOG1P_EXPONENT", tree_link::log1p_exponent},
     {"SIGNED_SQUARE", tree_link::signed_square},
     {"STEP", tree_link::step},
     {"LARGEST", tree_link::largest},
     {"TWO_CLASSES", tree_link::two_classes}}};

SLUICE_KERNEL inline double tree_sigmoid(double x, double factor) { return 1 / (1 + std::exp(-factor * x)); }
// As XGBoost: exp does not overflow.
SLUICE_KERNEL inline float tree_sigmoid(float x, double) {
    const float limit = 88.7F, negative = limit < -x ? limit : -x;
    return 1 / (std::exp(negative) + 1);
}

template <typename T>
SLUICE_KERNEL inline T linked_score(T x, tree_link how, double factor) {
    switch (how) {
        case tree_link::sigmoid: return tree_sigmoid(x, factor);
        case tree_link::exponent: return std::exp(x);
        case tree_link::log1p_exponent: return std::log1p(std::exp(x));
        case tree_link::signed_square: return (x > 0 ? T(1) : x < 0 ? T(-1) : T(0)) * x * x;
        case tree_link::step: return x > 0 ? T(1) : T(0);
        default: return x;
    }
}

// The sum of the exponents is f64 in all three libraries.
template <typename T>
SLUICE_KERNEL inline void tree_softmax(T* x, std::size_t count) {
    T most = x[0];
    for (std::size_t k = 1; k < count; ++k) most = x[k] > most ? x[k] : most;
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k) {
        x[k] = std::exp(x[k] - most);
        sum += static_cast<double>(x[k]);
    }
    for (std::size_t k = 0; k < count; ++k) x[k] /= static_cast<T>(sum);
}

// One index for each row.
template <typename T>
struct link_kernel {
    const double* from;
    T* to;
    std::size_t columns, made;
    double divisor, factor;
    in_word<tree_link> how;

    SLUICE_KERNEL void operator()(std::size_t row) const {
        const double* const in = from + row * columns;
        T* const out = to + row * made;
        if (how == tree_link::two_classes) {
            out[1] = tree_sigmoid(static_cast<T>(in[0]), factor);
            out[0] = 1 - out[1];
            return;
        }
        if (how == tree_link::largest) {
            std::size_t best = 0;
            for (std::size_t k = 1; k < columns; ++k)
                if (in[k] > in[best]) best = k;
            out[0] = static_cast<T>(best);
            return;
        }
        for (std::size_t k = 0; k < columns; ++k) out[k] = linked_score(static_cast<T>(in[k] / divisor), how, factor);
        if (how == tree_link::softmax) tree_softmax(out, columns);
    }
};

template <typename T>
void give_linked_as(node_call& in, const any_tensor& scores, const tree_link_form& form) {
    const std::size_t rows = scores.shape()[0], columns = scores.shape()[1];
    const std::size_t made = form.kind == tree_link::two_classes ? 2 : form.kind == tree_link::largest ? 1 : columns;
    const any_tensor& to = in.make_output(0, io::dtype_of<T>, {rows, made});
    each(in, rows,
         link_kernel<T>{in.read<double>(scores), in.write<T>(to), columns, made, form.divisor, form.factor, form.kind},
         {&scores}, {&to});
}

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

tree_link tree_link_of(const node_call& in) {
    const std::string wanted = in.text("link", "IDENTITY");
    for (const auto& [name, kind] : link_names)
        if (name == wanted) return kind;
    in.refuse("has the link '" + wanted + "'");
}

void give_linked(node_call& in, const any_tensor& scores, const tree_link_form& form, bool is_rounded) {
    if (form.kind == tree_link::two_classes && scores.shape()[1] != 1)
        in.refuse("makes two classes of " + std::to_string(scores.shape()[1]) + " scores");
    is_rounded ? give_linked_as<float>(in, scores, form) : give_linked_as<double>(in, scores, form);
}

}  // namespace sluice::nn::operators
