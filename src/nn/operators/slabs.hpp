// SPDX-License-Identifier: Apache-2.0
// What Loop and Scan do with their values: parts of a tensor along an axis, and tensors put together along a new one.
#pragma once

#include <cstddef>
#include <span>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

// The part of x at one place of an axis, without the axis. On the host if x is there, else at the place of the call.
any_tensor slab_of(const node_call& in, const any_tensor& x, std::size_t axis, std::size_t at);

// The parts in order along a new axis. There is one at least, and all have one type and shape. On the host if all parts
// are there, else at the place of the call.
any_tensor stacked(const node_call& in, std::span<const any_tensor> parts, std::size_t axis);

// The tensor where the call reads it: uploaded, for a call on a device, if it is on the host only. Inputs of nodes with
// inner graphs may be.
any_tensor brought_here(const node_call& in, const any_tensor& from);

}  // namespace sluice::nn::operators
