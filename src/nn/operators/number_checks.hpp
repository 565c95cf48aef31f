// SPDX-License-Identifier: Apache-2.0
// Checks of numbers that are places in other tensors: indices, positions, lengths.
#pragma once

#include <cstdint>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

// Each number of this tensor of i32 or i64 has to be in the range. Call it when y, which depends on the numbers, is
// made and not written yet.
//
//     numbers in host memory    refused now, with the node and the number
//     CPU devices               a command that writes y fails (errc::out_of_range), and so does what depends on y
//     GPUs                      network::run fails (errc::out_of_range); forward cannot, and y's kernel decides what an
//                               element with such a number becomes
void require_numbers(const node_call& in, const any_tensor& numbers, number_range allowed, const any_tensor& y);

}  // namespace sluice::nn::operators
