// SPDX-License-Identifier: Apache-2.0
// Constants of a network that its steps read on the device.
#pragma once

#include "nn/prepared_graph.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {

// Submits the copy of a value in host memory to the device. The host's memory lives until then.
any_tensor uploaded(execution_context& context, const any_tensor& from);

// Uploads what steps read on the device, also those of the graphs inside, and drops constants that nothing reads. Sets
// step::read_inside. After all passes.
void upload_constants(prepared_graph& body, execution_context& context);

}  // namespace sluice::nn::detail
