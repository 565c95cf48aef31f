// SPDX-License-Identifier: Apache-2.0
// two_halves: two streams work on the two halves of one buffer at the same time, and neither waits for the other. The
// pipeline is in two_halves.hpp, so that the simulator's tests can use it too.
//
//     two_halves [TIMELINE.svg]      also draws a timeline of the commands

#include "two_halves.hpp"

namespace {

constexpr std::size_t size = std::size_t{1} << 22;
constexpr int rounds = 100;

}  // namespace

int main(int count, char** arguments) try {
    sluice::trace_recorder recorder;
    sluice::runtime machine({.trace = count > 1 ? &recorder : nullptr});
    sluice::round_robin pool(machine.default_device(), 2);
    two_halves::run(size, rounds, pool);  // what happens only once: kernels loaded, memory taken
    if (count > 1) recorder.take();
    for (const std::string& each : two_halves::run(size, rounds, pool)) std::puts(each.c_str());
    if (count > 1) sluice::save_timeline(recorder.take(), arguments[1], {.title = "two_halves"});
} catch (const std::exception& failure) {
    std::fprintf(stderr, "two_halves: %s\n", failure.what());
    return 1;
}
