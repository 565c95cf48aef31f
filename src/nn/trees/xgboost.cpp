// SPDX-License-Identifier: Apache-2.0
// The JSON and UBJSON that XGBoost's save_model writes. It compares and adds in f32.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "forest.hpp"
#include "readers.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::trees {
namespace {

constexpr std::size_t most_categories = std::size_t{1} << 30;
// XGBoost takes larger categories as unknown.
constexpr std::size_t end_of_categories = std::size_t{1} << 24;

// --- trees -----------------------------------------------------------------------------------------------------

class xgboost_tree {
public:
    xgboost_tree(const field& of, std::size_t features, std::size_t target, float weight, forest& to)
        : of_(of),
          features_(features),
          target_(target),
          weight_(weight),
          to_(to),
          count_(of.at("tree_param").at("num_nodes").count_in_text()) {}

    void read() {
        if (const auto width = of_.at("tree_param").find("size_leaf_vector"); width && width->count_in_text() > 1)
            width->refuse("says that a leaf has several values: accepted is multi_strategy=one_output_per_tree");
        if (count_ == 0) of_.refuse("has no nodes");
        // The file has as many numbers: what is made for each node is no more than a multiple of it.
        const auto left = of_.at("left_children").numbers(count_), right = of_.at("right_children").numbers(count_);
        read_categories();
        // Of each node its place among the nodes or among the leaves.
        std::vector<place> places(count_);
        std::size_t inner = 0, leaves = 0;
        for (std::size_t i = 0; i < count_; ++i)
            places[i] = left[i] == -1 ? ~static_cast<place>(leaves++) : static_cast<place>(inner++);
        add(places, left, right, inner, leaves);
    }

private:
    void add(std::vector<place> places, std::span<const double> left, std::span<const double> right, std::size_t inner,
             std::size_t leaves) {
        const auto values = of_.at("split_conditions").numbers(count_);
        std::vector<place> leaf_places;
        for (std::size_t i = 0; i < count_; ++i) {
            if (places[i] >= 0) continue;
            const double value = static_cast<float>(values[i]) * weight_;
            leaf_places.push_back(to_.add_leaf({&value, 1}, target_));
        }
        if (places[0] < 0) return to_.add_root(leaf_places[0]);

        const field lefts = of_.at("left_children"), rights = of_.at("right_children");
        std::vector<children> all;
        for (std::size_t i = 0; i < count_; ++i)
            if (places[i] >= 0)
                all.push_back(
                    {places[index_of(left[i], count_ - 1, lefts)], places[index_of(right[i], count_ - 1, rights)]});
        if (const std::string why = why_no_tree(all, leaves); !why.empty()) lefts.refuse(why);

        const place first = to_.add_nodes(inner);
        const auto placed = [&](place of) { return of < 0 ? leaf_places[static_cast<std::size_t>(~of)] : first + of; };
        const auto features = of_.at("split_indices").numbers(count_),
                   defaults = of_.at("default_left").numbers(count_);
        const field split_indices = of_.at("split_indices");
        for (std::size_t i = 0; i < count_; ++i) {
            if (places[i] < 0) continue;
            const std::size_t feature = index_of(features[i], features_ - 1, split_indices);
            const children to = all[static_cast<std::size_t>(places[i])];
            const place at = placed(places[i]), yes = placed(to.yes), no = placed(to.no);
            const bool missing_is_left = defaults[i] != 0;
            if (is_categorical_[i]) {  // a member goes right
                to_.set(at, feature, categories_[i], no, yes, !missing_is_left);
            } else {
                to_.set(at, {feature, test::less, static_cast<float>(values[i]), yes, no, missing_is_left});
            }
        }
        to_.add_root(first);
    }

