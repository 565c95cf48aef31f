// SPDX-License-Identifier: Apache-2.0
// constant_folder: computes what depends on constants only, when a network is made.
#pragma once

#include <cstddef>

#include "nn/prepared_graph.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

class constant_folder {
public:
    enum class what : unsigned char { all_but_dequantized, all };

    // Holds at most 64 MiB and eight times the bytes of the model's constants. The model outlives the folder.
    explicit constant_folder(const model& of);

    // Carries out the steps whose inputs are all constants, also in the graphs inside. Constants that nothing reads any
    // more are dropped. Throws what the operators say of inputs that they refuse.
    void fold(prepared_graph& body, what which) { fold(body, false, which); }

private:
    void fold(prepared_graph& body, bool is_inner, what which);
    void fold_inside(const prepared_graph& around, prepared_graph& inner, what which);
    void drop_constant(prepared_graph& body, slot which);
    bool fold_step(prepared_graph& body, const step& each, what which);

    const model& model_;
    const std::size_t most_bytes_;
    std::size_t bytes_ = 0;  // of what was computed from constants and is held
};

}  // namespace sluice::nn::detail
