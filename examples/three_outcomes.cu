// three_outcomes: an operation ends with its value, with an error of the device, or with an exception of somebody's
// code. Whoever waits for it is told which, and may recover. The pipelines stand in three_outcomes.hpp, where the
// simulator's tests find them too.

#include "three_outcomes.hpp"

using namespace three_outcomes;

int main() try {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    for (const std::string& each : tell_all(pool)) std::puts(each.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "three_outcomes: %s\n", failure.what());
    return 1;
}
