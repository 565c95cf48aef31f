// The CUDA backend: the first GPU.
#include "conformance/backend.hpp"

namespace sluice::conformance {

std::vector<backend> enrolled_backends() {
    return {{.name = "first_gpu",
             .options = {.cpu_devices = 1, .cpu_workers = 1},
             .device = "cuda:0",
             .other_device = "cpu:0",
             .runs_side_by_side = true,
             .slow_rounds = 20'000}};
}

}  // namespace sluice::conformance
