// SPDX-License-Identifier: Apache-2.0
// Models of trees that LightGBM, XGBoost and CatBoost have trained, with what these libraries predict; and files that
// are wrong.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/read_trees.hpp"
#include "fuzz/replay.hpp"
#include "io/support/hostile_files.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/row_independence.hpp"
#include "sluice/nn/trees.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::tree_files_tests {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path folder = SLUICE_SOURCE_DIR "/tests/nn/data/trees";

std::string contents_of(const std::string& name) { return io::testing::read_file(folder / name); }

any_tensor rows_of(const io::npy_file& from, std::size_t first, std::size_t count) {
    const auto bytes = from.view().row_range(first, count);
    return any_tensor(
        constant{from.view().element_type(),
                 {count, from.view().row_elements()},
                 std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
}

class tree_files : public ::testing::Test {
protected:
    network ready(const model& from) { return sync(make_network(from), on_); }
    any_tensor answers(const network& of, const any_tensor& rows) { return sync(of.run({rows}), on_).at(0); }
    // Of the whole text; one row of f64.
    double answer(const std::string& text, std::vector<double> row) {
        const model from = read_trees(io::testing::bytes_of(text), "model.txt");
        const std::size_t width = row.size();
        return answers(ready(from), any_tensor(std::move(row), {1, width})).values<double>()[0];
    }
    // Rows at once, which vector units take together where they are f32, and one by one.
    void expect_bits(const std::string& name, const std::string& ending) {
        SCOPED_TRACE(name + ending);
        const io::npy_file inputs(folder / (name + ".inputs.npy")), expected(folder / (name + ".answers.npy"));
        const network trees = ready(load_trees(folder / (name + ending)));
        const std::size_t rows = inputs.view().rows();
        for (const std::size_t count : {rows, std::size_t{1}}) {
            for (std::size_t first = 0; first < rows; first += count) {
                const any_tensor made = answers(trees, rows_of(inputs, first, count));
                const auto wanted = expected.view().row_range(first, count);
                ASSERT_EQ(made.type(), expected.view().element_type());
                ASSERT_EQ(made.size_bytes(), wanted.size());
                EXPECT_EQ(0, std::memcmp(made.bytes().data(), wanted.data(), wanted.size())) << "row " << first;
            }
        }
    }

    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = 2, .cuda = false}};
    single_stream on_{machine_.find("cpu:0")};
};

void expect_refused(const std::string& text, const std::string& why, const char* path = "model.txt") {
    SCOPED_TRACE(why);
    try {
        static_cast<void>(read_trees(io::testing::bytes_of(text), path));
        ADD_FAILURE() << "is not refused";
    } catch (const file_error& refusal) {
        EXPECT_THAT(refusal.what(), HasSubstr(why));
        EXPECT_EQ(refusal.code(), make_error_code(errc::bad_file)) << refusal.what();
    }
}

std::string with(std::string text, std::string_view part, std::string_view other) {
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return at == std::string::npos ? text : text.replace(at, part.size(), other);
}

// A file of LightGBM with one split.
std::string one_split(const std::string& threshold, int decision, const std::string& objective = "regression") {
    return "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=0\nobjective=" +
           objective + "\nfeature_names=height\nfeature_infos=none\n\nTree=0\nnum_leaves=2\nnum_cat=0\n" +
           "split_feature=0\nthreshold=" + threshold + "\ndecision_type=" + std::to_string(decision) +
           "\nleft_child=-1\nright_child=-2\nleaf_value=1 2\nshrinkage=1\n\n\nend of trees\n";
}

// Of decision_type.
constexpr int default_left = 2, missing_zero = 4, missing_nan = 8;

// A file of XGBoost with one split, of the feature 0 at 0.5.
const std::string one_split_of_xgboost =
    R"({"learner":{"gradient_booster":{"model":{"gbtree_model_param":{"num_trees":"1"},"tree_info":[0],"trees":[)"
    R"({"categories":[1,2],"categories_nodes":[],"categories_segments":[],"categories_sizes":[],)"
    R"("default_left":[1,0,0],"left_children":[1,-1,-1],"right_children":[2,-1,-1],"split_conditions":[0.5,1,2],)"
    R"("split_indices":[0,0,0],"split_type":[0,0,0],"tree_param":{"num_nodes":"3","size_leaf_vector":"1"}}]},)"
    R"("name":"gbtree"},"learner_model_param":{"base_score":"[5E-1]","num_class":"0","num_feature":"1",)"
    R"("num_target":"1"},"objective":{"name":"reg:squarederror"}},"version":[3,2,0]})";

}  // namespace