    // The categories of a node are a part of one list. Parts do not overlap: so what they become is no longer than the
    // list.
    void read_categories() {
        is_categorical_.resize(count_);
        const auto types = of_.find("split_type");
        if (!types) return;
        categories_.resize(count_);
        const auto kinds = types->numbers(count_);
        for (std::size_t i = 0; i < count_; ++i) is_categorical_[i] = kinds[i] != 0;
        const field nodes = of_.at("categories_nodes"), begins = of_.at("categories_segments"),
                    sizes = of_.at("categories_sizes"), list = of_.at("categories");
        const auto members = list.numbers();
        const std::size_t sets = nodes.numbers().size();
        std::size_t used = 0;
        for (std::size_t k = 0; k < sets; ++k) {
            const std::size_t at = index_of(nodes.numbers()[k], count_ - 1, nodes),
                              begin = index_of(begins.numbers(sets)[k], members.size(), begins),
                              size = index_of(sizes.numbers(sets)[k], members.size() - begin, sizes);
            used += size;
            if (used > members.size() || !is_categorical_[at] || !categories_[at].empty())
                nodes.refuse("names a node twice, or one that is not categorical, or categories that others have");
            categories_[at] = set_of(members.subspan(begin, size), list);
        }
    }
    static std::vector<interval> set_of(std::span<const double> members, const field& list) {
        std::vector<std::uint32_t> sorted;
        for (const double each : members) {
            const std::size_t category = index_of(each, most_categories, list);
            if (category < end_of_categories) sorted.push_back(static_cast<std::uint32_t>(category));
        }
        std::ranges::sort(sorted);
        const auto [again, end] = std::ranges::unique(sorted);
        sorted.erase(again, end);
        return intervals_of(sorted);
    }

    const field& of_;
    std::size_t features_, target_;
    float weight_;
    forest& to_;
    std::size_t count_;
    std::vector<bool> is_categorical_;
    std::vector<std::vector<interval>> categories_;  // of each node
};

// --- the objective ---------------------------------------------------------------------------------------------

enum class base_link { identity, logit, log };  // how base_score becomes a sum

struct xgboost_objective {
    std::string_view name;
    std::string_view link;
    base_link base;
};
constexpr std::array<xgboost_objective, 21> xgboost_objectives{
    {{"reg:squarederror", "IDENTITY", base_link::identity},
     {"reg:linear", "IDENTITY", base_link::identity},
     {"reg:squaredlogerror", "IDENTITY", base_link::identity},
     {"reg:pseudohubererror", "IDENTITY", base_link::identity},
     {"reg:absoluteerror", "IDENTITY", base_link::identity},
     {"reg:quantileerror", "IDENTITY", base_link::identity},
     {"reg:expectileerror", "IDENTITY", base_link::identity},
     {"reg:logistic", "SIGMOID", base_link::logit},
     {"binary:logistic", "SIGMOID", base_link::logit},
     {"binary:logitraw", "IDENTITY", base_link::identity},
     {"binary:hinge", "STEP", base_link::identity},
     {"reg:gamma", "EXPONENT", base_link::log},
     {"reg:tweedie", "EXPONENT", base_link::log},
     {"count:poisson", "EXPONENT", base_link::log},
     {"survival:cox", "EXPONENT", base_link::log},
     {"survival:aft", "EXPONENT", base_link::log},
     {"multi:softprob", "SOFTMAX", base_link::identity},
     {"multi:softmax", "LARGEST", base_link::identity},
     {"rank:ndcg", "IDENTITY", base_link::identity},
     {"rank:map", "IDENTITY", base_link::identity},
     {"rank:pairwise", "IDENTITY", base_link::identity}}};

const xgboost_objective& xgboost_objective_of(const field& learner) {
    const field name = learner.at("objective").at("name");
    const auto found = std::ranges::find(xgboost_objectives, std::string_view(name.text()), &xgboost_objective::name);
    if (found != xgboost_objectives.end()) return *found;
    std::string known;
    for (const xgboost_objective& each : xgboost_objectives)
        known += (known.empty() ? "" : ", ") + std::string(each.name);
    name.refuse("is " + in_quotes(name.text()) + "; accepted are " + known);
}

float base_of(float score, base_link how) {
    constexpr float edge = 1e-6F;
    switch (how) {
        case base_link::identity: return score;
        case base_link::log: return std::log(score);
        case base_link::logit: break;
    }
    const float inside = std::min(std::max(score, edge), 1 - edge);
    return -std::log(1 / inside - 1);
}

// A number, or since version 3.1 a list in brackets: "[5E-1]". One is for all targets.
std::vector<double> bases_of(const field& written, base_link how, std::size_t targets) {
    std::string_view text = written.text();
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    std::vector<double> made;
    for (const char *at = text.data(), *const end = at + text.size(); at != end;) {
        if (*at == ' ' || *at == ',') {
            ++at;
            continue;
        }
        float score = 0;
        const auto [next, failure] = std::from_chars(at, end, score);
        if (failure != std::errc() || !std::isfinite(score)) written.refuse("is not a number or a list of numbers");
        const float base = base_of(score, how);
        if (std::isnan(base)) written.refuse("is not possible for this objective");
        made.push_back(base);
        at = next;
    }
    if (made.size() == 1) made.resize(targets, made[0]);
    if (made.size() != targets)
        written.refuse("has " + std::to_string(made.size()) + " numbers for " + std::to_string(targets) + " outputs");
    return made;
}

// --- the model -------------------------------------------------------------------------------------------------

struct booster {
    field model;
    std::span<const double> weights;  // of the trees; empty: all 1
};

booster booster_of(const field& learner) {
    const field given = learner.at("gradient_booster");
    const field name = given.at("name");
    const std::string& kind = name.text();
    if (kind != "gbtree" && kind != "dart")
        name.refuse("is " + in_quotes(kind) + "; accepted are boosters of trees: gbtree and dart");
    const field inner = kind == "dart" && given.find("gbtree") ? given.at("gbtree") : given;
    const field model = inner.at("model");
    for (const field& around : {model, given})
        if (const auto weights = around.find("weight_drop")) return {model, weights->numbers()};
    if (kind == "dart") given.refuse("has no member 'weight_drop'");
    return {model, {}};
}

std::string version_of(const field& root) {
    const field version = root.at("version");
    std::string made = "XGBoost";
    for (const double each : version.numbers(3))
        made += (made == "XGBoost" ? " " : ".") + std::to_string(index_of(each, 1'000'000, version));
    return made;
}

void read_trees(const booster& from, const forest_form& form, forest& to) {
    const field trees = from.model.at("trees"), groups = from.model.at("tree_info");
    const std::size_t count = trees.elements();
    if (from.model.at("gbtree_model_param").at("num_trees").count_in_text() != count)
        trees.refuse("has another number of trees than gbtree_model_param says");
    const auto targets = groups.numbers(count);
    if (!from.weights.empty() && from.weights.size() != count) trees.refuse("has another number of trees than weights");
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t target = index_of(targets[i], form.targets - 1, groups);
        const float weight = from.weights.empty() ? 1 : static_cast<float>(from.weights[i]);
        const field tree = trees.element(i);
        xgboost_tree(tree, form.features, target, weight, to).read();
    }
}

}  // namespace

