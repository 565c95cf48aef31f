// SPDX-License-Identifier: Apache-2.0
// For tests of work over several devices: all devices of the same kind as the tested one.
#pragma once

#include <vector>

#include "conformance/backend.hpp"

namespace sluice::conformance {

inline device_set devices_of_same_kind(runtime& machine, const device& tested) {
    std::vector<device*> same;
    for (device* const each : machine.devices()) {
        if (each->kind() == tested.kind()) same.push_back(each);
    }
    return device_set(std::move(same));
}

// The enrolled backends and, on a CPU, a runtime with only one device.
inline std::vector<backend> backends_and_single_device() {
    std::vector<backend> all = enrolled_backends();
    if (!all.front().options.cuda) {
        backend alone = all.front();
        alone.name = "one_device";
        alone.options.cpu_devices = 1;
        alone.device = alone.other_device = "cpu:0";
        all.push_back(std::move(alone));
    }
    return all;
}

}  // namespace sluice::conformance
