#include "run_devices.hpp"

#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

// Enough that a worker always finds a batch to go on with; a GPU has its own queues.
std::size_t streams_for(const device& on) {
    return on.kind() == device_kind::cpu ? 4 * static_cast<std::size_t>(on.properties().compute_units) : 4;
}

runtime_options with_gpus_if_asked(runtime_options machine, const run_options& options) {
    machine.cuda = options.device.rfind("cpu", 0) != 0;
    return machine;
}

}  // namespace

run_devices::run_devices(const run_options& options, const nn::mlp_model& model, runtime_options machine,
                         const device_choice& choose)
    : machine_(with_gpus_if_asked(std::move(machine), options)),
      devices_(choose(machine_)),
      streams_(options.streams != 0 ? options.streams : streams_for(*devices_.front())),
      engine_({.batch = options.batch, .in_flight = 4 * streams_ * devices_.size()}) {
    for (device* each : devices_) {
        pools_.push_back(std::make_unique<round_robin>(*each, streams_));
        engine_.add(sync(nn::make_plan(model), *pools_.back()), *pools_.back());
    }
}

std::vector<device_use> run_devices::uses() const {
    std::vector<device_use> all;
    for (const device* each : devices_) all.push_back({each->name(), each->properties().name});
    return all;
}

std::vector<device*> devices_of_best_kind(const runtime& machine) {
    std::vector<device*> picked;
    const device_kind kind = machine.default_device().kind();
    for (device* each : machine.devices()) {
        if (each->kind() == kind) picked.push_back(each);
    }
    return picked;
}

}  // namespace sluice::app
