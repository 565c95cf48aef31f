// SPDX-License-Identifier: Apache-2.0
// state_shapes: what the model says about the shapes of a state.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// Why the output cannot be the next step's input; empty: it can, as far as the model says. Lengths that the model
// leaves open may change from step to step.
std::string why_not_next(const value_info& output, const value_info& input);

// "f32 [batch, 64]"; a length without a number and a name is "?".
std::string text_of(const value_info& value);

// Lengths that the model leaves open, by their names.
using bound_lengths = std::map<std::string, std::size_t, std::less<>>;

// Adds those that this shape of the value says. The first one of a name stays.
void bind_lengths(const value_info& of, std::span<const std::size_t> shape, bound_lengths& to);
// The whole shape; none, where a length is not known.
std::optional<std::vector<std::size_t>> bound_shape(const value_info& of, const bound_lengths& lengths);

// Throws errc::shape_mismatch unless the shape is one that the model allows.
void require_shape(const value_info& of, std::span<const std::size_t> shape);

}  // namespace sluice::nn::detail
