// SPDX-License-Identifier: Apache-2.0
// The same of the operators that have kernels: products, reductions, normalizations, indices, quantization, resampling,
// and those of classical machine learning.
#include <gtest/gtest.h>

#include "nn/support/single_nodes.hpp"

namespace sluice::nn::kernel_operator_refusals_tests {

using namespace test_support;
using enum errc;

TEST(operators_of_elements, refuse_fractions_that_whole_numbers_do_not_have) {
    expect_refusals({
        {"Shrink", {number(std::int32_t{5})}, {{"bias", 1.5f}}, unsupported, "accepted are a whole 'bias'"},
        {"Shrink", {number(std::uint64_t{1})}, {{"lambd", 1.5f}}, unsupported, "a 'lambd' from 0 on, below 1 for u64"},
    });
}

TEST(operators_of_products, refuse_factors_that_do_not_fit) {
    const any_tensor x = ones({2, 3}), doubles = any_tensor(std::vector<double>(6, 1), {3, 2});
    expect_refusals({
        {"MatMul", {x, ones({2, 3})}, {}, shape_mismatch, "multiplies f32 [2, 3] by f32 [2, 3], which do not fit"},
        {"MatMul", {number(1.0f), x}, {}, shape_mismatch, "multiplies a tensor without dimensions"},
        {"MatMul", {x, doubles}, {}, bad_file, "multiplies f32 [2, 3] by f64 [3, 2]"},
        {"Gemm", {x, doubles}, {}, bad_file, "multiplies and adds tensors of different types"},
        {"Gemm",
         {any_tensor(std::vector<std::int32_t>(6, 1), {2, 3}), any_tensor(std::vector<std::int32_t>(6, 1), {3, 2})},
         {{"alpha", 0.5f}},
         unsupported,
         "multiplies integers by an alpha or beta that is no whole number"},
        {"Einsum", {x, x}, {{"equation", text("ij->i")}}, bad_file, "has an equation of 1 terms, and 2 inputs"},
        {"Einsum",
         {x},
         {{"equation", text("ijk->i")}},
         shape_mismatch,
         "has an equation with 3 letters for f32 [2, 3]"},
        {"Einsum",
         {x},
         {{"equation", text("ij->ii")}},
         bad_file,
         "has an equation whose output has a letter twice, or one that no input has"},
        {"Einsum",
         {x},
         {{"equation", text("ii->i")}},
         shape_mismatch,
         "has an equation with one letter for two different lengths"},
        {"Einsum", {x, doubles}, {{"equation", text("ij,jk->ik")}}, bad_file, "takes tensors of one type"},
    });
}

TEST(operators_of_reductions, refuse_axes_and_numbers_that_are_not_there) {
    const any_tensor x = ones({2, 3});
    expect_refusals({
        {"ReduceSum", {booleans({2})}, {}, unsupported, "does not take bool"},
        {"TopK", {x, list({4})}, {}, out_of_range, "looks for 4 of 3 elements"},
        {"TopK", {x, list({1, 2})}, {}, bad_file, "has 2 numbers K; it has to be one"},
        {"CumSum", {x, list({0, 1})}, {}, bad_file, "has 2 axes; it has to be one"},
        {"Det", {x}, {}, shape_mismatch, "takes square matrices, and is given f32 [2, 3]"},
        {"ReduceMean", {x}, {{"axes", wholes({2})}}, bad_file, "has the axis 2"},
        {"LpNormalization", {x}, {{"p", whole(3)}}, bad_file, "has p = 3; 1 and 2 are possible"},
        {"LRN", {ones({1, 2, 3, 3})}, {{"size", whole(0)}}, bad_file, "has the size 0"},
        {"BatchNormalization",
         {ones({1, 2, 3}), ones({3}), ones({2}), ones({2}), ones({2})},
         {},
         shape_mismatch,
         "has 2 channels, and input 1 is f32 [3]"},
        {"LayerNormalization",
         {x, ones({2})},
         {},
         shape_mismatch,
         "combines the shapes [2, 3] and [2], which do not fit"},
        {"NegativeLogLikelihoodLoss",
         {x, list({0, 1})},
         {{"reduction", text("average")}},
         bad_file,
         "has the reduction 'average'; 'none', 'sum' and 'mean' are possible"},
        {"NegativeLogLikelihoodLoss", {x, ones({2})}, {}, unsupported, "does not take f32"},
    });
}

TEST(operators_of_indices, refuse_indices_that_are_no_numbers_of_places) {
    const any_tensor x = ones({2, 3});
    expect_refusals({
        {"Gather", {x, ones({1})}, {}, unsupported, "does not take f32"},
        {"OneHot", {list({0, 1}), number(std::int64_t{-1}), ones({2})}, {}, out_of_range, "has the depth -1"},
        {"ScatterND",
         {x, any_tensor(std::vector<std::int64_t>{0}, {1, 1}), ones({1, 2})},
         {},
         shape_mismatch,
         "writes f32 [1, 2] to f32 [2, 3] at places of i64 [1, 1], which do not fit"},
        {"ScatterElements",
         {x, any_tensor(std::vector<std::int64_t>{0}, {1, 1}), any_tensor(std::vector<double>{0}, {1, 1})},
         {},
         bad_file,
         "writes f64 [1, 1] to f32 [2, 3]"},
        {"EyeLike", {ones({3})}, {}, shape_mismatch, "has to have a matrix as input, not f32 [3]"},
        {"Trilu", {ones({3})}, {}, shape_mismatch, "has to have matrices as input, not f32 [3]"},
        {"ConstantOfShape",
         {list({2})},
         {{"value", tensor_of<float>({1, 2}, {2})}},
         bad_file,
         "has to have one number as value"},
        {"Pad", {x, list({0, 0, 1, 1}), ones({2})}, {}, bad_file, "pads f32 [2, 3] with f32 [2]"},
    });
}

TEST(operators_of_quantization, refuse_types_and_scales_that_do_not_fit) {
    const any_tensor x = ones({2, 3}), scale = number(0.1f);
    const any_tensor bytes = any_tensor(std::vector<std::uint8_t>(6, 1), {2, 3});
    expect_refusals({
        {"QuantizeLinear", {bytes, scale}, {}, unsupported, "does not take u8"},
        {"QuantizeLinear", {x, scale}, {{"block_size", whole(-1)}}, bad_file, "has a block of -1", 21},
        {"DequantizeLinear", {x, scale}, {}, unsupported, "does not take f32"},
        {"DequantizeLinear", {bytes, number(std::int64_t{1})}, {}, unsupported, "does not take i64"},
        {"DynamicQuantizeLinear", {bytes}, {}, unsupported, "does not take u8", 17, "", 3},
        {"MatMulInteger", {x, bytes}, {}, unsupported, "does not take f32"},
    });
}

TEST(operators_of_resampling, refuse_sizes_and_scales_that_do_not_fit) {
    const any_tensor x = ones({1, 1, 2, 2}), nothing;
    expect_refusals({
        {"Resize",
         {x, nothing, list<float>({1, 1, 2})},
         {},
         bad_file,
         "has 3 scales or sizes for 4 axes of f32 [1, 1, 2, 2]"},
        {"Resize", {x, nothing, list<float>({1, 1, 2, 0})}, {}, out_of_range, "has the scale 0"},
        {"Resize", {x, nothing, nothing, list({1, 1, 4, -4})}, {}, out_of_range, "has the size -4"},
        {"Resize",
         {x, nothing, list<float>({1, 1, 2, 2}), list({1, 1, 4, 4})},
         {},
         bad_file,
         "takes either scales or sizes"},
        {"Resize",
         {x, nothing, nothing, list({4, 4})},
         {{"axes", wholes({2, 3})}, {"keep_aspect_ratio_policy", text("keep")}},
         bad_file,
         "has the keep_aspect_ratio_policy 'keep'",
         18},
        {"Upsample", {x, list<float>({1, 1, 0.5f, 2})}, {}, out_of_range, "has a scale below 1", 9},
        {"RoiAlign",
         {x, ones({1, 4}), list({0})},
         {{"mode", text("min")}},
         bad_file,
         "has the mode 'min'; 'avg' and 'max' are possible"},
        {"CenterCropPad", {ones({2, 3}), list({2})}, {}, bad_file, "has 1 lengths for 2 axes", 18},
    });
}

TEST(operators_of_signals, refuse_signals_and_frames_that_do_not_fit) {
    const any_tensor signal = ones({1, 8, 1});
    expect_refusals({
        {"DFT", {ones({1, 8, 3})}, {{"axis", whole(1)}}, shape_mismatch, "its last dimension has to be 1 or 2"},
        {"STFT",
         {signal, number(std::int64_t{2}), any_tensor(), number(std::int64_t{9})},
         {},
         out_of_range,
         "has frames of 9 elements and the signal f32 [1, 8, 1]"},
        {"STFT",
         {signal, number(std::int64_t{2}), ones({4}), number(std::int64_t{3})},
         {},
         shape_mismatch,
         "has a window of 4 for frames of 3"},
        {"HannWindow", {number(std::int64_t{-1})}, {}, out_of_range, "for the length"},
    });
}

TEST(operators_of_machine_learning, refuse_models_whose_parts_do_not_fit) {
    const std::string ml = "ai.onnx.ml";
    const any_tensor x = ones({2, 3});
    expect_refusals({
        {"LinearRegressor",
         {x},
         {{"coefficients", reals({1, 2})}},
         bad_file,
         "has 2 coefficients and 0 intercepts",
         17,
         ml},
        {"LinearRegressor",
         {x},
         {{"coefficients", reals({1, 2, 3})}, {"targets", whole(0)}},
         bad_file,
         "has 0 targets",
         17,
         ml},
        {"LinearClassifier", {x}, {{"coefficients", reals({1, 2, 3})}}, bad_file, "has no class labels", 17, ml, 2},
        {"LinearClassifier",
         {ones({1, 1, 3})},
         {{"coefficients", reals({1, 2, 3})}, {"classlabels_ints", wholes({0, 1})}},
         shape_mismatch,
         "takes a row or rows of features",
         17,
         ml,
         2},
        {"Normalizer",
         {x},
         {{"norm", text("L3")}},
         bad_file,
         "has the norm 'L3'; 'MAX', 'L1' and 'L2' are possible",
         17,
         ml},
        {"Scaler", {x}, {{"offset", reals({1, 2})}, {"scale", reals({1})}}, bad_file, "has 2", 17, ml},
        {"OneHotEncoder", {x}, {{"cats_int64s", wholes({})}}, bad_file, "has no categories", 17, ml},
        {"OneHotEncoder", {x}, {{"cats_int64s", wholes({1, 1})}}, bad_file, "has a category twice", 17, ml},
        {"ArrayFeatureExtractor", {x, list({3})}, {}, out_of_range, "has the index 3", 17, ml},
        {"SVMRegressor",
         {x},
         {{"coefficients", reals({1})}, {"n_supports", whole(2)}, {"rho", reals({0})}},
         bad_file,
         "has not one coefficient for each support vector",
         17,
         ml},
    });
}

}  // namespace sluice::nn::kernel_operator_refusals_tests
