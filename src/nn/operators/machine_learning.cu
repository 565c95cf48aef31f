// SPDX-License-Identifier: Apache-2.0
// The operators of ai.onnx.ml on numbers: features, encodings and linear models. Those with strings are refused.
#include "nn/operators/machine_learning.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/table.hpp"
#include "nn/operators/tree_links.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::operators {
namespace {

// --- scores ----------------------------------------------------------------------------------------------------

SLUICE_KERNEL inline double score_probit(double p) {
    // As ONNX's reference: Winitzki's inverse of the error function.
    const double x = 2 * p - 1, product = (1 - x) * (1 + x);
    if (product == 0) return 0;
    const double log = std::log(product), v = 2 / (3.14159265358979323846 * 0.147) + 0.5 * log;
    const double root = std::sqrt(std::sqrt(v * v - log / 0.147) - v);
    return 1.41421356 * (x < 0 ? -root : root);
}

SLUICE_KERNEL inline void transform_scores(double* scores, std::size_t count, score_transform how) {
    if (how == score_transform::identity) return;
    if (how == score_transform::logistic || how == score_transform::probit) {
        for (std::size_t k = 0; k < count; ++k)
            scores[k] = how == score_transform::probit ? score_probit(scores[k]) : 1 / (1 + std::exp(-scores[k]));
        return;
    }
    double most = scores[0], sum = 0;
    for (std::size_t k = 1; k < count; ++k) most = scores[k] > most ? scores[k] : most;
    for (std::size_t k = 0; k < count; ++k) {
        // softmax_zero: 0 stays 0.
        const bool is_zero = how == score_transform::softmax_zero && scores[k] <= 1e-7 && scores[k] >= -1e-7;
        scores[k] = is_zero ? scores[k] * std::exp(-most) : std::exp(scores[k] - most);
        sum += scores[k];
    }
    for (std::size_t k = 0; k < count; ++k) scores[k] = sum == 0 ? 0.5 : scores[k] / sum;
}

// One index for each row.
struct score_kernel {
    const double* from;
    double* to;
    const std::int64_t* labels;  // null: none
    std::int64_t* label;
    std::size_t columns, made;
    in_word<score_transform> after;
    in_word<other_score> other;
    double threshold;

    SLUICE_KERNEL void operator()(std::size_t row) const {
        const double* const in = from + row * columns;
        double* const out = to + row * made;
        if (other == other_score::absent) {
            for (std::size_t k = 0; k < columns; ++k) out[k] = in[k];
        } else {
            out[1] = in[0];
            out[0] = other == other_score::negative ? -in[0] : 1 - in[0];
        }
        transform_scores(out, made, after);
        if (labels == nullptr) return;
        // Compared as they are given: as float.
        std::size_t best = 0;
        for (std::size_t k = 1; k < made; ++k)
            if (static_cast<float>(out[k]) > static_cast<float>(out[best])) best = k;
        if (made == 1) best = out[0] >= threshold ? 1 : 0;
        label[row] = labels[best];
    }
};

void finish_scores(node_call& in, std::size_t output, io::dtype type, const any_tensor& scores, score_form form,
                   const integers* labels, double threshold) {
    const std::size_t rows = scores.shape()[0], columns = scores.shape()[1];
    const std::size_t made = form.other == other_score::absent ? columns : 2;
    const any_tensor to = in.make(io::dtype::f64, {rows, made});
    any_tensor known, label;
    if (labels != nullptr) {
        known = table_of(in, *labels);
        label = in.make_output(0, io::dtype::i64, {rows});
    }
    each(in, made == 0 ? 0 : rows,
         score_kernel{in.read<double>(scores), in.write<double>(to), in.read<std::int64_t>(known),
                      in.write<std::int64_t>(label), columns, made, form.after, form.other, threshold},
         {&scores, &known}, {&to, &label});
    if (output < in.output_count()) in.set_output(output, converted_to(in, to, type));
}

// --- linear models ---------------------------------------------------------------------------------------------

template <typename T>
struct linear_kernel {
    const T* x;
    const float* coefficients;
    const float* intercepts;  // null: none
    double* to;
    std::size_t columns, count;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const T* const row = x + i / count * columns;
        const float* const line = coefficients + i % count * columns;
        double sum = intercepts != nullptr ? static_cast<double>(intercepts[i % count]) : 0;
        for (std::size_t k = 0; k < columns; ++k) sum += static_cast<double>(row[k]) * static_cast<double>(line[k]);
        to[i] = sum;
    }
};

