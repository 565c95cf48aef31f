// SPDX-License-Identifier: Apache-2.0
// The operators of ai.onnx.ml, which exporters of scikit-learn write: features, encodings, linear models, support
// vector machines and trees, against numbers that were computed by hand. The cases of the onnx package have four of
// them only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "nn/support/single_nodes.hpp"

namespace sluice::nn::machine_learning_tests {
namespace {

using namespace test_support;
using enum errc;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

const std::string ml = "ai.onnx.ml";
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

any_tensor rows(const std::vector<float>& values, std::size_t columns) {
    return any_tensor(values, {values.size() / columns, columns});
}
std::vector<any_tensor> outputs(const std::string& op, const std::vector<any_tensor>& inputs, const attributes& with,
                                std::size_t count = 1) {
    return outputs_of({op, inputs, with, ml, 17, count});
}
std::vector<float> floats_of(const std::string& op, const std::vector<any_tensor>& inputs, const attributes& with) {
    const std::vector<any_tensor> made = outputs(op, inputs, with);
    const auto values = made.at(0).values<float>();
    return {values.begin(), values.end()};
}
std::vector<float> floats_of(const any_tensor& from) {
    const auto values = from.values<float>();
    return {values.begin(), values.end()};
}
std::vector<std::int64_t> labels_of(const any_tensor& from) {
    const auto values = from.values<std::int64_t>();
    return {values.begin(), values.end()};
}
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
auto near(const std::vector<double>& wanted) {
    return Pointwise(FloatNear(1e-5f), std::vector<float>(wanted.begin(), wanted.end()));
}

}  // namespace

// --- features ------------------------------------------------------------------------------------------------------

TEST(features, are_moved_and_scaled_by_column_or_by_one_number) {
    EXPECT_THAT(floats_of("Scaler", {rows({1, 2, 3, 4}, 2)}, {{"offset", reals({1, 2})}, {"scale", reals({2, 0.5f})}}),
                ElementsAre(0, 0, 4, 1));
    EXPECT_THAT(floats_of("Scaler", {any_tensor(std::vector<std::int64_t>{1, 2}, {1, 2})}, {{"offset", reals({1})}}),
                ElementsAre(0, 1));
}

TEST(features, are_divided_by_the_norm_of_their_row) {
    const auto normalized = [](const char* norm, const std::vector<float>& values) {
        return floats_of("Normalizer", {rows(values, 2)}, {{"norm", text(norm)}});
    };
    EXPECT_THAT(normalized("MAX", {1, 4, 0, 0}), ElementsAre(0.25f, 1, 0, 0));
    EXPECT_THAT(normalized("L1", {1, -3}), ElementsAre(0.25f, -0.75f));
    EXPECT_THAT(normalized("L2", {3, 4, -6, 8}), near({0.6, 0.8, -0.6, 0.8}));
    const any_tensor doubles(std::vector<double>{3, 4}, {1, 2});
    EXPECT_THAT(floats_of("Normalizer", {doubles}, {{"norm", text("L2")}}), near({0.6, 0.8}));
}

TEST(features, are_above_a_threshold_or_not) {
    EXPECT_THAT(floats_of("Binarizer", {rows({1, 1.5f, nan}, 3)}, {{"threshold", 1.0f}}), ElementsAre(0, 1, 0));
    const auto whole_ones = outputs("Binarizer", {list({0, 1, 2})}, {{"threshold", 0.5f}});
    EXPECT_THAT(labels_of(whole_ones.at(0)), ElementsAre(0, 1, 1));
}

TEST(features, that_are_missing_are_replaced) {
    EXPECT_THAT(floats_of("Imputer", {rows({nan, 1, 2, nan}, 2)},
                          {{"imputed_value_floats", reals({7, 8})}, {"replaced_value_float", nan}}),
                ElementsAre(7, 1, 2, 8));
    EXPECT_THAT(floats_of("Imputer", {rows({0, 1}, 2)}, {{"imputed_value_floats", reals({7})}}), ElementsAre(7, 1));
    const auto whole_ones = outputs("Imputer", {any_tensor(std::vector<std::int64_t>{-1, 2}, {1, 2})},
                                    {{"imputed_value_int64s", wholes({5})}, {"replaced_value_int64", whole(-1)}});
    EXPECT_THAT(labels_of(whole_ones.at(0)), ElementsAre(5, 2));
}

TEST(features, of_several_inputs_are_put_together) {
    const any_tensor a(std::vector<std::int64_t>{1, 2}, {2, 1}), b = rows({3, 4, 5, 6}, 2);
    EXPECT_THAT(floats_of("FeatureVectorizer", {a, b}, {}), ElementsAre(1, 3, 4, 2, 5, 6));
    // Zeros to that many, or less than there are.
    EXPECT_THAT(floats_of("FeatureVectorizer", {a, b}, {{"inputdimensions", wholes({2, 1})}}),
                ElementsAre(1, 0, 3, 2, 0, 5));
    // A list is one row.
    EXPECT_THAT(floats_of("FeatureVectorizer", {list<float>({1, 2, 3})}, {{"inputdimensions", wholes({3})}}),
                ElementsAre(1, 2, 3));
}

// --- encodings -----------------------------------------------------------------------------------------------------

TEST(encodings, have_a_one_where_the_category_is) {
    EXPECT_THAT(floats_of("OneHotEncoder", {list({3, 2, 1})}, {{"cats_int64s", wholes({1, 3})}}),
                ElementsAre(0, 1, 0, 0, 1, 0));
    EXPECT_THAT(floats_of("OneHotEncoder", {list({3, 1})}, {{"cats_int64s", wholes({1, 3})}, {"zeros", whole(0)}}),
                ElementsAre(0, 1, 1, 0));  // an unknown one is refused: impossible_values_tests.cpp
    // Fractions are cut off.
    EXPECT_THAT(floats_of("OneHotEncoder", {list<float>({1.5f, 3, nan})}, {{"cats_int64s", wholes({1, 3})}}),
                ElementsAre(1, 0, 0, 1, 0, 0));
    EXPECT_THAT(
        floats_of("OneHotEncoder", {list<float>({1.5f, 3})}, {{"cats_int64s", wholes({1, 3})}, {"zeros", whole(0)}}),
        ElementsAre(1, 0, 0, 1));
}

TEST(encodings, give_the_value_of_a_key_or_the_default) {
    EXPECT_THAT(floats_of("LabelEncoder", {list({2, 9, -4})},
                          {{"keys_int64s", wholes({5, 2, -4})},
                           {"values_floats", reals({0.5f, 1.5f, 2.5f})},
                           {"default_float", -1.0f}}),
                ElementsAre(1.5f, -1, 2.5f));
    const auto of_reals = outputs("LabelEncoder", {list<float>({nan, 1, 2})},
                                  {{"keys_floats", reals({nan, 1})}, {"values_int64s", wholes({7, 8})}});
    EXPECT_THAT(labels_of(of_reals.at(0)), ElementsAre(7, 8, -1));
}

TEST(encodings, are_refused_where_keys_and_values_do_not_fit) {
    expect_refusals({
        {"LabelEncoder",
         {list({1})},
         {{"keys_int64s", wholes({1, 2})}, {"values_int64s", wholes({1})}},
         bad_file,
         "has 2 keys and 1 values",
         17,
         ml},
        {"LabelEncoder",
         {list({1})},
         {{"keys_int64s", wholes({1, 1})}, {"values_int64s", wholes({1, 2})}},
         bad_file,
         "has a key twice",
         17,
         ml},
        {"LabelEncoder",
         {list<float>({1})},
         {{"keys_int64s", wholes({1})}, {"values_int64s", wholes({1})}},
         bad_file,
         "has keys of i64 for f32 [1]",
         17,
         ml},
        {"LabelEncoder", {list({1})}, {{"keys_int64s", wholes({1})}}, bad_file, "needs one list of values", 17, ml},
        {"LabelEncoder",
         {list({1})},
         {{"keys_strings", texts({"a"})}, {"values_int64s", wholes({1})}},
         unsupported,
         "has strings (keys_strings)",
         17,
         ml},
    });
}

// --- linear models -------------------------------------------------------------------------------------------------

TEST(linear_models, add_weighted_features) {
    const attributes with{
        {"coefficients", reals({1, 2, 3, 4})}, {"intercepts", reals({0.5f, -0.5f})}, {"targets", whole(2)}};
    EXPECT_THAT(floats_of("LinearRegressor", {rows({1, 1, 2, -1}, 2)}, with), ElementsAre(3.5f, 6.5f, 0.5f, 1.5f));
    // A row alone, and other types.
    EXPECT_THAT(floats_of("LinearRegressor", {list<double>({1, 1})}, with), ElementsAre(3.5f, 6.5f));
    EXPECT_THAT(floats_of("LinearRegressor", {list<half>({half(1), half(1)})}, with), ElementsAre(3.5f, 6.5f));
}

TEST(linear_models, choose_between_two_classes_by_one_score) {
    const any_tensor x = rows({2, 1, 1, 3}, 2);
    attributes with{{"coefficients", reals({1, -1})}, {"intercepts", reals({0})}, {"classlabels_ints", wholes({3, 8})}};
    auto made = outputs("LinearClassifier", {x}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(8, 3));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(-1, 1, 2, -2));
    with["post_transform"] = text("LOGISTIC");
    made = outputs("LinearClassifier", {x}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(8, 3));
    EXPECT_THAT(floats_of(made.at(1)), near({logistic(-1), logistic(1), logistic(2), logistic(-2)}));
}

