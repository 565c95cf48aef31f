// SPDX-License-Identifier: Apache-2.0
// Finds stretches of dense layers: Gemm, or MatMul and Add, with constant f32 weights; and their activations.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "nn/prepared_graph.hpp"
#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::nn::detail {

// One layer: the steps that compute it.
struct found_layer {
    std::vector<std::size_t> steps;
    mlp_layer numbers;
    slot output = no_slot;
    bool takes_matrix = false;

    std::size_t bytes() const { return (numbers.in_features + 1) * numbers.out_features * sizeof(float); }
};

struct found_activation {
    std::size_t step = 0;
    activation what = activation::none;
};

struct dense_limits {
    std::size_t most_layers, most_bytes, widest;
};

class dense_search {
public:
    dense_search(const prepared_graph& in, const dense_limits& limits);

    // The layers that begin with this step; empty if none does.
    std::vector<found_layer> from(std::size_t at) const;

    // The activation that alone reads the value, if that is all that reads it.
    std::optional<found_activation> activation_of(slot value) const;
    // The only step that reads the value, or no_step.
    std::size_t reader_of(slot value) const;

    // Makes one step of the layers, which begin with it: its inputs are the stretch's input. The other steps become
    // false in `is_left`. The caller sets what the step is.
    static step& join(prepared_graph& in, const std::vector<found_layer>& layers, std::vector<bool>& is_left);

private:
    std::size_t next_step(slot after, std::string_view op, std::int64_t since) const;
    std::optional<found_layer> layer_at(std::size_t at) const;
    void take(std::size_t at, found_layer& to) const;
    bool take_bias_of_gemm(const step& product, found_layer& to) const;
    void take_addition(found_layer& to) const;

    const prepared_graph& in_;
    const dense_limits limits_;
    const std::vector<std::size_t> readers_;
};

// Whether a step still is one node: one that passes have made of several nodes has the first of them.
bool is_one_node(const step& what);

// Those of the steps that are left.
void erase_steps(prepared_graph& in, const std::vector<bool>& is_left);

}  // namespace sluice::nn::detail
