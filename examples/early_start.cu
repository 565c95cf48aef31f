// SPDX-License-Identifier: Apache-2.0
// early_start: a kernel that starts before the kernel that it depends on has ended. This pays off between short kernels
// on a GPU of compute capability 9.0 or later; on other devices the second kernel simply runs after the first. The
// pipeline is in early_start.hpp, so that the simulator's tests can use it too.

#include "early_start.hpp"

int main() try {
    sluice::runtime machine;
    sluice::single_stream pool(machine.default_device());
    for (const std::string& each : early_start::run_both(pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "early_start: %s\n", failure.what());
    return 1;
}
