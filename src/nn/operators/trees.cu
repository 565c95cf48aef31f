// SPDX-License-Identifier: Apache-2.0
// TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml. All three become the same tables.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/machine_learning.hpp"

namespace sluice::nn::operators {
namespace {

// --- tables ----------------------------------------------------------------------------------------------------

enum class tree_test : std::uint8_t { less_equal, less, greater_equal, greater, equal, not_equal, member };
enum class tree_sum : std::uint8_t { average, sum, least, most };

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
};

std::size_t leaves_of(const tree_tables& in) { return in.weights_begin.size() - 1; }

// --- the kernels -----------------------------------------------------------------------------------------------

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

// f64 [rows, targets].
any_tensor tree_scores(node_call& in, const feature_matrix& of, const tree_tables& all_of) {
    const any_tensor nodes = table_of_structures(in, all_of.nodes), roots = table_of(in, all_of.roots),
                     begins = table_of(in, all_of.weights_begin), weights = table_of_structures(in, all_of.weights),
                     members = table_of(in, all_of.members), base = table_of(in, all_of.base);
    const any_tensor scores = in.make(io::dtype::f64, {of.rows, all_of.targets});
    const std::size_t trees = all_of.roots.size();
    const bool keeps = trees == 0 || of.rows <= most_kept_leaves / trees;
    const any_tensor leaves = in.make(io::dtype::i32, {keeps ? of.rows : 0, trees});
    with_features(of, [&]<typename T>() {
        const tree_walk<T> walk{in.read<T>(of.x),
                                in.read<tree_node>(nodes),
                                in.read<tree_place>(roots),
                                in.read<double>(members),
                                of.columns,
                                trees};
        each(in, leaves.elements(), tree_leaf_kernel<T>{walk, in.write<std::int32_t>(leaves)},
             {&of.x, &nodes, &roots, &members}, {&leaves});
        each(in, of.rows,
             tree_score_kernel<T>{walk, keeps ? in.read<std::int32_t>(leaves) : nullptr, in.read<std::int32_t>(begins),
                                  in.read<tree_weight>(weights), all_of.base.empty() ? nullptr : in.read<double>(base),
                                  in.write<double>(scores), all_of.targets, all_of.sum},
             {&of.x, &nodes, &roots, &members, &leaves, &begins, &weights, &base}, {&scores});
    });
    return scores;
}

// --- checks ----------------------------------------------------------------------------------------------------

void require_tree_count(const node_call& in, std::string_view list, std::size_t count, std::size_t expected) {
    if (count != expected)
        in.refuse("has " + std::to_string(count) + " " + std::string(list) + " for " + std::to_string(expected));
}

// Every way from a root ends in a leaf.
void require_no_circle(const node_call& in, const tree_tables& all_of) {
    enum class state : std::uint8_t { unseen, open, done };
    std::vector<state> of(all_of.nodes.size(), state::unseen);
    std::vector<tree_place> way;
    for (const tree_place root : all_of.roots) {
        if (root >= 0) way.push_back(root);
        while (!way.empty()) {
            const auto at = static_cast<std::size_t>(way.back());
            if (of[at] != state::unseen) {
                of[at] = state::done;
                way.pop_back();
                continue;
            }
            of[at] = state::open;
            for (const tree_place next : {all_of.nodes[at].yes, all_of.nodes[at].no}) {
                if (next < 0) continue;
                if (of[static_cast<std::size_t>(next)] == state::open) in.refuse("has a tree with a circle");
                if (of[static_cast<std::size_t>(next)] == state::unseen) way.push_back(next);
            }
        }
    }
}

void check_trees(const node_call& in, const tree_tables& all_of, std::size_t columns) {
    constexpr std::size_t most = std::size_t{1} << 30;
    if (all_of.nodes.size() > most || all_of.weights.size() > most || all_of.members.size() > most)
        in.refuse_unsupported("has trees that are too large");
    for (const tree_node& each_node : all_of.nodes) {
        if (each_node.feature < 0 || static_cast<std::size_t>(each_node.feature) >= columns)
            in.refuse("tests the feature " + std::to_string(each_node.feature) + " of " + std::to_string(columns));
        for (const tree_place next : {each_node.yes, each_node.no}) {
            if (next >= 0 ? static_cast<std::size_t>(next) >= all_of.nodes.size()
                          : static_cast<std::size_t>(~next) >= leaves_of(all_of))
                in.refuse("has a tree that leads to no node");
        }
    }
    for (const tree_weight& each_weight : all_of.weights) {
        if (each_weight.target < 0 || static_cast<std::size_t>(each_weight.target) >= all_of.targets)
            in.refuse("gives a weight to the target " + std::to_string(each_weight.target) + " of " +
                      std::to_string(all_of.targets));
        if ((all_of.sum == tree_sum::least || all_of.sum == tree_sum::most) && std::isnan(each_weight.weight))
            in.refuse("has a weight that is not a number");
    }
    if (!all_of.base.empty()) require_tree_count(in, "base values", all_of.base.size(), all_of.targets);
    require_no_circle(in, all_of);
}

// --- attributes ------------------------------------------------------------------------------------------------

std::vector<double> tree_numbers(const node_call& in, const constant& from) {
    std::vector<double> made(from.elements());
    with_type(from.type, [&]<typename T>() {
        for (std::size_t i = 0; i < made.size(); ++i) {
            T value;
            std::memcpy(&value, from.raw().data() + i * sizeof(T), sizeof(T));
            made[i] = static_cast<double>(static_cast<computed<T>>(value));
        }
    });
    if (made.size() > std::numeric_limits<std::int32_t>::max()) in.refuse_unsupported("has trees that are too large");
    return made;
}
std::vector<double> tree_numbers(const node_call& in, std::string_view attribute) {
    const constant* const found = in.tensor_attribute(attribute);
    return found != nullptr ? tree_numbers(in, *found) : std::vector<double>();
}
// A list, or the tensor that later versions have.
std::vector<double> tree_list(const node_call& in, const std::string& attribute) {
    const std::vector<float> list = in.real_list(attribute);
    const std::vector<double> numbers = tree_numbers(in, attribute + "_as_tensor");
    if (!list.empty() && !numbers.empty()) in.refuse("has " + attribute + " twice");
    return list.empty() ? numbers : std::vector<double>(list.begin(), list.end());
}

std::int32_t tree_index(const node_call& in, std::int64_t value) {
    if (value < 0 || value > (std::int64_t{1} << 30)) in.refuse("has the index " + std::to_string(value));
    return static_cast<std::int32_t>(value);
}

// The lists of TreeEnsembleRegressor ("target") and TreeEnsembleClassifier ("class"): leaves are nodes too.
tree_tables read_listed_trees(const node_call& in, const std::string& kind) {
    const integers trees = in.integer_list("nodes_treeids"), ids = in.integer_list("nodes_nodeids"),
                   features = in.integer_list("nodes_featureids"), yes = in.integer_list("nodes_truenodeids"),
                   no = in.integer_list("nodes_falsenodeids"),
                   missing = in.integer_list("nodes_missing_value_tracks_true");
    const std::vector<std::string> tests = in.text_list("nodes_modes");
    const std::vector<double> splits = tree_list(in, "nodes_values");
    const std::size_t count = trees.size();
    if (count > (std::size_t{1} << 30)) in.refuse_unsupported("has trees that are too large");
    require_tree_count(in, "nodes_nodeids", ids.size(), count);
    require_tree_count(in, "nodes_featureids", features.size(), count);
    require_tree_count(in, "nodes_truenodeids", yes.size(), count);
    require_tree_count(in, "nodes_falsenodeids", no.size(), count);
    require_tree_count(in, "nodes_modes", tests.size(), count);
    require_tree_count(in, "nodes_values", splits.size(), count);
    if (!missing.empty()) require_tree_count(in, "nodes_missing_value_tracks_true", missing.size(), count);

    using name = std::pair<std::int64_t, std::int64_t>;  // tree and node
    static const std::map<std::string, tree_test, std::less<>> known_tests = {
        {"BRANCH_LEQ", tree_test::less_equal},    {"BRANCH_LT", tree_test::less},
        {"BRANCH_GTE", tree_test::greater_equal}, {"BRANCH_GT", tree_test::greater},
        {"BRANCH_EQ", tree_test::equal},          {"BRANCH_NEQ", tree_test::not_equal}};
    tree_tables made;
    std::map<name, tree_place> places;
    std::set<std::int64_t> with_root;
    std::int32_t next_node = 0, next_leaf = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const tree_place at = tests[i] == "LEAF" ? ~next_leaf++ : next_node++;
        if (!places.emplace(name(trees[i], ids[i]), at).second) in.refuse("has a node of a tree twice");
        // The first that is listed is the root.
        if (with_root.insert(trees[i]).second) made.roots.push_back(at);
    }
    const auto place_of = [&](std::int64_t tree, std::int64_t id) {
        const auto found = places.find({tree, id});
        if (found == places.end())
            in.refuse("names the node " + std::to_string(id) + " of tree " + std::to_string(tree) +
                      ", which does not exist");
        return found->second;
    };
    for (std::size_t i = 0; i < count; ++i) {
        if (tests[i] == "LEAF") continue;
        const auto test = known_tests.find(tests[i]);
        if (test == known_tests.end()) in.refuse("has a node with the mode '" + tests[i] + "'");
        made.nodes.push_back({.split = splits[i],
                              .feature = tree_index(in, features[i]),
                              .yes = place_of(trees[i], yes[i]),
                              .no = place_of(trees[i], no[i]),
                              .test = test->second,
                              .missing_is_yes = !missing.empty() && missing[i] != 0});
    }

