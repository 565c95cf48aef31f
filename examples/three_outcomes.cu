// SPDX-License-Identifier: Apache-2.0
// three_outcomes: an operation ends with a value, with an error of the device, or with an exception of the code in it.
// Each waiter receives that outcome and may recover. The pipelines are in three_outcomes.hpp, so that the simulator's
// tests can use them too.

#include "three_outcomes.hpp"

using namespace three_outcomes;

int main() try {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    for (const std::string& each : describe_all(pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "three_outcomes: %s\n", failure.what());
    return 1;
}