TEST_F(tree_files, of_lightgbm_give_its_bits) {
    for (const char* const each :
         {"regression", "binary_categories", "multiclass", "zero_as_missing", "forest", "poisson"})
        expect_bits(std::string("lightgbm_") + each, ".txt");
}

TEST_F(tree_files, of_xgboost_give_its_bits_in_both_notations) {
    for (const char* const each : {"categories", "multiclass", "poisson"})
        for (const char* const ending : {".json", ".ubj"}) expect_bits(std::string("xgboost_") + each, ending);
}

TEST_F(tree_files, of_catboost_give_its_bits) {
    for (const char* const each : {"symmetric", "depthwise"}) expect_bits(std::string("catboost_") + each, ".json");
}

// Its exponents in a softmax are of another function.
TEST_F(tree_files, of_catboost_give_its_probabilities_of_classes_up_to_the_last_digits) {
    const io::npy_file inputs(folder / "catboost_multiclass.inputs.npy"),
        expected(folder / "catboost_multiclass.answers.npy");
    const any_tensor made =
        answers(ready(load_trees(folder / "catboost_multiclass.json")), rows_of(inputs, 0, inputs.view().rows()));
    const std::vector<double> wanted = expected.view().values<double>();
    ASSERT_EQ(made.values<double>().size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(made.values<double>()[i] / wanted[i], 1, 1e-14);
}

TEST_F(tree_files, say_their_features_and_that_rows_are_independent) {
    const model from = load_trees(folder / "lightgbm_regression.txt");
    EXPECT_EQ(from.producer, "LightGBM v4");
    EXPECT_EQ(from.body.inputs.at(0).type, io::dtype::f64);
    const auto* const names = from.body.nodes.at(0).find<std::vector<std::string>>("feature_names");
    ASSERT_NE(names, nullptr);
    EXPECT_THAT(*names, ::testing::ElementsAre("Column_0", "Column_1", "Column_2", "Column_3"));
    EXPECT_TRUE(find_row_independence(from).is_proven);
}

// What LightGBM's predict does with each kind of missing number: -1 and 1e-36 are below the threshold.
TEST_F(tree_files, of_lightgbm_send_missing_numbers_and_zeros_where_it_does) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    struct row {
        const char* threshold;
        int decision;
        double below, zero, small, missing, above;
    };
    const row rows[] = {{"0.5", 0, 1, 1, 1, 1, 2},
                        {"-0.5", 0, 1, 2, 2, 2, 2},
                        {"0", 0, 1, 1, 1, 1, 2},
                        {"-1e-40", 0, 1, 2, 2, 2, 2},
                        {"0.5", missing_nan, 1, 1, 1, 2, 2},
                        {"-0.5", missing_nan | default_left, 1, 2, 2, 1, 2},
                        {"0.5", missing_zero, 1, 2, 2, 2, 2},
                        {"-0.5", missing_zero, 1, 2, 2, 2, 2},
                        {"0", missing_zero, 1, 2, 2, 2, 2},
                        {"0.5", missing_zero | default_left, 1, 1, 1, 1, 2},
                        {"-0.5", missing_zero | default_left, 1, 1, 1, 1, 2},
                        {"0", missing_zero | default_left, 1, 1, 1, 1, 2}};
    for (const row& each : rows) {
        const std::string text = one_split(each.threshold, each.decision);
        SCOPED_TRACE(text);
        EXPECT_EQ(answer(text, {-1}), each.below);
        EXPECT_EQ(answer(text, {0}), each.zero);
        EXPECT_EQ(answer(text, {-0.0}), each.zero);
        EXPECT_EQ(answer(text, {1e-36}), each.small);
        EXPECT_EQ(answer(text, {-1e-36}), each.small);
        EXPECT_EQ(answer(text, {nan}), each.missing);
        EXPECT_EQ(answer(text, {1}), each.above);
    }
}

// f32 would not tell these apart.
TEST_F(tree_files, of_lightgbm_compare_f64) {
    const std::string text = one_split("1.0000000000000002", 0);
    EXPECT_EQ(answer(text, {1.0000000000000002}), 1);
    EXPECT_EQ(answer(text, {1.0000000000000004}), 2);
}

