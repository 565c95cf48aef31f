// The CUDA backend: the first GPU, and the same behind a recorder.
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
    return {std::move(first_gpu), std::move(traced)};
}

}  // namespace sluice::conformance