TEST(linear_models, choose_the_class_with_the_highest_score) {
    attributes with{{"coefficients", reals({1, 0, 0, 1, 1, 1})}, {"classlabels_ints", wholes({5, 6, 7})}};
    const any_tensor x = rows({2, -1, -1, 2, 1, 1}, 2);
    auto made = outputs("LinearClassifier", {x}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(5, 6, 7));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(2, -1, 1, -1, 2, 1, 1, 1, 2));
    with["post_transform"] = text("SOFTMAX");
    made = outputs("LinearClassifier", {x}, with, 2);
    const double e = std::exp(1.0), sum = 2 * e + e * e;
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(5, 6, 7));
    const std::vector<float> scores = floats_of(made.at(1));
    EXPECT_NEAR(scores[6], e / sum, 1e-6);
    EXPECT_NEAR(scores[8], e * e / sum, 1e-6);
    // 0 stays 0 here.
    with["post_transform"] = text("SOFTMAX_ZERO");
    EXPECT_THAT(floats_of(outputs("LinearClassifier", {rows({0, 1}, 2)}, with, 2).at(1)), near({0, 0.5, 0.5}));
    with["post_transform"] = text("SQUARE");
    expect_refusals({{"LinearClassifier", {x}, with, bad_file, "has the post_transform 'SQUARE'", 17, ml, 2}});
}

