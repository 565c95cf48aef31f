// SPDX-License-Identifier: Apache-2.0
// iterative_solver: a loop that ends on the device, as part of a compiled graph. Harder inputs take more rounds,
// without the host. The pipeline is in iterative_solver.hpp, so that the simulator's tests can use it too.

#include "iterative_solver.hpp"

int main() try {
    sluice::runtime machine;
    sluice::single_stream pool(machine.default_device());
    for (const std::string& each : iterative_solver::solve_all(32, pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "iterative_solver: %s\n", failure.what());
    return 1;
}