TEST_F(tree_files, of_lightgbm_round_categories_towards_zero) {
    std::string text = with(one_split("0", 1), "num_cat=0", "num_cat=1\ncat_boundaries=0 1\ncat_threshold=2147483657");
    for (const double inside : {0.0, -0.5, 0.9, 3.0, 3.99, 31.0}) EXPECT_EQ(answer(text, {inside}), 1) << inside;
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double outside : {-1.0, 1.0, 2.0, 4.0, 30.9, 32.0, 1e20, infinity, -infinity, std::nan("")})
        EXPECT_EQ(answer(text, {outside}), 2) << outside;
}

TEST_F(tree_files, may_have_trees_that_are_a_leaf) {
    EXPECT_EQ(answer(with(one_split("0.5", 0),
                          "num_leaves=2\nnum_cat=0\nsplit_feature=0\nthreshold=0.5\n"
                          "decision_type=0\nleft_child=-1\nright_child=-2\nleaf_value=1 2",
                          "num_leaves=1\nnum_cat=0\nleaf_value=7"),
                     {0}),
              7);
}

TEST_F(tree_files, are_recognized_by_what_they_begin_with) {
    for (const auto& each : std::filesystem::directory_iterator(folder)) {
        const std::string ending = each.path().extension().string();
        const bool is_model = ending == ".txt" || ending == ".json" || ending == ".ubj";
        EXPECT_EQ(is_tree_file(io::testing::bytes_of(io::testing::read_file(each.path()))), is_model) << each.path();
    }
    EXPECT_TRUE(is_tree_file("nowhere.ubj"));
    EXPECT_FALSE(is_tree_file("nowhere.model"));
    EXPECT_FALSE(is_tree_file(SLUICE_SOURCE_DIR "/models/digits.safetensors"));
    EXPECT_FALSE(is_tree_file(SLUICE_SOURCE_DIR "/models/digits.onnx"));
    // The lengths of some safetensors files look like the begin of JSON and of UBJSON.
    for (const std::string& length : {std::string(" {\0\0\0\0\0\0", 8), std::string("{L\0\0\0\0\0\0", 8)})
        EXPECT_FALSE(is_tree_file(io::testing::bytes_of(length + R"({"0.weight":)")));
}

TEST_F(tree_files, are_refused_by_name_where_they_are_not_understood) {
    const std::string text = one_split("0.5", 0);
    expect_refused(with(text, "version=v4", "version=v9"), "v2, v3 and v4 are known");
    expect_refused(one_split("0.5", 0, "ordinal"), "accepted are regression,");
    expect_refused(with(text, "shrinkage=1", "is_linear=1"), "accepted are trees with linear_tree=false");
    const std::string booster = with(one_split_of_xgboost, R"("name":"gbtree")", R"("name":"gblinear")");
    expect_refused(booster, "accepted are boosters of trees: gbtree and dart");
    expect_refused(with(one_split_of_xgboost, "reg:squarederror", "reg:strange"), "accepted are reg:squarederror,");
    expect_refused(with(one_split_of_xgboost, R"("size_leaf_vector":"1")", R"("size_leaf_vector":"3")"),
                   "multi_strategy=one_output_per_tree");
    const std::string catboost = contents_of("catboost_symmetric.json");
    expect_refused(with(catboost, R"("float_features")", R"("categorical_features":[{}],"float_features")"),
                   "features are all numbers");
    expect_refused(with(catboost, "Logloss", "Strange"), "accepted are RMSE,");
    expect_refused(with(catboost, "FloatFeature", "OnlineCtr"), "accepted are splits of numbers");
    expect_refused("{}", "XGBoost's has the member learner");
    expect_refused(R"({"tree_info":[]})", "accepted is what save_model writes");
    expect_refused("nothing", "accepted are LightGBM's text");
}

