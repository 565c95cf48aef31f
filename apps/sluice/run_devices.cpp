// SPDX-License-Identifier: Apache-2.0
#include "run_devices.hpp"

#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

// Enough that a worker always finds a batch to run; a GPU has its own queues.
std::size_t streams_for(const device& on) {
    return on.kind() == device_kind::cpu ? 4 * static_cast<std::size_t>(on.properties().compute_units) : 4;
}

runtime_options with_gpus_if_requested(runtime_options machine, const run_options& options) {
    machine.cuda = options.device.rfind("cpu", 0) != 0;
    return machine;
}

}  // namespace

device_use use_of(const device& on, const runtime& machine, std::string_view asked) {
    device_use use{on.name(), on.properties().name};
    if (SLUICE_TOOL_HAS_CUDA && (asked == "auto" || asked == "all")) use.why_no_gpu = machine.why_no_gpu();
    return use;
}

run_devices::run_devices(const run_options& options, runtime_options machine, const device_choice& choose,
                         const nn::model& network)
    : asked_(options.device),
      machine_(with_gpus_if_requested(std::move(machine), options)),
      devices_(choose(machine_)),
      streams_(options.streams != 0 ? options.streams : streams_for(devices_[0])),
      pool_(devices_, streams_),
      engine_({.batch = options.batch, .in_flight = 4 * streams_ * devices_.size()}) {
    for (device* const each : devices_) {
        scheduling_policy& pool = pool_.on(*each);
        engine_.add(sync(nn::make_network(network), pool), pool);
    }
}

std::vector<device_use> run_devices::uses() const {
    std::vector<device_use> all;
    for (const device* const each : devices_) all.push_back(use_of(*each, machine_, asked_));
    return all;
}

}  // namespace sluice::app
