// SPDX-License-Identifier: Apache-2.0
// The CUDA backend in a build without the CUDA toolkit: finds no device.

#include "runtime/backends.hpp"

namespace sluice {

found_devices find_cuda_devices(const runtime_options&) { return {{}, "this build of Sluice has no CUDA backend"}; }

}  // namespace sluice
