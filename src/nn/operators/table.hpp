// SPDX-License-Identifier: Apache-2.0
// The operators that Sluice knows: one line each, in the file of its family.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

inline constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();
inline constexpr std::string_view onnx_ml = "ai.onnx.ml";

// Bits for host_inputs and shape_inputs.
inline constexpr std::uint32_t none = 0, all = ~std::uint32_t{0};
constexpr std::uint32_t input_bit(std::size_t i) { return std::uint32_t{1} << (i < 31 ? i : 31); }

struct definition {
    std::string_view name;
    std::size_t least_inputs, most_inputs;
    std::size_t most_outputs;
    std::vector<std::string_view> attributes;  // a node with another one is refused
    void (*run)(node_call&);
    // The inputs whose elements must be known on the host before the node runs: shapes, axes, numbers of things.
    std::uint32_t host_inputs = none;
    // The inputs of which only the type and the shape matter.
    std::uint32_t shape_inputs = none;
    std::int64_t since = 1, until = std::numeric_limits<std::int64_t>::max();  // versions of the operator set
    std::string_view domain = {};
    // The inputs that may be values which an expression has left to this node. If there are any, its output 0 may be
    // left to the next one: it is the only output, and is made by an expression.
    std::uint32_t fused_inputs = none;
    bool is_random = false;             // gives other numbers each time: not computed beforehand
    const own_operator* own = nullptr;  // of the user (own.hpp)
};

// Each family's operators.
std::span<const definition> attention();
std::span<const definition> control_flow();
std::span<const definition> convolutions();
std::span<const definition> detection();
std::span<const definition> elementwise();
std::span<const definition> losses();
std::span<const definition> machine_learning();
std::span<const definition> movement();
std::span<const definition> normalizations();
std::span<const definition> optimizers();
std::span<const definition> poolings();
std::span<const definition> products();
std::span<const definition> quantization();
std::span<const definition> random_numbers();
std::span<const definition> recurrent();
std::span<const definition> reductions();
std::span<const definition> resampling();
std::span<const definition> shapes();
std::span<const definition> signals();

// What passes make of nodes. BatchNormalization with constant numbers, whose inputs are x, the factors in f32 and in
// f64, and the addends likewise; and dense layers, of which run_environment says the numbers.
const definition& folded_batch_normalization();
const definition& fused_dense_layers();

// The operator of this name and version, or null.
const definition* find(std::string_view domain, std::string_view name, std::int64_t opset);
// Whether there is one of another version.
bool is_known(std::string_view domain, std::string_view name);
// All, in the order of domain, name and version.
std::vector<const definition*> all_operators();

}  // namespace sluice::nn::operators