    const integers weight_trees = in.integer_list(kind + "_treeids"), weight_ids = in.integer_list(kind + "_nodeids"),
                   targets = in.integer_list(kind + "_ids");
    const std::vector<double> weights = tree_list(in, kind + "_weights");
    require_tree_count(in, kind + "_treeids", weight_trees.size(), weights.size());
    require_tree_count(in, kind + "_nodeids", weight_ids.size(), weights.size());
    require_tree_count(in, kind + "_ids", targets.size(), weights.size());
    std::vector<std::vector<tree_weight>> of_leaf(static_cast<std::size_t>(next_leaf));
    for (std::size_t i = 0; i < weights.size(); ++i) {
        const tree_place at = place_of(weight_trees[i], weight_ids[i]);
        // Weights of nodes that are no leaves mean nothing.
        if (at < 0) of_leaf[static_cast<std::size_t>(~at)].push_back({weights[i], targets[i]});
    }
    for (const auto& each_leaf : of_leaf) {
        made.weights_begin.push_back(static_cast<std::int32_t>(made.weights.size()));
        made.weights.insert(made.weights.end(), each_leaf.begin(), each_leaf.end());
    }
    made.weights_begin.push_back(static_cast<std::int32_t>(made.weights.size()));
    made.base = tree_list(in, "base_values");
    return made;
}

