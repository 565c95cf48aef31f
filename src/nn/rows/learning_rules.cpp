// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml: they compute the outputs of each row of features; and those that mix rows, with the reason.

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

constexpr std::string_view learning = "ai.onnx.ml";

// [rows, features], and nothing else: fewer dimensions are one row.
std::optional<std::size_t> rows_of_features(const rule_call& in, std::size_t i) {
    const auto rows = in.axis(i);
    if (rows && (*rows != 0 || in.rank(i) != 2)) throw cannot_follow{"takes rows of features, and is given others"};
    if (in.rank(i) != 2) throw cannot_follow{"takes rows of features, and is given others"};
    return rows;
}

void same_features(rule_call& in) {
    const auto rows = rows_of_features(in, 0);
    in.give(0, open(in.shape(0)), rows);
}

void each_feature(rule_call& in) { in.give(0, open(in.shape(0)), in.axis(0)); }

// [rows, results], and before it a label for each row if there are two outputs.
void results(rule_call& in) {
    const auto rows = rows_of_features(in, 0);
    const amount count = in.shape(0)[0];
    in.give(0, {count, std::nullopt}, rows);
}

void labels_and_scores(rule_call& in) {
    const auto rows = rows_of_features(in, 0);
    const amount count = in.shape(0)[0];
    if (in.wants_output(0)) in.give(0, {count}, rows);
    if (in.wants_output(1)) in.give(1, {count, std::nullopt}, rows);
}

void several_features(rule_call& in) {
    const auto rows = rows_of_features(in, 0);
    for (std::size_t i = 1; i < in.input_count(); ++i)
        if (rows_of_features(in, i) != rows || !(in.shape(i)[0] == in.shape(0)[0]))
            throw cannot_follow{"puts rows together with a tensor that has no rows"};
    in.give(0, {in.shape(0)[0], std::nullopt}, rows);
}

// Of a table, what each row asks for: the last dimension has what all ask for, one after the other.
void features_for_each_row(rule_call& in) {
    in.require_alike(0, "tables");
    const amounts &table = in.shape(0), asked{product(in.shape(1))};
    if (!rows_after_reshape(in.shape(1), in.axis(1).value(), 1, asked).runs.is(1))
        throw cannot_follow{"gives a shape in which a row is not a part of its own"};
    open_shape to = table.size() < 2 ? open_shape{amount(1)} : open_shape(table.begin(), table.end() - 1);
    const std::size_t last = to.size();
    to.emplace_back(asked.front());
    in.give(0, std::move(to), last);
}

void chosen_features(rule_call& in) {
    if (in.axis(1)) return features_for_each_row(in);
    const auto rows = rows_of_features(in, 0);
    in.give(0, {in.shape(0)[0], std::nullopt}, rows);
}

// The categories are a new last dimension.
void one_hot_features(rule_call& in) {
    open_shape to = open(in.shape(0));
    to.emplace_back(std::nullopt);
    in.give(0, std::move(to), in.axis(0));
}

void counted_words(rule_call& in) {
    const auto rows = rows_of_features(in, 0);
    in.give(0, {in.shape(0)[0], std::nullopt}, rows);
}

}  // namespace

std::span<const rule_of_operator> learning_rules() {
    static const std::vector<rule_of_operator> all{
        {.name = "Scaler", .how = &same_features, .domain = learning},
        {.name = "Normalizer", .how = &same_features, .domain = learning},
        {.name = "Imputer", .how = &same_features, .domain = learning},
        {.name = "ZipMap", .how = &same_features, .domain = learning},
        {.name = "Binarizer", .how = &each_feature, .domain = learning},
        {.name = "LabelEncoder", .how = &each_feature, .domain = learning},
        {.name = "FeatureVectorizer", .how = &several_features, .domain = learning},
        {.name = "ArrayFeatureExtractor", .how = &chosen_features, .domain = learning},
        {.name = "OneHotEncoder", .how = &one_hot_features, .domain = learning},
        {.name = "LinearRegressor", .how = &results, .domain = learning},
        {.name = "SVMRegressor", .how = &results, .domain = learning},
        {.name = "TreeEnsembleRegressor", .how = &results, .domain = learning},
        {.name = "TreeEnsemble", .how = &results, .domain = learning},
        {.name = "TreeEnsemble", .how = &results, .domain = "sluice"},
        {.name = "LinearClassifier", .how = &labels_and_scores, .domain = learning},
        {.name = "SVMClassifier", .how = &labels_and_scores, .domain = learning},
        {.name = "TreeEnsembleClassifier", .how = &labels_and_scores, .domain = learning},
        {.name = "TfIdfVectorizer", .how = &counted_words},
    };
    return all;
}

std::span<const rule_of_operator> mixing_operators() {
    static const std::vector<rule_of_operator> all{
        {.name = "DynamicQuantizeLinear", .how = nullptr, .why = "computes one scale from the numbers of all rows"},
        {.name = "DynamicQuantizeLSTM",
         .how = nullptr,
         .why = "computes one scale from the numbers of all rows",
         .domain = "com.microsoft"},
        {.name = "NonZero", .how = nullptr, .why = "gives the places of all rows one after the other"},
        {.name = "NonMaxSuppression", .how = nullptr, .why = "gives what it selects from all rows one after the other"},
        {.name = "Compress", .how = nullptr, .why = "leaves out elements, so that places depend on those before"},
        {.name = "Unique", .how = nullptr, .why = "compares the elements of all rows"},
        {.name = "EyeLike", .how = nullptr, .why = "gives each row other numbers, by its place"},
        {.name = "MaxUnpool", .how = nullptr, .why = "takes places that count the images before"},
        {.name = "MaxRoiPool", .how = nullptr, .why = "takes regions that name their image by its number"},
        {.name = "RoiAlign", .how = nullptr, .why = "takes regions that name their image by its number"},
        {.name = "RandomNormal", .how = nullptr, .why = "draws other numbers for each run"},
        {.name = "RandomUniform", .how = nullptr, .why = "draws other numbers for each run"},
        {.name = "RandomNormalLike", .how = nullptr, .why = "draws other numbers for each place"},
        {.name = "RandomUniformLike", .how = nullptr, .why = "draws other numbers for each place"},
        {.name = "Bernoulli", .how = nullptr, .why = "draws other numbers for each place"},
        {.name = "Multinomial", .how = nullptr, .why = "draws other numbers for each place"},
        {.name = "HannWindow", .how = nullptr, .why = "gives as many numbers as there are rows"},
        {.name = "HammingWindow", .how = nullptr, .why = "gives as many numbers as there are rows"},
        {.name = "BlackmanWindow", .how = nullptr, .why = "gives as many numbers as there are rows"},
        {.name = "MelWeightMatrix", .how = nullptr, .why = "gives as many numbers as there are rows"},
        {.name = "Shape", .how = nullptr, .why = "gives the shape of what rows are not followed through"},
        {.name = "Size", .how = nullptr, .why = "gives the size of what rows are not followed through"},
        {.name = "Constant", .how = nullptr, .why = "has no constant that is understood"},
        {.name = "If", .how = nullptr, .why = "has a condition that depends on the rows"},
        {.name = "Loop", .how = nullptr, .why = "has a graph of its own, into which rows are not followed"},
        {.name = "Scan", .how = nullptr, .why = "has a graph of its own, into which rows are not followed"},
    };
    return all;
}

}  // namespace sluice::nn::rows