void linear_regressor(node_call& in) {
    const std::int64_t targets = in.integer("targets", 1);
    if (targets < 1) in.refuse("has " + std::to_string(targets) + " targets");
    const feature_matrix of = features_of(in);
    const any_tensor scores = linear_scores(in, of, in.real_list("coefficients"), in.real_list("intercepts"),
                                            static_cast<std::size_t>(targets));
    give_scores(in, 0, io::dtype::f32, scores, {.after = score_transform_of(in)});
}

void linear_classifier(node_call& in) {
    refuse_strings(in, {"classlabels_strings"});
    const feature_matrix of = features_of(in);
    integers labels = in.integer_list("classlabels_ints");
    const std::vector<float> coefficients = in.real_list("coefficients");
    if (labels.empty()) in.refuse("has no class labels");
    const bool is_one_score = labels.size() <= 2 && coefficients.size() == of.columns;
    const any_tensor scores =
        linear_scores(in, of, coefficients, in.real_list("intercepts"), is_one_score ? 1 : labels.size());
    const score_transform after = score_transform_of(in);
    const bool has_other = is_one_score && labels.size() == 2;
    if (labels.size() == 1) labels.insert(labels.begin(), 0);
    give_classes(in, scores, {.after = after, .other = has_other ? other_score::negative : other_score::absent}, labels,
                 after == score_transform::identity ? 0 : 0.5);
}

// Networks have no maps: the scores are what the map of each row would hold, in the order of the labels.
void zip_map(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.type() != io::dtype::f32) in.refuse_type(x);
    if (in.has("classlabels_int64s") == in.has("classlabels_strings"))
        in.refuse("has no labels, or has them as numbers and as text");
    const std::size_t labels =
        in.integer_list("classlabels_int64s").size() + in.text_list("classlabels_strings").size();
    if (x.shape().empty() || x.shape().size() > 2 || x.shape().back() != labels) {
        in.refuse_shapes("has " + std::to_string(labels) + " labels, which do not fit the scores " + to_string(x));
    }
    in.set_output(0, x.shape().size() == 2 ? x : x.with_shape({1, labels}));
}

}  // namespace

void require_ml_number(const node_call& in, const any_tensor& x) {
    using enum io::dtype;
    if (x.type() != f32 && x.type() != f64 && x.type() != i32 && x.type() != i64) in.refuse_type(x);
}
void refuse_strings(const node_call& in, std::initializer_list<std::string_view> attributes) {
    for (const std::string_view each_name : attributes)
        if (in.has(each_name))
            in.refuse_unsupported("has strings (" + std::string(each_name) + "), which are not supported");
}

any_tensor table_of_bytes(const node_call& in, io::dtype type, std::size_t count, const void* numbers) {
    if (in.where() == place::nowhere) return any_tensor::of_shape(type, {count});
    std::byte* to = nullptr;
    any_tensor made = any_tensor::make_on_host(type, {count}, to);
    if (made.size_bytes() != 0) std::memcpy(to, numbers, made.size_bytes());
    if (in.where() == place::host) return made;
    const command_info info{in.name()};
    storage_ref memory = in.context().stream().allocate(std::max<std::size_t>(made.size_bytes(), 1), info);
    if (made.size_bytes() != 0) {
        sluice::detail::upload_bytes(in.context().stream(), *memory, made.bytes().data(), made.size_bytes(),
                                     made.host_owner(), info.location);
    }
    return made.with_memory(std::move(memory));
}