// The sets of TreeEnsemble, one for each node that tests for one, with NaN after each.
void read_members(const node_call& in, tree_tables& to) {
    to.members = tree_numbers(in, "membership_values");
    std::size_t at = 0;
    for (tree_node& each_node : to.nodes) {
        if (each_node.test != tree_test::member) continue;
        each_node.members_begin = static_cast<std::int32_t>(at);
        while (at < to.members.size() && !std::isnan(to.members[at])) ++at;
        if (at == to.members.size()) in.refuse("has fewer sets of membership_values than nodes that need one");
        each_node.members_end = static_cast<std::int32_t>(at++);
    }
    if (at != to.members.size()) in.refuse("has more membership_values than its nodes need");
}

}  // namespace

void tree_ensemble(node_call& in) {
    const any_tensor& x = in.input(0);
    if (!is_float(x.type()) || x.type() == io::dtype::bf16) in.refuse_type(x);
    const feature_matrix of = features_of(in);
    const integers features = in.integer_list("nodes_featureids"), yes = in.integer_list("nodes_truenodeids"),
                   no = in.integer_list("nodes_falsenodeids"), yes_is_leaf = in.integer_list("nodes_trueleafs"),
                   no_is_leaf = in.integer_list("nodes_falseleafs"),
                   missing = in.integer_list("nodes_missing_value_tracks_true"),
                   targets = in.integer_list("leaf_targetids");
    const std::vector<double> tests = tree_numbers(in, "nodes_modes"), splits = tree_numbers(in, "nodes_splits"),
                              weights = tree_numbers(in, "leaf_weights");
    const std::size_t count = features.size();
    require_tree_count(in, "nodes_truenodeids", yes.size(), count);
    require_tree_count(in, "nodes_falsenodeids", no.size(), count);
    require_tree_count(in, "nodes_trueleafs", yes_is_leaf.size(), count);
    require_tree_count(in, "nodes_falseleafs", no_is_leaf.size(), count);
    require_tree_count(in, "nodes_modes", tests.size(), count);
    require_tree_count(in, "nodes_splits", splits.size(), count);
    require_tree_count(in, "leaf_targetids", targets.size(), weights.size());
    if (!missing.empty()) require_tree_count(in, "nodes_missing_value_tracks_true", missing.size(), count);

    tree_tables made;
    for (std::size_t i = 0; i < count; ++i) {
        if (!(tests[i] >= 0 && tests[i] <= 6)) in.refuse("has a node with a mode that does not exist");
        const auto next = [&](std::int64_t to, std::int64_t is_leaf) {
            return is_leaf != 0 ? ~tree_index(in, to) : tree_index(in, to);
        };
        made.nodes.push_back({.split = splits[i],
                              .feature = tree_index(in, features[i]),
                              .yes = next(yes[i], yes_is_leaf[i]),
                              .no = next(no[i], no_is_leaf[i]),
                              .test = static_cast<tree_test>(static_cast<int>(tests[i])),
                              .missing_is_yes = !missing.empty() && missing[i] != 0});
    }
    read_members(in, made);
    for (const std::int64_t each_root : in.integer_list("tree_roots")) {
        made.roots.push_back(tree_index(in, each_root));
        if (static_cast<std::size_t>(made.roots.back()) >= count) in.refuse("has a root that is no node");
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
        made.weights_begin.push_back(static_cast<std::int32_t>(i));
        made.weights.push_back({weights[i], targets[i]});
    }
    made.weights_begin.push_back(static_cast<std::int32_t>(weights.size()));
    const std::int64_t width = in.integer("n_targets", 0), sum = in.integer("aggregate_function", 1),
                       after = in.integer("post_transform", 0);
    if (width < 1) in.refuse("has " + std::to_string(width) + " targets");
    if (sum < 0 || sum > 3 || after < 0 || after > 4)
        in.refuse("has an aggregate_function or a post_transform that does not exist");
    made.targets = static_cast<std::size_t>(width);
    made.sum = static_cast<tree_sum>(sum);
    check_trees(in, made, of.columns);
    give_scores(in, 0, x.type(), tree_scores(in, of, made), {.after = static_cast<score_transform>(after)});
}

