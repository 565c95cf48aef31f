// SPDX-License-Identifier: Apache-2.0
// compiled_mlp: async_mlp's network, compiled once into a graph and launched for twelve inputs, four in flight. On a
// GPU each launch is one driver call instead of one for each kernel and copy. The pipeline is in compiled_mlp.hpp, so
// that the simulator's tests can use it too.

#include "compiled_mlp.hpp"

int main() try {
    sluice::runtime machine;
    sluice::round_robin pool(machine.default_device(), 4);
    for (const std::string& each : compiled_mlp::run_all(64, 12, 4, pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "compiled_mlp: %s\n", failure.what());
    return 1;
}
