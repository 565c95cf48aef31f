// SPDX-License-Identifier: Apache-2.0
// What becomes of the scores of trees that come from their own files: the formulas of LightGBM, XGBoost and CatBoost,
// in their types and order. On a CPU exp is that of libm, as in those libraries.
#pragma once

#include <cstdint>
#include <string_view>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

// Of TreeEnsemble as model files of trees become it (nn/trees): with more kinds of sums and leaves, and with links.
inline constexpr std::string_view tree_files = "sluice";
void tree_ensemble_of_file(node_call& in);

enum class tree_link : std::uint8_t {
    identity,
    sigmoid,         // 1 / (1 + exp(-factor x))
    softmax,         // of each row
    exponent,        // exp(x)
    log1p_exponent,  // log(1 + exp(x))
    signed_square,   // x |x|
    step,            // 1 where x > 0, else 0
    largest,         // the place of the first largest of each row
    two_classes      // of one score: 1 - p and p, where p is the sigmoid
};

struct tree_link_form {
    tree_link kind = tree_link::identity;
    double divisor = 1;  // of the scores, before the link
    double factor = 1;   // of `sigmoid`
};

// As the attribute "link" says. Refuses others.
tree_link tree_link_of(const node_call& in);
// The f64 scores [rows, n], which are sums of f32 if `is_rounded`, become output 0 in that type and are computed in it.
void give_linked(node_call& in, const any_tensor& scores, const tree_link_form& form, bool is_rounded);

}  // namespace sluice::nn::operators