model read_xgboost(const document_value& file, const std::filesystem::path& path) {
    const field root(file, path), learner = root.at("learner"), parameters = learner.at("learner_model_param");
    forest_form form{.producer = version_of(root), .input = io::dtype::f32, .in = sums::f32};
    form.features = parameters.at("num_feature").count_in_text();
    if (form.features == 0) parameters.at("num_feature").refuse("is 0: the model is not trained");
    const std::size_t classes = parameters.at("num_class").count_in_text();
    const auto targets = parameters.find("num_target");
    form.targets = std::max({classes, targets ? targets->count_in_text() : 1, std::size_t{1}});
    if (form.targets > std::size_t{1} << 20) parameters.refuse("has more than 2^20 outputs");
    const xgboost_objective& how = xgboost_objective_of(learner);
    form.link = how.link;
    form.outputs = how.link == "LARGEST" ? 1 : form.targets;
    form.base = bases_of(parameters.at("base_score"), how.base, form.targets);
    if (const auto names = learner.find("feature_names"); names && names->elements() != 0) {
        if (names->elements() != form.features) names->refuse("has another number of names than there are features");
        for (std::size_t i = 0; i < form.features; ++i) form.feature_names.push_back(names->element(i).text());
    }
    forest made(path);
    read_trees(booster_of(learner), form, made);
    return std::move(made).finish(form);
}

}  // namespace sluice::nn::trees
