// batch_sizes: requests of any number of rows, answered by a small cache of compiled graphs, one for each size class.
// The pipeline stands in batch_sizes.hpp, where the simulator's tests find it too.

#include "batch_sizes.hpp"

int main() try {
    sluice::runtime machine;
    sluice::round_robin pool(machine.default_device(), 2);
    for (const std::string& each : batch_sizes::answer_all(pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "batch_sizes: %s\n", failure.what());
    return 1;
}
