// SPDX-License-Identifier: Apache-2.0
// Whether this process may use AMX.
#pragma once

#include <string>

namespace sluice::kernels {

struct tile_permission {
    bool bf16 = false, int8 = false;  // the processor has it and the system permits it
    std::string refused;              // why not, of a processor that has it; else empty
};

// The first call asks Linux for the permission, which is for the whole process and cannot be given back: from then on
// threads that use AMX need a larger stack for signals (sigaltstack), some 11 KB. The environment variable
// SLUICE_NO_AMX, unless it is empty or 0, prevents it. Any thread.
const tile_permission& permission_for_tiles();
// Asks, with this value of the variable; null: it is not set.
tile_permission ask_for_tiles(const char* switched_off);

}  // namespace sluice::kernels
