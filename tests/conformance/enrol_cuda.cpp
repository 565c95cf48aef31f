// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: the first GPU, the same with a trace recorder, the same with operations run as graphs, and the
// second GPU if there is one.
#include "conformance/backend.hpp"

namespace sluice::conformance {

std::vector<backend> enrolled_backends() {
    backend first_gpu{.name = "first_gpu",
                      .options = {.cpu_devices = 1, .cpu_workers = 1},
                      .device = "cuda:0",
                      .other_device = "cpu:0",
                      .runs_concurrently = true,
                      .slow_rounds = 20'000};
    backend traced = first_gpu;
    traced.name = "first_gpu_traced";
    traced.is_traced = true;
    backend compiled = first_gpu;
    compiled.name = "first_gpu_compiled";
    compiled.is_compiled = true;
    std::vector<backend> all{first_gpu, traced, compiled};
    // With two GPUs: also test the second one, with the first as the other device.
    const runtime machine(first_gpu.options);
    const std::vector<device*> devices = machine.devices();
    if (devices.size() > 1 && devices[1]->kind() == device_kind::cuda) {
        all.push_back(first_gpu);
        all.back().name = "second_gpu";
        all.back().device = "cuda:1";
        all.back().other_device = "cuda:0";
    }
    return all;
}

}  // namespace sluice::conformance
