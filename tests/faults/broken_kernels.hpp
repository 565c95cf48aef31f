// SPDX-License-Identifier: Apache-2.0
// Kernels that break a GPU, each with another kind of fault.
#pragma once

#include <ostream>
#include <string>

#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::faults {

enum class breakage { trap, illegal_address, misaligned_address, failed_assertion };
std::string to_string(breakage how);
// ctest's names of the tests have it.
inline void PrintTo(breakage how, std::ostream* to) { *to << to_string(how); }

// Launches the kernel, which writes x and breaks the GPU. The device is then lost for the process.
void break_on(stream on, tensor<unsigned>& x, breakage how);
// Launches a kernel that adds 1 to x, and breaks the GPU if `breaks`. Its name is "trap_if_kernel".
void trap_if_on(stream on, tensor<unsigned>& x, bool breaks);
// The name of the kernel as errors show it.
std::string kernel_name(breakage how);

}  // namespace sluice::faults
