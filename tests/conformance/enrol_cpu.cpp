// SPDX-License-Identifier: Apache-2.0
// The CPU backend: with several workers and with one, with two devices and with four, with a trace recorder, and with
// operations run as graphs.
#include "conformance/backend.hpp"

namespace sluice::conformance {

// SLUICE_ENROLS_FEW: only those that differ for a suite whose results do not depend on the number of workers and
// devices.
std::vector<backend> enrolled_backends() {
    std::vector<backend> all{
        {.name = "three_workers",
         .options = {.cpu_devices = 2, .cpu_workers = 3, .cuda = false},
         .device = "cpu:0",
         .other_device = "cpu:1",
         .runs_concurrently = true,
         .slow_rounds = 200},
        {.name = "one_worker",
         .options = {.cpu_devices = 2, .cpu_workers = 1, .cuda = false},
         .device = "cpu:1",
         .other_device = "cpu:0",
         .runs_concurrently = false,
         .slow_rounds = 50},
        {.name = "four_devices",
         .options = {.cpu_devices = 4, .cpu_workers = 1, .cuda = false},
         .device = "cpu:2",
         .other_device = "cpu:0",
         .runs_concurrently = false,
         .slow_rounds = 50},
        {.name = "traced",
         .options = {.cpu_devices = 2, .cpu_workers = 3, .cuda = false},
         .device = "cpu:0",
         .other_device = "cpu:1",
         .runs_concurrently = true,
         .slow_rounds = 200,
         .is_traced = true},
        {.name = "compiled",
         .options = {.cpu_devices = 2, .cpu_workers = 3, .cuda = false},
         .device = "cpu:0",
         .other_device = "cpu:1",
         .runs_concurrently = true,
         .slow_rounds = 200,
         .is_compiled = true},
    };
#if defined(SLUICE_ENROLS_FEW)
    std::erase_if(all, [](const backend& each) { return each.name != "three_workers" && each.name != "compiled"; });
#endif
    return all;
}

}  // namespace sluice::conformance
