// The CUDA backend: the first GPU, the same behind a recorder, the same with operations run as graphs, and the second
// GPU where there is one.
#include "conformance/backend.hpp"

namespace sluice::conformance {

std::vector<backend> enrolled_backends() {
    backend first_gpu{.name = "first_gpu",
                      .options = {.cpu_devices = 1, .cpu_workers = 1},
                      .device = "cuda:0",
                      .other_device = "cpu:0",
                      .runs_side_by_side = true,
                      .slow_rounds = 20'000};
    backend traced = first_gpu;
    traced.name = "first_gpu_traced";
    traced.is_traced = true;
    backend compiled = first_gpu;
    compiled.name = "first_gpu_compiled";
    compiled.is_compiled = true;
    std::vector<backend> all{first_gpu, traced, compiled};
    // Where there are two: on the second one, beside the first.
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
