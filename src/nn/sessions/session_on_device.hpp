// SPDX-License-Identifier: Apache-2.0
// session_on_device: a step whose state stays on a device that has memory of its own.
#pragma once

#include <vector>

#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn::detail {

class prepared_network;

// The outputs, before it returns: those that stay on the device, the others in host memory. Throws what network::run
// and the wait for it throw.
std::vector<any_tensor> run_on_device(const prepared_network& of, std::vector<any_tensor> inputs,
                                      const std::vector<bool>& stays);

// Copies in host memory, before it returns.
std::vector<any_tensor> bring_to_host(const prepared_network& of, std::vector<any_tensor> values);

}  // namespace sluice::nn::detail
