// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/runtime.hpp"

#include <cstddef>
#include <optional>

#include "c/handles.hpp"
#include "c/options.hpp"
#include "sluice/runtime/flush_denormals.hpp"

using namespace sluice;
using namespace sluice::c;

constexpr std::size_t first_runtime_options_size = offsetof(sluice_runtime_options, flush_denormals);  // in version 1.0
// More threads are a mistake.
constexpr std::size_t most_cpu_devices = 1024, most_cpu_workers = 4096;

sluice_status sluice_runtime_create(const sluice_runtime_options* options, sluice_runtime** runtime) {
    return guarded([&] {
        const std::string_view here = "sluice_runtime_create";
        require(runtime, here, "runtime");
        const auto given = read_options(options, first_runtime_options_size, here);
        require_at_most(given.cpu_devices, most_cpu_devices, here, "cpu_devices");
        require_at_most(given.cpu_workers, most_cpu_workers, here, "cpu_workers");
        auto made = std::make_unique<sluice_runtime>();
        made->options = {.cpu_devices = given.cpu_devices != 0 ? given.cpu_devices : 1,
                         .cpu_workers = given.cpu_workers,
                         .cpu_memory_bytes = static_cast<std::size_t>(given.cpu_memory_bytes),
                         .cuda = given.without_cuda == 0};
        std::optional<flush_denormals> flushing;  // the devices compute as this thread does
        if (given.flush_denormals != 0) flushing.emplace();
        made->machine = std::make_shared<sluice::runtime>(made->options);
        made->devices = made->machine->devices();
        made->why_no_gpu = made->machine->why_no_gpu();
        *runtime = made.release();
    });
}

void sluice_runtime_destroy(sluice_runtime* runtime) { destroy_if_here(runtime); }

sluice_status sluice_runtime_device_count(const sluice_runtime* runtime, size_t* count) {
    return guarded([&] {
        const std::string_view here = "sluice_runtime_device_count";
        const std::size_t all = require(runtime, here, "runtime").devices.size();
        require(count, here, "count") = all;
    });
}

sluice_status sluice_runtime_device(const sluice_runtime* runtime, size_t index, sluice_device_info* info) {
    return guarded([&] {
        const std::string_view here = "sluice_runtime_device";
        const auto& all = require(runtime, here, "runtime").devices;
        require(info, here, "info");
        if (index >= all.size()) {
            refuse(here, "there is no device " + std::to_string(index) + "; there are " + std::to_string(all.size()));
        }
        const device& found = *all[index];
        const device_properties& its = found.properties();
        const sluice_device_info filled{
            sizeof(sluice_device_info), found.name().c_str(),
            its.name.c_str(),           found.kind() == device_kind::cuda ? SLUICE_CUDA : SLUICE_CPU,
            its.compute_units,          its.memory_bytes};
        write_info(*info, filled, sizeof(sluice_device_info), here);
    });
}

sluice_status sluice_runtime_why_no_gpu(const sluice_runtime* runtime, const char** why) {
    return guarded([&] {
        const std::string_view here = "sluice_runtime_why_no_gpu";
        const sluice_runtime& of = require(runtime, here, "runtime");
        require(why, here, "why") = of.why_no_gpu.c_str();
    });
}