any_tensor converted_to(node_call& in, const any_tensor& from, io::dtype type) {
    if (from.type() == type) return from;
    const any_tensor to = in.make(type, from.shape());
    expression e(in);
    e.give(to, e.input(from));
    e.run();
    return to;
}

feature_matrix features_of(node_call& in) {
    using enum io::dtype;
    const any_tensor& x = in.input(0);
    if (x.type() != f16) require_ml_number(in, x);
    if (x.shape().empty() || x.shape().size() > 2)
        in.refuse_shapes("takes a row or rows of features, and is given " + to_string(x));
    const any_tensor made = x.type() == f32 ? x : converted_to(in, x, x.type() == f16 ? f32 : f64);
    return {made, x.shape().size() == 1 ? 1 : x.shape()[0], x.shape().back()};
}

score_transform score_transform_of(const node_call& in) {
    using enum score_transform;
    const std::string name = in.text("post_transform", "NONE");
    if (name == "NONE") return identity;
    if (name == "SOFTMAX") return softmax;
    if (name == "LOGISTIC") return logistic;
    if (name == "SOFTMAX_ZERO") return softmax_zero;
    if (name == "PROBIT") return probit;
    in.refuse("has the post_transform '" + name + "'");
}

void give_scores(node_call& in, std::size_t output, io::dtype type, const any_tensor& scores, score_form form) {
    finish_scores(in, output, type, scores, form, nullptr, 0);
}

void give_classes(node_call& in, const any_tensor& scores, score_form form, const integers& labels, double threshold) {
    finish_scores(in, 1, io::dtype::f32, scores, form, &labels, threshold);
}

any_tensor linear_scores(node_call& in, const feature_matrix& of, const std::vector<float>& coefficients,
                         const std::vector<float>& intercepts, std::size_t count) {
    if (count == 0 || coefficients.size() / count != of.columns || coefficients.size() % count != 0 ||
        (!intercepts.empty() && intercepts.size() != count)) {
        in.refuse("has " + std::to_string(coefficients.size()) + " coefficients and " +
                  std::to_string(intercepts.size()) + " intercepts for " + std::to_string(of.columns) +
                  " features and " + std::to_string(count) + " scores");
    }
    const any_tensor table = table_of(in, coefficients), added = table_of(in, intercepts);
    const any_tensor to = in.make(io::dtype::f64, {of.rows, count});
    with_features(of, [&]<typename T>() {
        each(in, to.elements(),
             linear_kernel<T>{in.read<T>(of.x), in.read<float>(table),
                              intercepts.empty() ? nullptr : in.read<float>(added), in.write<double>(to), of.columns,
                              count},
             {&of.x, &table, &added}, {&to});
    });
    return to;
}

