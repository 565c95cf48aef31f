// SPDX-License-Identifier: Apache-2.0
// The devices of a run, with the network on them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "run_command.hpp"
#include "sluice/devices/device_set.hpp"
#include "sluice/nn/engine.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::app {

// Which of a machine's devices a run uses. Throws errc::device_not_found.
using device_choice = std::function<device_set(const runtime&)>;

// What a device is, for the report. `asked` is the option that has chosen it.
device_use use_of(const device& on, const runtime& machine, std::string_view asked);

class run_devices {
public:
    // Puts the network on the chosen devices; blocks until it is there. `machine` says
    // the other properties of the runtime; GPUs are looked for unless the options name a CPU.
    run_devices(const run_options& options, runtime_options machine, const device_choice& choose,
                const nn::model& network);

    const nn::engine& engine() const noexcept { return engine_; }
    std::size_t streams() const noexcept { return streams_; }  // of each device
    // What they are, for the report.
    std::vector<device_use> uses() const;

private:
    std::string asked_;  // by run_options::device
    runtime machine_;
    device_set devices_;
    std::size_t streams_;
    round_robin_devices pool_;
    nn::engine engine_;
};

}  // namespace sluice::app
