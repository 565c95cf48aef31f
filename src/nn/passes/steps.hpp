// SPDX-License-Identifier: Apache-2.0
// What passes ask of steps and of their constants.
#pragma once

#include <cstdint>
#include <string_view>

#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

// Whether the step is this operator of ONNX's own domain.
// Of a step that several nodes have become: whether the first is one.
bool is(const step& what, std::string_view op);
std::int64_t integer(const step& of, std::string_view attribute, std::int64_t otherwise);
float real(const step& of, std::string_view attribute, float otherwise);
std::string_view text(const step& of, std::string_view attribute, std::string_view otherwise);

// Whether the host needs the elements of this input; whether only its type and shape matter.
bool takes_on_host(const step& in, std::size_t input);
bool takes_shape_only(const step& in, std::size_t input);

// Null unless the step has this input, and it is a constant of f32 in host memory.
const any_tensor* constant_input(const prepared_graph& in, const step& of, std::size_t input);
slot add_constant(prepared_graph& in, any_tensor value);

// For each slot the only step that reads it, no_step if none does, several_steps if several do, or a graph of a step,
// or the graph's caller.
inline constexpr std::size_t no_step = ~std::size_t{0}, several_steps = no_step - 1;
std::vector<std::size_t> only_readers(const prepared_graph& in);
// For each slot the step that gives it, or no_step.
std::vector<std::size_t> givers(const prepared_graph& in);

// The graph of some steps, in their order: what others give are its inputs, what others read its outputs.
prepared_graph part_of(const prepared_graph& in, const std::vector<std::size_t>& steps);

// Notes that a pass makes one step a part of another one.
void note_joined(const step& one, step& to);

}  // namespace sluice::nn::detail
