// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice::detail {

// How many cores the calling thread, and threads that it makes, may use: all of the machine, or those that taskset, a
// container or a job's launcher left it. At least 1. Asks the system each time.
std::size_t usable_cores() noexcept;

}  // namespace sluice::detail
