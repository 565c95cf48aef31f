// SPDX-License-Identifier: Apache-2.0
// One-thread kernels for conditional nodes: one sets the condition from a number in device memory, one does nothing.
#pragma once

#include "sluice/runtime/command.hpp"

namespace sluice::cuda {

struct condition_closure {
    unsigned long long handle;  // a cudaGraphConditionalHandle
    const int* flag;
};

// The launch; `closure` must outlive its use.
launch_command set_condition(const condition_closure& closure);

// A kernel that does nothing, for bodies of conditional nodes that have only one node. When such a body runs again, the
// driver invalidates the descriptor of its kernel while the kernel is still active, and the device faults (driver 580
// on an H200; bench/probes/one_kernel_loops.cu shows it without Sluice). With a second kernel after the first it does
// not.
launch_command do_nothing();

}  // namespace sluice::cuda