// --- support vector machines ---------------------------------------------------------------------------------------

TEST(support_vectors, weigh_their_kernels) {
    attributes with{{"support_vectors", reals({0, 0, 1, 0})},
                    {"n_supports", whole(2)},
                    {"coefficients", reals({1, -1})},
                    {"rho", reals({0.25f})}};
    const auto value = [&](const char* kernel, const std::vector<float>& parameters, const std::vector<float>& x) {
        with["kernel_type"] = text(kernel);
        with["kernel_params"] = reals(parameters);
        return floats_of("SVMRegressor", {rows(x, 2)}, with).at(0);
    };
    EXPECT_NEAR(value("LINEAR", {0, 0, 0}, {2, 5}), 0 - 2 + 0.25, 1e-6);
    EXPECT_NEAR(value("POLY", {1, 1, 2}, {1, 0}), 1 - 4 + 0.25, 1e-6);
    EXPECT_NEAR(value("RBF", {1, 0, 0}, {0, 0}), 1 - std::exp(-1.0) + 0.25, 1e-6);
    EXPECT_NEAR(value("SIGMOID", {0.5f, 0, 0}, {2, 0}), 0 - std::tanh(1.0) + 0.25, 1e-6);
    // Many columns and vectors, and exponents beyond all that are numbers.
    EXPECT_EQ(value("RBF", {1, 0, 0}, {1000, 0}), 0.25f);
    EXPECT_TRUE(std::isnan(value("RBF", {-1, 0, 0}, {1000, 0})));  // infinity - infinity
    EXPECT_TRUE(std::isnan(value("RBF", {1, 0, 0}, {std::numeric_limits<float>::quiet_NaN(), 0})));
    // Outliers are on the negative side.
    with["one_class"] = whole(1);
    EXPECT_EQ(value("LINEAR", {0, 0, 0}, {2, 5}), -1);
    EXPECT_EQ(value("LINEAR", {0, 0, 0}, {-2, 5}), 1);
    with["kernel_type"] = text("COSINE");
    expect_refusals({{"SVMRegressor", {rows({0, 0}, 2)}, with, bad_file, "has the kernel_type 'COSINE'", 17, ml}});
}

