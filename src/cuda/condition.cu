// SPDX-License-Identifier: Apache-2.0
#include "cuda/condition.hpp"

namespace sluice::cuda {
namespace {

__global__ void set_condition_on_device(const __grid_constant__ condition_closure closure) {
    cudaGraphSetConditional(closure.handle, *closure.flag != 0 ? 1u : 0u);
}

__global__ void nothing_on_device(const __grid_constant__ char /*closure*/) {}

}  // namespace

launch_command do_nothing() {
    static constexpr char closure = 0;
    launch_command made;
    made.device_function = reinterpret_cast<const void*>(&nothing_on_device);
    made.closure = &closure;
    made.closure_bytes = sizeof(closure);
    return made;
}

launch_command set_condition(const condition_closure& closure) {
    launch_command made;
    made.device_function = reinterpret_cast<const void*>(&set_condition_on_device);
    made.closure = &closure;
    made.closure_bytes = sizeof(closure);
    return made;
}

}  // namespace sluice::cuda
