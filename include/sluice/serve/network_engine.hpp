// SPDX-License-Identifier: Apache-2.0
// network_engine: the engine that runs networks of ONNX and safetensors files on a device of this machine.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "sluice/nn/kept_limit.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/serve/engine.hpp"

namespace sluice::serve {

// Where an engine computes.
struct network_engine_options {
    std::string device = "auto";   // as runtime::find takes it
    runtime_options machine = {};  // how its runtime is made
    // The most bytes of values that a run has at a time (nn::run_limit), also of the runs at load; 0: no limit.
    std::size_t most_run_bytes = std::size_t{1} << 30;
    // What each network keeps between runs of different shapes (nn::kept_limit), where its configuration says nothing.
    std::size_t kept_bytes = nn::kept_limit::default_bytes;
    // Where links to external data of ONNX files may lead.
    nn::data_links links = nn::data_links::stay_in_folder;
};

class network_engine final : public engine {
public:
    // Throws errc::device_not_found. Costs what a runtime costs.
    explicit network_engine(const network_engine_options& options = {});

    // The model on the devices that its configuration names, in its precision. Costs a read of the file, and what
    // make_network costs for each device.
    std::shared_ptr<const loaded_model> load(const model_version& which, const model_config& how) override;
    // Trims the devices' pools, and then the process's heap. Costs what device::trim costs for each device.
    void give_back_memory() override;
    // Asks each GPU how much memory is free. Costs a call of the driver for each.
    void look_at_devices() override;
    // As engine::gpu_memory. Costs one allocation.
    std::shared_ptr<const gpu_memory_opener> gpu_memory() override;
    // The device of models whose configuration names none. Costs O(devices).
    device& default_device() const { return machine_.find(device_); }
    const runtime& machine() const noexcept { return machine_; }  // the runtime that owns the devices

private:
    std::vector<device*> devices_of(const model_config& how) const;

    runtime machine_;
    std::string device_;
    std::size_t most_run_bytes_;
    std::size_t kept_bytes_;
    nn::data_links links_;
};

}  // namespace sluice::serve
