// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM on a GPU whose states before the first step are zeros: only the shapes of these are read.
#pragma once

#include "nn/operators/table.hpp"

namespace sluice::nn::operators {

// The same operator.
const definition& recurrent_from_zeros(const definition& of);
// The same in 16 bits (dense_layers.hpp), whose inputs are those of narrowed_recurrent().
const definition& narrowed_recurrent_from_zeros();
inline constexpr std::uint32_t recurrent_state_inputs = input_bit(5) | input_bit(6);

}  // namespace sluice::nn::operators