TEST(support_vectors, may_be_many_with_any_number_of_columns) {
    std::mt19937 random(3);
    std::normal_distribution<float> any;
    for (const std::size_t columns : {1, 3, 4, 7, 16}) {
        for (const std::size_t count : {1, 5, 33}) {
            std::vector<float> vectors(count * columns), coefficients(count), x(4 * columns);
            for (auto* const of : {&vectors, &coefficients, &x})
                for (float& each : *of) each = any(random);
            const attributes with{
                {"support_vectors", reals(vectors)},   {"n_supports", whole(static_cast<std::int64_t>(count))},
                {"coefficients", reals(coefficients)}, {"rho", reals({0.5f})},
                {"kernel_type", text("RBF")},          {"kernel_params", reals({0.3f, 0, 0})}};
            const std::vector<float> y = floats_of("SVMRegressor", {rows(x, columns)}, with);
            for (std::size_t row = 0; row < 4; ++row) {
                double exact = 0.5;
                for (std::size_t v = 0; v < count; ++v) {
                    double square = 0;
                    for (std::size_t c = 0; c < columns; ++c)
                        square += std::pow(double{x[row * columns + c]} - double{vectors[v * columns + c]}, 2);
                    exact += double{coefficients[v]} * std::exp(-double{0.3f} * square);
                }
                EXPECT_NEAR(y[row], exact, 1e-6 * std::max(1.0, std::abs(exact)));
            }
        }
    }
}

TEST(support_vectors, are_left_out_of_linear_machines) {
    EXPECT_THAT(floats_of("SVMRegressor", {rows({1, 1}, 2)}, {{"coefficients", reals({1, 2})}, {"rho", reals({0.5f})}}),
                ElementsAre(3.5f));
    const attributes with{{"coefficients", reals({1, 0, 0, 1, -1, -1})},
                          {"rho", reals({0, 0, 0})},
                          {"classlabels_ints", wholes({1, 2, 3})}};
    const auto made = outputs("SVMClassifier", {rows({2, 1, 1, 2, -1, -1}, 2)}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(1, 2, 3));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(2, 1, -3, 1, 2, -3, -1, -1, 2));
}

// Three classes with a vector each; the decision of a pair is the difference of the two products.
TEST(support_vectors, vote_for_a_class_in_pairs) {
    attributes with{{"support_vectors", reals({1, 0, 0, 1, -1, -1})},
                    {"vectors_per_class", wholes({1, 1, 1})},
                    {"coefficients", reals({1, -1, -1, 1, 1, -1})},
                    {"rho", reals({0, 0, 0})},
                    {"classlabels_ints", wholes({10, 20, 30})}};
    const any_tensor x = rows({2, 0, 0, 3, -2, -2}, 2);
    const auto made = outputs("SVMClassifier", {x}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(10, 20, 30));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(2, 4, 2, -3, 3, 6, 0, -6, -6));

    // With probabilities: they add up to 1, and are in the order of the votes.
    with["prob_a"] = reals({-1, -1, -1});
    with["prob_b"] = reals({0, 0, 0});
    const std::vector<float> likely = floats_of(outputs("SVMClassifier", {x}, with, 2).at(1));
    ASSERT_EQ(likely.size(), 9u);
    for (std::size_t row = 0; row < 3; ++row) {
        EXPECT_NEAR(likely[3 * row] + likely[3 * row + 1] + likely[3 * row + 2], 1, 1e-5);
        EXPECT_EQ(std::max_element(likely.begin() + 3 * static_cast<std::ptrdiff_t>(row),
                                   likely.begin() + 3 * static_cast<std::ptrdiff_t>(row) + 3) -
                      likely.begin(),
                  static_cast<std::ptrdiff_t>(4 * row));
    }
    with.erase("rho");
    expect_refusals(
        {{"SVMClassifier", {x}, with, bad_file, "has no classlabels_ints, coefficients or rho", 17, ml, 2}});
}

