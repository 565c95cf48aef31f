// SPDX-License-Identifier: Apache-2.0
// The JSON that CatBoost's save_model(format="json") writes, of features that are numbers. It compares f32 and adds
// f64.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "forest.hpp"
#include "readers.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::trees {
namespace {

constexpr std::size_t most_features = std::size_t{1} << 20;
constexpr std::size_t most_splits = 30;  // of a symmetric tree

// A feature that is a number, in the order of the file: float_feature_index counts them.
struct number_feature {
    std::size_t column = 0;
    bool missing_is_above = false;
    bool is_there = false;
};

struct catboost_features {
    std::vector<number_feature> numbers;
    std::vector<std::string> names;  // by column
};

catboost_features catboost_features_of(const field& info) {
    for (const char* const kind : {"categorical_features", "text_features", "embedding_features", "ctrs"}) {
        const auto found = info.find(kind);
        if (!found || found->elements() == 0) continue;
        found->refuse(
            "is there: values of categories are hashes of texts, and statistics of them, which are not known; "
            "accepted are models whose features are all numbers: give categories as columns of numbers, "
            "without cat_features, text_features and embedding_features");
    }
    catboost_features made;
    const field list = info.at("float_features");
    for (std::size_t i = 0; i < list.elements(); ++i) {
        const field each = list.element(i);
        const std::size_t at = each.at("feature_index").count(most_features),
                          column = each.at("flat_feature_index").count(most_features);
        made.numbers.resize(std::max(made.numbers.size(), at + 1));
        made.names.resize(std::max(made.names.size(), column + 1));
        const field missing = each.at("nan_value_treatment");
        if (missing.text() != "AsIs" && missing.text() != "AsFalse" && missing.text() != "AsTrue")
            missing.refuse("is " + in_quotes(missing.text()) + "; accepted are AsIs, AsFalse and AsTrue");
        made.numbers[at] = {column, missing.text() == "AsTrue", true};
        const auto name = each.find("feature_name");
        made.names[column] = name ? name->text() : each.at("feature_id").text();
    }
    return made;
}

// --- trees -----------------------------------------------------------------------------------------------------

class catboost_tree {
public:
    catboost_tree(const catboost_features& known, std::size_t targets, forest& to)
        : known_(known), targets_(targets), to_(to) {}

    // All nodes of one depth make the same test. Bit d of a leaf's number says whether the test of depth d is passed.
    void read_symmetric(const field& tree) {
        const field splits = tree.at("splits"), leaf_values = tree.at("leaf_values");
        const std::size_t depth = splits.elements();
        if (depth > most_splits) splits.refuse("has more than " + std::to_string(most_splits) + " splits");
        const std::size_t leaves = std::size_t{1} << depth;
        const auto values = leaf_values.numbers(leaves * targets_);
        const place first_leaf = to_.add_leaf(values.first(targets_));
        for (std::size_t i = 1; i < leaves; ++i) to_.add_leaf(values.subspan(i * targets_, targets_));
        if (depth == 0) return to_.add_root(first_leaf);
        const place root = to_.add_nodes(leaves - 1);
        for (std::size_t d = 0; d < depth; ++d) {
            split made = split_of(splits.element(d));
            const std::size_t wide = std::size_t{1} << d;
            for (std::size_t way = 0; way < wide; ++way) {
                const auto below = [&](std::size_t to) {
                    return d + 1 < depth ? root + static_cast<place>(2 * wide - 1 + to)
                                         : first_leaf - static_cast<place>(to);
                };
                made.yes = below(way + wide);
                made.no = below(way);
                to_.set(root + static_cast<place>(wide - 1 + way), made);
            }
        }
        to_.add_root(root);
    }
    void read_other(const field& tree) { to_.add_root(place_of(tree)); }

private:
    // The document is not nested deeper than it may be.
    place place_of(const field& tree) {
        const auto given = tree.find("split");
        if (!given) return leaf_of(tree.at("value"));
        split made = split_of(*given);
        const place at = to_.add_nodes(1);
        made.yes = place_of(tree.at("right"));
        made.no = place_of(tree.at("left"));
        to_.set(at, made);
        return at;
    }
    place leaf_of(const field& value) {
        if (targets_ != 1) return to_.add_leaf(value.numbers(targets_));
        const double one = value.is_number() ? value.number() : value.numbers(1)[0];
        return to_.add_leaf({&one, 1});
    }
    split split_of(const field& given) const {
        const field kind = given.at("split_type");
        if (kind.text() != "FloatFeature")
            kind.refuse("is " + in_quotes(kind.text()) + "; accepted are splits of numbers, FloatFeature");
        const field index = given.at("float_feature_index");
        const std::size_t at = index.count(most_features);
        if (at >= known_.numbers.size() || !known_.numbers[at].is_there) index.refuse("is of no feature");
        const double border = static_cast<float>(given.at("border").number());
        return {known_.numbers[at].column, test::greater, border, 0, 0, known_.numbers[at].missing_is_above};
    }

