// Kernels that break a GPU, each in its own way.
#pragma once

#include <string>

#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::faults {

enum class breakage { trap, illegal_address, misaligned_address, failed_assertion };
std::string to_string(breakage how);

// One launch that writes x, or would. The device is lost for the process.
void break_on(stream& on, tensor<unsigned>& x, breakage how);
// The name of its kernel, as errors tell it.
std::string kernel_name(breakage how);

}  // namespace sluice::faults
