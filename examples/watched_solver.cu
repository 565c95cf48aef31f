// SPDX-License-Identifier: Apache-2.0
// watched_solver: a graph whose kernel launches another graph, which launches itself until it is done. The host
// launches only the first graph. The pipeline is in watched_solver.hpp, so that the simulator's tests can use it too.

#include "watched_solver.hpp"

int main() try {
    sluice::runtime machine;
    sluice::single_stream pool(machine.default_device());
    for (const std::string& each : watched_solver::follow_all(32, pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "watched_solver: %s\n", failure.what());
    return 1;
}
