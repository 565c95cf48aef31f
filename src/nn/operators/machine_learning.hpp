// SPDX-License-Identifier: Apache-2.0
// What the operators of ai.onnx.ml have in common: tables of attributes, rows of features, and what is done with
// scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

// Numbers of the node as a tensor at the place of the call: in host memory, or uploaded.
any_tensor table_of_bytes(const node_call& in, io::dtype type, std::size_t count, const void* numbers);
template <typename T>
any_tensor table_of(const node_call& in, const std::vector<T>& numbers) {
    return table_of_bytes(in, io::dtype_of<T>, numbers.size(), numbers.data());
}
// The same for structures: a tensor of their bytes.
template <typename T>
any_tensor table_of_structures(const node_call& in, const std::vector<T>& structures) {
    return table_of_bytes(in, io::dtype::u8, structures.size() * sizeof(T), structures.data());
}

any_tensor converted_to(node_call& in, const any_tensor& from, io::dtype type);

// The first input as a matrix of f32 or f64: one row for each thing.
struct feature_matrix {
    any_tensor x;
    std::size_t rows = 0, columns = 0;
};
feature_matrix features_of(node_call& in);
template <typename Function>
void with_features(const feature_matrix& of, const Function& function) {
    if (of.x.type() == io::dtype::f64) return function.template operator()<double>();
    function.template operator()<float>();
}

enum class score_transform : std::uint8_t { identity, softmax, logistic, softmax_zero, probit };
score_transform score_transform_of(const node_call& in);

// What one score of two classes says of the other.
enum class other_score : std::uint8_t { absent, negative, rest_to_one };

struct score_form {
    score_transform after = score_transform::identity;
    other_score other = other_score::absent;
};

// The f64 scores [rows, n], transformed, become this output: [rows, n], or [rows, 2] with the other score first.
void give_scores(node_call& in, std::size_t output, io::dtype type, const any_tensor& scores, score_form form);
// The same as output 1. Output 0 becomes the label of the highest of each row; of one column: the second label if it is
// at least the threshold, else the first.
void give_classes(node_call& in, const any_tensor& scores, score_form form, const integers& labels, double threshold);

// Of f32, f64, i32 or i64.
void require_ml_number(const node_call& in, const any_tensor& x);
void refuse_strings(const node_call& in, std::initializer_list<std::string_view> attributes);

// The operators of feature_encodings.cu, trees.cu and support_vectors.cu, for the list in machine_learning.cu.
void scaler(node_call& in);
void normalizer(node_call& in);
void binarizer(node_call& in);
void imputer(node_call& in);
void feature_vectorizer(node_call& in);
void array_feature_extractor(node_call& in);
void one_hot_encoder(node_call& in);
void label_encoder(node_call& in);
void tree_ensemble(node_call& in);
void tree_ensemble_regressor(node_call& in);
void tree_ensemble_classifier(node_call& in);
void svm_regressor(node_call& in);
void svm_classifier(node_call& in);

// Products of rows of features with rows of coefficients, plus one number for each of these: f64 [rows, count].
any_tensor linear_scores(node_call& in, const feature_matrix& of, const std::vector<float>& coefficients,
                         const std::vector<float>& intercepts, std::size_t count);

}  // namespace sluice::nn::operators