// Also where no coefficient is negative.
TEST(support_vectors, vote_for_one_of_two_classes) {
    const attributes with{{"support_vectors", reals({1, 0.5f})},
                          {"vectors_per_class", wholes({1, 1})},
                          {"coefficients", reals({1, 1})},
                          {"rho", reals({0})},
                          {"classlabels_ints", wholes({10, 11})}};
    const auto made = outputs("SVMClassifier", {rows({2, 0.1f, -2}, 1)}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(10, 10, 11));
}

// Of two classes, the probability is the logistic function of the decision.
TEST(support_vectors, say_how_likely_each_of_two_classes_is) {
    const attributes with{{"support_vectors", reals({1, 0})},
                          {"vectors_per_class", wholes({1, 1})},
                          {"coefficients", reals({1, -1})},
                          {"rho", reals({0})},
                          {"prob_a", reals({-1})},
                          {"prob_b", reals({0})},
                          {"classlabels_ints", wholes({0, 1})}};
    const auto made = outputs("SVMClassifier", {rows({2, -3}, 1)}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(0, 1));
    const std::vector<float> likely = floats_of(made.at(1));
    ASSERT_EQ(likely.size(), 4u);
    // The search for them ends at 0.005 / 2.
    EXPECT_NEAR(likely[0], logistic(2), 0.0025);
    EXPECT_NEAR(likely[1], logistic(-2), 0.0025);
    EXPECT_NEAR(likely[2], logistic(-3), 0.0025);
}

// --- trees ---------------------------------------------------------------------------------------------------------

namespace {

// Two trees of a node and two leaves: the first tests feature 0 against 1, the second feature 1 against 2.
attributes two_trees(const std::string& mode, const std::string& kind) {
    return {{"nodes_treeids", wholes({0, 0, 0, 1, 1, 1})},
            {"nodes_nodeids", wholes({0, 1, 2, 0, 1, 2})},
            {"nodes_featureids", wholes({0, 0, 0, 1, 0, 0})},
            {"nodes_modes", texts({mode, "LEAF", "LEAF", mode, "LEAF", "LEAF"})},
            {"nodes_values", reals({1, 0, 0, 2, 0, 0})},
            {"nodes_truenodeids", wholes({1, 0, 0, 1, 0, 0})},
            {"nodes_falsenodeids", wholes({2, 0, 0, 2, 0, 0})},
            {kind + "_treeids", wholes({0, 0, 1, 1})},
            {kind + "_nodeids", wholes({1, 2, 1, 2})},
            {kind + "_ids", wholes({0, 0, 0, 0})},
            {kind + "_weights", reals({10, 20, 100, 200})}};
}
attributes two_regressing_trees(const std::string& mode = "BRANCH_LEQ") {
    attributes made = two_trees(mode, "target");
    made["n_targets"] = whole(1);
    return made;
}

}  // namespace

TEST(trees, lead_each_row_to_a_leaf) {
    const any_tensor x = rows({1, 1, 1, 3, 2, 2, 0, 2}, 2);
    const auto sums = [&](const std::string& mode) {
        return floats_of("TreeEnsembleRegressor", {x}, two_regressing_trees(mode));
    };
    EXPECT_THAT(sums("BRANCH_LEQ"), ElementsAre(110, 210, 120, 110));
    EXPECT_THAT(sums("BRANCH_LT"), ElementsAre(120, 220, 220, 210));
    EXPECT_THAT(sums("BRANCH_GTE"), ElementsAre(210, 110, 110, 120));
    EXPECT_THAT(sums("BRANCH_GT"), ElementsAre(220, 120, 210, 220));
    EXPECT_THAT(sums("BRANCH_EQ"), ElementsAre(210, 210, 120, 120));
    EXPECT_THAT(sums("BRANCH_NEQ"), ElementsAre(120, 120, 210, 210));
    const any_tensor doubles(std::vector<double>{1 + 1e-12, 1}, {1, 2});
    EXPECT_THAT(floats_of("TreeEnsembleRegressor", {doubles}, two_regressing_trees()), ElementsAre(120));
}