std::span<const definition> machine_learning() {
    const auto one = [](std::string_view name, std::size_t outputs, std::vector<std::string_view> attributes,
                        void (*run)(node_call&), std::int64_t since = 1) {
        return definition{.name = name,
                          .least_inputs = 1,
                          .most_inputs = 1,
                          .most_outputs = outputs,
                          .attributes = std::move(attributes),
                          .run = run,
                          .since = since,
                          .domain = onnx_ml};
    };
    static const std::vector<definition> list = {
        one("Scaler", 1, {"offset", "scale"}, &scaler),
        one("Normalizer", 1, {"norm"}, &normalizer),
        one("ZipMap", 1, {"classlabels_int64s", "classlabels_strings"}, &zip_map),
        one("Binarizer", 1, {"threshold"}, &binarizer),
        one("Imputer", 1,
            {"imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64"}, &imputer),
        {.name = "FeatureVectorizer",
         .least_inputs = 1,
         .most_inputs = any_number,
         .most_outputs = 1,
         .attributes = {"inputdimensions"},
         .run = &feature_vectorizer,
         .domain = onnx_ml},
        {.name = "ArrayFeatureExtractor",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {},
         .run = &array_feature_extractor,
         .domain = onnx_ml},
        one("OneHotEncoder", 1, {"cats_int64s", "cats_strings", "zeros"}, &one_hot_encoder),
        one("LabelEncoder", 1,
            {"classes_strings", "default_float", "default_int64", "default_string", "default_tensor", "keys_floats",
             "keys_int64s", "keys_strings", "keys_tensor", "values_floats", "values_int64s", "values_strings",
             "values_tensor"},
            &label_encoder),
        one("LinearRegressor", 1, {"coefficients", "intercepts", "post_transform", "targets"}, &linear_regressor),
        one("LinearClassifier", 2,
            {"classlabels_ints", "classlabels_strings", "coefficients", "intercepts", "multi_class", "post_transform"},
            &linear_classifier),
        one("SVMRegressor", 1,
            {"coefficients", "kernel_params", "kernel_type", "n_supports", "one_class", "post_transform", "rho",
             "support_vectors"},
            &svm_regressor),
        one("SVMClassifier", 2,
            {"classlabels_ints", "classlabels_strings", "coefficients", "kernel_params", "kernel_type",
             "post_transform", "prob_a", "prob_b", "rho", "support_vectors", "vectors_per_class"},
            &svm_classifier),
        one("TreeEnsembleRegressor", 1,
            {"aggregate_function",
             "base_values",
             "base_values_as_tensor",
             "n_targets",
             "nodes_falsenodeids",
             "nodes_featureids",
             "nodes_hitrates",
             "nodes_hitrates_as_tensor",
             "nodes_missing_value_tracks_true",
             "nodes_modes",
             "nodes_nodeids",
             "nodes_treeids",
             "nodes_truenodeids",
             "nodes_values",
             "nodes_values_as_tensor",
             "post_transform",
             "target_ids",
             "target_nodeids",
             "target_treeids",
             "target_weights",
             "target_weights_as_tensor"},
            &tree_ensemble_regressor),
        one("TreeEnsembleClassifier", 2,
            {"base_values",
             "base_values_as_tensor",
             "class_ids",
             "class_nodeids",
             "class_treeids",
             "class_weights",
             "class_weights_as_tensor",
             "classlabels_int64s",
             "classlabels_strings",
             "nodes_falsenodeids",
             "nodes_featureids",
             "nodes_hitrates",
             "nodes_hitrates_as_tensor",
             "nodes_missing_value_tracks_true",
             "nodes_modes",
             "nodes_nodeids",
             "nodes_treeids",
             "nodes_truenodeids",
             "nodes_values",
             "nodes_values_as_tensor",
             "post_transform"},
            &tree_ensemble_classifier),
        one("TreeEnsemble", 1,
            {"aggregate_function", "leaf_targetids", "leaf_weights", "membership_values", "n_targets",
             "nodes_falseleafs", "nodes_falsenodeids", "nodes_featureids", "nodes_hitrates",
             "nodes_missing_value_tracks_true", "nodes_modes", "nodes_splits", "nodes_trueleafs", "nodes_truenodeids",
             "post_transform", "tree_roots"},
            &tree_ensemble, 5),
        {.name = "TreeEnsemble",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"aggregate_function", "base_values", "divisor", "factor", "feature_names", "leaf_targetids",
                        "leaf_weights", "link", "n_targets", "nodes_falseleafs", "nodes_falsenodeids",
                        "nodes_featureids", "nodes_missing_value_tracks_true", "nodes_modes", "nodes_splits",
                        "nodes_trueleafs", "nodes_truenodeids", "tree_roots"},
         .run = &tree_ensemble_of_file,
         .domain = tree_files},
    };
    return list;
}

}  // namespace sluice::nn::operators
