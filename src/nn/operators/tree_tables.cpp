// SPDX-License-Identifier: Apache-2.0
// The tables of trees, from the attributes of TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "nn/operators/reduce.hpp"
#include "nn/operators/tree_links.hpp"
#include "nn/operators/tree_program.hpp"
#include "nn/operators/trees.hpp"

namespace sluice::nn::operators {
namespace {

bool is_from_tree_file(const node_call& in) { return in.what().domain == tree_files; }

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

void check_trees(const node_call& in, const tree_tables& all_of) {
    constexpr std::size_t most = std::size_t{1} << 30;
    if (all_of.nodes.size() > most || all_of.weights.size() > most || all_of.members.size() > most)
        in.refuse_unsupported("has trees that are too large");
    for (const tree_node& each_node : all_of.nodes) {
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
    for (const tree_place each_root : all_of.roots) {
        if (each_root >= 0 ? static_cast<std::size_t>(each_root) >= all_of.nodes.size()
                           : static_cast<std::size_t>(~each_root) >= leaves_of(all_of))
            in.refuse("has a root that is no node");
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

// The nodes by tree and number. Files mostly list a tree's nodes together and in the order of their numbers: then they
// are found without a search.
class tree_names {
public:
    tree_names(const node_call& in, const integers& trees, const integers& ids) : in_(in), places_(trees.size()) {
        std::size_t begin = 0;
        for (std::size_t i = 0; i < trees.size(); ++i) {
            if (i != 0 && trees[i] != trees[i - 1]) begin = i;
            const auto [known, is_new] = runs_.try_emplace(trees[i], run{i, 0, true});
            if (is_new) firsts_.push_back(i);
            run& own = known->second;
            own.is_dense = own.is_dense && own.begin == begin && ids[i] == static_cast<std::int64_t>(i - begin);
            ++own.count;
        }
        for (std::size_t i = 0; i < trees.size(); ++i) {
            run& own = runs_.at(trees[i]);
            if (!own.is_dense && !own.others.emplace(ids[i], i).second) in_.refuse("has a node of a tree twice");
        }
    }
    // Of each tree, the node that is listed first.
    const std::vector<std::size_t>& firsts() const { return firsts_; }
    void set_place(std::size_t node, tree_place to) { places_[node] = to; }
    tree_place place(std::size_t node) const { return places_[node]; }
    tree_place place_of(std::int64_t tree, std::int64_t id) const {
        const auto found = runs_.find(tree);
        if (found != runs_.end()) {
            const run& own = found->second;
            if (!own.is_dense) {
                if (const auto other = own.others.find(id); other != own.others.end()) return places_[other->second];
            } else if (id >= 0 && static_cast<std::size_t>(id) < own.count) {
                return places_[own.begin + static_cast<std::size_t>(id)];
            }
        }
        in_.refuse("names the node " + std::to_string(id) + " of tree " + std::to_string(tree) +
                   ", which does not exist");
    }

private:
    struct run {
        std::size_t begin, count;
        bool is_dense;  // the nodes are listed together, as 0, 1, 2, ...
        std::unordered_map<std::int64_t, std::size_t> others = {};
    };

    const node_call& in_;
    std::vector<tree_place> places_;
    std::unordered_map<std::int64_t, run> runs_;
    std::vector<std::size_t> firsts_;
};

// What NaN does at a node: it differs from each number, and passes another test where its flag says so.
bool is_yes_for_nan(tree_test test, const integers& flags, std::size_t node) {
    return test == tree_test::not_equal || (!flags.empty() && flags[node] != 0);
}

// The lists of TreeEnsembleRegressor ("target") and TreeEnsembleClassifier ("class"): leaves are nodes too.
tree_tables read_listed_trees(const node_call& in, const std::string& kind) {
    const integers trees = in.integer_list("nodes_treeids"), ids = in.integer_list("nodes_nodeids"),
                   features = in.integer_list("nodes_featureids"), yes = in.integer_list("nodes_truenodeids"),
                   no = in.integer_list("nodes_falsenodeids"),
                   missing = in.integer_list("nodes_missing_value_tracks_true");
    const auto* const modes = in.what().find<std::vector<std::string>>("nodes_modes");
    const std::span<const std::string> tests = modes != nullptr ? std::span(*modes) : std::span<const std::string>();
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

    static const std::map<std::string, tree_test, std::less<>> known_tests = {
        {"BRANCH_LEQ", tree_test::less_equal},    {"BRANCH_LT", tree_test::less},
        {"BRANCH_GTE", tree_test::greater_equal}, {"BRANCH_GT", tree_test::greater},
        {"BRANCH_EQ", tree_test::equal},          {"BRANCH_NEQ", tree_test::not_equal}};
    tree_tables made;
    tree_names names(in, trees, ids);
    tree_place next_node = 0, next_leaf = 0;
    for (std::size_t i = 0; i < count; ++i) names.set_place(i, tests[i] == "LEAF" ? ~next_leaf++ : next_node++);
    // The first that is listed is the root.
    for (const std::size_t each_first : names.firsts()) made.roots.push_back(names.place(each_first));
    made.nodes.reserve(static_cast<std::size_t>(next_node));
    auto test = known_tests.begin();
    for (std::size_t i = 0; i < count; ++i) {
        if (tests[i] == "LEAF") continue;
        if (test->first != tests[i]) test = known_tests.find(tests[i]);
        if (test == known_tests.end()) in.refuse("has a node with the mode '" + tests[i] + "'");
        made.nodes.push_back({.split = splits[i],
                              .feature = tree_index(in, features[i]),
                              .yes = names.place_of(trees[i], yes[i]),
                              .no = names.place_of(trees[i], no[i]),
                              .test = test->second,
                              .missing_is_yes = is_yes_for_nan(test->second, missing, i)});
    }

    const integers weight_trees = in.integer_list(kind + "_treeids"), weight_ids = in.integer_list(kind + "_nodeids"),
                   targets = in.integer_list(kind + "_ids");
    const std::vector<double> weights = tree_list(in, kind + "_weights");
    require_tree_count(in, kind + "_treeids", weight_trees.size(), weights.size());
    require_tree_count(in, kind + "_nodeids", weight_ids.size(), weights.size());
    require_tree_count(in, kind + "_ids", targets.size(), weights.size());
    // The weights of each leaf, in their order. Those of nodes that are no leaves mean nothing.
    std::vector<tree_place> of_weight(weights.size());
    made.weights_begin.assign(static_cast<std::size_t>(next_leaf) + 1, 0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        of_weight[i] = names.place_of(weight_trees[i], weight_ids[i]);
        if (of_weight[i] < 0) ++made.weights_begin[static_cast<std::size_t>(~of_weight[i]) + 1];
    }
    std::partial_sum(made.weights_begin.begin(), made.weights_begin.end(), made.weights_begin.begin());
    made.weights.resize(static_cast<std::size_t>(made.weights_begin.back()));
    std::vector<std::int32_t> next(made.weights_begin.begin(), made.weights_begin.end() - 1);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (of_weight[i] >= 0) continue;
        const auto leaf = static_cast<std::size_t>(~of_weight[i]);
        made.weights[static_cast<std::size_t>(next[leaf]++)] = {weights[i], targets[i]};
    }
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

std::size_t width_of(const node_call& in) {
    const std::int64_t width = in.integer("n_targets", 0);
    if (width < 1) in.refuse("has " + std::to_string(width) + " targets");
    return static_cast<std::size_t>(width);
}

// Each leaf has one weight, and the target that it is of.
void give_one_target(const node_call& in, const std::vector<double>& weights, const integers& targets,
                     tree_tables& to) {
    require_tree_count(in, "leaf_targetids", targets.size(), weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
        to.weights_begin.push_back(static_cast<std::int32_t>(i));
        to.weights.push_back({weights[i], targets[i]});
    }
    to.weights_begin.push_back(static_cast<std::int32_t>(weights.size()));
}
// Each leaf has a weight for every target.
void give_all_targets(const node_call& in, const std::vector<double>& weights, tree_tables& to) {
    if (weights.size() % to.targets != 0)
        in.refuse("has " + std::to_string(weights.size()) + " leaf_weights for leaves of " +
                  std::to_string(to.targets) + " targets");
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (i % to.targets == 0) to.weights_begin.push_back(static_cast<std::int32_t>(i));
        to.weights.push_back({weights[i], static_cast<std::int64_t>(i % to.targets)});
    }
    to.weights_begin.push_back(static_cast<std::int32_t>(weights.size()));
}

// The lists of TreeEnsemble: nodes and leaves apart.
tree_tables read_apart_trees(const node_call& in) {
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
    if (!missing.empty()) require_tree_count(in, "nodes_missing_value_tracks_true", missing.size(), count);

    tree_tables made;
    made.nodes.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (!(tests[i] >= 0 && tests[i] <= 6)) in.refuse("has a node with a mode that does not exist");
        const auto test = static_cast<tree_test>(static_cast<int>(tests[i]));
        const auto next = [&](std::int64_t to, std::int64_t is_leaf) {
            return is_leaf != 0 ? ~tree_index(in, to) : tree_index(in, to);
        };
        made.nodes.push_back({.split = splits[i],
                              .feature = tree_index(in, features[i]),
                              .yes = next(yes[i], yes_is_leaf[i]),
                              .no = next(no[i], no_is_leaf[i]),
                              .test = test,
                              .missing_is_yes = is_yes_for_nan(test, missing, i)});
    }
    read_members(in, made);
    made.targets = width_of(in);
    const std::int64_t sum = in.integer("aggregate_function", 1);
    const bool is_from_file = is_from_tree_file(in);
    if (sum < 0 || sum > (is_from_file ? 4 : 3)) in.refuse("has an aggregate_function that does not exist");
    made.sum = static_cast<tree_sum>(sum);
    for (const std::int64_t each_root : in.integer_list("tree_roots")) {
        // In a file of trees it may be a leaf.
        const bool is_leaf = is_from_file && each_root < 0;
        made.roots.push_back(is_leaf ? ~tree_index(in, ~each_root) : tree_index(in, each_root));
    }
    if (is_from_file && targets.empty()) {
        give_all_targets(in, weights, made);
    } else {
        give_one_target(in, weights, targets, made);
    }
    if (is_from_file) made.base = tree_numbers(in, "base_values");
    return made;
}

tree_tables read_regressor(const node_call& in) {
    tree_tables made = read_listed_trees(in, "target");
    made.targets = width_of(in);
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
    return made;
}

tree_tables read_classifier(const node_call& in) {
    if (in.has("classlabels_strings")) in.refuse_unsupported("has labels that are strings, which are not supported");
    tree_tables made = read_listed_trees(in, "class");
    const std::size_t labels = in.integer_list("classlabels_int64s").size();
    if (labels == 0) in.refuse("has no class labels");
    made.targets = labels;
    if (made.base.size() == 1) made.base.resize(made.targets, made.base[0]);
    return made;
}

// Where all weights are of one class of two, its score says the other's too.
void join_classes(const node_call& in, tree_tables& to) {
    const std::size_t labels = to.targets;
    const bool is_one = std::ranges::all_of(
        to.weights, [&](const tree_weight& each_weight) { return each_weight.target == to.weights[0].target; });
    if (labels <= 2 && is_one && !to.weights.empty()) {
        if (!to.base.empty()) to.base = {to.base[static_cast<std::size_t>(to.weights[0].target)]};
        for (tree_weight& each_weight : to.weights) each_weight.target = 0;
        to.targets = 1;
        const score_transform after = score_transform_of(in);
        const bool is_probability = after == score_transform::identity || after == score_transform::probit;
        to.other = is_probability ? other_score::rest_to_one : other_score::negative;
    } else if (labels == 1) {
        in.refuse("has one class and no weights");
    }
}

// The scores, and what one of two classes says of the other.
struct scored_trees {
    any_tensor scores;
    other_score other;
};
scored_trees scores_of_trees(node_call& in, const feature_matrix& of) {
    if (in.has_input(packed_trees_input)) {
        const any_tensor& image = in.input(packed_trees_input);
        return {score_packed(in, of, image), other_of_packed(image)};
    }
    const any_tensor packed = pack_trees(tables_of_trees(in), !is_on_gpu(in));
    const any_tensor image = table_of_bytes(in, packed.type(), packed.elements(), packed.bytes().data());
    return {score_packed(in, of, image.is_on_host() ? image : packed.with_memory(image.shared_memory())),
            other_of_packed(packed)};
}

}  // namespace

tree_tables tables_of_trees(const node_call& in) {
    const std::string& op = in.what().op;
    const bool is_classifier = op == "TreeEnsembleClassifier";
    tree_tables made = is_classifier                   ? read_classifier(in)
                       : op == "TreeEnsembleRegressor" ? read_regressor(in)
                                                       : read_apart_trees(in);
    check_trees(in, made);
    if (is_classifier) join_classes(in, made);
    return made;
}

void tree_ensemble(node_call& in) {
    const any_tensor& x = in.input(0);
    if (!is_float(x.type()) || x.type() == io::dtype::bf16) in.refuse_type(x);
    const feature_matrix of = features_of(in);
    const std::int64_t after = in.integer("post_transform", 0);
    if (after < 0 || after > 4) in.refuse("has a post_transform that does not exist");
    give_scores(in, 0, x.type(), scores_of_trees(in, of).scores, {.after = static_cast<score_transform>(after)});
}

void tree_ensemble_of_file(node_call& in) {
    const feature_matrix of = features_of(in);
    const scored_trees made = scores_of_trees(in, of);
    const auto number = [&](std::string_view name) {
        const std::vector<double> found = tree_numbers(in, name);
        return found.empty() ? 1 : found[0];
    };
    const bool is_rounded = in.integer("aggregate_function", 1) == static_cast<std::int64_t>(tree_sum::rounded);
    give_linked(in, made.scores, {.kind = tree_link_of(in), .divisor = number("divisor"), .factor = number("factor")},
                is_rounded);
}

void tree_ensemble_regressor(node_call& in) {
    const feature_matrix of = features_of(in);
    give_scores(in, 0, io::dtype::f32, scores_of_trees(in, of).scores, {.after = score_transform_of(in)});
}

void tree_ensemble_classifier(node_call& in) {
    const feature_matrix of = features_of(in);
    const scored_trees made = scores_of_trees(in, of);
    integers labels = in.integer_list("classlabels_int64s");
    if (labels.size() == 1) {
        if (labels[0] != 1) in.refuse_unsupported("has one class, whose label is not 1");
        labels = {0, 1};
    }
    give_classes(in, made.scores, {.after = score_transform_of(in), .other = made.other}, labels, 0);
}

}  // namespace sluice::nn::operators