TEST(trees, are_put_together_as_the_attribute_says) {
    attributes with = two_regressing_trees();
    with["base_values"] = reals({1});
    const auto value = [&](const char* how) {
        with["aggregate_function"] = text(how);
        return floats_of("TreeEnsembleRegressor", {rows({1, 3}, 2)}, with).at(0);
    };
    EXPECT_EQ(value("SUM"), 211);
    EXPECT_EQ(value("AVERAGE"), 106);
    EXPECT_EQ(value("MIN"), 11);
    EXPECT_EQ(value("MAX"), 201);
    with["aggregate_function"] = text("MEDIAN");
    expect_refusals(
        {{"TreeEnsembleRegressor", {rows({1, 3}, 2)}, with, bad_file, "has the aggregate_function 'MEDIAN'", 17, ml}});
}

TEST(trees, send_missing_features_where_the_attribute_says) {
    attributes with = two_regressing_trees();
    EXPECT_THAT(floats_of("TreeEnsembleRegressor", {rows({nan, 1}, 2)}, with), ElementsAre(120));
    with["nodes_missing_value_tracks_true"] = wholes({1, 0, 0, 0, 0, 0});
    EXPECT_THAT(floats_of("TreeEnsembleRegressor", {rows({nan, 1}, 2)}, with), ElementsAre(110));
}

TEST(trees, choose_classes) {
    attributes with = two_trees("BRANCH_LEQ", "class");
    with["classlabels_int64s"] = wholes({4, 9, 5});
    with["class_ids"] = wholes({0, 1, 1, 2});
    const auto made = outputs("TreeEnsembleClassifier", {rows({1, 1, 2, 1, 1, 3}, 2)}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(9, 9, 5));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(10, 100, 0, 0, 120, 0, 10, 0, 200));
}

// The weights are of the second class only: what is left to 1 is the first one's.
TEST(trees, choose_between_two_classes_by_the_probability_of_one) {
    attributes with = two_trees("BRANCH_LEQ", "class");
    with["classlabels_int64s"] = wholes({4, 9});
    with["class_ids"] = wholes({1, 1, 1, 1});
    with["class_weights"] = reals({0.125f, 0.5f, 0.125f, 0.25f});
    const any_tensor x = rows({1, 1, 2, 3}, 2);
    auto made = outputs("TreeEnsembleClassifier", {x}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(4, 9));
    EXPECT_THAT(floats_of(made.at(1)), ElementsAre(0.75f, 0.25f, 0.25f, 0.75f));
    with["post_transform"] = text("LOGISTIC");
    with["base_values"] = reals({-0.5f});
    made = outputs("TreeEnsembleClassifier", {x}, with, 2);
    EXPECT_THAT(labels_of(made.at(0)), ElementsAre(4, 9));
    EXPECT_THAT(floats_of(made.at(1)), near({logistic(0.25), logistic(-0.25), logistic(-0.25), logistic(0.25)}));
}

TEST(trees, are_refused_where_they_are_no_trees) {
    const any_tensor x = rows({1, 3}, 2);
    const auto bad = [&](const std::string& attribute, nn::attribute value, const std::string& why) {
        attributes with = two_regressing_trees();
        with[attribute] = std::move(value);
        return bad_node{"TreeEnsembleRegressor", {x}, with, bad_file, why, 17, ml};
    };
    expect_refusals({
        bad("nodes_truenodeids", wholes({0, 0, 0, 1, 0, 0}), "has a tree with a circle"),
        bad("nodes_truenodeids", wholes({7, 0, 0, 1, 0, 0}), "names the node 7 of tree 0, which does not exist"),
        bad("nodes_nodeids", wholes({0, 1, 1, 0, 1, 2}), "has a node of a tree twice"),
        bad("nodes_featureids", wholes({2, 0, 0, 1, 0, 0}), "tests the feature 2 of 2"),
        bad("nodes_featureids", wholes({-1, 0, 0, 1, 0, 0}), "has the index -1"),
        bad("nodes_values", reals({1, 0}), "has 2 nodes_values for 6"),
        bad("nodes_modes", texts({"BRANCH", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"}),
            "has a node with the mode 'BRANCH'"),
        bad("target_ids", wholes({0, 0, 0, 1}), "gives a weight to the target 1 of 1"),
        bad("n_targets", whole(0), "has 0 targets"),
        bad("base_values", reals({1, 2}), "has 2 base values for 1"),
    });
}

}  // namespace sluice::nn::machine_learning_tests