TEST_F(tree_files, are_refused_where_they_contradict_themselves) {
    const std::string text = one_split("0.5", 0);
    expect_refused(with(text, "end of trees", ""), "is cut off");
    expect_refused(with(text, "left_child=-1", "left_child=0"), "in two ways");
    expect_refused(with(text, "left_child=-1", "left_child=5"), "does not exist");
    expect_refused(with(text, "right_child=-2", "right_child=-1"), "in two ways");
    expect_refused(with(text, "threshold=0.5", "threshold=nan"), "is not a number");
    expect_refused(with(text, "leaf_value=1 2", "leaf_value=1"), "has 1 numbers instead of 2");
    expect_refused(with(text, "leaf_value=1 2", "leaf_value=1 nan"), "is not a number");
    expect_refused(with(text, "num_leaves=2", "num_leaves=99999999999"), "num_leaves");
    expect_refused(with(text, "split_feature=0", "split_feature=1"), "a feature that does not exist");
    expect_refused(with(text, "decision_type=0", "decision_type=1"), "categories that do not exist");
    expect_refused(with(text, "num_tree_per_iteration=1", "num_tree_per_iteration=2"), "does not divide");
    // A node that no other leads to.
    std::string lost = with(with(text, "num_leaves=2", "num_leaves=3"), "split_feature=0", "split_feature=0 0");
    lost = with(with(lost, "threshold=0.5", "threshold=0.5 0.5"), "decision_type=0", "decision_type=0 0");
    lost = with(with(lost, "left_child=-1", "left_child=-1 -2000000000"), "right_child=-2", "right_child=-2 -3");
    expect_refused(with(lost, "leaf_value=1 2", "leaf_value=1 2 3"), "does not exist");
    const std::string& other = one_split_of_xgboost;
    EXPECT_NO_THROW(static_cast<void>(read_trees(io::testing::bytes_of(other), "model.json")));
    expect_refused(with(other, "[1,-1,-1]", "[0,-1,-1]"), "in two ways");
    expect_refused(with(other, "[1,-1,-1]", "[7,-1,-1]"), "left_children");
    expect_refused(with(other, "[1,-1,-1]", "[1.5,-1,-1]"), "left_children");
    expect_refused(with(other, "[0,0,0]", "[3,0,0]"), "split_indices");
    expect_refused(with(other, "[0.5,1,2]", "[0.5,1]"), "has 2 numbers instead of 3");
    expect_refused(with(other, R"("num_nodes":"3")", R"("num_nodes":"3000000000")"), "num_nodes");
    expect_refused(with(other, R"("num_nodes":"3")", R"("num_nodes":"1073741824")"), "has 3 numbers instead of");
    expect_refused(with(other, R"("categories_nodes":[])", R"("categories_nodes":[0])"), "categories_segments");
    expect_refused(with(other, "[5E-1]", "[1,2]"), "has 2 numbers for 1 outputs");
    expect_refused(with(other, R"("tree_info":[0])", R"("tree_info":[0],"tree_info":[0])"), "twice");
    const std::string catboost = contents_of("catboost_symmetric.json");
    expect_refused(with(catboost, R"("leaf_values":[)", R"("leaf_values":[0,)"), "leaf values");
}

// A few bytes that speak of many, or are nested deeply.
TEST_F(tree_files, do_not_take_more_memory_or_stack_than_their_length_allows) {
    const std::string huge = {'\x7f', '\x7f', '\x7f', '\x7f'};
    for (const char type : {'Z', 'T', 'F', 'd', 'U', 'N'})
        expect_refused(std::string("{i\x01"
                                   "a[$") +
                           type + "#l" + huge,
                       "", "model.ubj");
    expect_refused(
        "{i\x01"
        "a" +
            std::string(100'000, '['),
        "nested deeper", "model.ubj");
    expect_refused(R"({"a":)" + std::string(100'000, '['), "nested deeper", "model.json");
}

// Whatever is cut off or changed, a file is refused with its name, or is a network that can be made.
TEST_F(tree_files, that_are_damaged_are_refused_or_are_networks) {
    std::mt19937 numbers(5);
    for (const char* const name : {"lightgbm_binary_categories.txt", "xgboost_categories.json",
                                   "xgboost_categories.ubj", "catboost_depthwise.json", "catboost_symmetric.json"}) {
        SCOPED_TRACE(name);
        const std::string whole = contents_of(name);
        for (int round = 0; round < 60; ++round) {
            const std::string cut = whole.substr(0, numbers() % whole.size());
            EXPECT_THROW(static_cast<void>(read_trees(io::testing::bytes_of(cut), name)), file_error);
            std::string changed = whole;
            for (int k = 0; k < 3; ++k)
                changed[numbers() % changed.size()] = "0123456789-.,[]{}\"eazZ$#\n\xff"[numbers() % 27];
            EXPECT_NO_THROW(fuzz::read_trees(io::testing::bytes_of(changed)));
        }
    }
}

TEST_F(tree_files, that_fuzzers_begin_with_are_read_or_refused) {
    sluice::fuzz::replay("fuzz/corpus/trees", fuzz::read_trees);
}

}  // namespace sluice::nn::tree_files_tests
