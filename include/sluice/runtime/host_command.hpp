// SPDX-License-Identifier: Apache-2.0
// host_command: a function of the host as a command of a stream.
#pragma once

#include <functional>

namespace sluice {

// Host code in stream order. It must not call Sluice or CUDA. It runs on a worker thread or a thread that waits (cpu)
// or on a thread of the driver (cuda). Each waiter of the command receives an exception that it throws.
struct host_command {
    std::function<void()> call;  // the code to run
};

}  // namespace sluice
