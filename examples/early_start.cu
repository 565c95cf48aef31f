// early_start: a kernel that begins before the one that it depends on has ended. Worth it between short kernels on a
// GPU that can (compute capability 9.0); elsewhere the second simply comes after the first. The pipeline stands in
// early_start.hpp, where the simulator's tests find it too.

#include "early_start.hpp"

int main() try {
    sluice::runtime machine;
    sluice::single_stream pool(machine.default_device());
    for (const std::string& each : early_start::run_both(pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "early_start: %s\n", failure.what());
    return 1;
}
