// SPDX-License-Identifier: Apache-2.0
// batch_sizes: answers requests of any number of rows with a small cache of compiled graphs, one for each size class.
// The pipeline is in batch_sizes.hpp, so that the simulator's tests can use it too.

#include "batch_sizes.hpp"

int main() try {
    sluice::runtime machine;
    sluice::round_robin pool(machine.default_device(), 2);
    for (const std::string& each : batch_sizes::answer_all(pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "batch_sizes: %s\n", failure.what());
    return 1;
}