void tree_ensemble_regressor(node_call& in) {
    const feature_matrix of = features_of(in);
    tree_tables made = read_listed_trees(in, "target");
    const std::int64_t width = in.integer("n_targets", 0);
    if (width < 1) in.refuse("has " + std::to_string(width) + " targets");
    made.targets = static_cast<std::size_t>(width);
    const std::string sum = in.text("aggregate_function", "SUM");
    if (sum == "AVERAGE") {
        made.sum = tree_sum::average;
    } else if (sum == "MIN") {
        made.sum = tree_sum::least;
    } else if (sum == "MAX") {
        made.sum = tree_sum::most;
    } else if (sum != "SUM") {
        in.refuse("has the aggregate_function '" + sum + "'");
    }
    check_trees(in, made, of.columns);
    give_scores(in, 0, io::dtype::f32, tree_scores(in, of, made), {.after = score_transform_of(in)});
}

void tree_ensemble_classifier(node_call& in) {
    if (in.has("classlabels_strings")) in.refuse_unsupported("has labels that are strings, which are not supported");
    const feature_matrix of = features_of(in);
    tree_tables made = read_listed_trees(in, "class");
    integers labels = in.integer_list("classlabels_int64s");
    if (labels.empty()) in.refuse("has no class labels");
    made.targets = labels.size();
    if (made.base.size() == 1) made.base.resize(made.targets, made.base[0]);
    check_trees(in, made, of.columns);
    score_form form{.after = score_transform_of(in)};
    // All weights are of one class: its score says the other's too.
    const bool is_one = std::ranges::all_of(
        made.weights, [&](const tree_weight& each_weight) { return each_weight.target == made.weights[0].target; });
    if (labels.size() <= 2 && is_one && !made.weights.empty()) {
        if (!made.base.empty()) made.base = {made.base[static_cast<std::size_t>(made.weights[0].target)]};
        for (tree_weight& each_weight : made.weights) each_weight.target = 0;
        made.targets = 1;
        const bool is_probability = form.after == score_transform::identity || form.after == score_transform::probit;
        form.other = is_probability ? other_score::rest_to_one : other_score::negative;
    } else if (labels.size() == 1) {
        in.refuse("has one class and no weights");
    }
    if (labels.size() == 1) {
        if (labels[0] != 1) in.refuse_unsupported("has one class, whose label is not 1");
        labels = {0, 1};
    }
    give_classes(in, tree_scores(in, of, made), form, labels, 0);
}

}  // namespace sluice::nn::operators
