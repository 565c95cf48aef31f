// iterative_solver: a loop that stops by itself on the device, as part of a compiled graph. Harder inputs take more
// rounds; the host is not asked. The pipeline stands in iterative_solver.hpp, where the simulator's tests find it too.

#include "iterative_solver.hpp"

int main() try {
    sluice::runtime machine;
    sluice::single_stream pool(machine.default_device());
    for (const std::string& each : iterative_solver::solve_all(32, pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "iterative_solver: %s\n", failure.what());
    return 1;
}
