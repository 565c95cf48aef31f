// SPDX-License-Identifier: Apache-2.0
// The two ways of quantized_mlp on a GPU. Each gives the kernel for the network and what it is launched with, all but
// the closure.
#pragma once

#include "kernels/quantized_mlp/quantized_mlp_dispatch.hpp"

namespace sluice::kernels {

// With Hopper's own instructions, f8_e4m3 only; the file is compiled for sm_90a alone, and the kernels run nowhere
// else.
launch_command quantized_mlp_on_hopper(const quantized_mlp_call& call, const device_properties& gpu);
// Whether the weights of all layers fit into shared memory there.
bool fits_quantized_mlp_on_hopper(const quantized_mlp_call& call, const device_properties& gpu);
// With mma.sync: std::int8_t on sm_80 and later, f8_e4m3 on sm_89 and later.
launch_command quantized_mlp_with_mma(const quantized_mlp_call& call, eight_bit_type type,
                                      const device_properties& gpu);

}  // namespace sluice::kernels
