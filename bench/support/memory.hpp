// SPDX-License-Identifier: Apache-2.0
// The resident memory of this process.
#pragma once

#include <cstddef>
#include <fstream>

#include <unistd.h>

namespace sluice::bench {

inline double resident_mebibytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0;
    std::size_t resident = 0;
    file >> all >> resident;
    return static_cast<double>(resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) / (1024.0 * 1024.0);
}

}  // namespace sluice::bench