    const catboost_features& known_;
    std::size_t targets_;
    forest& to_;
};

// --- the model -------------------------------------------------------------------------------------------------

struct catboost_loss {
    std::string_view name;
    std::string_view link;
};
constexpr std::array<catboost_loss, 30> losses{{{"RMSE", "IDENTITY"},
                                                {"MAE", "IDENTITY"},
                                                {"Quantile", "IDENTITY"},
                                                {"MultiQuantile", "IDENTITY"},
                                                {"GroupQuantile", "IDENTITY"},
                                                {"Expectile", "IDENTITY"},
                                                {"MAPE", "IDENTITY"},
                                                {"Lq", "IDENTITY"},
                                                {"Huber", "IDENTITY"},
                                                {"LogCosh", "IDENTITY"},
                                                {"MultiRMSE", "IDENTITY"},
                                                {"MultiRMSEWithMissingValues", "IDENTITY"},
                                                {"QueryRMSE", "IDENTITY"},
                                                {"QuerySoftMax", "IDENTITY"},
                                                {"QueryCrossEntropy", "IDENTITY"},
                                                {"PairLogit", "IDENTITY"},
                                                {"PairLogitPairwise", "IDENTITY"},
                                                {"YetiRank", "IDENTITY"},
                                                {"YetiRankPairwise", "IDENTITY"},
                                                {"StochasticFilter", "IDENTITY"},
                                                {"StochasticRank", "IDENTITY"},
                                                {"LambdaMart", "IDENTITY"},
                                                {"Poisson", "EXPONENT"},
                                                {"Tweedie", "EXPONENT"},
                                                {"Logloss", "TWO_CLASSES"},
                                                {"CrossEntropy", "TWO_CLASSES"},
                                                {"MultiClass", "SOFTMAX"},
                                                {"MultiClassOneVsAll", "SIGMOID"},
                                                {"MultiLogloss", "SIGMOID"},
                                                {"MultiCrossEntropy", "SIGMOID"}}};

std::string_view catboost_link_of(const field& info) {
    const field name = info.at("params").at("loss_function").at("type");
    const auto found = std::ranges::find(losses, std::string_view(name.text()), &catboost_loss::name);
    if (found != losses.end()) return found->link;
    std::string known;
    for (const catboost_loss& each : losses) known += (known.empty() ? "" : ", ") + std::string(each.name);
    name.refuse("is " + in_quotes(name.text()) + "; accepted are " + known);
}

// [scale, [bias of each target]], or [scale, bias] before version 1.
std::vector<double> biases_of(const field& root) {
    const auto given = root.find("scale_and_bias");
    if (!given) return {};
    double scale = 1;
    std::vector<double> made;
    if (given->has_only_numbers()) {
        const auto both = given->numbers(2);
        scale = both[0];
        made = {both[1]};
    } else {
        if (given->elements() != 2) given->refuse("is not a scale and a bias");
        scale = given->element(0).number();
        const auto biases = given->element(1).numbers();
        made.assign(biases.begin(), biases.end());
    }
    if (scale != 1) given->refuse("has the scale " + std::to_string(scale) + "; accepted is 1");
    return made;
}

// Before "scale_and_bias" has a bias for each target, it may have none.
std::size_t targets_of(const field& root, const std::vector<double>& biases) {
    if (biases.size() > 1) return biases.size();
    if (const auto trees = root.find("oblivious_trees"); trees && trees->elements() != 0) {
        const field tree = trees->element(0);
        const std::size_t depth = tree.at("splits").elements(), count = tree.at("leaf_values").numbers().size();
        if (depth > most_splits || count == 0 || count % (std::size_t{1} << depth) != 0)
            tree.refuse("has a number of leaf values that does not fit its splits");
        return count >> depth;
    }
    if (const auto trees = root.find("trees"); trees && trees->elements() != 0) {
        field at = trees->element(0);
        while (at.find("split")) at = at.at("left");
        return at.at("value").is_number() ? 1 : std::max<std::size_t>(at.at("value").numbers().size(), 1);
    }
    return 1;
}

}  // namespace

model read_catboost(const document_value& file, const std::filesystem::path& path) {
    const field root(file, path);
    const catboost_features known = catboost_features_of(root.at("features_info"));
    forest_form form{.producer = "CatBoost", .input = io::dtype::f32, .in = sums::f64, .has_wide_leaves = true};
    form.features = known.names.size();
    form.base = biases_of(root);
    form.targets = targets_of(root, form.base);
    if (form.base.size() == 1) form.base.resize(form.targets, form.base[0]);
    form.link = catboost_link_of(root.at("model_info"));
    form.outputs = form.link == "TWO_CLASSES" ? 2 : form.targets;
    if (std::ranges::any_of(known.names, [](const std::string& each) { return !each.empty(); }))
        form.feature_names = known.names;
    forest made(path);
    catboost_tree reader(known, form.targets, made);
    const auto symmetric = root.find("oblivious_trees"), others = root.find("trees");
    if (!symmetric && !others) root.refuse("has neither the member 'oblivious_trees' nor 'trees'");
    for (std::size_t i = 0; symmetric && i < symmetric->elements(); ++i) reader.read_symmetric(symmetric->element(i));
    for (std::size_t i = 0; !symmetric && i < others->elements(); ++i) reader.read_other(others->element(i));
    return std::move(made).finish(form);
}

}  // namespace sluice::nn::trees
