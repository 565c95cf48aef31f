// The CPU backend, with and without several workers, with two devices and with four, behind a recorder, and
// with operations run as graphs.
#include "conformance/backend.hpp"

namespace sluice::conformance {

std::vector<backend> enrolled_backends() {
    return {
        {.name = "three_workers",
         .options = {.cpu_devices = 2, .cpu_workers = 3, .cuda = false},
         .device = "cpu:0",
         .other_device = "cpu:1",
         .runs_side_by_side = true,
         .slow_rounds = 200},
        {.name = "one_worker",
         .options = {.cpu_devices = 2, .cpu_workers = 1, .cuda = false},
         .device = "cpu:1",
         .other_device = "cpu:0",
         .runs_side_by_side = false,
         .slow_rounds = 50},
        {.name = "four_devices",
         .options = {.cpu_devices = 4, .cpu_workers = 1, .cuda = false},
         .device = "cpu:2",
         .other_device = "cpu:0",
         .runs_side_by_side = false,
         .slow_rounds = 50},
        {.name = "traced",
         .options = {.cpu_devices = 2, .cpu_workers = 3, .cuda = false},
         .device = "cpu:0",
         .other_device = "cpu:1",
         .runs_side_by_side = true,
         .slow_rounds = 200,
         .is_traced = true},
        {.name = "compiled",
         .options = {.cpu_devices = 2, .cpu_workers = 3, .cuda = false},
         .device = "cpu:0",
         .other_device = "cpu:1",
         .runs_side_by_side = true,
         .slow_rounds = 200,
         .is_compiled = true},
    };
}

}  // namespace sluice::conformance
