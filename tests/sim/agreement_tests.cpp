// SPDX-License-Identifier: Apache-2.0
// The operations of agreement_operations.hpp, eager and compiled, give the same numbers on the simulator as on CPU
// threads, without a race.
#include <gtest/gtest.h>

#include <map>

#include "conformance/agreement_operations.hpp"
#include "sim/pipelines.hpp"
#include "sluice/sim/simulator.hpp"

namespace sluice::sim::agreement_tests {
namespace {

TEST(agreement, simulator_and_cpu_compute_the_same_numbers) {
    std::map<std::string, std::vector<float>> on_threads;
    {
        runtime machine({.cpu_devices = 1, .cpu_workers = 2, .cuda = false});
        round_robin pool(machine.default_device(), 3);
        conformance::for_each_way(pool, [&](const std::string& name, int round, const auto&, const auto& otherwise) {
            on_threads[name + std::to_string(round)] = otherwise;
        });
    }
    simulator machine;
    int compared = 0;
    conformance::for_each_way(
        machine.pool(), [&](const std::string& name, int round, const auto& eagerly, const auto& otherwise) {
            EXPECT_EQ(eagerly, otherwise) << name << ", round " << round;
            EXPECT_EQ(otherwise, on_threads[name + std::to_string(round)]) << name << ", round " << round;
            ++compared;
        });
    EXPECT_EQ(compared, 26 * 3 * 4);
    machine.run_all();
    machine.require_clean();
}

}  // namespace
}  // namespace sluice::sim::agreement_tests
