// Setting the condition of a conditional node from a number in device memory: a kernel of one thread.
#pragma once

#include "sluice/runtime/command.hpp"

namespace sluice::cuda {

struct condition_closure {
    unsigned long long handle;  // a cudaGraphConditionalHandle
    const int* flag;
};

// The launch; `closure` outlives the use of it.
launch_command set_condition(const condition_closure& closure);

}  // namespace sluice::cuda
