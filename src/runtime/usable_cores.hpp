// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice::detail {

// How many cores the calling thread, and threads that it makes, may use: all of the machine, or those that taskset, a
// container or a job's launcher left it, and no more than their control groups have time for (a quota of one and a half
// cores counts as two). At least 1. Asks the system each time, which opens some files.
std::size_t usable_cores() noexcept;

}  // namespace sluice::detail
