// compiled_mlp: async_mlp's network, compiled once into a graph and launched for twelve inputs, four in flight. On a
// GPU each launch is one call of the driver instead of one for each kernel and copy. The pipeline stands in
// compiled_mlp.hpp, where the simulator's tests find it too.

#include "compiled_mlp.hpp"

int main() try {
    sluice::runtime machine;
    sluice::round_robin pool(machine.default_device(), 4);
    for (const std::string& each : compiled_mlp::run_all(64, 12, 4, pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "compiled_mlp: %s\n", failure.what());
    return 1;
}
